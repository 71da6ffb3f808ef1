"""Named templates of what is computed row by row: softmax and normalisation."""

from __future__ import annotations

from whet.compiler import te, topi
from whet.compiler.te import Tensor
from whet.compiler.topi.half_precision import stored, widened
from whet.search_spaces.graph.canonical_args import AXES_IN_ORDER, AXIS, FLOAT, REAL, SHAPE
from whet.search_spaces.graph.graph_templates import graph_template, tensor_template

Parts = tuple[list[Tensor], list[Tensor]]


@tensor_template("softmax", AXIS, wide=True)
def softmax(X: Tensor, axis: int = -1) -> Tensor:
    """``exp(X - max) / sum(exp(X - max))`` along an axis."""
    return topi.nn.softmax(X, axis)


@tensor_template("log_softmax", AXIS, wide=True)
def log_softmax(X: Tensor, axis: int = -1) -> Tensor:
    """The logarithm of softmax along an axis, without computing the quotient."""
    return topi.nn.log_softmax(X, axis)


@graph_template("layer_norm", SHAPE, AXES_IN_ORDER, REAL, FLOAT)
def layer_norm(
    shape: tuple, axes: tuple = (-1,), epsilon: float = 1e-5, dtype: str = "float32"
) -> Parts:
    """``(X - mean) / sqrt(variance + epsilon) * gamma + beta`` over axes.

    The axes are in ascending order, and ``gamma`` and ``beta`` have the shape of them.
    """
    X = te.placeholder(shape, dtype, name="X")
    own = tuple(shape[k] for k in axes)
    gamma, beta = (te.placeholder(own, dtype, name=name) for name in ("gamma", "beta"))
    made = topi.nn.layer_norm(widened(X), widened(gamma), widened(beta), axes, epsilon)
    return [X, gamma, beta], [stored(made, dtype)]


@graph_template("rms_norm", SHAPE, AXES_IN_ORDER, REAL, FLOAT)
def rms_norm(
    shape: tuple, axes: tuple = (-1,), epsilon: float = 1e-5, dtype: str = "float32"
) -> Parts:
    """``X / sqrt(mean(X * X) + epsilon) * gamma`` over axes.

    The axes are in ascending order, and ``gamma`` has the shape of them.
    """
    X = te.placeholder(shape, dtype, name="X")
    gamma = te.placeholder(tuple(shape[k] for k in axes), dtype, name="gamma")
    made = topi.nn.rms_norm(widened(X), widened(gamma), axes, epsilon)
    return [X, gamma], [stored(made, dtype)]


@graph_template("batch_norm", SHAPE, AXIS, REAL, FLOAT)
def batch_norm(shape: tuple, axis: int = 1, epsilon: float = 1e-5, dtype: str = "float32") -> Parts:
    """``(X - mean) / sqrt(variance + epsilon) * gamma + beta``, four numbers a channel."""
    X = te.placeholder(shape, dtype, name="X")
    own = (shape[axis],)
    g, b, m = (te.placeholder(own, dtype, name=name) for name in ("gamma", "beta", "mean"))
    # never negative; those near 0 would make of the check one of the rounding of a square root
    v = te.placeholder(own, dtype, name="variance", value_range=(0.25, 1.0))
    given = [g, b, m, v]
    wide = [widened(t) for t in given]
    made = topi.nn.batch_norm(widened(X), wide[0], wide[1], wide[2], wide[3], axis, epsilon)[0]
    return [X, *given], [stored(made, dtype)]
