"""A schedule that multiplies by a number, and the check of what was built of it."""

import numpy as np

from whet.compiler import te

RNG = np.random.default_rng(11)


def scaled(n=9, factor=2.0):
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * factor, name="B")
    return te.create_schedule(B.op), [A, B]


def check(function, n=9, factor=2.0):
    a, b = RNG.random(n, "float32"), np.full(n, np.nan, "float32")
    function(a, b)
    np.testing.assert_allclose(b, a * np.float32(factor), rtol=1e-6)
