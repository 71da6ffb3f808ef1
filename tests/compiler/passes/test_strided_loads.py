"""Lanes a small stride apart: whole vectors taken apart in registers, nothing read beyond them."""

import re

import numpy as np
import pytest
from guarded import guarded

from whet.compiler import driver, te
from whet.compiler.target import Target

HOST = Target("llvm").vector_bytes
LEVELS = {"x86-64-v2": 16, "x86-64-v3": 32, "x86-64-v4": 64}
DTYPES = ("float32", "float64", "int32", "int8", "uint8", "float16", "bool")

pytestmark = pytest.mark.skipif(
    not str(Target("llvm").canonical().attrs["mtriple"]).startswith("x86_64"), reason="x86-64 code"
)
levels = pytest.mark.parametrize(
    "level",
    [
        pytest.param(name, marks=pytest.mark.skipif(size > HOST, reason=f"no {name} here"))
        for name, size in LEVELS.items()
    ],
)


def vectors(b, args, level, factor):
    """The kernel of a row in vectors of ``factor`` lanes."""
    s = te.create_schedule(b.op)
    s[b].vectorize(s[b].split(b.op.axis[0], factor=factor)[1])
    return driver.build(s, args, f"llvm -mcpu={level}")


def first(n, stride):
    """The place of element 0 in the row that n elements a stride apart just fill."""
    return 0 if stride > 0 else (n - 1) * -stride


def numbers(n, stride, dtype):
    """A row that n elements a stride apart just fill."""
    size = (n - 1) * abs(stride) + 1
    return np.random.default_rng().integers(0, 2 if dtype == "bool" else 99, size).astype(dtype)


@levels
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stride", [2, 3, 4, -1, -2, -4])
@pytest.mark.parametrize(("n", "lanes"), [(64, 64), (61, 16)])
def test_nothing_outside_of_a_row_is_read(n, lanes, stride, dtype, level):
    row, begin = numbers(n, stride, dtype), first(n, stride)
    a = te.placeholder(row.shape, dtype, name="A")
    b = te.compute((n,), lambda i: a[i * stride + begin], name="B")
    kernel = vectors(b, [a, b], level, lanes)
    out = np.zeros(n, dtype)
    for at_end in (True, False):
        kernel(guarded(row, at_end), out)
        np.testing.assert_array_equal(out, row[::stride])


@levels
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stride", [2, 3, 4, -1, -2])
@pytest.mark.parametrize(("before", "after"), [(0, 3), (2, 5)])
def test_masks_hold_for_elements_between_lanes(before, after, stride, dtype, level):
    n = 37
    row, begin = numbers(n, stride, dtype), first(n, stride)
    a = te.placeholder(row.shape, dtype, name="A")
    b = te.compute(
        (before + n + after,),
        lambda i: te.if_then_else(
            te.all(i >= before, i < before + n),
            a[(i - before) * stride + begin],
            te.const(1, dtype),
        ),
        name="B",
    )
    kernel = vectors(b, [a, b], level, 16)
    out = np.zeros(before + n + after, dtype)
    wanted = np.pad(row[::stride], (before, after), constant_values=1)
    for at_end in (True, False):
        kernel(guarded(row, at_end), out)
        np.testing.assert_array_equal(out, wanted)


@levels
@pytest.mark.parametrize("dtype", ["float32", "int32", "float64", "int8"])
@pytest.mark.parametrize("stride", [1, 2, 3, 4])
@pytest.mark.parametrize("lanes", [8, 16])
def test_clamped_lanes_hold_the_last_element(lanes, stride, dtype, level):
    n, more = 37, 14
    row = numbers(n, stride, dtype)
    a = te.placeholder(row.shape, dtype, name="A")
    b = te.compute((n + more,), lambda i: a[te.min(i, n - 1) * stride], name="B")
    c = te.compute((n + more,), lambda i: a[te.max(i - more, 0) * stride], name="C")
    out = np.zeros(n + more, dtype)
    for result, sides in ((b, (0, more)), (c, (more, 0))):
        kernel = vectors(result, [a, result], level, lanes)
        for at_end in (True, False):
            kernel(guarded(row, at_end), out)
            np.testing.assert_array_equal(out, np.pad(row[::stride], sides, mode="edge"))


@levels
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "float16", "uint8"])
@pytest.mark.parametrize(("stride", "window"), [(2, 2), (2, 3), (3, 3), (3, 5), (4, 7)])
def test_windows_that_slide_over_a_row(stride, window, dtype, level):
    n = 45
    x = np.random.default_rng().integers(0, 9, (3, (n - 1) * stride + window)).astype(dtype)
    a = te.placeholder(x.shape, dtype, name="A")
    k = te.reduce_axis((0, window), name="k")
    b = te.compute((3, n), lambda i, j: te.sum(a[i, j * stride + k], axis=k), name="B")
    s = te.create_schedule(b.op)
    local = s.cache_write(b, "local")
    outer, lanes = s[b].split(s[b].op.axis[1], factor=16)
    s[b].vectorize(lanes)
    s[local].compute_at(s[b], outer)
    s[local].reorder(s[local].op.reduce_axis[0], s[local].op.axis[1])
    s[local].unroll(s[local].op.reduce_axis[0])
    s[local].vectorize(s[local].op.axis[1])
    kernel = driver.build(s, [a, b], f"llvm -mcpu={level}")
    out = np.zeros((3, n), dtype)
    wanted = sum(x[:, k : k + (n - 1) * stride + 1 : stride] for k in range(window))
    for at_end in (True, False):
        kernel(guarded(x, at_end), out)
        np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("stride", [2, 3, 4, -2])
def test_a_vector_is_as_many_loads_as_its_stride(stride, dtype, level):
    lanes = LEVELS[level] // np.dtype(dtype).itemsize
    n = 4 * lanes
    a = te.placeholder(numbers(n, stride, dtype).shape, dtype, name="A")
    b = te.compute((n,), lambda i: a[i * stride + first(n, stride)], name="B")
    kernel = vectors(b, [a, b], level, lanes)
    text = kernel.get_source().split("ret i32 0")[0]
    if lanes < 2 * abs(stride):  # lane by lane: four lanes are four loads in any way
        assert "shufflevector" not in text
        return
    kind = re.escape({"float32": f"<{lanes} x float>", "int8": f"<{lanes} x i8>"}[dtype])
    assert len(re.findall(rf"load {kind},", text)) == abs(stride)
    assert len(re.findall(r"= load ", text)) == abs(stride)
    assert "insertelement" not in text
    assert "gather" not in kernel.get_source("asm")


@pytest.mark.parametrize("level", ["x86-64-v3", "x86-64-v4"])
def test_a_guarded_vector_is_masked_loads(level):
    a = te.placeholder((111,), name="A")
    b = te.compute((64,), lambda i: te.if_then_else(i < 56, a[i * 2], 0.0), name="B")
    kernel = vectors(b, [a, b], level, 64)
    lanes = LEVELS[level] // 4
    text = kernel.get_source().split("ret i32 0")[0]
    assert text.count(f"call <{lanes} x float> @llvm.masked.load") == 2 * 64 // lanes
    assert "load float" not in text
    assert "gather" not in kernel.get_source("asm")
