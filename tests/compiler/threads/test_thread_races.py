"""Schedules whose threads meet in memory: right numbers in each order of threads, or a refusal."""

import emulated
import numpy as np
import pytest

import whet
from whet.compiler import te, tir
from whet.compiler.driver import build
from whet.compiler.errors import LowerError
from whet.compiler.passes.gpu.thread_overlap import overlapping
from whet.compiler.tir.ops import ops

RNG = np.random.default_rng(41)
TX, BX = "threadIdx.x", "blockIdx.x"


def normalized(n, m, threads):
    """Each row over its sum; the sums are an argument, too."""
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    total = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="S")
    out = te.compute((n, m), lambda i, j: a[i, j] / total[i], name="O")
    s = te.create_schedule(out.op)
    s[out].bind(out.op.axis[0], te.thread_axis(BX))
    _, t = s[out].split(out.op.axis[1], threads)
    s[out].bind(t, te.thread_axis(TX))
    s[total].compute_at(s[out], out.op.axis[0])
    _, t = s[total].split(k, threads)
    s[total].bind(t, te.thread_axis(TX))
    return s, [a, total, out]


def test_what_one_thread_stores_in_an_argument_all_others_wait_for():
    s, args = normalized(3, 256, 128)
    x = RNG.random((3, 256)).astype("float32") + 1
    sums = x.sum(1)
    emulated.agree(
        s, args, [x], [((3,), "float32"), ((3, 256), "float32")], [sums, x / sums[:, None]]
    )


def windows():
    """Three neighbouring sums for each element; the sums are an argument, too."""
    a = te.placeholder((66, 5), name="A")
    k = te.reduce_axis((0, 5), name="k")
    b = te.compute((66,), lambda i: te.sum(a[i, k], axis=k), name="B")
    c = te.compute((64,), lambda i: b[i] + b[i + 1] + b[i + 2], name="C")
    s = te.create_schedule(c.op)
    return s, a, b, c


@pytest.mark.parametrize("tag", [BX, TX])
def test_sums_of_parts_that_overlap_are_refused(tag):
    s, a, b, c = windows()
    s[c].bind(c.op.axis[0], te.thread_axis(tag))
    s[b].compute_at(s[c], c.op.axis[0])
    words = rf"loop bound to {tag} sums into its part of B(.|\n)*overlap(.|\n)*cache_write\(B"
    with pytest.raises(LowerError, match=words):
        build(s, [a, b, c], "cuda")


def test_the_ways_out_of_parts_that_overlap():
    x = RNG.standard_normal((66, 5)).astype("float32")
    sums = x.sum(1)
    wanted = sums[:-2] + sums[1:-1] + sums[2:]
    s, a, b, c = windows()
    s[c].bind(c.op.axis[0], te.thread_axis(BX))
    s[b].compute_at(s[c], c.op.axis[0])
    emulated.agree(s, [a, c], [x], [((64,), "float32")], [wanted])
    s, a, b, c = windows()
    s[c].bind(c.op.axis[0], te.thread_axis(BX))
    s[b].bind(b.op.axis[0], te.thread_axis(BX))
    outputs = [((66,), "float32"), ((64,), "float32")]
    emulated.agree(s, [a, b, c], [x], outputs, [sums, wanted])


def test_parts_that_do_not_overlap_are_summed():
    a = te.placeholder((33, 7), name="A")
    k = te.reduce_axis((0, 7), name="k")
    b = te.compute((33,), lambda i: te.sum(a[i, k], axis=k), name="B")
    c = te.compute((33,), lambda i: b[i] * 2.0, name="C")
    s = te.create_schedule(c.op)
    o, i = s[c].split(c.op.axis[0], 11)
    s[c].bind(o, te.thread_axis(BX))
    s[c].bind(i, te.thread_axis(TX))
    s[b].compute_at(s[c], i)
    x = RNG.standard_normal((33, 7)).astype("float32")
    outputs = [((33,), "float32")] * 2
    emulated.agree(s, [a, b, c], [x], outputs, [x.sum(1), 2 * x.sum(1)])


T, U, K, N = (tir.Var(x) for x in "tukn")


