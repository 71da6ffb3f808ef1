"""Constants fold as in TVM; vectors of indices and truncated divisions are simplified."""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest

from whet import te, tir
from whet.compiler.arith import Analyzer
from whet.compiler.tir import expr as e

INTEGERS = (-9, -8, -1, 0, 1, 3, 7, 12)


@pytest.mark.parametrize("op", [operator.and_, operator.or_, operator.xor])
def test_bits_of_constants(op):
    for a in INTEGERS:
        for b in INTEGERS:
            folded = op(tir.const(a), tir.const(b))
            assert isinstance(folded, e.IntImm) and folded.value == op(a, b)
    assert op(tir.const(True), tir.const(False)).value == op(True, False)


def test_shifts_and_bits_wrap_as_their_type():
    assert (tir.const(200, "uint8") << tir.const(2, "uint8")).value == 200 * 4 % 256
    assert (tir.const(-8) >> tir.const(1)).value == -4 and (~tir.const(5)).value == -6
    assert (tir.const(2**30) << 1).value == -(2**31)
    x = te.var("x")
    assert (x << 0) is x and (x >> 0) is x
    assert te.truncdiv(x, 1) is x and te.truncmod(x, 1).value == 0
    assert te.min(x, x) is x and te.max(x, x) is x


ROUND = {
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "nearbyint": np.rint,
    "round": lambda x: np.copysign(np.floor(np.abs(x) + type(x)(0.5)), x),
}


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", ROUND)
def test_rounding_of_constants(name, dtype):
    for x in (-2.5, -1.5, -0.5, -0.25, -0.0, 0.0, 0.2, 0.5, 1.5, 2.5, 3.75, 1000.5, 0.99999999):
        folded = getattr(te, name)(tir.const(x, dtype))
        wanted = ROUND[name](getattr(np, dtype)(x))
        assert isinstance(folded, e.FloatImm) and folded.dtype == dtype
        assert folded.value == wanted and math.copysign(1, folded.value) == np.copysign(1, wanted)
    assert isinstance(getattr(te, name)(tir.const(math.inf, dtype)), e.Call)


def test_comparisons_conditions_and_floats():
    two, half = tir.const(2.0), tir.const(0.5)
    assert (two * half).value == 1.0 and (two - half).value == 1.5 and (two / half).value == 4.0
    assert te.min(two, half).value == 0.5 and te.max(tir.const(3), tir.const(-4)).value == 3
    assert (tir.const(3) < tir.const(4)).value == 1 and (half >= two).value == 0
    assert tir.Not(tir.const(True)).a.value and (~tir.const(True)).value == 0
    assert te.any(tir.const(False), tir.const(True)).value == 1


def lanes(n, values):
    """The numbers of a vector, or of a scalar in all lanes."""
    if isinstance(n, e.Ramp):
        return lanes(n.base, values) + n.stride * np.arange(n.lanes)
    if isinstance(n, e.Broadcast):
        return np.repeat(lanes(n.value, values), n.lanes)
    if isinstance(n, e.Var):
        return np.int64(values[n])
    if isinstance(n, e.IntImm):
        return np.int64(n.value)
    a, b = lanes(n.a, values), lanes(n.b, values)
    exact = {e.FloorDiv: np.floor_divide, e.FloorMod: np.mod, e.Mod: np.fmod}
    exact |= {e.Div: lambda x, y: np.trunc(x / y), e.Min: np.minimum, e.Max: np.maximum}
    exact |= {e.Add: np.add, e.Sub: np.subtract, e.Mul: np.multiply}
    exact |= {e.LT: np.less, e.LE: np.less_equal, e.GE: np.greater_equal, e.EQ: np.equal}
    return exact[type(n)](a, b)


