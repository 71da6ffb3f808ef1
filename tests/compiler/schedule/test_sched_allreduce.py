"""Reductions over the threads of a block: right numbers from CUDA text, or a refusal."""

import emulated
import numpy as np
import pytest
from te_check import check

from whet.compiler import te
from whet.compiler.codegen.cuda import source
from whet.compiler.driver import build, lower
from whet.compiler.errors import LowerError
from whet.compiler.passes.gpu.split_host_device import split_host_device
from whet.compiler.tir import IRModule, PrimFunc, decl_buffer, stmt
from whet.compiler.tir import expr as e

RNG = np.random.default_rng()
TX = "threadIdx.x"


def argmax():
    return te.comm_reducer(
        lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
        lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
        name="argmax",
    )


def program(kind, n, m):
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    if kind == "sum":
        return a, [te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")]
    best = argmax()
    return a, list(te.compute((n,), lambda i: best((k.var, a[i, k]), axis=k), name="B"))


def agree(s, a, outs, kind):
    """The numbers in the emulator and of the loops on the CPU; the CUDA C text."""
    args = [a, *outs]
    x = RNG.standard_normal([int(d) for d in a.shape]).astype("float32")
    wanted = [x.sum(1)] if kind == "sum" else [x.argmax(1), x.max(1)]
    got = [np.full(len(x), 77, t.dtype) for t in outs]
    build(s, args, "llvm")(x, *got)
    for g, w in zip(got, wanted):
        np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-4)
    shapes = [((len(x),), t.dtype) for t in outs]
    return emulated.agree(s, args, [x], shapes, wanted)


@pytest.mark.parametrize("kind", ["sum", "argmax"])
@pytest.mark.parametrize("scope", ["global", "shared", "local"])
@pytest.mark.parametrize("split", [{"nparts": 32}, {"factor": 13}])
def test_a_split_reduction_over_threads(kind, scope, split):
    n, m = 5, 131
    a, outs = program(kind, n, m)
    s = te.create_schedule(outs[0].op)
    at = outs
    if scope != "global":
        made = s.cache_write(outs if kind == "argmax" else outs[0], scope)
        at = list(made) if kind == "argmax" else [made]
    last = s[outs[0]].op.axis[0]
    s[outs[0]].bind(last, te.thread_axis("blockIdx.x"))
    if scope != "global":
        s[at[0]].compute_at(s[outs[0]], last)
    ko, ki = s[at[0]].split(s[at[0]].op.reduce_axis[0], **split)
    s[at[0]].bind(ko if "nparts" in split else ki, te.thread_axis(TX))
    threads = split.get("nparts") or split["factor"]
    text = agree(s, a, outs, kind)
    shuffles = threads == 32
    assert ("whet_warp_shuffle" in text) == shuffles
    # the thread that stores the sum is the one that has it
    assert ("__syncthreads" in text) == (not shuffles)


@pytest.mark.parametrize("kind", ["sum", "argmax"])
@pytest.mark.parametrize("predicate", [False, True])
def test_the_classical_rfactor_over_threads(kind, predicate):
    n, m = 37, 101  # tails in the rows and in the columns
    a, outs = program(kind, n, m)
    s = te.create_schedule(outs[0].op)
    _, ki = s[outs[0]].split(outs[0].op.reduce_axis[0], factor=16)
    partial = s.rfactor(outs[0], ki)
    partial = partial[0] if kind == "argmax" else partial
    stage = s[outs[0]]
    xo, xi = stage.split(stage.op.axis[0], factor=8)
    stage.bind(xo, te.thread_axis("blockIdx.x"))
    stage.bind(xi, te.thread_axis("threadIdx.y"))
    tx = te.thread_axis(TX)
    stage.bind(stage.op.reduce_axis[0], tx)
    s[partial].compute_at(stage, stage.op.reduce_axis[0])
    if predicate:
        stage.set_store_predicate(tx.var.equal(0))
    agree(s, a, outs, kind)


