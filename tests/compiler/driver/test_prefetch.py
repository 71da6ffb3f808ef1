"""Prefetches: numbers, one a cache line at every level, regions, what has none, errors."""

import numpy as np
import pytest
from sched_check import refused, replays

import whet
from whet.compiler import driver, te, tir
from whet.compiler.arith import Analyzer
from whet.compiler.errors import LowerError
from whet.compiler.target import Target

LEVELS = ["x86-64-v2", "x86-64-v3", "x86-64-v4"]


def column_sums(n=67, m=48, dtype="float32"):
    a = te.placeholder((n, m), dtype, name="A")
    k = te.reduce_axis((0, n), name="k")
    b = te.compute((m,), lambda j: te.sum(a[k, j], axis=k), name="B")
    s = te.create_schedule(b.op)
    s[b].reorder(k, b.op.axis[0])
    return s, a, b, k


def matmul(n, m, k, ahead=3):
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    s = te.create_schedule(c.op)
    local = s.cache_write(c, "local")
    io, jo, _, _ = s[c].tile(*c.op.axis, 4, 32)
    s[local].compute_at(s[c], jo)
    (x, y), (z,) = s[local].op.axis, s[local].op.reduce_axis
    s[local].reorder(z, x, y)
    s[local].unroll(x)
    s[local].vectorize(y)
    s[local].prefetch(b, z, ahead)
    s[local].prefetch(a, z, 16)
    s[c].prefetch(a, io, 1)
    return s, [a, b, c]


def texts(s, args, mcpu="x86-64-v3"):
    """The loops and the LLVM text of the kernel."""
    target = Target(f"llvm -mcpu={mcpu}")
    with target:
        loops = str(driver.lower(s, args))
    ll = driver.build(s, args, target=target).get_source("ll")
    return loops, ll[: ll.index("define void")]


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("sizes", [(64, 64, 64), (13, 45, 21), (1, 33, 7)])
def test_numbers(target, sizes):
    n, m, k = sizes
    s, args = matmul(*sizes)
    replays(s, args)
    f = driver.build(s, args, target=Target(target))
    rng = np.random.default_rng(n)
    x, y = (rng.standard_normal(d).astype("float32") for d in ((n, k), (k, m)))
    out = np.full((n, m), np.nan, "float32")
    f(x, y, out)
    np.testing.assert_allclose(out, x.astype("float64") @ y.astype("float64"), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mcpu", LEVELS)
def test_one_prefetch_a_line(mcpu):
    s, a, b, k = column_sums()
    s[b].vectorize(b.op.axis[0])
    s[b].prefetch(a, k, 4)
    loops, ll = texts(s, [a, b], mcpu)
    assert "prefetch(tvm_access_ptr(A[k * 48 + line * 16 + 192], 1, 1), 0, 3, 1)" in loops
    assert "for line in unrolled(3):" in loops  # 48 floats
    assert ll.count("call void @llvm.prefetch.p0(ptr %") == 3
    assert "i32 0, i32 3, i32 1)" in ll and "inbounds" not in ll
    asm = driver.build(s, [a, b], target=Target(f"llvm -mcpu={mcpu}")).get_source("asm")
    assert asm.count("\tprefetcht0\t") == 3


@pytest.mark.parametrize("mcpu", LEVELS)
def test_sums_stay_in_registers(mcpu):
    s, a, b, k = column_sums(m=16)
    _, ki = s[b].split(k, factor=4)
    s[b].unroll(ki)
    s[b].vectorize(b.op.axis[0])
    s[b].prefetch(a, ki, 8)
    loops, ll = texts(s, [a, b], mcpu)
    assert "B_acc = allocate" in loops
    step = ll[ll.index("phi") : ll.index("br i1", ll.index("phi"))]
    assert "@llvm.prefetch" in step


def test_loads_are_not_read_again_after_a_prefetch():
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[0] * a[i], name="B")
    s = te.create_schedule(b.op)
    s[b].prefetch(a, b.op.axis[0], 16)
    assert driver.build(s, [a, b], target=Target("c")).get_source().count("const float *restrict A")
    fetched = texts(s, [a, b])[1]
    plain = texts(te.create_schedule(b.op), [a, b])[1]
    assert fetched.count("= load") == plain.count("= load")


