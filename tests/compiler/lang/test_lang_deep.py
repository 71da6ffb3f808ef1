"""Expressions deeper than recursion goes."""

import traceback

import numpy as np
import pytest

import whet
from whet import te, tir
from whet.compiler.driver.nesting import depth
from whet.compiler.errors import LowerError


def terms(count):
    A = te.placeholder((7,), "float64", name="A")

    def total(i):
        out = A[i]
        for k in range(1, count):
            out = out + A[(i + k) % 7]
        return out

    return A, te.compute((7,), total, name="Total")


def test_2000_terms_are_computed():
    A, B = terms(2000)
    x, out = np.random.default_rng().standard_normal(7), np.full(7, 77.0)
    whet.build(te.create_schedule(B.op), [A, B], "llvm")(x, out)
    wanted = sum(x[(np.arange(7) + k) % 7] for k in range(2000))
    np.testing.assert_allclose(out, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("act", ["lower", "build"])
def test_20000_terms_are_an_error_that_names_them(act):
    A, B = terms(20_000)
    s = te.create_schedule(B.op)
    with pytest.raises(LowerError, match=r"Total has 2000\d operations one inside the other") as e:
        if act == "build":
            whet.build(s, [A, B], "llvm")
        else:
            whet.lower(s, [A, B])
    assert "te.sum over an axis" in str(e.value)
    assert len("".join(traceback.format_exception(e.value))) < 20_000


def test_a_function_of_many_terms_is_named_too():
    A = tir.decl_buffer((7,), "float32", name="A")
    value = A.vload((0,))
    for _ in range(30_000):
        value = value + 1.5 * A.vload((0,))
    func = tir.PrimFunc((A,), A.vstore((0,), value), attrs={"global_symbol": "deep"})
    with pytest.raises(LowerError, match="deep has 30004 operations"):
        whet.lower(func, name="deep")


def test_depth():
    i = te.var("i")
    x = i + 1
    assert depth((i,)) == 1 and depth((x,)) == 2
    for _ in range(50):
        x = x * x  # 2**50 ways, 50 deep
    assert depth((x, i)) == 52