@pytest.mark.parametrize(
    ("index", "spans", "meets"),
    [
        (T + U, {T: 64, U: 3}, True),
        (T + U, {T: None, U: 3}, True),
        (T * 3 + U, {T: 64, U: 3}, False),
        (T * 3 + U, {T: 64, U: 4}, True),
        (T * 3 + U * 2, {T: 64, U: 2}, False),
        (T * 5 + U * 3, {T: 64, U: 5}, False),
        (T * 5 + U * 3, {T: 64, U: 6}, True),
        (T + U * 64, {T: 64, U: 6}, False),
        (T + U * 63, {T: 64, U: 6}, True),
        # what no sum of digits says
        (T // 2, {T: 64}, True),
        (T // 2 * 2 + U, {T: 64, U: 2}, True),
        (T // 4 * 4 + (T + 1) % 4, {T: 64}, False),
        (tir.Min(T, 5), {T: 6}, False),
        (tir.Min(T, 5), {T: 7}, True),
        (N * T + U, {T: None, U: 4}, False),
        (N * (T // 2) + U, {T: None, U: 4}, True),
        # steps of one thread that go over its own elements again
        (T * 100 + U + K * 4, {T: 8, U: 6, K: 4}, False),
        (T + U * 32 + K * 64, {T: 32, U: 3, K: 4}, False),
    ],
)
def test_which_indices_several_threads_have(index, spans, meets):
    assert (overlapping(index, spans, {T}) is T) == meets


def test_conditions_and_memory_keep_indices_apart():
    index, spans = K * 5 + T * 4 + U, {T: 2, U: 4, K: 3}
    assert overlapping(index, spans, {T}) is T
    assert overlapping(index, spans, {T}, [T * 4 + U < 5]) is None
    assert overlapping(index, spans, {T}, [T * 4 + U < 6]) is T
    assert overlapping(T // 2 + K, {T: 4, K: 3}, {T}, apart={K}) is T
    assert overlapping((T + K) % 4, {T: 4, K: 3}, {T}) is T
    assert overlapping((T + K) % 4, {T: 4, K: 3}, {T}, apart={K}) is None
    # what is read, or computed before, may be anything
    read = tir.BufferLoad(tir.decl_buffer(64, "int32"), (T // 2,), "int32")
    assert overlapping(read, spans, {T}) is None
    assert overlapping(T // 2 + U, {T: 4}, {T}, derived={U}) is None


def halves(n):
    """A sum in place at each second thread's element: two threads have one."""
    a = te.placeholder((n, 5), name="A")
    k = te.reduce_axis((0, 5), name="k")
    b = te.compute(((n + 1) // 2,), lambda i: te.sum(a[i, k], axis=k), name="B")
    c = te.compute((n,), lambda i: b[i // 2] * 2.0, name="C")
    s = te.create_schedule(c.op)
    return s, a, b, c


def test_sums_at_half_a_threads_number_are_refused():
    s, a, b, c = halves(64)
    s[c].bind(c.op.axis[0], te.thread_axis(TX))
    s[b].compute_at(s[c], c.op.axis[0])
    with pytest.raises(LowerError, match=r"the parts overlap: at B\[threadIdx_x // 2\]"):
        build(s, [a, b, c], "cuda")


@pytest.mark.parametrize("n", [5, 13])
def test_sums_in_place_of_rows_that_no_tile_divides(n):
    """Guards keep the threads of a row's last tile out of the next row."""
    a, b = te.placeholder((3, 7), name="A"), te.placeholder((7, n), name="B")
    k = te.reduce_axis((0, 7), name="k")
    c = te.compute((3, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    jo, ji = s[c].split(j, 4)
    s[c].reorder(k, i, jo, ji)
    for loop, tag in ((i, BX), (jo, "threadIdx.y"), (ji, TX)):
        s[c].bind(loop, te.thread_axis(tag))
    x, y = (RNG.random(d).astype("float32") for d in ((3, 7), (7, n)))
    emulated.agree(s, [a, b, c], [x, y], [((3, n), "float32")], [x @ y])


# sizes without any step


@pytest.mark.parametrize("threads", [None, 16])
def test_a_sum_over_no_threads_is_zero(threads):
    n = te.size_var("n")
    a = te.placeholder((3, n), name="A")
    k = te.reduce_axis((0, n), name="k")
    copy = te.compute((3, n), lambda i, j: a[i, j] * 2.0, name="S")
    out = te.compute((3,), lambda i: te.sum(copy[i, k], axis=k), name="O")
    s = te.create_schedule(out.op)
    s[out].bind(out.op.axis[0], te.thread_axis(BX))
    s[copy].compute_at(s[out], out.op.axis[0])
    s[copy].set_scope("shared")
    t = copy.op.axis[1]
    if threads is not None:
        _, t = s[copy].split(t, threads)
    s[copy].bind(t, te.thread_axis(TX))
    f = whet.build(s, [a, out], emulated.TARGET)
    for m in (0, 1, 19):
        x = RNG.standard_normal((3, m)).astype("float32")
        _, got = emulated.on_device(f, [x, np.full(3, np.nan, "float32")])
        np.testing.assert_allclose(got, 2 * x.sum(1), rtol=1e-5, atol=1e-5)


def test_a_reduction_of_no_steps_over_threads():
    a = te.placeholder((3, 4), name="A")
    k = te.reduce_axis((0, 0), name="k")
    out = te.compute((3,), lambda i: te.sum(a[i, k], axis=k), name="O")
    s = te.create_schedule(out.op)
    s[out].bind(out.op.axis[0], te.thread_axis(BX))
    s[out].bind(k, te.thread_axis(TX))
    x = np.ones((3, 4), "float32")
    emulated.agree(s, [a, out], [x], [((3,), "float32")], [np.zeros(3)])


# shared memory of several sizes; virtual threads


def test_shared_memory_of_constant_and_of_symbolic_size():
    n = te.size_var("n")
    a, b = te.placeholder((3, n), name="A"), te.placeholder((8,), name="B")
    out = te.compute((3, n), lambda i, j: b[7 - j % 8] + a[i, n - 1 - j], name="O")
    s = te.create_schedule(out.op)
    i, j = s[out].op.axis
    s[out].bind(i, te.thread_axis(BX))
    _, t = s[out].split(j, 8)
    s[out].bind(t, te.thread_axis(TX))
    for x in (a, b):
        held = s.cache_read(x, "shared", [out])
        s[held].compute_at(s[out], i)
        _, t = s[held].split(held.op.axis[-1], 8)
        s[held].bind(t, te.thread_axis(TX))
    f = whet.build(s, [a, b, out], emulated.TARGET)
    x, y = (RNG.standard_normal(d).astype("float32") for d in ((3, 19), (8,)))
    for order in emulated.ORDERS:
        *_, got = emulated.on_device(f, [x, y, np.full((3, 19), np.nan, "float32")], order)
        np.testing.assert_allclose(got, x[:, ::-1] + y[7 - np.arange(19) % 8], rtol=1e-6)


def test_shuffles_under_a_condition_on_what_a_thread_has_are_refused():
    """A tree whose threads may not all come by needs barriers, which are refused there."""
    from whet.compiler.passes.gpu.lower_thread_allreduce import lower_thread_allreduce
    from whet.compiler.te.lower.lower_allreduce import ALLREDUCE

    red = tir.decl_buffer(32, name="red", scope="shared")
    own = tir.decl_buffer(1, name="own", scope="local")
    t = tir.Var(TX)

    def load(b, i):
        return tir.BufferLoad(b, (ops.convert(i),), b.dtype)

    def step(half):
        value = load(red, t) + load(red, t + half)
        return tir.IfThenElse(t < half, tir.BufferStore(red, value, (t,)))

    tree = tir.SeqStmt(tuple(map(step, (16, 8, 4, 2, 1))))
    marked = tir.AttrStmt(red, ALLREDUCE, ops.const(32), tree)
    for condition, shuffles in ((load(own, 0) > 0.0, False), (tir.Var("n") > 0, True)):
        body = tir.IfThenElse(condition, marked)
        body = tir.Allocate(own, tir.Allocate(red, body))
        body = tir.AttrStmt(t, "thread_extent", ops.const(32), body)
        func = tir.PrimFunc((), body, attrs={"thread_extent": {TX: ops.const(32)}})
        assert ("shuffle" in lower_thread_allreduce(func).script()) == shuffles
