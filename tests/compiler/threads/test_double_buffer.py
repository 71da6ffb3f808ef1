"""Double buffers: golden text, numbers in the emulator, one barrier a step, and its limits."""

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
RNG = np.random.default_rng(23)


def kernel_of(s, args):
    with TARGET:
        mod = lower(s, args, name="f")
    return run_build_passes(IRModule(dict(mod.functions)), TARGET)["f_kernel0"]


def rows(n, m, step, doubled=True, vector=1):
    """Sums over k of 8 rows at a time, tiles of ``step`` columns in shared memory."""
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    b = te.compute((n,), lambda i: te.sum(a[i, k] * 2.0, axis=k), name="B")
    s = te.create_schedule(b.op)
    tile = s.cache_read(a, "shared", [b])
    o, i = s[b].split(b.op.axis[0], 8)
    s[b].bind(o, te.thread_axis("blockIdx.x"))
    s[b].bind(i, te.thread_axis((0, 8), "threadIdx.x"))
    ko, _ = s[b].split(k, step)
    s[tile].compute_at(s[b], ko)
    fused = s[tile].fuse(*tile.op.axis)
    rest, lanes = s[tile].split(fused, vector)
    _, t = s[tile].split(rest, 8)
    s[tile].bind(t, te.thread_axis((0, 8), "threadIdx.x"))
    if vector > 1:
        s[tile].vectorize(lanes)
    if doubled:
        s[tile].double_buffer()
    return s, [a, b]


def test_the_next_tile_is_fetched_while_this_one_is_used(golden):
    golden("double_buffer_kernel", kernel_of(*rows(16, 64, 4)).script())


@pytest.mark.parametrize(
    ("n", "m", "step", "vector"),
    [(16, 64, 4, 1), (16, 64, 8, 4), (13, 37, 4, 1), (8, 4, 4, 1), (5, 3, 8, 2), (24, 130, 16, 4)],
)
def test_numbers(n, m, step, vector):
    s, args = rows(n, m, step, vector=vector)
    x = RNG.standard_normal((n, m)).astype("float32")
    emulated.agree(s, args, [x], [((n,), "float32")], [2 * x.astype("float64").sum(1)])


def test_one_barrier_a_step_instead_of_two():
    barriers = {d: str(kernel_of(*rows(16, 64, 4, d))).count("tvm_storage_sync") for d in (0, 1)}
    assert barriers == {0: 2, 1: 2}  # one of them in front of the loop
    once = str(kernel_of(*rows(16, 64, 4))).split("for k_outer")
    assert once[0].count("tvm_storage_sync") == once[1].count("tvm_storage_sync") == 1


def test_two_halves_in_one_buffer():
    doubled, single = (kernel_of(*rows(16, 64, 4, d)) for d in (True, False))
    assert single.attrs["shared_bytes"].value == 8 * 4 * 4
    assert doubled.attrs["shared_bytes"].value == 2 * 8 * 4 * 4
    odd = kernel_of(*rows(8, 27, 3))  # 24 elements; halves begin at 16 bytes
    assert odd.attrs["shared_bytes"].value % 32 == 0


def test_a_symbolic_number_of_steps():
    m = te.size_var("m")
    s, args = rows(8, m, 4)
    from whet.compiler.driver import build

    f = build(s, args, TARGET)
    for size in (1, 4, 8, 11, 21):
        x = RNG.standard_normal((8, size)).astype("float32")
        _, got = emulated.on_device(f, [x, np.full(8, np.nan, "float32")])
        np.testing.assert_allclose(got, 2 * x.sum(1), rtol=1e-4, atol=1e-4)


def test_a_tile_too_large_for_registers_goes_straight_to_the_other_half():
    s, args = rows(16, 256, 128)  # 128 elements a thread
    text = str(kernel_of(s, args))
    assert "double_buffer_write" in text and "next" not in text
    x = RNG.standard_normal((16, 256)).astype("float32")
    emulated.agree(s, args, [x], [((16,), "float32")], [2 * x.astype("float64").sum(1)])


@pytest.mark.parametrize(("steps", "pairs"), [(7, 0), (8, 1), (9, 1)])
def test_long_loops_are_written_out_in_pairs(steps, pairs):
    s, args = rows(8, 4 * steps, 4)
    x = RNG.standard_normal((8, 4 * steps)).astype("float32")
    want = [2 * x.astype("float64").sum(1)]
    text = emulated.agree(s, args, [x], [((8,), "float32")], want)
    assert text.count("#pragma unroll 2\n    for (int k_outer") == pairs


def test_one_step_needs_one_buffer():
    kernel = kernel_of(*rows(8, 4, 4))
    assert kernel.attrs["shared_bytes"].value == 8 * 4 * 4
    assert "double_buffer" not in str(kernel)


