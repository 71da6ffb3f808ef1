"""Epilogues: each step against numpy, their canonical form, and their errors."""

from __future__ import annotations

import math

import emulated
import numpy as np
import pytest

import whet
from whet import te
from whet.compiler.errors import ArgumentError
from whet.compiler.topi.nn import Epilogue

_erf = np.vectorize(math.erf)

STEPS = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * 0.5 * (1 + _erf(x / math.sqrt(2))),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    ("clip", -0.5, 0.75): lambda x: np.clip(x, -0.5, 0.75),
    ("clip", None, 0.25): lambda x: np.minimum(x, 0.25),
    ("clip", 0.25, None): lambda x: np.maximum(x, 0.25),
}


def run(steps: tuple, shape: tuple, axes: object, dtype: str = "float32") -> tuple:
    """An epilogue of an input; returns the inputs, in order, and the result."""
    data = te.placeholder(shape, dtype, name="data")
    out, extras = Epilogue.of(steps).apply(data, axes)
    s = te.create_schedule(out.op)
    f = whet.build(s, [data, *extras, out], "llvm")
    rng = np.random.default_rng(0)
    given = [
        rng.standard_normal([int(d) for d in t.shape]).astype(t.dtype) for t in (data, *extras)
    ]
    result = np.full(shape, np.nan).astype(out.dtype)
    f(*given, result)
    emulated.too(s, [data, *extras, out], given, result)
    return [x.astype("float64") for x in given], result


@pytest.mark.parametrize("step", STEPS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_each_step(step: object, dtype: str) -> None:
    (x,), out = run((step,), (3, 37), 1, dtype)
    assert out.dtype == dtype
    np.testing.assert_allclose(out, STEPS[step](x), rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_a_bias_goes_along_the_channels(axis: int) -> None:
    (x, bias), out = run(("bias",), (4, 5, 6), axis)
    assert bias.shape == ((4, 5, 6)[axis],)
    shape = [1, 1, 1]
    shape[axis] = -1
    np.testing.assert_allclose(out, x + bias.reshape(shape), rtol=1e-6, atol=1e-6)


def test_a_bias_of_channels_in_two_axes_has_one_dimension() -> None:
    (x, bias), out = run(("bias",), (2, 3, 5, 4), (1, 3))
    assert bias.shape == (12,)
    np.testing.assert_allclose(out, x + bias.reshape(3, 1, 4), rtol=1e-6, atol=1e-6)


def test_steps_are_applied_in_their_order() -> None:
    (x, residual, bias), out = run(
        ("residual", "relu", "bias", ("clip", -1, 1), ("cast", "float16")), (5, 9), 1
    )
    assert residual.shape == x.shape and bias.shape == (9,) and out.dtype == "float16"
    right = np.clip(np.maximum(x + residual, 0) + bias, -1, 1)
    np.testing.assert_allclose(out.astype("float64"), right, atol=1e-3)


def test_steps_after_a_cast_are_of_its_type() -> None:
    data = te.placeholder((4, 4), "float32", name="data")
    epilogue = Epilogue.of((("cast", "float16"), "bias", "residual"))
    out, extras = epilogue.apply(data, 1)
    assert [t.dtype for t in extras] == ["float16", "float16"] and out.dtype == "float16"
    assert epilogue.dtype("float32") == "float16" and Epilogue.of(("relu",)).dtype("f") == "f"


def test_no_step_changes_nothing() -> None:
    data = te.placeholder((4, 4), name="data")
    for empty in (None, (), []):
        epilogue = Epilogue.of(empty)
        assert not epilogue and epilogue.apply(data, 1) == (data, [])


def test_one_stage_reads_the_input() -> None:
    data = te.compute((8, 8), lambda i, j: te.const(2.0) * i.astype("float32"), name="data")
    out, _ = Epilogue.of(("bias", "gelu", "residual")).apply(data, 1)
    assert data in out.op.input_tensors and len(te.create_schedule(out.op).stages) == 4


def test_several_spellings_have_one_form() -> None:
    wanted = ("bias", ("clip", 0.0, 6.0), ("cast", "float32"))
    given = Epilogue.of(["bias", ["clip", 0, 6], ("cast", "float")])
    assert given.steps == wanted and Epilogue.of(given) is given
    assert Epilogue.of("gelu").steps == ("gelu",)
    assert Epilogue.of(given.steps) == given and bool(given)
    one_end = Epilogue.of([("clip", 0, math.inf), ("clip", -math.inf, 1)]).steps
    assert one_end == (("clip", 0.0, None), ("clip", None, 1.0))


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("(bias,relu)", r"a tuple of steps\n  write .*\"\('bias','relu'\)\"\n  steps: bias, res"),
        ("clip", "an epilogue is a tuple of steps"),
        (("swish",), "'swish' is no step\n  steps: bias, residual, relu"),
        ((3,), "3 is no step"),
        (((),), r"\(\) is no step"),
        (("clip",), "'clip' is not complete"),
        (("clip", 0, 6), "'clip' is not complete"),
        ((("clip", 6, 0),), "6.0 is above 0.0"),
        ((("clip", "a", 1),), "bounds are numbers"),
        ((("clip", math.nan, 1),), "bounds are numbers, or None"),
        ((("clip", None, math.inf),), "both ends are open\n  leave the step out"),
        ((("cast", "int8"),), "int8 holds no floats"),
        ((("cast",),), "is not complete"),
        ((("cast", "float31"),), "float31"),
    ],
)
def test_errors(steps: object, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Epilogue.of(steps)


def test_errors_of_the_input() -> None:
    ints = te.placeholder((4,), "int32", name="ints")
    with pytest.raises(ArgumentError, match="elements are int32, no floats"):
        Epilogue.of(("relu",)).apply(ints, 0)
    with pytest.raises(ArgumentError, match="there is no axis 2 in 1 dimensions"):
        Epilogue.of(("bias",)).apply(te.placeholder((4,), name="x"), 2)