def test_two_axes_of_threads_and_a_first_value():
    a = te.placeholder((3, 7, 5), name="A")
    k, r = te.reduce_axis((0, 7), name="k"), te.reduce_axis((0, 5), name="r")
    ten = te.const(10.0, "float32")
    b = te.compute((3,), lambda i: te.sum(a[i, k, r], axis=[k, r], init=ten), name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis("blockIdx.x"))
    s[b].bind(k, te.thread_axis("threadIdx.y"))
    s[b].bind(r, te.thread_axis(TX))
    x = RNG.standard_normal((3, 7, 5)).astype("float32")
    emulated.agree(s, [a, b], [x], [((3,), "float32")], [x.sum((1, 2)) + 10])
    check(s, [a, b], rtol=1e-4)


def test_threads_longer_than_the_axis():
    a, outs = program("sum", 4, 11)
    s = te.create_schedule(outs[0].op)
    s[outs[0]].bind(outs[0].op.axis[0], te.thread_axis("blockIdx.x"))
    s[outs[0]].bind(outs[0].op.reduce_axis[0], te.thread_axis((0, 16), TX))
    agree(s, a, outs, "sum")


def test_a_broadcast_of_the_sum_to_all_threads():
    n, m = 5, 21
    a, (total,) = program("sum", n, m)
    share = te.compute((n, m), lambda i, j: a[i, j] / total[i], name="C")
    s = te.create_schedule(share.op)
    s[share].bind(share.op.axis[0], te.thread_axis("blockIdx.x"))
    s[share].bind(share.op.axis[1], te.thread_axis(TX))
    s[total].compute_at(s[share], share.op.axis[0])
    s[total].set_scope("shared")
    s[total].bind(total.op.reduce_axis[0], te.thread_axis(TX))
    x = RNG.random((n, m)).astype("float32") + 1
    wanted = x / x.sum(1, keepdims=True)
    emulated.agree(s, [a, share], [x], [((n, m), "float32")], [wanted], rtol=1e-5)
    check(s, [a, share], rtol=1e-4)


@pytest.mark.parametrize("kind", ["sum", "argmax"])
@pytest.mark.parametrize("scope", ["global", "shared", "local"])
def test_a_reduction_over_blocks_is_refused(kind, scope):
    a, outs = program(kind, 5, 64)
    s = te.create_schedule(outs[0].op)
    if scope == "global":
        at = outs[0]
    else:
        made = s.cache_write(outs if kind == "argmax" else outs[0], scope)
        at = made[0] if kind == "argmax" else made
        s[outs[0]].bind(s[outs[0]].op.axis[0], te.thread_axis(TX))
    ko, _ = s[at].split(s[at].op.reduce_axis[0], nparts=8)
    s[at].bind(ko, te.thread_axis("blockIdx.x"))
    with pytest.raises(LowerError, match=r"is bound to blockIdx.x(.|\n)*has no order there"):
        build(s, [a, *outs], "cuda")


def test_what_stands_inside_the_threads_of_a_reduction_is_refused():
    a = te.placeholder((8, 64), name="A")
    k = te.reduce_axis((0, 64), name="k")
    b = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    s[b].reorder(k, b.op.axis[0])
    s[b].bind(k, te.thread_axis(TX))
    with pytest.raises(LowerError, match=r"k, a reduction axis, is bound to threadIdx.x"):
        build(s, [a, b], "cuda")