def matmul(n, m, k, doubled):
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    s = te.create_schedule(c.op)
    tiles = [s.cache_read(x, "shared", [c]) for x in (a, b)]
    local = s.cache_write(c, "local")
    io, jo, ii, ji = s[c].tile(*c.op.axis, 16, 16)
    it, iv = s[c].split(ii, nparts=4)
    jt, jv = s[c].split(ji, nparts=4)
    s[c].reorder(io, jo, it, jt, iv, jv)
    tags = "blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x"
    for x, tag in zip((io, jo, it, jt), tags):
        s[c].bind(x, te.thread_axis(tag))
    s[local].compute_at(s[c], jt)
    ko, ki = s[local].split(s[local].op.reduce_axis[0], 8)
    s[local].reorder(ko, ki, *s[local].op.axis)
    for tile in tiles:
        s[tile].compute_at(s[local], ko)
        fused = s[tile].fuse(*tile.op.axis)
        rest, t = s[tile].split(fused, 4)
        _, u = s[tile].split(rest, 4)
        s[tile].bind(t, te.thread_axis("threadIdx.x"))
        s[tile].bind(u, te.thread_axis("threadIdx.y"))
        if tile.op.name.split(".")[0] in doubled:
            s[tile].double_buffer()
    return s, [a, b, c]


@pytest.mark.parametrize("doubled", ["A", "B", "AB", ""])
@pytest.mark.parametrize("sizes", [(32, 16, 32), (17, 19, 21)])
def test_two_tiles_of_a_matmul(doubled, sizes):
    n, m, k = sizes
    s, args = matmul(n, m, k, doubled)
    a, b = RNG.standard_normal((n, k)).astype("f4"), RNG.standard_normal((k, m)).astype("f4")
    text = emulated.agree(
        s, args, [a, b], [((n, m), "float32")], [a.astype("f8") @ b], orders=("backwards", 9)
    )
    steps = text.split("for (int k_outer")[1] if "for (int k_outer" in text else ""
    if sizes == (32, 16, 32):
        assert steps.count("__syncthreads") == (1 if doubled == "AB" else 2)


def test_a_tile_that_is_turned_round_on_its_way_through_registers():
    """The tile's own local stage is fetched with it: vectors of rows become columns."""
    n, k = 16, 32
    a = te.placeholder((n, k), name="A")
    r = te.reduce_axis((0, k), name="k")
    turned = te.compute((k, n), lambda i, j: a[j, i], name="AT")
    b = te.compute((n,), lambda i: te.sum(turned[r, n - 1 - i], axis=r), name="B")
    s = te.create_schedule(b.op)
    read = s.cache_read(a, "local", [turned])
    s[turned].set_scope("shared")
    s[b].bind(b.op.axis[0], te.thread_axis((0, 16), "threadIdx.x"))
    ko, _ = s[b].split(r, 4)
    s[turned].compute_at(s[b], ko)
    x, y = turned.op.axis
    s[turned].reorder(y, x)
    s[turned].bind(y, te.thread_axis((0, 16), "threadIdx.x"))
    s[read].compute_at(s[turned], y)
    s[read].vectorize(read.op.axis[1])
    s[turned].double_buffer()
    text = str(kernel_of(s, [a, b]))
    assert "double_buffer_write" in text and "A_local_1[ramp" in text and "AT_next" in text
    x = RNG.standard_normal((n, k)).astype("float32")
    emulated.agree(s, [a, b], [x], [((n,), "float32")], [x.sum(1)[::-1]])


def test_what_reads_its_own_loop_has_one_buffer():
    """A tile made of what the same step computes cannot be made a step earlier."""
    n, m = 8, 32
    a = te.placeholder((n, m), name="A")
    t = te.compute((n, m), lambda i, j: a[i, j] + 1.0, name="T")
    k = te.reduce_axis((0, m), name="k")
    b = te.compute((n,), lambda i: te.sum(t[7 - i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    tile = s.cache_read(t, "shared", [b])
    s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    ko, _ = s[b].split(k, 4)
    s[t].compute_at(s[b], ko)
    s[t].set_scope("shared")
    s[tile].compute_at(s[b], ko)
    for x in (t, tile):
        s[x].bind(x.op.axis[0], te.thread_axis("threadIdx.x"))
    s[tile].double_buffer()
    assert "double_buffer_write" not in str(kernel_of(s, [a, b]))
    x = RNG.standard_normal((n, m)).astype("float32")
    emulated.agree(s, [a, b], [x], [((n,), "float32")], [(x + 1).sum(1)[::-1]])


def test_the_pass_can_be_left_out():
    with PassContext(disabled_pass=["tir.InjectDoubleBuffer"]):
        kernel = kernel_of(*rows(16, 64, 4))
    assert kernel.attrs["shared_bytes"].value == 8 * 4 * 4
