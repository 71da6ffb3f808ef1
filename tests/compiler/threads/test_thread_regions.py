"""Stages inside loops over threads: tiles that go beyond tensors, what only some threads run."""

import emulated
import numpy as np
import pytest
from emulated import agree, on_device

import whet
from whet.compiler import te
from whet.compiler.codegen.cuda.nvrtc import available, compile_ptx

RNG = np.random.default_rng(53)
TX, TY, BX = "threadIdx.x", "threadIdx.y", "blockIdx.x"


def bound(stage, loop, tag, count=None):
    """Bind a loop to ``count`` threads, or to as many as it has steps."""
    stage.bind(loop, te.thread_axis(tag) if count is None else te.thread_axis((0, count), tag))


def test_a_tile_beyond_the_tensor_reads_the_last_element_of_what_is_kept_whole():
    """Shared memory that holds the whole tensor has nothing beyond it, as an input has not."""
    a = te.placeholder((5, 8), name="A")
    b = te.compute((5, 8), lambda i, j: a[i, j] * 3.0, name="B")
    c = te.compute((40,), lambda f: b[f // 8, f % 8] + 1.0, name="C")
    s = te.create_schedule(c.op)
    kept = s.cache_write(b, "shared")
    outer, inner = s[c].split(c.op.axis[0], 4)
    bound(s[c], outer, TX, 32)
    s[b].compute_at(s[c], inner)
    s[b].set_scope("local")
    s[kept].compute_at(s[c], outer)
    x = RNG.random((5, 8)).astype("float32")
    agree(s, [a, c], [x], [((40,), "float32")], [3 * x.reshape(-1) + 1])


@pytest.mark.parametrize("n", [1, 3, 4])
def test_what_reads_a_tile_of_unknown_size_stops_where_the_tile_does(n):
    """Nobody has written the rest: an index read from it could be anything."""
    size = te.size_var("n")
    a = te.placeholder((size,), name="A")
    b = te.compute((size,), lambda i: a[i] * 2.0, name="B")
    s = te.create_schedule(b.op)
    tile = s.cache_read(a, "shared", [b])
    local = s.cache_write(b, "local")
    o, t = s[b].split(b.op.axis[0], 2)
    bound(s[b], o, BX)
    bound(s[b], t, TX, 2)
    s[local].compute_at(s[b], t)
    s[tile].compute_at(s[b], o)
    x = RNG.random(n).astype("float32")
    agree(s, [a, b], [x], [((n,), "float32")], [2 * x])


def test_registers_for_more_threads_than_the_loop_around_has():
    a = te.placeholder((9,), name="A")
    b = te.compute((9,), lambda i: a[i] * 2.0, name="B")
    c = te.compute((3,), lambda i: b[i * 3] + b[i * 3 + 1] + b[i * 3 + 2], name="C")
    s = te.create_schedule(c.op)
    tile = s.cache_read(b, "shared", [c])
    o, t = s[c].split(c.op.axis[0], 1)
    s[c].reorder(t, o)
    bound(s[c], t, TX)
    s[tile].compute_at(s[c], t)
    to, ti = s[tile].split(tile.op.axis[0], 4)
    bound(s[tile], ti, TX)
    s[b].compute_at(s[tile], to)
    s[b].set_scope("local")
    x = RNG.random(9).astype("float32")
    agree(s, [a, c], [x], [((3,), "float32")], [2 * x.reshape(3, 3).sum(1)])


def largest_in_shared(rows):
    """The place and the value of the largest element, by one row of threads of several."""
    a = te.placeholder((4, 6), "int32", name="A")
    k = te.reduce_axis((0, 6), name="k")
    first = te.comm_reducer(
        lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.select(x[1] >= y[1], x[1], y[1])),
        lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
    )
    at, most = te.compute((4,), lambda i: first((k.var, a[i, k]), axis=k), name="M")
    out = te.compute((4, rows), lambda i, j: at[i] * 100 + most[i] + j, name="O")
    s = te.create_schedule(out.op)
    o, i = s[out].split(out.op.axis[0], 4)
    for loop, tag in ((o, BX), (i, TX), (out.op.axis[1], TY)):
        bound(s[out], loop, tag)
    s[at].compute_at(s[out], o)
    s[at].set_scope("shared")
    bound(s[at], at.op.axis[0], TX)
    return s, a, out


def test_what_one_thread_stores_no_other_reads_meanwhile():
    s, a, out = largest_in_shared(3)
    x = RNG.permutation(24).reshape(4, 6).astype("int32")
    wanted = (x.argmax(1) * 100 + x.max(1))[:, None] + np.arange(3)
    agree(s, [a, out], [x], [((4, 3), "int32")], [wanted])


@pytest.mark.parametrize("threads", [8, 32, 64])
def test_a_sum_by_one_row_of_threads_in_a_block_of_several(threads):
    """Threads without parts of their own must not take part with what nothing has set."""
    a = te.placeholder((5, 70), name="A")
    k = te.reduce_axis((0, 70), name="k")
    b = te.compute((5,), lambda i: te.sum(a[i, k], axis=k), name="B")
    c = te.compute((5, 3, threads), lambda i, j, t: b[i] + j, name="C")
    s = te.create_schedule(c.op)
    i, j, t = c.op.axis
    for loop, tag in ((i, BX), (j, TY), (t, TX)):
        bound(s[c], loop, tag)
    s[b].compute_at(s[c], i)
    s[b].set_scope("shared")
    bound(s[b], s[b].split(k, threads)[1], TX)
    x = RNG.random((5, 70)).astype("float32")
    wanted = np.broadcast_to(x.sum(1)[:, None, None] + np.arange(3)[:, None], (5, 3, threads))
    agree(s, [a, c], [x], [(wanted.shape, "float32")], [wanted])


@pytest.mark.parametrize(("threads", "rows"), [(8, 1), (32, 2), (64, 1), (12, 1)])
def test_a_reduction_over_threads_in_virtual_threads(threads, rows):
    """Each virtual thread's tree is a tree of its own, by shuffles where they can do it."""
    a = te.placeholder((10, 70), name="A")
    k = te.reduce_axis((0, 70), name="k")
    b = te.compute((10,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    o, i = s[b].split(b.op.axis[0], 2 * rows)
    v, y = s[b].split(i, rows)
    for loop, tag in ((o, BX), (v, "vthread"), (y, TY)):
        bound(s[b], loop, tag)
    bound(s[b], s[b].split(k, threads)[1], TX)
    x = RNG.random((10, 70)).astype("float32")
    text = agree(s, [a, b], [x], [((10,), "float32")], [x.sum(1)])
    assert ("shuffle" in text) == (threads != 12)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("threads", [32, 128])
def test_all_threads_have_one_maximum_where_an_element_is_nan(dtype, threads):
    a = te.placeholder((threads,), dtype, name="A")
    k = te.reduce_axis((0, threads), name="k")
    b = te.compute((1,), lambda i: te.max(a[k], axis=k), name="B")
    c = te.compute((threads,), lambda i: b[0], name="C")
    s = te.create_schedule(c.op)
    bound(s[c], c.op.axis[0], TX)
    s[b].compute_at(s[c], c.op.axis[0])
    s[b].set_scope("shared")
    bound(s[b], k, TX)
    x = RNG.random(threads).astype(dtype)
    x[[3, threads - 2]] = np.nan
    kernel = whet.build(s, [a, c], emulated.TARGET)
    _, got = on_device(kernel, [x, np.zeros(threads, dtype)])
    assert len({g.tobytes() for g in got}) == 1
    if dtype != "float16":
        np.testing.assert_array_equal(got, np.nanmax(x))


def test_a_maximum_is_one_instruction():
    a, b = (te.placeholder((64,), name=x) for x in "AB")
    c = te.compute((64,), lambda i: te.max(a[i], b[i]), name="C")
    s = te.create_schedule(c.op)
    bound(s[c], c.op.axis[0], TX)
    text = whet.build(s, [a, b, c], emulated.TARGET).get_source("cuda")
    if not available():
        pytest.skip("NVRTC is not installed: pip install 'whet-autotune[nvrtc]'")
    ptx = compile_ptx(text, "sm_80")
    assert "max.f32" in ptx and "setp" not in ptx


def test_a_sum_in_memory_by_one_of_several_rows_of_threads():
    """Its other threads would read what the one stores."""
    a = te.placeholder((6, 9), name="A")
    k = te.reduce_axis((0, 9), name="k")
    b = te.compute((6,), lambda i: te.sum(a[i, k], axis=k), name="B")
    c = te.compute((6, 3), lambda i, j: b[i] + j, name="C")
    s = te.create_schedule(c.op)
    o, i = s[c].split(c.op.axis[0], 4)
    for loop, tag in ((o, BX), (i, TX), (c.op.axis[1], TY)):
        bound(s[c], loop, tag)
    s[b].compute_at(s[c], o)
    bound(s[b], b.op.axis[0], TX)
    x = RNG.random((6, 9)).astype("float32")
    wanted = x.sum(1)[:, None] + np.arange(3)
    agree(s, [a, b, c], [x], [((6,), "float32"), ((6, 3), "float32")], [x.sum(1), wanted])


@pytest.mark.parametrize("cooperative", [True, False])
def test_threads_with_fewer_steps_wait_for_the_others(cooperative):
    """Their loop has its whole length: all of them fill what they share in each step."""
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[7 - i] * 2.0, name="B")
    s = te.create_schedule(b.op)
    tile = s.cache_read(a, "shared", [b])
    o, i = s[b].split(b.op.axis[0], 3)
    bound(s[b], o, TX, 8)
    s[tile].compute_at(s[b], i)
    if cooperative:
        bound(s[tile], tile.op.axis[0], TX, 8)
    x = RNG.random(8).astype("float32")
    agree(s, [a, b], [x], [((8,), "float32")], [2 * x[::-1]])


def test_threads_whose_sums_have_fewer_steps_wait_for_the_others():
    """``where`` ends some threads' sums earlier, though all fill the tile of each step."""
    a = te.placeholder((13, 4), name="A")
    k = te.reduce_axis((0, 13), name="k")
    b = te.compute((4,), lambda i: te.sum(a[k, i], axis=k, where=i >= k), name="B")
    s = te.create_schedule(b.op)
    tile = s.cache_read(a, "shared", [b])
    bound(s[b], b.op.axis[0], TX)
    s[tile].compute_at(s[b], k)
    x = RNG.random((13, 4)).astype("float32")
    wanted = [x[: i + 1, i].sum() for i in range(4)]
    agree(s, [a, b], [x], [((4,), "float32")], [wanted])


@pytest.mark.parametrize("tags", [(TY,), (TX, TY)])
def test_a_tree_along_other_threads_in_virtual_threads(tags):
    a = te.placeholder((6, 40), name="A")
    k = te.reduce_axis((0, 40), name="k")
    b = te.compute((6,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    o, v = s[b].split(b.op.axis[0], 2)
    bound(s[b], o, BX)
    bound(s[b], v, "vthread")
    left = k
    for tag in tags:
        left, inner = s[b].split(left, 3)
        bound(s[b], inner, tag)
    x = RNG.random((6, 40)).astype("float32")
    agree(s, [a, b], [x], [((6,), "float32")], [x.sum(1)])


def test_lanes_that_are_not_stored_read_no_tile_that_nobody_wrote():
    size = te.size_var("n")
    a = te.placeholder((size,), "int16", name="A")
    b = te.compute((size,), lambda i: a[i], name="B")
    s = te.create_schedule(b.op)
    tile = s.cache_read(a, "shared", [b])
    o, i = s[b].split(b.op.axis[0], 8)
    t, lanes = s[b].split(i, 4)
    bound(s[b], o, BX)
    bound(s[b], t, TX, 2)
    s[b].vectorize(lanes)
    s[tile].compute_at(s[b], o)
    bound(s[tile], tile.op.axis[0], TX, 8)
    for n in (1, 7, 8):
        x = RNG.integers(0, 99, n).astype("int16")
        agree(s, [a, b], [x], [((n,), "int16")], [x], orders=("backwards",))


def test_padded_rows_of_which_there_are_none():
    size = te.size_var("n")
    a = te.placeholder((size, 4), name="A")
    b = te.compute((size, 4), lambda i, j: a[i, j] + 1.0, name="B")
    s = te.create_schedule(b.op)
    tile = s.cache_read(a, "shared", [b])
    i, j = b.op.axis
    jo, ji = s[b].split(j, 4)
    io, t = s[b].split(i, 4)
    s[b].reorder(jo, t, io, ji)
    bound(s[b], jo, BX)
    bound(s[b], t, TX, 4)
    s[tile].compute_at(s[b], jo)
    s[tile].storage_align(tile.op.axis[0], 2, 1)
    for n in (0, 5):
        x = RNG.random((n, 4)).astype("float32")
        agree(s, [a, b], [x], [((n, 4), "float32")], [x + 1], orders=("forwards",))


def summed_in_steps(tags, width, splits):
    """A maximum over threads of sums that each of them keeps whole, whose operands are shared."""
    a = te.placeholder((2, width + 1), name="A")
    t0 = te.compute((2, width + 1), lambda i, j: a[i, j] * 2.0, name="T0")
    r0, r1 = te.reduce_axis((0, 2)), te.reduce_axis((0, 2))
    t1 = te.compute((1, width), lambda i, j: te.sum(t0[i + r0, j + r1], axis=[r0, r1]), name="T1")
    k = te.reduce_axis((0, width), name="k")
    t2 = te.compute((1,), lambda i: te.max(t1[i, k], axis=k), name="T2")
    s = te.create_schedule(t2.op)
    kept = s.cache_read(t1, "local", [t2])
    (i,) = s[t2].op.axis
    bound(s[t2], k, tags[0], width)
    i, ii = s[t2].split(i, 4)
    for tag in tags[1:]:
        i, ty = s[t2].split(i, 4)
        bound(s[t2], ty, tag)
    bound(s[t2], i, BX)
    s[kept].compute_at(s[t2], ii)
    _, columns = s[kept].op.axis
    if splits:
        columns = s[kept].split(columns, 3)[1]
    s[t1].compute_at(s[kept], columns)
    s[t0].compute_at(s[kept], columns)
    s[t0].set_scope("shared")
    return s, a, t2


@pytest.mark.parametrize("splits", [False, True])
@pytest.mark.parametrize("tags", [(TX,), (TY,), (TX, TY), (TY, TX), (TX, TY, "threadIdx.z")])
@pytest.mark.parametrize("width", [8, 5])
def test_what_all_threads_read_in_registers_each_of_them_stores(tags, width, splits):
    """One thread fills what is shared, but its sum is kept by all: it is not for one to store."""
    s, a, out = summed_in_steps(tags, width, splits)
    x = RNG.random((2, width + 1)).astype("float32")
    y = 2 * x.astype("float64")
    wanted = (y[0, :-1] + y[0, 1:] + y[1, :-1] + y[1, 1:]).max()
    agree(s, [a, out], [x], [((1,), "float32")], [[wanted]])


@pytest.mark.parametrize("tag", [TX, TY])
def test_what_is_made_of_a_threads_own_registers_is_not_made_by_threads_without_any(tag):
    """A tile is filled by three threads, and two of them sum over it: the third has no row."""
    a = te.placeholder((6, 7), name="A")
    k = te.reduce_axis((0, 7), name="k")
    b = te.compute((2,), lambda i: te.sum(a[i * 2, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    tile = s.cache_read(a, "shared", [b])
    row = s.cache_read(tile, "local", [b])
    total = s.cache_write(b, "local")
    bound(s[b], b.op.axis[0], tag)
    s[total].compute_at(s[b], b.op.axis[0])
    (k,) = s[total].op.reduce_axis
    s[row].compute_at(s[total], k)
    s[tile].compute_at(s[row], s[row].op.axis[0])
    bound(s[tile], tile.op.axis[0], tag)
    x = RNG.random((6, 7)).astype("float32")
    agree(s, [a, b], [x], [((2,), "float32")], [x[:4:2].astype("float64").sum(1)])