def racing(hidden):
    """``B[0] = B[0] + A[t]`` in each of 32 threads, by way of something else."""
    a, b = decl_buffer((32,), name="A"), decl_buffer((1,), name="B")
    t, zero = e.Var("t"), e.IntImm("int32", 0)
    total = e.BufferLoad(b, (zero,), "float32") + e.BufferLoad(a, (t,), "float32")
    if hidden == "let":
        v = e.Var("v", "float32")
        body = stmt.LetStmt(v, total, stmt.BufferStore(b, v, (zero,)))
    else:
        acc = decl_buffer((1,), name="acc", scope="local")
        body = stmt.Allocate(
            acc,
            stmt.seq(
                stmt.BufferStore(acc, total, (zero,)),
                stmt.BufferStore(b, e.BufferLoad(acc, (zero,), "float32"), (zero,)),
            ),
        )
    loop = stmt.For(t, zero, e.IntImm("int32", 32), stmt.THREAD_BINDING, body, {}, TX)
    return PrimFunc((a, b), loop, attrs={"global_symbol": "f"})


@pytest.mark.parametrize("hidden", ["let", "local"])
def test_a_race_by_hand_is_refused_however_it_is_written(hidden):
    with pytest.raises(LowerError, match=r"all threads of threadIdx.x write one element of B"):
        split_host_device(racing(hidden))


def test_a_sum_by_one_thread_is_not_a_race():
    n = 6
    a, (b,) = program("sum", n, 8)
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis(TX))
    assert "__shared__" not in source(IRModule(dict(lower(s, [a, b]).functions)))


def total_of(n, shape=()):
    """The sums along the last axis, with their schedule."""
    a = te.placeholder((*shape, n), name="A")
    k = te.reduce_axis((0, n), name="k")
    b = te.compute(shape, lambda *i: te.sum(a(*i, k), axis=k), name="B")
    return te.create_schedule(b.op), a, b


def summed(s, a, b):
    """The numbers of :func:`total_of` under a schedule; the CUDA C text."""
    x = RNG.standard_normal([int(d) for d in a.shape]).astype("float32")
    check(s, [a, b], rtol=1e-4)
    shape = tuple(int(d) for d in b.shape)
    wanted = x.astype("float64").sum(-1)
    return emulated.agree(s, [a, b], [x], [(shape, "float32")], [wanted])


@pytest.mark.parametrize(
    ("shape", "n", "split"),
    [
        ((), 64, None),
        ((), 37, None),
        ((1,), 1, None),
        ((), 1001, 32),
        ((3,), 45, 8),
        ((3, 2), 33, 4),
    ],
)
def test_a_sum_over_threads_needs_no_block_around_it(shape, n, split):
    """The parts of the block's threads and their sum are one kernel for each element."""
    s, a, b = total_of(n, shape)
    (k,) = s[b].op.reduce_axis
    s[b].bind(s[b].split(k, split)[1] if split else k, te.thread_axis(TX))
    assert summed(s, a, b).count("__global__ void") == 1


@pytest.mark.parametrize("way", ["rfactor", "tile", "rows", "vthread"])
def test_all_elements_become_one_by_threads(way):
    s, a, b = total_of(1001, (4,) if way == "vthread" else ())
    outer, inner = s[b].split(b.op.reduce_axis[0], 32)
    if way == "rfactor":
        parts = s.rfactor(b, inner)
        tx = te.thread_axis(TX)
        s[b].bind(s[b].op.reduce_axis[0], tx)
        s[parts].compute_at(s[b], s[b].op.reduce_axis[0])
        s[b].set_store_predicate(tx.var.equal(0))
    else:
        s[b].bind(inner, te.thread_axis(TX))
    if way == "tile":
        tile = s.cache_read(a, "shared", [b])
        s[tile].compute_at(s[b], outer)
        s[tile].bind(s[tile].op.axis[0], te.thread_axis(TX))
    if way == "rows":
        s[b].bind(s[b].split(outer, 4)[1], te.thread_axis("threadIdx.y"))
    if way == "vthread":
        s[b].bind(s[b].op.axis[0], te.thread_axis("vthread"))
    summed(s, a, b)


