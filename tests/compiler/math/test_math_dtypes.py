"""Every data type: conversions among all, arithmetic, comparisons, sums; against numpy."""

import ml_dtypes
import numpy as np
import pytest
from guarded import guarded

from whet.compiler import driver, te

N = 77  # full vectors and a tail of several sizes
INTEGERS = [f"{s}int{b}" for b in (8, 16, 32, 64) for s in ("", "u")]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
ALL = [*FLOATS, *INTEGERS, "bool"]


def kind(dtype):
    return np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def values(dtype, rng, n=N):
    """Numbers of the whole range; floats of many sizes, and each kind of zero and infinity."""
    if dtype == "bool":
        return rng.integers(0, 2, n).astype(bool)
    if dtype in FLOATS:
        x = rng.standard_normal(n) * 10.0 ** rng.integers(-3, 4, n)
        x[:4] = 0.0, -0.0, np.inf, -np.inf
        return x.astype(kind(dtype))
    info = np.iinfo(dtype)
    x = rng.integers(info.min, info.max, n, dtype, endpoint=True)
    x[:3] = info.min, info.max, 0
    x[3 : n // 2] = rng.integers(max(info.min, -9), 10, n // 2 - 3)
    return x


def compute_all(bodies, *arrays, lanes=True, target="llvm"):
    """The result of each ``body(*elements)``, in one kernel; vectorised with a tail, or scalar."""
    n = len(arrays[0])
    given = [te.placeholder((n,), str(a.dtype), name=f"A{k}") for k, a in enumerate(arrays)]

    def stage(body):
        return te.compute((n,), lambda i: body(*(t[i] for t in given)), name="B")

    outs = [stage(body) for body in bodies]
    s = te.create_schedule([out.op for out in outs])
    for out in outs if lanes else ():
        _, inner = s[out].split(out.op.axis[0], factor=32)
        s[out].vectorize(inner)
    results = [np.full(n, 1).astype(kind(out.dtype)) for out in outs]
    driver.build(s, [*given, *outs], target)(*arrays, *results)
    return results


def compute(body, *arrays, **options):
    return compute_all([body], *arrays, **options)[0]


def same(got, want):
    assert got.dtype == want.dtype
    if got.dtype == kind("bfloat16"):
        got, want = got.astype("float32"), want.astype("float32")
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("source", ALL)
def test_conversions(source):
    """To every type; a float to an integer that holds it."""
    rng = np.random.default_rng()
    groups = [[*FLOATS, "bool"], [i for i in INTEGERS if i[0] == "i"], INTEGERS[1::2]]
    for targets, low in zip(groups, (None, -100, 0)):
        x = values(source, rng)
        if source in FLOATS and low is not None:
            x = rng.uniform(low, 100, N).astype(kind(source))
        casts = [lambda v, to=to: v.astype(to) for to in targets]
        vectors = compute_all(casts, x)
        scalars = compute_all(casts, x, lanes=False)
        for to, one, other in zip(targets, vectors, scalars):
            with np.errstate(all="ignore"):
                middle = x.astype("float32") if to == "bfloat16" and source in INTEGERS else x
                want = middle.astype(kind(to))
            same(one, want)
            same(other, want)


@pytest.mark.parametrize("to", ["float16", "bfloat16"])
def test_float64_is_rounded_once(to):
    """Numbers next to a tie, which a detour over float32 would round to the tie first."""
    rng = np.random.default_rng(4)
    narrow = rng.standard_normal(200).astype(kind(to))
    step = np.spacing(narrow.astype("float32")) * 2.0 ** (13 if to == "float16" else 16)
    ties = narrow.astype("float64") + step / 2
    x = np.concatenate([ties, ties * (1 + 2e-15), ties * (1 - 2e-15), [1e-30, 1e30, -1e-9, np.nan]])
    got = compute(lambda v: v.astype(to), x).astype("float64")
    with np.errstate(over="ignore"):
        exact = x.astype("float16") if to == "float16" else _nearest(x)
    np.testing.assert_array_equal(got, exact)


def _nearest(x):
    """float64 as the nearest bfloat16, halves to even, by its own arithmetic."""
    mantissa, exponent = np.frexp(x)
    return np.ldexp(np.rint(np.ldexp(mantissa, 8)), exponent - 8)


OPERATIONS = {
    "add": (lambda a, b: a + b, np.add),
    "sub": (lambda a, b: a - b, np.subtract),
    "mul": (lambda a, b: a * b, np.multiply),
    "max": (te.max, lambda a, b: np.where(a > b, a, b)),
    "min": (te.min, lambda a, b: np.where(a < b, a, b)),
    "lt": (lambda a, b: a < b, np.less),
    "ge": (lambda a, b: a >= b, np.greater_equal),
    "ne": (lambda a, b: a != b, np.not_equal),
}


@pytest.mark.parametrize("dtype", [d for d in ALL if d != "bool"])
def test_operations(dtype):
    rng = np.random.default_rng()
    a, b = values(dtype, rng), rng.permutation(values(dtype, rng))
    b[10:20] = a[10:20]
    found = compute_all([ours for ours, _ in OPERATIONS.values()], a, b)
    for got, (_, reference) in zip(found, OPERATIONS.values()):
        with np.errstate(all="ignore"):
            same(got, reference(a, b))


@pytest.mark.parametrize("dtype", FLOATS)
def test_float_division(dtype):
    rng = np.random.default_rng()
    a, b = values(dtype, rng), values(dtype, rng)
    with np.errstate(all="ignore"):
        same(compute(lambda x, y: x / y, a, b), a / b)
    b = np.abs(b) + kind(dtype).type(1)
    a[2:4] = 1
    got = compute(te.truncmod, a, b).astype("float64")
    want = np.fmod(a.astype("float64"), b.astype("float64")).astype(kind(dtype))
    np.testing.assert_array_equal(got, want.astype("float64"))


def test_bfloat16_rounds_each_operation():
    rng = np.random.default_rng()
    a, b, c = (rng.standard_normal(N).astype(kind("bfloat16")) for _ in range(3))
    same(compute(lambda x, y, z: x * y + z, a, b, c), a * b + c)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_sums_of_narrow_floats(dtype):
    """Each addition is rounded; a wider accumulator is asked for with a cast."""
    rng = np.random.default_rng()
    x = rng.uniform(0, 1, (6, 33)).astype(kind(dtype))
    a = te.placeholder(x.shape, dtype, name="A")
    k = te.reduce_axis((0, 33), name="k")
    b = te.compute((6,), lambda i: te.sum(a[i, k], axis=k), name="B")
    wide = te.compute((6,), lambda i: te.sum(a[i, k].astype("float32"), axis=k), name="W")
    top = te.compute((6,), lambda i: te.max(a[i, k], axis=k), name="T")
    s = te.create_schedule([b.op, wide.op, top.op])
    s[top].vectorize(top.op.axis[0])
    out = np.zeros(6, kind(dtype)), np.zeros(6, "f4"), np.zeros(6, kind(dtype))
    driver.build(s, [a, b, wide, top])(x, *out)
    want = np.zeros(6, kind(dtype))
    for j in range(33):
        want = want + x[:, j]
    same(out[0], want)
    np.testing.assert_allclose(out[1], x.astype("f8").sum(1), rtol=1e-6)
    same(out[2], x.max(1))


def test_bfloat16_constants_and_selection():
    x = np.linspace(-3, 3, N).astype(kind("bfloat16"))
    got = compute(lambda v: te.if_then_else(v > 0.5, v, te.const(0.3, "bfloat16")), x)
    same(got, np.where(x > 0.5, x, kind("bfloat16").type(0.3)))
    same(compute(lambda v: te.abs(v), x), np.abs(x))


def test_bfloat16_with_a_stride_and_a_guard():
    """Gathers, masked vectors and a tail that does not divide."""
    x = np.arange(150).astype(kind("bfloat16"))
    a = te.placeholder((150,), "bfloat16", name="A")
    b = te.compute((75,), lambda i: a[i * 2] + a[149 - i], name="B")
    s = te.create_schedule(b.op)
    _, inner = s[b].split(b.op.axis[0], factor=16)
    s[b].vectorize(inner)
    out = np.zeros(75, kind("bfloat16"))
    driver.build(s, [a, b])(x, out)
    same(out, x[::2] + x[:74:-1])


@pytest.mark.parametrize("lanes", [True, False])
def test_float16_without_its_instructions(lanes):
    """Every float16 widened, and floats around every step of it rounded, on a plain x86-64."""
    bits = np.arange(1 << 16).astype("uint16")
    bits = bits[: len(bits) - 3]
    x = bits.view("float16")
    target = "llvm -mcpu=x86-64"
    wide = compute(lambda v: v.astype("float32"), x, lanes=lanes, target=target)
    np.testing.assert_array_equal(wide, x.astype("float32"))
    rng = np.random.default_rng()
    steps = rng.choice([0, 1, 2, 3, 4095, 4096, 4097, 8191], len(wide)).astype("int32")
    near = (wide.view("int32") + steps).view("float32")
    with np.errstate(over="ignore"):
        want = near.astype("float16")
    got = compute(lambda v: v.astype("float16"), near, lanes=lanes, target=target)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


# integer division


def _truncated(a, b):
    """a / b rounded towards zero, 0 for b = 0, wrapped."""
    info = np.iinfo(a.dtype)
    out = []
    for p, q in zip(a.tolist(), b.tolist()):
        size = abs(p) // abs(q) if q else 0
        signed = size if (p < 0) == (q < 0) else -size
        out.append(info.min if signed > info.max else signed)
    return np.array(out, a.dtype)


DIVISIONS = {
    "floordiv": (te.floordiv, np.floor_divide),
    "floormod": (te.floormod, np.remainder),
    "truncdiv": (te.truncdiv, _truncated),
    "truncmod": (te.truncmod, np.fmod),
}


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_division_never_traps(dtype):
    """By zero, and the smallest number by -1: as in numpy, 0 and wrapped."""
    rng = np.random.default_rng()
    a, b = values(dtype, rng), rng.permutation(values(dtype, rng))
    info = np.iinfo(dtype)
    a[:6] = info.min, info.min, info.max, 0, 7, info.min
    b[:6] = info.max, 0, 0, 0, 3, 0 if info.min == 0 else -1
    for lanes in (True, False):
        found = compute_all([ours for ours, _ in DIVISIONS.values()], a, b, lanes=lanes)
        for got, (name, (_, reference)) in zip(found, DIVISIONS.items()):
            with np.errstate(all="ignore"):
                want = reference(a, b)
            np.testing.assert_array_equal(got, want, err_msg=f"{name} {dtype}")


@pytest.mark.parametrize("divisor", [1, 2, 7, 8, -1, -3])
def test_division_by_a_constant(divisor):
    x = np.random.default_rng().integers(-(2**31), 2**31, N).astype("int32")
    x[0] = -(2**31)
    for name in ("floordiv", "floormod", "truncmod"):
        function, reference = DIVISIONS[name]
        with np.errstate(all="ignore"):
            want = reference(x, np.int32(divisor))
        np.testing.assert_array_equal(compute(lambda v, f=function: f(v, divisor), x), want, name)


# order


def test_maximum_and_nan():
    """The second operand where either is NaN."""
    a = np.array([1, np.nan, 2, np.nan], "f4")
    b = np.array([np.nan, 1, 3, np.nan], "f4")
    np.testing.assert_array_equal(compute(te.max, a, b), [np.nan, 1, 3, np.nan])
    np.testing.assert_array_equal(compute(te.min, a, b), [np.nan, 1, 2, np.nan])


# conditions that guard reads


def run(lanes, body, x, n=N):
    """``body(a, i)`` for i < n, where n may be more than ``a`` has."""
    a = te.placeholder((len(x),), str(x.dtype), name="A")
    b = te.compute((n,), lambda i: body(a, i), name="B")
    s = te.create_schedule(b.op)
    if lanes:
        _, inner = s[b].split(b.op.axis[0], factor=16)
        s[b].vectorize(inner)
    out = np.full(n, 3).astype(kind(b.dtype))
    driver.build(s, [a, b])(x, out)
    return out


@pytest.mark.parametrize("lanes", [True, False])
def test_the_left_side_guards_what_the_right_side_reads(lanes):
    """Behind the array is a page whose touch is a crash; so is most of what is far from it."""
    x = guarded(np.random.default_rng(0).standard_normal(40).astype("f4"))
    inside = np.arange(N) < 40
    positive = np.concatenate([x, np.ones(N - 40)]) > 0
    got = run(lanes, lambda a, i: te.all(i < 40, a[i] > 0), x)
    np.testing.assert_array_equal(got, inside & positive)
    got = run(lanes, lambda a, i: te.any(i >= 40, a[i] > 0), x)
    np.testing.assert_array_equal(got, ~inside | positive)
    got = run(lanes, lambda a, i: te.all(i < 1, a[i * 1_000_000] > 0), x)
    np.testing.assert_array_equal(got, (np.arange(N) < 1) & (x[0] > 0))


@pytest.mark.parametrize("lanes", [True, False])
def test_both_branches_of_if_then_else_read(lanes):
    x = np.random.default_rng(0).standard_normal(40).astype("f4")
    got = run(lanes, lambda a, i: te.if_then_else(i < 40, a[i], a[N - 1 - i]), x)
    np.testing.assert_array_equal(got, np.concatenate([x, x[:37][::-1]]))
