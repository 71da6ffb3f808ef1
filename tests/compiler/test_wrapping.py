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
    """What stands in an index does not wrap, elements of other arrays among it."""
    table, a = te.placeholder((9,), "int32", name="I"), te.placeholder((90,), "int32", name="A")
    c = te.compute((9,), lambda i: a[(table[i] * 2 + i * 2 + table[i] * 8) // 2] * 1, name="C")
    text = str(whet.lower(te.create_schedule(c.op), [table, a, c]))
    assert "I[i] * 5 + i" in text, text
    d = te.compute((9,), lambda i: tir.Cast("int32", i * 8 // 4), name="D")
    assert "i * 2" in str(whet.lower(te.create_schedule(d.op), [d]))