def lines(shape, box, dtype="float32", strides=None):
    """What a loop over the first dimension prefetches of a box of an array."""
    a = te.placeholder((4, *shape), dtype, name="A")
    axes = [te.reduce_axis((0, e), name=f"r{d}") for d, e in enumerate(box)]
    b = te.compute((4,), lambda i: te.sum(a(i, *axes), axis=axes), name="B")
    s = te.create_schedule(b.op)
    s[b].prefetch(a, b.op.axis[0], 1)
    text = str(driver.lower(s, [a, b]))
    times = [int(x.split("(")[-1].split(")")[0]) for x in text.splitlines() if _counts(x)]
    assert text.count("prefetch(") == 1, text
    return times


def _counts(line):
    return line.strip().startswith(("for row", "for line"))


@pytest.mark.parametrize(
    ("shape", "box", "dtype", "times"),
    [
        ((16,), (16,), "float32", []),
        ((17,), (17,), "float32", [2]),
        ((100,), (1,), "float32", []),
        ((100,), (64,), "float64", [9]),  # from any place on
        ((100,), (64,), "int8", [2]),
        ((100, 100), (3, 4), "float32", [3]),  # rows begin at a multiple of 16 bytes
        ((100, 102), (3, 4), "float32", [3, 2]),  # of 8
        ((40, 64), (5, 20), "float32", [5, 2]),  # rows far apart
        ((7, 7), (7, 7), "float32", [4]),  # 196 bytes without a gap
        ((8, 16), (8, 3), "float32", [8]),  # gaps of 52 bytes: a line in each row
        ((5, 4, 4), (5, 4, 2), "float32", [5]),  # gaps within a line
        ((3, 9, 64), (3, 9, 1), "float32", [3, 9]),
        ((400,), (400,), "float32", [25]),
    ],
)
def test_regions(shape, box, dtype, times):
    assert lines(shape, box, dtype) == times


def test_regions_of_several_reads_and_lanes():
    a = te.placeholder((70, 64), name="A")
    b = te.compute((64, 32), lambda i, j: a[i, j] + a[i + 2, j + 16], name="B")
    s = te.create_schedule(b.op)
    j = b.op.axis[1]
    jo, ji = s[b].split(j, factor=16)
    s[b].vectorize(ji)
    s[b].prefetch(a, jo, 1)  # rows i to i + 2, 32 columns
    loops, _ = texts(s, [a, b])
    assert "for row0 in unrolled(3):" in loops and "for line in unrolled(2):" in loops
    s[b].prefetch(a, ji, 32)  # all lanes at once, before the vectors
    loops, _ = texts(s, [a, b])
    assert loops.count("prefetch(") == 2 and "ramp" in loops


def test_a_loop_within_a_vectorised_one():
    s, a, b, k = column_sums(m=8)
    s[b].reorder(b.op.axis[0], k)
    s[b].vectorize(b.op.axis[0])
    s[b].prefetch(a, k, 2)
    loops, ll = texts(s, [a, b])
    assert "ramp" in loops and ll.count("call void @llvm.prefetch") == 1


def test_sizes_that_are_not_known():
    n, m = te.size_var("n"), te.size_var("m")
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    s[b].prefetch(a, b.op.axis[0], 1)
    loops = str(driver.lower(s, [a, b]))
    assert "for line in range((m + 15) // 16):" in loops
    f = whet.build(s, [a, b])
    for shape in ((5, 37), (1, 1), (3, 64)):
        x, out = np.random.default_rng(1).standard_normal(shape).astype("float32"), None
        out = np.full(shape[0], np.nan, "float32")
        f(x, out)
        np.testing.assert_allclose(out, x.sum(1, dtype="float64"), rtol=1e-5, atol=1e-5)


def test_in_a_parallel_loop():
    s, a, b, k = column_sums()
    i = b.op.axis[0]
    s[b].reorder(i, k)
    s[b].parallel(i)
    s[b].prefetch(a, i, 16)
    f = whet.build(s, [a, b])
    x = np.random.default_rng(2).standard_normal((67, 48)).astype("float32")
    out = np.full(48, np.nan, "float32")
    f(x, out)
    np.testing.assert_allclose(out, x.sum(0, dtype="float64"), rtol=1e-5, atol=1e-5)


