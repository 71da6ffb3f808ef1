"""Declared instructions that no derived space can use are refused in words, not passed over."""

from __future__ import annotations

import pytest

import whet
from whet import te, tir
from whet.search_spaces.values import instructions

PARTS = {
    "one statement": (r"no update.*\(body, reset, update\)", {"parts": 1}),
    "no reset is fine": ("", {"parts": (0, None, 2)}),
    "a sum of inputs": (r"c sums up what is no product.*te\.sum", {"of": lambda x, w: x + w}),
    "an offset": (r"c sums up what is no product", {"of": lambda x, w: x * w + 1.0}),
    "no sum": (r"c is no plain sum", {"reducer": te.max}),
    "no reduction": (r"c is no plain sum", {"reducer": None}),
    "a part of an input": (r"an input is read .*not as a whole", {"rows": 4}),
    "a scalar": (r"it has scalar parameters, s", {"scalar": True}),
}


@pytest.fixture
def alone(monkeypatch):
    """No instruction of another test is declared."""
    monkeypatch.setattr(instructions, "_declared", {})


def made(parts=(0, 1, 2), of=lambda x, w: x * w, reducer=te.sum, scalar=False, rows=3):
    x, w = te.placeholder((3,), name="x"), te.placeholder((rows, 5), name="w")
    k = te.reduce_axis((0, 3), name="k")
    s = te.var("s", "float32")

    def element(i):
        if reducer is None:
            return of(x[0], w[0, i])
        factor = s if scalar else 1
        return reducer(of(x[k], w[k, i]) * factor if scalar else of(x[k], w[k, i]), axis=k)

    c = te.compute((5,), element, name="c")

    def statements(ins, outs, scalars=()):
        ib = tir.ir_builder.create()
        ib.emit(outs[0].vstore(0, tir.const(0, "float32")))
        one = ib.get()
        return one if parts == 1 else tuple(None if p is None else one for p in parts)

    return te.decl_tensor_intrin(c.op, statements, "odd", scalar_params=[s] if scalar else None)


@pytest.mark.parametrize("case", PARTS)
def test_what_can_never_match(alone, case):
    words, options = PARTS[case]
    whet.tensor_intrin("odd")(lambda target: made(**options))
    A, B = te.placeholder((16, 16), name="A"), te.placeholder((16, 16), name="B")
    r = te.reduce_axis((0, 16), name="r")
    C = te.compute((16, 16), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    if not words:
        assert whet.create_task(outputs=[C], target="llvm").config_space
        return
    with pytest.raises(whet.SpaceError, match=rf"(?s)the instruction 'odd'.*{words}"):
        whet.create_task(outputs=[C], target="llvm")
