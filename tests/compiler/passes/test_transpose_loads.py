"""TransposeLoads, InterleaveLanes: strided accesses of steps that are neighbours, in registers."""

import numpy as np
import pytest
from guarded import guarded

from whet.compiler import te
from whet.compiler.driver import build, lower
from whet.compiler.target import Target
from whet.compiler.target.machine import host

WIDE = [t for t in ("+avx512f,+avx512vl", "+avx2,+fma", "+sse4.2") if
        all(f[1:] in host.features() for f in t.split(","))]  # fmt: skip
BYTES = {"+avx512f,+avx512vl": 64, "+avx2,+fma": 32, "+sse4.2": 16}


def turned(n, m, dtype, square, element=None, guard=False):
    """C (n, m) of A (m, n) in squares, the rows of a square unrolled."""
    A = te.placeholder((m - 3 if guard else m, n), dtype, name="A")
    element = element or (lambda A, i, j: A[j, i])
    if guard:
        made = lambda i, j: te.if_then_else(j < m - 3, A[j, i], te.const(0, dtype))  # noqa: E731
    else:
        made = lambda i, j: element(A, i, j)  # noqa: E731
    C = te.compute((n, m), made, name="C")
    s = te.create_schedule(C.op)
    i, j = C.op.axis
    io, ii = s[C].split(i, factor=square)
    jo, ji = s[C].split(j, factor=square)
    s[C].reorder(io, jo, ii, ji)
    s[C].unroll(ii)
    s[C].vectorize(ji)
    return s, [A, C]


@pytest.mark.parametrize("features", WIDE)
@pytest.mark.parametrize("dtype", ["float32", "int32", "float64"])
@pytest.mark.parametrize("shape", [(16, 32), (48, 16), (21, 33)])
def test_numbers_at_every_width(features, dtype, shape):
    square = BYTES[features] // np.dtype(dtype).itemsize
    target = Target(f"llvm -mcpu=x86-64 -mattr={features}")
    schedule, args = turned(*shape, dtype, square)
    if shape == (16, 32) and square >= 4:
        with target:
            assert "shuffle" in str(lower(schedule, args))
    kernel = build(schedule, args, target)
    a = np.random.default_rng(0).integers(-99, 99, shape[::-1]).astype(dtype)
    c = np.full(shape, 77, dtype)
    kernel(a, c)
    np.testing.assert_array_equal(c, a.T)


