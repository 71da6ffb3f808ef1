"""Every mathematical function of te against numpy, in every float type; constants; integers."""

import math

import ml_dtypes
import numpy as np
import pytest

from whet.compiler import driver, te
from whet.compiler.errors import ArgumentError, CodegenError
from whet.compiler.tir import expr as e

FLOATS = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float32": np.float32,
    "float64": np.float64,
}
# how far a result may be off, as a multiple of the type's spacing at 1
SPACING = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}

_erf = np.vectorize(math.erf, otypes=["float64"])


def _half_away(x):
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


# name -> float64 reference, lowest and highest argument
UNARY = {
    "exp": (np.exp, -8, 8),
    "exp2": (np.exp2, -8, 8),
    "exp10": (lambda x: np.power(10.0, x), -4, 4),
    "expm1": (np.expm1, -4, 4),
    "log": (np.log, 0.1, 90),
    "log2": (np.log2, 0.1, 90),
    "log10": (np.log10, 0.1, 90),
    "log1p": (np.log1p, -0.5, 90),
    "sqrt": (np.sqrt, 0, 90),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 0.1, 90),
    "sin": (np.sin, -9, 9),
    "cos": (np.cos, -9, 9),
    "tan": (np.tan, -1.4, 1.4),
    "sinh": (np.sinh, -4, 4),
    "cosh": (np.cosh, -4, 4),
    "tanh": (np.tanh, -4, 4),
    "asin": (np.arcsin, -1, 1),
    "acos": (np.arccos, -1, 1),
    "atan": (np.arctan, -9, 9),
    "asinh": (np.arcsinh, -9, 9),
    "acosh": (np.arccosh, 1, 9),
    "atanh": (np.arctanh, -0.9, 0.9),
    "erf": (_erf, -4, 4),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), -9, 9),
    "floor": (np.floor, -9, 9),
    "ceil": (np.ceil, -9, 9),
    "trunc": (np.trunc, -9, 9),
    "round": (_half_away, -9, 9),
    "nearbyint": (np.rint, -9, 9),
    "abs": (np.abs, -9, 9),
}
BINARY = {
    "power": (np.power, 0.1, 4),
    "fmod": (np.fmod, 0.5, 9),
    "atan2": (np.arctan2, -9, 9),
    "hypot": (np.hypot, -9, 9),
    "copysign": (np.copysign, -9, 9),
}


def compute(body, *arrays, lanes=True, target="llvm"):
    """One-dimensional ``body(*tensors)(i)`` of numpy arrays, vectorised with a tail or scalar."""
    n = len(arrays[0])
    given = [te.placeholder((n,), str(a.dtype), name=f"A{k}") for k, a in enumerate(arrays)]
    out = te.compute((n,), lambda i: body(*(t[i] for t in given)), name="B")
    s = te.create_schedule(out.op)
    if lanes:
        _, inner = s[out].split(out.op.axis[0], factor=32)
        s[out].vectorize(inner)
    result = np.full(n, 77).astype(out.dtype if out.dtype != "bfloat16" else ml_dtypes.bfloat16)
    driver.build(s, [*given, out], target)(*arrays, result)
    return result