def test_a_sum_over_threads_of_what_other_blocks_would_make_is_refused():
    a = te.placeholder((40,), name="A")
    t = te.compute((40,), lambda i: a[i] * 2.0, name="T")
    k = te.reduce_axis((0, 40), name="k")
    b = te.compute((), lambda: te.sum(t[k], axis=k), name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(k, 8)
    s[b].bind(inner, te.thread_axis(TX))
    s[t].compute_at(s[b], outer)
    s[t].bind(t.op.axis[0], te.thread_axis("blockIdx.x"))
    with pytest.raises(LowerError, match="would be read or written by the host"):
        build(s, [a, b], "cuda")


def stored_by_some(condition, rows=TX, vector=1, threads=16, summed=False):
    """A reader of sums over threads that stores where ``condition(axis)`` of their threads holds.

    Returns:
        The schedule, its input and output, and a function from the input to the numbers.
    """
    tag, row = (TX, "threadIdx.y") if rows == TX else ("threadIdx.y", TX)
    a = te.placeholder((10, 70), name="A")
    k = te.reduce_axis((0, 70), name="k")
    b = te.compute((10,), lambda i: te.sum(a[i, k], axis=k), name="B")
    r = te.reduce_axis((0, 2), name="r")
    c = (
        te.compute((5,), lambda i: te.sum(b[i * 2 + r], axis=r), name="C")
        if summed
        else te.compute((10,), lambda i: b[i] * 2.0 + 1.0, name="C")
    )
    s = te.create_schedule(c.op)
    thread = te.thread_axis(tag)
    outer, y = s[c].split(c.op.axis[0], 4)
    s[c].bind(outer, te.thread_axis("blockIdx.x"))
    if vector > 1:
        y, lanes = s[c].split(y, vector)
        s[c].vectorize(lanes)
    s[c].bind(y, te.thread_axis(row))
    s[b].bind(s[b].split(k, threads)[1], thread)
    s[b].compute_at(s[c], y)
    s[c].set_store_predicate(condition(thread))

    def wanted(x):
        sums = x.astype("float64").sum(1)
        return sums.reshape(5, 2).sum(1) if summed else sums * 2 + 1

    return s, a, c, wanted


def agrees_stored(s, a, c, wanted):
    x = RNG.standard_normal((10, 70)).astype("float32")
    check(s, [a, c], rtol=1e-4)
    return emulated.agree(s, [a, c], [x], [(tuple(map(int, c.shape)), "float32")], [wanted(x)])


CONDITIONS = {
    "first": lambda t: t.var.equal(0),
    "axis": lambda t: t.equal(0),
    "third": lambda t: t.var.equal(3),
    "several": lambda t: t.var < 4,
    "between": lambda t: te.all(t.var < 4, t.var > 2),
}


@pytest.mark.parametrize(
    ("condition", "how"),
    [
        ("first", {}),
        ("axis", {"rows": "y"}),
        ("third", {"vector": 2}),
        ("several", {"threads": 32}),
        ("between", {"vector": 2}),
    ],
)
def test_threads_of_a_sum_attached_inside_say_who_stores_its_reader(condition, how):
    """All of them have the sum: which one stores it makes no difference."""
    agrees_stored(*stored_by_some(CONDITIONS[condition], **how))


@pytest.mark.parametrize("condition", ["first", "third"])
def test_one_thread_of_a_sum_attached_inside_adds_to_its_reader(condition):
    agrees_stored(*stored_by_some(CONDITIONS[condition], summed=True))


def test_a_thread_that_is_not_there_stores_nothing():
    s, a, c, _ = stored_by_some(lambda t: t.var.equal(16))
    agrees = emulated.on_device(
        build(s, [a, c], emulated.TARGET),
        [np.ones((10, 70), "float32"), np.full(10, 77, "float32")],
    )
    np.testing.assert_array_equal(agrees[1], 77)


def test_several_threads_of_a_sum_attached_inside_would_add_to_its_reader():
    s, a, c, _ = stored_by_some(CONDITIONS["several"], summed=True)
    with pytest.raises(LowerError, match=r"several threads of threadIdx.x add to it"):
        lower(s, [a, c])
