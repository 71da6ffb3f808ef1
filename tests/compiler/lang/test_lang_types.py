"""Data types: promotion by TVM's rules, literals, constants, casts, against a table and numpy."""

import ml_dtypes
import numpy as np
import pytest

from whet.compiler import driver, te, tir
from whet.compiler.errors import ArgumentError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir import expr as e

TYPES = [
    *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "bfloat16", "float32", "float64"),
]

# row + column -> type; what TVM 0.11's matching of operand types gives
PROMOTED = """
          bool     int8     uint8    int16    uint16   int32    uint32   int64    uint64   float16  bfloat16 float32  float64
bool      bool     int8     uint8    int16    uint16   int32    uint32   int64    uint64   float16  bfloat16 float32  float64
int8      int8     int8     uint8    int16    uint16   int32    uint32   int64    uint64   float16  bfloat16 float32  float64
uint8     uint8    uint8    uint8    int16    uint16   int32    uint32   int64    uint64   float16  bfloat16 float32  float64
int16     int16    int16    int16    int16    uint16   int32    uint32   int64    uint64   float16  bfloat16 float32  float64
uint16    uint16   uint16   uint16   uint16   uint16   int32    uint32   int64    uint64   float16  bfloat16 float32  float64
int32     int32    int32    int32    int32    int32    int32    uint32   int64    uint64   float16  bfloat16 float32  float64
uint32    uint32   uint32   uint32   uint32   uint32   uint32   uint32   int64    uint64   float16  bfloat16 float32  float64
int64     int64    int64    int64    int64    int64    int64    int64    int64    uint64   float16  bfloat16 float32  float64
uint64    uint64   uint64   uint64   uint64   uint64   uint64   uint64   uint64   uint64   float16  bfloat16 float32  float64
float16   float16  float16  float16  float16  float16  float16  float16  float16  float16  float16  float16  float32  float64
bfloat16  bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 float16  bfloat16 float32  float64
float32   float32  float32  float32  float32  float32  float32  float32  float32  float32  float32  float32  float32  float64
float64   float64  float64  float64  float64  float64  float64  float64  float64  float64  float64  float64  float64  float64
"""  # noqa: E501


def table():
    head, *rows = [line.split() for line in PROMOTED.strip().splitlines()]
    return {(row[0], column): kind for row in rows for column, kind in zip(head, row[1:])}


def test_the_table_of_promotion():
    known = table()
    assert len(known) == len(TYPES) ** 2
    for (a, b), want in known.items():
        assert dt.promote(a, b) == want, (a, b)
        if (a, b) != ("bool", "bool"):
            assert (te.var("x", a) + te.var("y", b)).dtype == want, (a, b)
        assert te.max(te.var("x", a), te.var("y", b)).dtype == want
        assert te.select(te.var("c", "bool"), te.var("x", a), te.var("y", b)).dtype == want
        assert (te.var("x", a) < te.var("y", b)).dtype == "bool"


def test_a_scalar_takes_the_lanes_of_a_vector():
    assert dt.promote("int32", "float32x4") == "float32x4"
    assert dt.promote("float32x4", "float64") == "float64x4"
    with pytest.raises(ArgumentError, match="the numbers of lanes differ"):
        dt.promote("float32x4", "float32x8")