def close(got, want, dtype, digits=4):
    want = np.asarray(want, "float64")
    unit = SPACING[dtype] * np.maximum(np.abs(want), 1e-3)
    assert np.all(np.abs(got.astype("float64") - want) <= digits * unit), dtype


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    reference, low, high = UNARY[name]
    rng = np.random.default_rng()
    for dtype, kind in FLOATS.items():
        x = rng.uniform(low, high, 45).astype(kind)
        got = compute(getattr(te, name), x)
        want = reference(np.clip(x.astype("float64"), low, high))
        close(got, want, dtype)
        if dtype == "float32":
            np.testing.assert_array_equal(compute(getattr(te, name), x, lanes=False), got)


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    reference, low, high = BINARY[name]
    rng = np.random.default_rng()
    for dtype, kind in FLOATS.items():
        x, y = rng.uniform(low, high, (2, 45)).astype(kind)
        got = compute(getattr(te, name), x, y)
        close(got, reference(x.astype("float64"), y.astype("float64")), dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_round_once(dtype):
    """Half a unit of the last place and what float32 is off: the nearest but for near ties."""
    kind = FLOATS[dtype]
    x = np.random.default_rng(3).uniform(-6, 6, 500).astype(kind)
    for name in ("exp", "tanh", "sigmoid", "erf", "sin"):
        got = compute(getattr(te, name), x)
        np.testing.assert_array_equal(got, UNARY[name][0](x.astype("float64")).astype(kind))


HALVES = np.array([-2.5, -1.5, -0.5, -0.0, 0.0, 0.5, 1.5, 2.5, 3.5, 0.49999997, 8388609.0], "f4")


def test_round_is_away_from_zero_and_nearbyint_to_even():
    got = compute(te.round, HALVES)
    np.testing.assert_array_equal(got, [-3, -2, -1, 0, 0, 1, 2, 3, 4, 0, 8388609])
    np.testing.assert_array_equal(np.signbit(got[:5]), [1, 1, 1, 1, 0])
    np.testing.assert_array_equal(compute(te.nearbyint, HALVES), np.rint(HALVES))
    for x in (-2.5, -1.5, 1.5, 2.5):
        assert te.nearbyint(te.const(x)).value == np.rint(x)


@pytest.mark.parametrize("dtype", list(FLOATS))
def test_classes_of_numbers(dtype):
    x = np.array([0, -1, np.inf, -np.inf, np.nan, 1, 2, 3, 4], FLOATS[dtype])
    wide = x.astype("float64")
    for name in ("isnan", "isinf", "isfinite"):
        got = compute(getattr(te, name), x)
        assert got.dtype == bool
        np.testing.assert_array_equal(got, getattr(np, name)(wide))


def test_pow_has_the_rules_of_c():
    special = [0.0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, np.inf, -np.inf, np.nan, 1e-45, 16777217]
    x, y = (v.ravel().astype("f4") for v in np.meshgrid(special, special))
    got = compute(te.power, x, y)
    with np.errstate(all="ignore"):
        want = np.power(x.astype("f8"), y.astype("f8")).astype("f4")
    np.testing.assert_array_equal(got, want)
    number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got)[number], np.signbit(want)[number])


def test_pow_within_1_ulp():
    import math_reference as ref

    rng = np.random.default_rng(8)
    x = np.exp(rng.uniform(-80, 80, 100_000)).astype("f4")
    y = rng.uniform(-4, 4, 100_000).astype("f4")
    x[::2], y[::2] = rng.uniform(0.5, 2, 50_000), rng.uniform(-150, 150, 50_000)
    with np.errstate(all="ignore"):
        want = np.power(x.astype("f8"), y.astype("f8"))
    assert ref.errors(compute(te.power, x, y), want).max() <= 1


def test_square_is_a_product():
    a = te.placeholder((4,), "float32", name="A")
    assert isinstance(te.power(a[0], 2), e.Mul)
    assert te.power(a[0], 1.0).dtype == "float32"
    x = np.random.default_rng(1).standard_normal(37).astype("f4")
    np.testing.assert_array_equal(compute(lambda v: te.power(v, 2), x), x * x)


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_large_angles(name):
    """Beyond the fast reduction, in some lanes only."""
    rng = np.random.default_rng(2)
    x = rng.uniform(-100, 100, 77).astype("f4")
    x[5], x[40], x[70] = 1e6, -3e20, 3.4e38
    close(compute(getattr(te, name), x), getattr(np, name)(x.astype("f8")), "float32")
    assert np.isnan(compute(getattr(te, name), x * np.float32(np.inf))).all()


def test_functions_of_integers():
    x = np.arange(-20, 21, dtype="int32")
    for name in ("floor", "ceil", "trunc", "round", "nearbyint"):
        got = compute(getattr(te, name), x)
        assert got.dtype == np.int32
        np.testing.assert_array_equal(got, x)
    np.testing.assert_array_equal(compute(te.abs, x), np.abs(x))
    small = np.array([-128, -127, -1, 0, 5], "int8")
    np.testing.assert_array_equal(compute(te.abs, small), np.abs(small))
    close(compute(te.tanh, x), np.tanh(x), "float32")
    for name, value in (("isnan", False), ("isinf", False), ("isfinite", True)):
        np.testing.assert_array_equal(compute(getattr(te, name), x), value)


