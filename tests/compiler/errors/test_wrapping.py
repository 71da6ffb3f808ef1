"""Integers wrap around: no rewriting of arithmetic on elements takes them for unbounded ones."""

import numpy as np
import pytest
from emulated import TARGET, on_device
from te_oracle import evaluate

import whet
from whet import te, tir

LEAST, MOST = -(2**31), 2**31 - 1
VALUES = np.array([LEAST, LEAST + 1, -4, -1, 0, 1, 5, MOST // 2 + 1, MOST - 1, MOST], "int32")
BODIES = {
    "a difference of extremes": lambda a, b: (a - b) % -7 - te.const(LEAST, "int32"),
    "a product of constants": lambda a, b: a // 5 * -2 * LEAST,
    "numbers that add up beyond the type": lambda a, b: te.min(a % 7 - MOST - MOST // 2, 3),
    "a quotient of a product": lambda a, b: (a * 2 + b * 2 + a * 6) // 2,
    "a remainder of a product": lambda a, b: (a * 6 + b * 3 + a * 3) % 3,
    "a sum above its operand": lambda a, b: (a + b * 0 + 1 > a).astype("int32"),
    "numbers alone": lambda a, b: (tir.shift_left(te.const(4, "int32"), 27) % 2 + MOST) * -3,
    "under a condition": lambda a, b: te.if_then_else(a + 1 < 5, te.select(a < 4, b, 7 - b), b + 1),
    "after a condition": lambda a, b: te.all(a + 1 < 5, a < 4).astype("int32"),
    "the lesser of sums": lambda a, b: te.min(a * 3 + b + 1, a * 3 + b + 2),
}


@pytest.mark.parametrize("gpu", [False, True], ids=["cpu", "gpu"])
@pytest.mark.parametrize("name", BODIES)
def test_arithmetic_on_elements_wraps(name, gpu):
    n = len(VALUES) ** 2
    a, b = te.placeholder((n,), "int32", name="A"), te.placeholder((n,), "int32", name="B")
    c = te.compute((n,), lambda i: BODIES[name](a[i], b[i]), name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], factor=4)
    if gpu:
        s[c].bind(outer, te.thread_axis("threadIdx.x"))
    else:
        s[c].vectorize(inner)
    x, y = (v.reshape(-1).copy() for v in np.meshgrid(VALUES, VALUES))
    kernel = whet.build(s, [a, b, c], TARGET if gpu else "llvm")
    out = np.full(n, 77, "int32")
    if gpu:
        out = on_device(kernel, [x, y, out])[-1]
    else:
        kernel(x, y, out)
    (wanted,) = evaluate([c], {a: x, b: y})
    np.testing.assert_array_equal(out, wanted)


def test_indices_are_still_canonical():
    """Integers of an index do not wrap, elements of other arrays among them."""
    table, a = te.placeholder((9,), "int32", name="I"), te.placeholder((90,), "int32", name="A")
    c = te.compute((9,), lambda i: a[(table[i] * 2 + i * 2 + table[i] * 8) // 2] * 1, name="C")
    text = str(whet.lower(te.create_schedule(c.op), [table, a, c]))
    assert "I[i] * 5 + i" in text, text
    d = te.compute((9,), lambda i: tir.Cast("int32", i * 8 // 4), name="D")
    assert "i * 2" in str(whet.lower(te.create_schedule(d.op), [d]))


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("dtype", ["uint8", "uint32", "uint64", "int32", "int64"])
def test_bounds_of_converted_floats(dtype, lanes):
    """LLVM makes saturating conversions of such bounds, of no bits where a bound is 0."""
    x = np.array([0.0, 0.5, 1.5, 2.5, 3.5, 100.25, 7.0, 2.0], "float32")
    a = te.placeholder((8,), name="A")

    def bounds(i):
        value, zero = a[i].astype(dtype), te.const(0, dtype)
        one, three = te.const(1, dtype), te.const(3, dtype)
        low = (te.min(value, zero), te.max(te.min(value, zero), zero), te.min(value, zero & value))
        return (*low, te.min(value, one), te.max(te.min(value, three), zero), te.min(value, three))

    made = te.compute((8,), bounds, name="C")
    s = te.create_schedule(made[0].op)
    _, inner = s[made[0]].split(made[0].op.axis[0], factor=lanes)
    s[made[0]].vectorize(inner)
    out = [np.full(8, 77, dtype) for _ in made]
    whet.build(s, [a, *made], "llvm")(x, *out)
    whole = x.astype(dtype)
    zeros = np.zeros(8, dtype)
    for got, wanted in zip(
        out, (zeros, zeros, zeros, np.minimum(whole, 1), *[np.minimum(whole, 3)] * 2), strict=True
    ):
        np.testing.assert_array_equal(got, wanted)


SHIFTS = {
    "a number": lambda a, c: c(7),
    "a choice of numbers": lambda a, c: te.if_then_else(a > 0, c(-7), c(9)),
    "bits of numbers": lambda a, c: te.select(a > 0, c(-7) ^ c(12), c(3) & c(9)),
    "an element": lambda a, c: a,
}


@pytest.mark.parametrize("target", ["llvm", "c", TARGET], ids=["llvm", "c", "cuda"])
@pytest.mark.parametrize("dtype", ["int64", "uint64", "int32", "uint32"])
def test_small_numbers_are_shifted_in_their_own_type(target, dtype):
    """In C, 7 is of type int, and no shift of it by 45 is defined."""
    bits = int(dtype[-2:])
    values = np.array([0, 1, -1, 5, np.iinfo(f"int{bits}").min]).astype(dtype)
    a = te.placeholder((5,), dtype, name="A")

    def const(value):
        return te.const(value % 2**bits if dtype[0] == "u" else value, dtype)

    cases = [
        (op, make, by)
        for make in SHIFTS.values()
        for by in (3, bits - 19, bits - 1)
        for op in (tir.shift_right, tir.shift_left)
    ]
    made = te.compute(
        (5,),
        lambda i: tuple(op(make(a[i], const), const(by)) for op, make, by in cases),
        name="C",
    )
    s = te.create_schedule(made[0].op)
    if target == TARGET:
        s[made[0]].bind(made[0].op.axis[0], te.thread_axis("threadIdx.x"))
    kernel = whet.build(s, [a, *made], target)
    arrays = [values, *(np.full(5, 77, dtype) for _ in made)]
    if target == TARGET:
        arrays = on_device(kernel, arrays)
    else:
        kernel(*arrays)
    for case, out, wanted in zip(cases, arrays[1:], evaluate(made, {a: values}), strict=True):
        np.testing.assert_array_equal(out, wanted, err_msg=str(case))
