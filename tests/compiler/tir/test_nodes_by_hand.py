"""Nodes of the loop IR made by their constructors, run: each class computes what its name says."""

import numpy as np
import pytest

import whet
from whet.compiler import te, tir
from whet.compiler.tir import analysis

N = 48
RNG = np.random.default_rng(11)


def run(build, arrays, dtype, n=N):
    """The array that the loop ``out[i] = build(i, loads of the arrays)`` stores."""
    buffers = [tir.decl_buffer((n,), a.dtype.name, name=f"X{k}") for k, a in enumerate(arrays)]
    out = tir.decl_buffer((n,), dtype, name="Out")
    i = tir.Var("i", "int32")
    loads = [tir.BufferLoad(b, [i]) for b in buffers]
    body = tir.For(i, 0, n, tir.ForKind.SERIAL, tir.BufferStore(out, build(i, *loads), [i]))
    got = np.full(n, 77, dtype)
    whet.build(tir.PrimFunc([*buffers, out], body))(*arrays, got)
    return got


A = RNG.integers(-9, 9, N).astype("int32")
B = np.where(A % 2 == 0, 4, -3).astype("int32")
ARITHMETIC = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": lambda a, b: np.trunc(a / b),
    "Mod": np.fmod,
    "FloorDiv": lambda a, b: a // b,
    "FloorMod": lambda a, b: a % b,
    "Min": np.minimum,
    "Max": np.maximum,
}
COMPARISONS = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic(name):
    got = run(lambda i, a, b: getattr(tir, name)(a, b), [A, B], "int32")
    np.testing.assert_array_equal(got, ARITHMETIC[name](A, B).astype("int32"))


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_choose(name):
    got = run(
        lambda i, a, b: tir.Select(getattr(tir, name)(a, b), tir.IntImm("int32", 1), b),
        [A, np.sort(A)],
        "int32",
    )
    np.testing.assert_array_equal(got, np.where(COMPARISONS[name](A, np.sort(A)), 1, np.sort(A)))


def test_logic():
    def build(i, a, b):
        low, high = tir.LT(a, -2), tir.GT(a, 4)
        return tir.Select(
            tir.And(tir.Or(low, high), tir.Not(tir.EQ(b, 4))), tir.IntImm("int32", 1), i
        )

    want = np.where(((A < -2) | (A > 4)) & ~(B == 4), 1, np.arange(N))
    np.testing.assert_array_equal(run(build, [A, B], "int32"), want)


def test_constants_and_conversions():
    x = RNG.standard_normal(N).astype("float32") * 9
    half = tir.FloatImm("float32", 0.5)
    got = run(lambda i, a: tir.Cast("int32", tir.Mul(a, half)), [x], "int32")
    np.testing.assert_array_equal(got, np.trunc(x * np.float32(0.5)).astype("int32"))
    assert (tir.StringImm("text").value, tir.IntImm("int8", 3).dtype) == ("text", "int8")
    assert isinstance(tir.SizeVar("n", "int32"), tir.Var)
    axis = tir.IterVar((0, 4), "k", 2)
    assert axis.iter_type == 2 and int(axis.dom.extent) == 4 and isinstance(axis.var, tir.Var)


def test_calls_and_names_for_values():
    x = RNG.uniform(1, 4, N).astype("float32")
    v = tir.Var("v", "float32")
    got = run(
        lambda i, a: tir.Let(v, tir.Call("float32", "sqrt", [a]), tir.Mul(v, tir.Add(v, v))),
        [x],
        "float32",
    )
    np.testing.assert_allclose(got, 2 * x, rtol=1e-6)


def test_vectors():
    a, out = tir.decl_buffer((16,), name="A"), tir.decl_buffer((16,), name="Out")
    five = tir.FloatImm("float32", 5.0)
    every_other = tir.BufferLoad(a, [tir.Ramp(1, 2, 8)])
    body = tir.SeqStmt(
        [
            tir.BufferStore(out, every_other, [tir.Ramp(0, 1, 8)]),
            tir.BufferStore(out, tir.Broadcast(five, 8), [tir.Ramp(8, 1, 8)]),
        ]
    )
    data, got = RNG.standard_normal(16).astype("float32"), np.full(16, 77, "float32")
    whet.build(tir.PrimFunc([a, out], body))(data, got)
    np.testing.assert_array_equal(got, [*data[1::2], *[5.0] * 8])


def test_statements():
    a, out = tir.decl_buffer((N,), "int32", name="A"), tir.decl_buffer((N,), "int32", name="Out")
    held = tir.decl_buffer((1,), "int32", name="held")
    i, twice = tir.Var("i", "int32"), tir.Var("twice", "int32")
    step = tir.SeqStmt(
        [
            tir.LetStmt(
                twice, tir.Mul(tir.BufferLoad(a, [i]), 2), tir.BufferStore(held, twice, [0])
            ),
            tir.IfThenElse(
                tir.LT(tir.BufferLoad(held, [0]), 0),
                tir.BufferStore(out, i, [i]),
                tir.BufferStore(out, tir.BufferLoad(held, [0]), [i]),
            ),
            tir.Evaluate(tir.IntImm("int32", 0)),
        ]
    )
    body = tir.Allocate(held, tir.For(i, 0, N, tir.ForKind.UNROLLED, step))
    got = np.full(N, 77, "int32")
    whet.build(tir.PrimFunc([a, out], body))(A, got)
    np.testing.assert_array_equal(got, np.where(A < 0, np.arange(N), 2 * A))


@pytest.mark.parametrize("kind", ["SERIAL", "PARALLEL", "VECTORIZED", "UNROLLED"])
def test_kinds_of_loops(kind):
    a, out = tir.decl_buffer((8,), name="A"), tir.decl_buffer((8,), name="Out")
    i = tir.Var("i", "int32")
    store = tir.BufferStore(out, tir.Add(tir.BufferLoad(a, [i]), 1.0), [i])
    loop = tir.For(i, 0, 8, getattr(tir.ForKind, kind), store)
    assert loop.kind == kind.lower()
    data, got = RNG.standard_normal(8).astype("float32"), np.full(8, 77, "float32")
    whet.build(tir.PrimFunc([a, out], loop))(data, got)
    np.testing.assert_array_equal(got, data + 1)


def test_reductions_and_elements_of_tensors():
    a = te.placeholder((5, 7), name="A")
    k = te.reduce_axis((0, 7), name="k")
    x, y = te.var("x", "float32"), te.var("y", "float32")
    product = tir.CommReducer((x,), (y,), (tir.Mul(x, y),), (tir.FloatImm("float32", 1.0),), "prod")

    def element(i):
        load = tir.ProducerLoad(a, [i, k.var])
        return tir.Reduce(product, (load,), (k,), tir.const(True), 0, "float32")

    c = te.compute((5,), element, name="C")
    data, got = RNG.uniform(1, 2, (5, 7)).astype("float32"), np.full(5, 77, "float32")
    whet.build(te.create_schedule(c.op), [a, c])(data, got)
    np.testing.assert_allclose(got, data.prod(axis=1), rtol=1e-5)


def test_expressions_that_are_written_the_same():
    x, y = tir.Var("x", "int32"), tir.Var("x", "int32")
    assert analysis.expr_deep_equal(tir.Add(x, 1), tir.Add(x, 1))
    assert not analysis.expr_deep_equal(tir.Add(x, 1), tir.Add(y, 1))
    assert not analysis.expr_deep_equal(tir.Add(x, 1), tir.Add(x, 2))