@pytest.mark.parametrize("dtype", [f"{s}int{b}" for b in (8, 16, 32, 64) for s in ("", "u")])
def test_bits(dtype):
    bits = np.dtype(dtype).itemsize * 8
    info = np.iinfo(dtype)
    x = np.random.default_rng().integers(info.min, info.max, 45, dtype, endpoint=True)
    x[:2] = 0, info.max
    masked = [int(v) & ((1 << bits) - 1) for v in x]
    got = compute(te.popcount, x)
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(got, [v.bit_count() for v in masked])
    got = compute(te.clz, x)
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, [bits - v.bit_length() for v in masked])


def test_ldexp_and_nextafter():
    rng = np.random.default_rng()
    x, n = rng.standard_normal(37).astype("f4"), rng.integers(-140, 120, 37).astype("int32")
    np.testing.assert_array_equal(compute(te.ldexp, x, n), np.ldexp(x, n))
    y = rng.standard_normal(37).astype("f4")
    np.testing.assert_array_equal(compute(te.nextafter, x, y), np.nextafter(x, y))


def test_constants_are_computed_at_once():
    assert isinstance(te.exp(1.0), e.FloatImm)
    assert te.exp(1.0).value == math.e
    assert te.sqrt(2).dtype == "float32"
    assert te.power(2.0, 10).value == 1024
    assert te.floor(te.const(-1.5)).value == -2


@pytest.mark.parametrize(
    "name, x, want",
    [
        ("log", 0.0, -np.inf),
        ("log", -1.0, np.nan),
        ("exp", 1e9, np.inf),
        ("sqrt", -1.0, np.nan),
        ("rsqrt", 0.0, np.inf),
        ("floor", math.inf, np.inf),
        ("nearbyint", math.nan, np.nan),
        ("sin", math.inf, np.nan),
        ("round", -0.5, -1.0),
        ("exp", -200.0, 0.0),
    ],
)
def test_constants_without_a_value_are_left_to_the_target(name, x, want):
    x, zero = te.const(x), np.zeros(3, "f4")
    got = compute(lambda v: getattr(te, name)(x) + v, zero)
    np.testing.assert_array_equal(got, np.full(3, want, "f4"))


def test_two_arguments_get_their_common_type():
    a = te.placeholder((4,), "float16", name="A")
    b = te.placeholder((4,), "float32", name="B")
    assert te.power(a[0], b[0]).dtype == "float32"
    assert te.power(a[0], 0.3).dtype == "float16"
    assert te.power(2, b[0]).dtype == "float32"
    assert te.atan2(te.var("n"), te.var("m")).dtype == "float32"


def test_flop_count_and_text():
    a = te.placeholder((8,), "float32", name="A")
    b = te.compute((8,), lambda i: te.sigmoid(a[i]) + te.rsqrt(a[i]), name="B")
    s = te.create_schedule(b.op)
    assert te.count_flop(s) == 3 * 8
    assert "sigmoid(A[i]) + rsqrt(A[i])" in str(driver.lower(s, [a, b], simple_mode=True))


def test_errors():
    with pytest.raises(ArgumentError, match=r"popcount of float32.*counts the bits of integers"):
        te.popcount(1.5)
    with pytest.raises(CodegenError, match=r"nextafter of float16.*neighbour in float32"):
        x = np.ones(4, "float16")
        compute(te.nextafter, x, x)
    with pytest.raises(ArgumentError, match=r"exp of handle.*function of numbers"):
        te.exp("x")


def test_no_vector_library_is_needed():
    x = np.ones(64, "f4")
    a = te.placeholder((64,), "float32", name="A")
    b = te.compute((64,), lambda i: te.exp(te.tanh(a[i])) + te.log(te.erf(a[i])), name="B")
    s = te.create_schedule(b.op)
    s[b].vectorize(b.op.axis[0])
    f = driver.build(s, [a, b])
    text = f.get_source("ll")
    for word in ("_ZGV", "@expf", "@tanhf", "@logf", "@erff", "@llvm.exp", "@llvm.log"):
        assert word not in text
    f(x, np.empty_like(x))