def test_two_squares_in_one_expression():
    schedule, args = turned(
        16, 16, "float32", 8, lambda A, i, j: A[j, i] * 2.0 + A[j, i] * A[i, j] + A[j, 15 - i]
    )
    kernel = build(schedule, args)
    a = np.random.default_rng(1).standard_normal((16, 16)).astype("float32")
    c = np.full((16, 16), np.nan, "float32")
    kernel(a, c)
    np.testing.assert_allclose(c, a.T * 2 + a.T * a + a.T[::-1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", [13, 17, 30, 31])
def test_rows_that_an_edge_clamps(dtype, rows, seeds):
    """The last square reads rows that are clamped, once each, and transposes them like others."""
    clamped = lambda A, i, j: A[te.min(j, rows - 1), i]  # noqa: E731
    A = te.placeholder((rows, 24), dtype, name="A")
    C = te.compute((24, 32), lambda i, j: clamped(A, i, j), name="C")
    s = te.create_schedule(C.op)
    i, j = C.op.axis
    io, ii = s[C].split(i, factor=4)
    jo, ji = s[C].split(j, factor=4)
    s[C].reorder(jo, io, ii, ji)
    s[C].unroll(ii)
    s[C].vectorize(ji)
    with Target("llvm -mcpu=x86-64-v2"):
        text = str(lower(s, [A, C]))
    for line in text.splitlines():  # no lane is clamped by itself
        assert not ("A[" in line and "min(broadcast" in line), line
    kernel = build(s, [A, C], Target("llvm"))
    rng = np.random.default_rng(seeds(1)[0])
    a, c = rng.integers(-99, 99, (rows, 24)).astype(dtype), np.full((24, 32), 77, dtype)
    kernel(a, c)
    np.testing.assert_array_equal(c, a[np.minimum(np.arange(32), rows - 1)].T)


@pytest.mark.parametrize(
    "element",
    [
        lambda A, i, j: A[j, i // 2],  # neighbours in pairs
        lambda A, i, j: A[j, 15 - i],  # neighbours the other way round
        lambda A, i, j: A[i, j],  # rows as they are
    ],
)
def test_what_is_no_square_stays(element):
    schedule, args = turned(16, 16, "float32", 8, element)
    with Target("llvm"):
        assert "shuffle" not in str(lower(schedule, args))


def test_what_a_condition_guards_stays():
    schedule, args = turned(16, 16, "float32", 8, guard=True)
    with Target("llvm"):
        assert "shuffle" not in str(lower(schedule, args))
    kernel = build(schedule, args)
    a = np.random.default_rng(2).standard_normal((13, 16)).astype("float32")
    c = np.full((16, 16), np.nan, "float32")
    kernel(a, c)
    np.testing.assert_array_equal(c, np.pad(a.T, ((0, 0), (0, 3))))


def test_the_c_target_does_not_turn():
    schedule, args = turned(16, 16, "float32", 8)
    with Target("c"):
        assert "shuffle" not in str(lower(schedule, args))


@pytest.mark.parametrize(
    ("shape", "element"),
    [
        ((2, 16, 4), lambda A, v, k: A[v // 4, k, v % 4]),  # channels in blocks: v is not linear
        ((16, 16), lambda A, v, k: A[k, v + te.min(v, 5)]),
        ((4, 16, 2), lambda A, v, k: A[3 - v // 2, k, v % 2]),
    ],
)
def test_steps_that_are_no_neighbours_are_read_one_by_one(shape, element):
    A = te.placeholder(shape, name="A")
    C = te.compute((8, 16), lambda v, k: element(A, v, k), name="C")
    s = te.create_schedule(C.op)
    v, k = C.op.axis
    ko, ki = s[C].split(k, factor=8)
    s[C].reorder(ko, v, ki)
    s[C].unroll(v)
    s[C].vectorize(ki)
    a = np.random.default_rng(3).standard_normal(shape).astype("float32")
    c = np.full((8, 16), np.nan, "float32")
    build(s, [A, C])(a, c)
    blocks = shape[0] if len(shape) == 3 else 0
    if not blocks:
        right = [[a[k, v + min(v, 5)] for k in range(16)] for v in range(8)]
    elif blocks == 2:
        right = [[a[v // 4, k, v % 4] for k in range(16)] for v in range(8)]
    else:
        right = [[a[3 - v // 2, k, v % 2] for k in range(16)] for v in range(8)]
    np.testing.assert_array_equal(c, np.array(right))


# InterleaveLanes: steps that share a range of memory read and write whole vectors of it

LEVELS = {"x86-64-v2": 16, "x86-64-v3": 32, "x86-64-v4": 64}
levels = pytest.mark.parametrize(
    "level", [n for n, size in LEVELS.items() if size <= Target("llvm").vector_bytes]
)
DTYPES = ("float32", "float64", "int32", "int8", "float16")


def scheduled(C, channel, factor):
    """The steps of a channel unrolled outside of the lanes of the other axis."""
    s = te.create_schedule(C.op)
    place = next(a for a in C.op.axis if a is not channel)
    outer, lane = s[C].split(place, factor=factor, tail="shift")
    s[C].reorder(outer, channel, lane)
    s[C].unroll(channel)
    s[C].vectorize(lane)
    return s


def apart(n, count, dtype, element=lambda A, i, c: A[i, c]):
    A = te.placeholder((n, count), dtype, name="A")
    C = te.compute((count, n), lambda c, i: element(A, i, c), name="C")
    return [A, C], C.op.axis[0]


def together(n, count, dtype):
    A = te.placeholder((count, n), dtype, name="A")
    C = te.compute((n, count), lambda i, c: A[c, i], name="C")
    return [A, C], C.op.axis[1]


@levels
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("form", [apart, together])
@pytest.mark.parametrize("n", [32, 45])
def test_whole_vectors_at_every_width(n, form, count, dtype, level):
    args, channel = form(n, count, dtype)
    lanes = min(LEVELS[level] // np.dtype(dtype).itemsize, n)
    if lanes & (lanes - 1):
        lanes = 32
    schedule, target = scheduled(args[1], channel, lanes), Target(f"llvm -mcpu={level}")
    with target:
        text = str(lower(schedule, args))
    assert "shuffle" in text and f", {count}, {lanes})" not in text
    kernel = build(schedule, args, target)
    shape = [int(d) for d in args[0].shape]
    x = np.random.default_rng().integers(-99, 99, shape).astype(dtype)
    for at_end in (True, False):
        out = np.full(shape[::-1], 77, dtype)
        kernel(guarded(x, at_end), out)
        np.testing.assert_array_equal(out, x.T)


def test_the_steps_of_a_sum_read_shared_vectors():
    def grey(A, i, c):
        return A[i, c] * 2.0 + A[i, 2 - c]

    args, channel = apart(40, 3, "float32", grey)
    kernel = build(scheduled(args[1], channel, 8), args, "llvm")
    x = np.random.default_rng().standard_normal((40, 3)).astype("float32")
    out = np.full((3, 40), np.nan, "float32")
    kernel(x, out)
    np.testing.assert_allclose(out, (x * 2 + x[:, ::-1]).T, rtol=1e-6)


def test_fewer_steps_than_lanes_are_apart_stay():
    """Reads of two of three channels end within the buffer; a whole range would not."""
    A = te.placeholder((40, 3), name="A")
    C = te.compute((2, 40), lambda c, i: A[i, c], name="C")
    with Target("llvm -mcpu=x86-64-v3"):
        text = str(lower(scheduled(C, C.op.axis[0], 8), [A, C]))
    assert "shuffle" not in text