def test_what_is_at_hand_is_not_prefetched():
    a = te.placeholder((8, 64), name="A")
    b = te.compute((8, 64), lambda i, j: a[i, j] * 2.0, name="B")
    c = te.compute((8, 64), lambda i, j: b[i, j] + 1.0, name="C")
    s = te.create_schedule(c.op)
    s[b].set_scope("local")
    s[c].prefetch(b, c.op.axis[0], 1)
    assert "prefetch" not in str(driver.lower(s, [a, c]))
    s = te.create_schedule(c.op)
    s[c].bind(c.op.axis[0], te.thread_axis("blockIdx.x"))
    s[b].compute_inline()
    s[c].prefetch(a, c.op.axis[1], 1)
    with Target("cuda -arch=sm_80"):
        assert "prefetch" not in str(driver.lower(s, [a, c]))


def test_what_cannot_be_prefetched():
    s, a, b, k = column_sums()
    other = te.placeholder((3,), name="X")
    i = b.op.axis[0]
    words = ("name=X) is not a tensor of this schedule", "B reads A")
    refused(s, lambda: s[b].prefetch(other, k, 1), *words)
    for what in (None, "A", 3, s[a]):
        refused(s, lambda what=what: s[b].prefetch(what, k, 1), "is not a tensor of this schedule")
    refused(s, lambda: s[b].prefetch(a, k, -1), "offset must be at least 0")
    refused(s, lambda: s[b].prefetch(a, k, 1.5), "offset must be an integer, not 1.5")
    refused(s, lambda: s[b].prefetch(a, k, te.size_var("n")), "offset must be an integer, not n")
    refused(s, lambda: s[a].prefetch(a, k, 1), "A is an input")
    s[b].prefetch(a, k, 1)
    refused(s, lambda: s[b].split(k, factor=2), "k is prefetching A already", "loops first")
    refused(s, lambda: s[b].prefetch(a, other.op.output(0), 1), "is not an axis of B")
    s[b].unroll(i)
    assert "prefetches A 1 ahead" in s.show().svg


def two():
    a = te.placeholder((8, 64), name="A")
    b = te.compute((8, 64), lambda i, j: a[i, j] * 2.0, name="B")
    c = te.compute((8, 64), lambda i, j: b[i, j] + 1.0, name="C")
    return te.create_schedule(c.op), a, b, c


def test_what_is_not_there_ahead():
    s, a, b, c = two()
    s[b].compute_inline()
    s[c].prefetch(b, c.op.axis[0], 1)
    with pytest.raises(LowerError, match=r"prefetch\(C, B, i, 1\): B is inlined(.|\n)*reads: A"):
        driver.lower(s, [a, c])
    s, a, b, c = two()
    s[b].compute_at(s[c], c.op.axis[1])
    s[c].prefetch(b, c.op.axis[0], 1)
    with pytest.raises(LowerError, match="B is computed in this loop, anew in each iteration"):
        driver.lower(s, [a, c])
    s, a, b, c = two()
    s[c].prefetch(a, c.op.axis[0], 1)
    with pytest.raises(LowerError, match="the loop i of C reads nothing of A"):
        driver.lower(s, [a, c])
    s, a, b, c = two()
    s[b].compute_at(s[c], c.op.axis[0])
    s[c].prefetch(a, c.op.axis[0], 1)  # a stage in the loop reads it
    assert "prefetch(" in str(driver.lower(s, [a, c]))


def test_data_do_not_say_where_ahead():
    a, t = te.placeholder((64,), name="A"), te.placeholder((8,), "int32", name="T")
    b = te.compute((8,), lambda i: a[t[i]], name="B")
    s = te.create_schedule(b.op)
    s[b].prefetch(t, b.op.axis[0], 2)
    assert "prefetch(" in str(driver.lower(s, [a, t, b]))
    s[b].prefetch(a, b.op.axis[0], 2)
    with pytest.raises(LowerError, match=r"prefetch what i reads of A: index 0 depends on data"):
        driver.lower(s, [a, t, b])


@pytest.mark.parametrize("hints", [(2, 3, 1), (0, 4, 1), (0, 3), (0, 3, "x")])
def test_hints_that_are_none(hints):
    a = te.placeholder((8,), name="A")

    def statement(ins, outs):
        call = tir.call_intrin("int32", "tir.prefetch", ins[0].access_ptr("r"), *hints)
        return tir.Evaluate(call)

    b = te.extern((8,), [a], statement, name="B", dtype="float32")
    with pytest.raises(whet.CodegenError, match="a locality from 0 to 3"):
        driver.build(te.create_schedule(b.op), [a, b], target=Target("llvm"))