@pytest.mark.parametrize("dtype", TYPES)
def test_python_numbers_take_the_others_type(dtype):
    x = te.var("x", dtype)
    whole = "int32" if dtype == "bool" else dtype
    real = dtype if dt.is_float(dtype) else "float32"
    assert (x + 1).dtype == whole
    assert (1 - x).dtype == whole
    assert (x * 2.5).dtype == real
    assert (2.5 * x).dtype == real
    assert (x < 1).dtype == "bool"
    assert (x + np.int64(1)).dtype == ("int64" if dtype == "bool" else whole)
    assert te.if_then_else(te.var("c", "bool"), x, 0).dtype == whole
    if dtype != "bool":
        assert (x + True).dtype == dtype


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("int8", "int32"),
        ("uint8", "int8"),
        ("uint8", "int16"),
        ("uint32", "int32"),
        ("int32", "uint64"),
        ("bool", "int16"),
        ("int64", "float32"),
        ("float16", "int32"),
        ("float16", "float32"),
        ("float32", "float64"),
        ("bfloat16", "float32"),
        ("bfloat16", "int8"),
    ],
)
def test_mixed_sums_have_the_numbers_of_the_common_type(a, b):
    common = table()[a, b]
    x, y = te.placeholder((37,), a, name="X"), te.placeholder((37,), b, name="Y")
    z = te.compute((37,), lambda i: x[i] + y[i], name="Z")
    assert z.dtype == common
    rng = np.random.default_rng(0)
    numpy_type = {"bfloat16": ml_dtypes.bfloat16}

    def draw(kind):
        low = 0 if kind.startswith(("u", "b")) else -100
        values = rng.integers(low, 2 if kind == "bool" else 100, 37)
        return values.astype(numpy_type.get(kind, kind))

    u, v = draw(a), draw(b)
    out_type = numpy_type.get(common, common)
    for vector in (False, True):
        s = te.create_schedule(z.op)
        if vector:
            s[z].vectorize(s[z].split(z.op.axis[0], factor=16)[1])
        out = np.zeros(37, out_type)
        driver.build(s, [x, y, z])(u, v, out)
        np.testing.assert_array_equal(out, u.astype(out_type) + v.astype(out_type))


@pytest.mark.parametrize("dtype", TYPES)
def test_copies_and_sums_of_every_type(dtype):
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    a = te.placeholder((5, 16), dtype, name="A")
    k = te.reduce_axis((0, 16), name="k")
    most = te.compute((5,), lambda i: te.max(a[i, k], axis=k), name="M")
    copy = te.compute((5, 16), lambda i, j: a[4 - i, j], name="C")
    data = np.random.default_rng(1).integers(0, 2 if dtype == "bool" else 8, (5, 16)).astype(kind)
    x, y = np.zeros(5, kind), np.zeros((5, 16), kind)
    driver.build(te.create_schedule([most.op, copy.op]), [a, most, copy])(data, x, y)
    np.testing.assert_array_equal(x, data.max(axis=1))
    np.testing.assert_array_equal(y, data[::-1])


def test_constants():
    assert te.const(3).dtype == "int32"
    assert te.const(2**33).dtype == "int64"
    assert te.const(True).dtype == "bool"
    assert te.const(1.5).dtype == "float32"
    assert tir.const(7, "uint8").value == 7
    assert tir.const(2.0, "int16").value == 2
    assert tir.const(2**64 - 1, "uint64").value == 2**64 - 1
    assert tir.const(np.float64(0.25), "float16").dtype == "float16"
    assert tir.const(te.const(5), "int64").dtype == "int64"
    assert tir.const(float("inf"), "float16").value == float("inf")
    assert isinstance(tir.const(1, "float32x4"), e.Broadcast)
    assert te.const(3.4028235e38).dtype == "float32"
    assert te.cast("int8", te.const(300)).value == 44  # casts wrap, as numpy's
    assert te.cast("float16", te.const(1e6)).value == float("inf")
    for dtype in TYPES:
        assert te.max_value(dtype).dtype == te.min_value(dtype).dtype == dtype
    assert (te.const(3e38) * te.const(10.0)).value == float("inf")
    assert te.placeholder((1,), "float").dtype == "float32"
    assert te.placeholder((1,), "int").dtype == "int32"


def test_constants_that_a_type_does_not_hold():
    for value, dtype in [(256, "uint8"), (-1, "uint64"), (2**31, "int32"), (1e5, "float16")]:
        with pytest.raises(ArgumentError, match=f"{dtype} holds"):
            tir.const(value, dtype)


def test_big_constants_reach_the_kernel():
    a = te.placeholder((5,), "int64", name="A")
    b = te.compute((5,), lambda i: a[i] + te.const(2**33) * 3, name="B")
    u = te.compute((5,), lambda i: a[i].astype("uint64") | tir.const(2**63, "uint64"), name="U")
    data, x, y = np.arange(5), np.zeros(5, "i8"), np.zeros(5, "u8")
    driver.build(te.create_schedule([b.op, u.op]), [a, b, u])(data, x, y)
    np.testing.assert_array_equal(x, data + 3 * 2**33)
    np.testing.assert_array_equal(y, data.astype("u8") | np.uint64(2**63))
