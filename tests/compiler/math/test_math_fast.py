"""The guarantees that fast_math gives up, and those that it keeps."""

import math_reference as ref
import numpy as np
import pytest

from whet.compiler import driver, te

FAST = "llvm -fast_math=1"


def text_of(body, target, n=32):
    a = te.placeholder((n,), "float32", name="A")
    b = te.compute((n,), lambda i: body(a[i]), name="B")
    s = te.create_schedule(b.op)
    s[b].vectorize(b.op.axis[0])
    return driver.build(s, [a, b], target)


@pytest.mark.parametrize("name", ref.FUNCTIONS)
def test_ordinary_numbers_are_close(name):
    x = ref.stratified(3, each=300)
    f = ref.kernel(name, len(x), FAST)

    def run(values):
        out = np.full_like(values, 12345)
        f(values, out)
        return out

    found = ref.worst(name, run, x, ordinary=True)
    assert found.ulp <= ref.LIMITS["fast"][name], str(found)


def test_nan_and_infinity_keep_their_meaning():
    x = np.resize(np.array([np.nan, np.inf, -np.inf, 1.0], "f4"), 32)
    out = np.empty_like(x)
    text_of(lambda v: te.select(te.isnan(v), te.const(7.0), v + v), FAST)(x, out)
    np.testing.assert_array_equal(out[:4], [7, np.inf, -np.inf, 2])
    text_of(te.tanh, FAST)(x, out)
    np.testing.assert_array_equal(out[:3], [np.nan, 1, -1])


def test_the_code_is_shorter():
    for function in (te.exp, te.log, te.tanh):
        slow, fast = (text_of(function, t).get_source("asm").count("\n") for t in ("llvm", FAST))
        assert fast < slow


def test_flags_of_arithmetic():
    def body(v):
        return v / 3.0 + v

    assert "fdiv reassoc nsz arcp contract afn <" in text_of(body, FAST).get_source("ll")
    assert "fdiv nsz arcp <" in text_of(body, "llvm -fast_math_arcp=1 -fast_math_nsz=1").get_source(
        "ll"
    )
    text = text_of(body, "llvm -fast_math=1 -fast_math_nnan=1").get_source("ll")
    assert "fdiv reassoc nsz arcp contract afn nnan <" in text
    assert "fdiv <" in text_of(body, "llvm").get_source("ll")
