"""Threads that may lose an element of int4, since another one stores the other half of its byte."""

from __future__ import annotations

import numpy as np
import pytest

import whet
from whet import te, tir

CPU = "llvm -num_threads=2"


def stored(body):
    """A function whose threads of ``t`` run ``body`` over ``C``, int4, and ``D`` and ``n``."""
    ib = tir.ir_builder.create()
    n = te.size_var("n")
    C, D = tir.decl_buffer((64,), "int4", "C"), tir.decl_buffer((n,), "int32", "D")
    c, d = ib.buffer_ptr(C), ib.buffer_ptr(D)
    with ib.for_range(0, 8, "t", kind="parallel") as t:
        body(ib, c, d, t, n)
    return tir.PrimFunc([C, D], ib.get())


ONE = tir.const(1, "int4")


def under(condition):
    """Each thread stores those of eight elements for which a condition holds."""

    def body(ib, c, d, t, n):
        with ib.for_range(0, 8, "j") as j, ib.if_scope(condition(ib, t, j, d)):
            c[j] = ONE

    return body


def otherwise(ib, c, d, t, n):
    with ib.for_range(0, 8, "j") as j:
        with ib.if_scope(j < t):
            d[j] = 0
        with ib.else_scope():
            c[j] = ONE


def named(ib, c, d, t, n):
    with ib.for_range(0, 8, "j") as j:
        half = ib.let("half", j % 2)
        with ib.if_scope(half.equal(t)):
            c[j] = ONE


def remembered(ib, c, d, t, n):
    with ib.for_range(0, 8, "j") as j:
        d[t] = j % 2
        with ib.if_scope(d[t].equal(t)):
            c[j] = ONE


def steps(ib, c, d, t, n):
    with ib.for_range(0, 8, "j") as j, ib.for_range(0, (j + t) % 2):
        c[j] = ONE


def while_loop(ib, c, d, t, n):
    with ib.for_range(0, 8, "j") as j, ib.while_loop(d[t] < j % 2):
        d[t] += 1
        c[j] = ONE


CHOOSING = {
    "every other": under(lambda ib, t, j, d: (j % 2).equal(t)),
    "said to be likely": under(lambda ib, t, j, d: ib.likely((j % 2).equal(t))),
    "one": under(lambda ib, t, j, d: j.equal(t)),
    "from": under(lambda ib, t, j, d: j >= t),
    "one of two conditions": under(lambda ib, t, j, d: tir.all(j < 6, j % 2 < t)),
    "data": under(lambda ib, t, j, d: d[j] > t),
    "else": otherwise,
    "a name": named,
    "memory": remembered,
    "a loop's length": steps,
    "while": while_loop,
}


@pytest.mark.parametrize("name", CHOOSING)
def test_conditions_that_choose_among_elements(name):
    with pytest.raises(
        whet.LowerError, match=r"(?s)threads of t.*steps of j.*chooses some.*bound it from above"
    ):
        whet.lower(stored(CHOOSING[name]))


BOUNDING = {
    "tail": (lambda ib, t, j, d: ib.likely(t * 8 + j < 61), lambda t, j, d: t * 8 + j < 61),
    "prefix": (lambda ib, t, j, d: tir.all(j <= 5, t > 2), lambda t, j, d: (j <= 5) & (t > 2)),
    "turned": (
        lambda ib, t, j, d: te.const(50, "int32") > te.max(j, 3) + t * 8,
        lambda t, j, d: np.maximum(j, 3) + t * 8 < 50,
    ),
    "rows": (lambda ib, t, j, d: (t * 8 + j) // 5 < 9, lambda t, j, d: (t * 8 + j) // 5 < 9),
    "of the thread": (lambda ib, t, j, d: d[t] > 0, lambda t, j, d: d[t] > 0),
}


@pytest.mark.parametrize("name", BOUNDING)
def test_conditions_that_bound_the_elements(name):
    condition, holds = BOUNDING[name]

    def body(ib, c, d, t, n):
        with ib.for_range(0, 8, "j") as j, ib.if_scope(condition(ib, t, j, d)):
            c[t * 8 + j] = d[t].astype("int4") + j.astype("int4")

    f = whet.build(stored(body), target=CPU)
    out, d = np.full(32, 0xCC, "uint8"), np.array([5, 0, 3, 1, 2, 7, 0, 1], "int32")
    f(out, d)
    t, j = np.mgrid[:8, :8]
    wanted = np.where(holds(t, j, d), (d[t] + j + 8) % 16 - 8, -4)
    np.testing.assert_array_equal(whet.nd.unpack(out, (8, 8)).astype(int), wanted)


def test_tails_whose_loops_are_turned():
    """The loop over both halves is outside; the other's length follows from it."""
    A = te.placeholder((4, 10), "int8", name="A")
    C = te.compute((4, 10), lambda i, j: A[i, j].astype("int4"), name="C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[1], 4)
    s[C].reorder(C.op.axis[0], inner, outer)
    s[C].parallel(C.op.axis[0])
    a, out = np.random.default_rng().integers(-8, 8, (4, 10)), whet.nd.empty((4, 10), "int4")
    whet.build(s, [A, C], CPU)(a.astype("int8"), out)
    np.testing.assert_array_equal(whet.nd.unpack(out, (4, 10)).astype(int), a)


@pytest.mark.parametrize("const", [0, 1])
def test_loops_that_begin_at_a_variable(const):
    def body(ib, c, d, t, n):
        with ib.for_range(n, n + 4, "j") as j:
            c[t * 4 + j + const] = ONE

    with pytest.raises(whet.LowerError, match=r"(?s)j begins at n, which may be odd.*even number"):
        whet.lower(stored(body))


def test_vectors_that_begin_at_an_upper_half():
    def made(first):
        ib = tir.ir_builder.create()
        C = tir.decl_buffer((64,), "int4", "C")
        with ib.for_range(0, 8, "t", kind="parallel") as t:
            ib.emit(C.vstore(t * 2 + first, tir.const(1, "int4").astype("int4x2")))
        return tir.PrimFunc([C], ib.get())

    with pytest.raises(whet.LowerError, match="two threads may store to one"):
        whet.lower(made(1))
    whet.lower(made(2))
