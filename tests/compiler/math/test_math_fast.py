"""The guarantees that fast_math gives up, and those that it keeps."""

import math_reference as ref
import numpy as np
import pytest

from whet.compiler import driver, te
from whet.compiler.target.machine import host

FAST = "llvm -fast_math=1"
FUSED = host.architecture() != "x86_64" or "fma" in host.features()
LIMITS = {
    **dict.fromkeys(("erf", "sin", "cos"), 2.0),
    **dict.fromkeys(("exp", "exp2", "exp10"), 3.0),
    **dict.fromkeys(("log", "log2", "log10"), 4.0 if FUSED else 5.0),
    "rsqrt": 4.0,
    "sigmoid": 5.0,
    "tanh": 12.0,
    "sqrt": 0.5,
}


def text_of(body, target, n=32):
    a = te.placeholder((n,), "float32", name="A")
    b = te.compute((n,), lambda i: body(a[i]), name="B")
    s = te.create_schedule(b.op)
    s[b].vectorize(b.op.axis[0])
    return driver.build(s, [a, b], target)


@pytest.mark.parametrize("name", ref.FUNCTIONS)
def test_ordinary_numbers_are_close(name):
    x = ref.stratified(3, each=300)
    with np.errstate(all="ignore"):
        want = np.abs(ref.FUNCTIONS[name][1](x.astype("float64")))
    smallest = 2.0**-125
    ordinary = (want > smallest) & (want < 2.0**127) & (np.abs(x) > smallest) & (np.abs(x) < 1e38)
    x = np.ascontiguousarray(x[ordinary])
    f = ref.kernel(name, len(x), FAST)

    def run(values):
        out = np.full_like(values, 12345)
        f(values, out)
        return out

    found = ref.worst(name, run, x)
    assert found.ulp <= LIMITS[name], str(found)


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