def panels(n=40, m=96, k=50, width=32, rows=8, spread=True):
    """A matmul of packed panels, the next one fetched while tiles of one are computed."""
    a, p = te.placeholder((n, k), name="A"), te.placeholder((m // width, k, width), name="P")
    r = te.reduce_axis((0, k), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * p[j // width, r, j % width], r), name="C")
    s = te.create_schedule(c.op)
    local = s.cache_write(c, "local")
    io, jo, ii, ji = s[c].tile(*c.op.axis, rows, width)
    s[c].reorder(jo, io, ii, ji)
    s[local].compute_at(s[c], io)
    (x, y), (z,) = s[local].op.axis, s[local].op.reduce_axis
    s[local].reorder(z, x, y)
    s[local].unroll(x)
    s[local].vectorize(y)
    if spread:
        s[c].prefetch(p, jo, 1, spread=True)
    return s, [a, p, c]


def number(expr, values):
    """The value of an expression at some values of loop variables."""
    places = {v: tir.const(i, v.dtype) for v, i in values.items()}
    return int(Analyzer().simplify(tir.stmt_functor.substitute(expr, places)))


def fetched(n, values=None):
    """The addresses of all prefetches, in elements, as loops come to them."""
    values = values or {}
    if isinstance(n, tir.SeqStmt):
        return [p for x in n.seq for p in fetched(x, values)]
    if isinstance(n, tir.For):
        steps = range(number(n.extent, values))
        return [p for i in steps for p in fetched(n.body, {**values, n.loop_var: i})]
    if isinstance(n, tir.Evaluate) and "prefetch" in str(n):
        (index,) = n.value.args[0].args[0].indices
        return [number(index, values)]
    return fetched(n.body, values) if hasattr(n, "body") else []


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("sizes", [(40, 96, 50), (8, 64, 3), (37, 32, 1), (9, 160, 129)])
def test_spread_over_the_loops_within(target, sizes):
    n, m, k = sizes
    s, args = panels(*sizes)
    replays(s, args)
    f = driver.build(s, args, target=Target(target))
    rng = np.random.default_rng(n)
    x, y = (rng.standard_normal(d).astype("float32") for d in ((n, k), (m // 32, k, 32)))
    out = np.full((n, m), np.nan, "float32")
    f(x, y, out)
    wanted = x.astype("float64") @ y.transpose(1, 0, 2).reshape(k, m).astype("float64")
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("sizes", [(40, 96, 50), (8, 64, 3), (41, 64, 129), (8, 96, 64)])
def test_each_line_of_the_next_panel_is_fetched_evenly(sizes):
    n, m, k = sizes
    s, args = panels(*sizes)
    places = fetched(driver.lower(s, args)["main"].body)
    tiles, count, panel = -(-n // 8), m // 32, k * 32
    each = len(places) // count
    for j in range(count):
        part = places[j * each : (j + 1) * each]
        lines = {p // 16 for p in part}
        assert lines >= set(range((j + 1) * panel // 16, (j + 2) * panel // 16))
        assert max(part) < (j + 2) * panel + 2 * tiles * k  # little beyond
        assert part == sorted(part)
    most = -(-panel // (tiles * k * 16))
    assert each == tiles * k * most


def test_a_region_in_pieces_is_fetched_at_once():
    a = te.placeholder((64, 100), name="A")
    k = te.reduce_axis((0, 64), name="k")
    b = te.compute((100,), lambda j: te.sum(a[k, j], axis=k), name="B")
    s = te.create_schedule(b.op)
    jo, _ = s[b].split(b.op.axis[0], 16)
    s[b].prefetch(a, jo, 1, spread=True)
    loops = str(driver.lower(s, [a, b]))
    assert "for row0 in range(64):" in loops and loops.count("prefetch(") == 1


def test_what_is_spread_goes_past_the_first_cache():
    s, args = panels()
    _, ll = texts(s, args)
    assert "i32 0, i32 2, i32 1)" in ll and "i32 0, i32 3, i32 1)" not in ll
    assert "prefetch" not in str(driver.lower(*panels(spread=False))).split("for k in")[1]


def test_a_device_does_without_what_is_spread():
    s, args = panels()
    with Target("cuda -arch=sm_80"):
        assert "prefetch(" not in str(driver.lower(s, args))
