"""Reductions over threads by shuffles: golden text, numbers of all kinds and widths, fall-backs."""

import random

import emulated
import numpy as np
import pytest

from whet.compiler import te
from whet.compiler.driver import lower
from whet.compiler.passes import run_build_passes
from whet.compiler.passes.context import PassContext
from whet.compiler.target import Target
from whet.compiler.tir.function import IRModule

TARGET = Target("cuda -arch=sm_80")
RNG = np.random.default_rng(29)
KINDS = ("sum", "max", "argmax", "prod")


def kernel_of(s, args):
    with TARGET:
        mod = lower(s, args, name="f")
    return run_build_passes(IRModule(dict(mod.functions)), TARGET)["f_kernel0"]


def reducer(kind):
    if kind == "prod":
        return te.comm_reducer(lambda x, y: y * x + 0, lambda t: te.const(1, t), name="prod")
    if kind == "argmax":
        return te.comm_reducer(
            lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
            lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
            name="argmax",
        )
    return {"sum": te.sum, "max": te.max}[kind]


def program(kind, n, m, dtype="float32"):
    a = te.placeholder((n, m), dtype, name="A")
    k = te.reduce_axis((0, m), name="k")
    f = reducer(kind)
    if kind == "argmax":
        return a, list(te.compute((n,), lambda i: f((k.var, a[i, k]), axis=k), name="B"))
    return a, [te.compute((n,), lambda i: f(a[i, k], axis=k), name="B")]


def over_threads(kind, n, m, threads, rows=1, dtype="float32"):
    """Each row's reduction by ``threads`` of threadIdx.x, ``rows`` rows in a block."""
    a, outs = program(kind, n, m, dtype)
    stage_of = outs[0].op
    s = te.create_schedule(stage_of)
    stage = s[outs[0]]
    o, i = stage.split(stage.op.axis[0], rows)
    stage.bind(o, te.thread_axis("blockIdx.x"))
    stage.bind(i, te.thread_axis((0, rows), "threadIdx.y"))
    _, t = stage.split(stage.op.reduce_axis[0], threads)
    stage.bind(t, te.thread_axis((0, threads), "threadIdx.x"))
    return s, a, outs


def wanted(kind, x):
    if kind == "argmax":
        return [x.argmax(1), x.max(1)]
    return [{"sum": np.sum, "max": np.max, "prod": np.prod}[kind](x, 1)]


def values(kind, shape, dtype):
    if kind == "prod":
        return (1 + RNG.random(shape) / 16).astype(dtype)
    if "int" in dtype:  # of equal values any may be the largest: there are none
        return RNG.permuted(np.tile(np.arange(shape[1]) - 50, (shape[0], 1)), axis=1).astype(dtype)
    return RNG.standard_normal(shape).astype(dtype)


def test_one_warp(golden):
    s, a, outs = over_threads("sum", 5, 70, 32)
    golden("thread_allreduce_warp", kernel_of(s, [a, *outs]).script())


def test_several_warps(golden):
    s, a, outs = over_threads("max", 5, 70, 64)
    golden("thread_allreduce_block", kernel_of(s, [a, *outs]).script())


def test_pairs(golden):
    s, a, outs = over_threads("argmax", 5, 70, 8)
    golden("thread_allreduce_pairs", kernel_of(s, [a, *outs]).script())


CASES = [
    (kind, threads, rows, dtype)
    for kind in KINDS
    for threads in (4, 8, 16, 32, 64, 96, 160, 256)
    for rows in (1, 3, 4)
    for dtype in ("float32", "float64", "int32")
    if threads * rows <= 512 and (kind, dtype) != ("prod", "int32")
]


@pytest.mark.gpu_matrix(8)
@pytest.mark.parametrize(("kind", "threads", "rows", "dtype"), CASES)
def test_numbers(kind, threads, rows, dtype):
    n, m = 7, random.Random(f"{kind} {threads} {rows} {dtype}").randrange(1, 3 * threads)
    s, a, outs = over_threads(kind, n, m, threads, rows, dtype)
    x = values(kind, (n, m), dtype)
    text = emulated.agree(
        s, [a, *outs], [x], [((n,), t.dtype) for t in outs], wanted(kind, x), orders=(6,)
    )
    assert "whet_warp_shuffle" in text
    assert ("__syncthreads" in text) == (threads > 32)