x, y, n = te.var("x"), te.var("y"), te.size_var("n")
SIMPLER = {
    "sum": (e.Ramp(x, 1, 4) + e.Broadcast(y, 4), e.Ramp),
    "difference": (e.Broadcast(y, 4) - e.Ramp(x, 2, 4), e.Ramp),
    "same steps": (e.Ramp(x, 3, 4) - e.Ramp(y, 3, 4), e.Broadcast),
    "product": (e.Broadcast(tir.const(-3), 4) * e.Ramp(x, 2, 4), e.Ramp),
    "quotient": (e.Ramp(x * 8, 4, 4) // e.Broadcast(tir.const(4), 4), e.Ramp),
    "odd base": (e.Ramp(x, 8, 4) // e.Broadcast(tir.const(4), 4), e.Ramp),
    "one quotient": (e.Ramp(x * 8 + 1, 1, 7) // e.Broadcast(tir.const(8), 7), e.Broadcast),
    "one row": (e.Ramp(x * 8, 1, 8) % e.Broadcast(tir.const(8), 8), e.Ramp),
    "falling": (e.Ramp(x * 8 + 7, -1, 8) % e.Broadcast(tir.const(8), 8), e.Ramp),
    "remainder": (e.Ramp(x, 8, 4) % e.Broadcast(tir.const(4), 4), e.Broadcast),
    "truncated": (e.Div(e.Ramp(n * 8, 1, 8), e.Broadcast(tir.const(8), 8)), e.Broadcast),
    "truncated rest": (e.Mod(e.Ramp(n * 8, 1, 8), e.Broadcast(tir.const(8), 8)), e.Ramp),
    "comparison": (e.Ramp(n, 1, 4) < e.Broadcast(n + 4, 4), e.Broadcast),
    "least": (e.Min(e.Ramp(n, 1, 4), e.Broadcast(n + 3, 4)), e.Ramp),
    "greatest": (e.Max(e.Ramp(n, 1, 4), e.Broadcast(n - 1, 4)), e.Ramp),
}
LEFT = {
    "two rows": e.Ramp(x * 8 + 1, 1, 8) // e.Broadcast(tir.const(8), 8),
    "any sign": e.Div(e.Ramp(x * 8, 1, 8), e.Broadcast(tir.const(8), 8)),
    "some lanes": e.Ramp(n, 1, 4) < e.Broadcast(n + 3, 4),
    "no order": e.Min(e.Ramp(n, 1, 4), e.Broadcast(n + 2, 4)),
    "ramps": e.Ramp(x, 1, 4) * e.Ramp(y, 1, 4),
}


@pytest.mark.parametrize("given", [*SIMPLER, *LEFT])
def test_vectors_of_indices(given):
    whole, kind = SIMPLER.get(given) or (LEFT[given], None)
    for simplify in (Analyzer().simplify, Analyzer().rewrite_simplify):
        out = simplify(whole)
        assert kind is None or type(out) is kind
        for xs in (-17, -8, -1, 0, 3, 16):
            values = {x: xs, y: 5 - xs, n: abs(xs)}
            np.testing.assert_array_equal(lanes(out, values), lanes(whole, values))


def test_slices_of_vectors_and_broadcasts_of_floats():
    simplify = Analyzer().canonical_simplify
    picked = simplify(tir.Shuffle([e.Ramp(x, 2, 8)], [1, 3, 5]))
    assert (picked.stride, picked.lanes) == (4, 3) and lanes(picked, {x: 10})[0] == 12
    assert lanes(simplify(tir.Shuffle([e.Ramp(x, 2, 8)], [2])), {x: 10}) == 14
    assert isinstance(simplify(tir.Shuffle([e.Ramp(x, 2, 8)], [1, 3, 4])), e.Shuffle)
    whole = simplify(e.Broadcast(tir.const(1.5), 4) * e.Broadcast(tir.const(2.0), 4))
    assert whole.dtype == "float32x4" and whole.value.value == 3.0


def test_truncated_divisions_take_what_divides():
    simplify = Analyzer().simplify
    div, mod = te.truncdiv, te.truncmod
    assert str(simplify(div(x * 4 + 8, 4))) == "x + 2" and simplify(mod(x * 4, 4)).value == 0
    for number in (4, -4):
        assert simplify(div(x, number) * number + mod(x, number)) is x
    assert str(simplify(div(div(x, 3), 4))) == "x / 12"
    assert str(simplify(div(n * 8 + 3, 8))) == "n" and simplify(mod(n * 8 + 3, 8)).value == 3
    assert isinstance(simplify(div(x * 8 + 3, 8)), e.Div)  # -1 * 8 + 3 is 0 over 8
    assert Analyzer().can_prove(mod(n, 8) < 8) and not Analyzer().can_prove(mod(x, 8) >= 0)