@pytest.mark.parametrize("m", [1, 33, 65])
def test_a_tail_of_one_element(m):
    """The one thread of the tail is the first: its part is its own there, too."""
    s, a, outs = over_threads("sum", 5, m, 32)
    x = values("sum", (5, m), "float32")
    text = emulated.agree(s, [a, *outs], [x], [((5,), "float32")], [x.sum(1)], orders=(4,))
    assert "whet_warp_shuffle" in text and "SHARED" not in text


@pytest.mark.parametrize(("threads", "rows"), [(13, 1), (48, 1), (2, 4), (33, 2)])
def test_other_numbers_of_threads_keep_the_tree(threads, rows):
    s, a, outs = over_threads("sum", 5, 50, threads, rows)
    x = values("sum", (5, 50), "float32")
    text = emulated.agree(s, [a, *outs], [x], [((5,), "float32")], [x.sum(1)], orders=(3,))
    assert "shuffle" not in text and "__syncthreads" in text


def test_more_threads_in_the_block_than_in_the_reduction_keep_the_tree():
    a, (b,) = program("sum", 5, 32)
    c = te.compute((5, 64), lambda i, j: b[i] * 2.0, name="C")
    s = te.create_schedule(c.op)
    s[c].bind(c.op.axis[0], te.thread_axis("blockIdx.x"))
    s[c].bind(c.op.axis[1], te.thread_axis("threadIdx.x"))
    s[b].compute_at(s[c], c.op.axis[0])
    s[b].set_scope("shared")
    s[b].bind(b.op.reduce_axis[0], te.thread_axis("threadIdx.x"))
    x = values("sum", (5, 32), "float32")
    out = np.repeat(2 * x.sum(1, keepdims=True), 64, 1)
    assert "shuffle" not in emulated.agree(s, [a, c], [x], [((5, 64), "float32")], [out])


@pytest.mark.parametrize("threads", [32, 128])
def test_softmax_in_one_kernel(threads):
    """Two reductions one after the other, and all threads need the result of each."""
    n, m = 3, 300
    a = te.placeholder((n, m), name="A")
    k, r = (te.reduce_axis((0, m), name=x) for x in "kr")
    most = te.compute((n,), lambda i: te.max(a[i, k], axis=k), name="M")
    total = te.compute((n,), lambda i: te.sum(te.exp(a[i, r] - most[i]), axis=r), name="S")
    out = te.compute((n, m), lambda i, j: te.exp(a[i, j] - most[i]) / total[i], name="O")
    s = te.create_schedule(out.op)
    row, column = out.op.axis
    s[out].bind(row, te.thread_axis("blockIdx.x"))
    _, t = s[out].split(column, threads)
    s[out].bind(t, te.thread_axis((0, threads), "threadIdx.x"))
    for x in (most, total):
        s[x].compute_at(s[out], row)
        s[x].set_scope("shared")
        _, t = s[x].split(x.op.reduce_axis[0], threads)
        s[x].bind(t, te.thread_axis((0, threads), "threadIdx.x"))
    x = RNG.standard_normal((n, m)).astype("float32")
    y = np.exp(x - x.max(1, keepdims=True))
    emulated.agree(s, [a, out], [x], [((n, m), "float32")], [y / y.sum(1, keepdims=True)])


def test_without_the_pass_the_tree_gives_the_same():
    s, a, outs = over_threads("sum", 5, 70, 32)
    x = values("sum", (5, 70), "float32")
    with PassContext(disabled_pass=["LowerThreadAllreduce"]):
        text = emulated.agree(s, [a, *outs], [x], [((5,), "float32")], [x.sum(1)])
    assert "shuffle" not in text and text.count("__syncthreads") == 5
