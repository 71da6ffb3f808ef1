"""Named templates of reductions over axes, and of running sums."""

from __future__ import annotations

from math import prod

from whet.compiler import te, topi
from whet.compiler.te import Tensor
from whet.compiler.topi.halves import stored, widened
from whet.search_spaces.graph.canonical_args import AXES, AXIS, DTYPE, FLOAT, SHAPE
from whet.search_spaces.graph.graph_templates import graph_template

Parts = tuple[list[Tensor], list[Tensor]]


@graph_template("sum", SHAPE, AXES, DTYPE)
def sum_(shape: tuple, axes: tuple | None = None, dtype: str = "float32") -> Parts:
    """The sum over axes; None: over all; (): X as it is."""
    X = te.placeholder(shape, dtype, name="X")
    return [X], [stored(topi.sum(widened(X), axes), dtype)]


@graph_template("mean", SHAPE, AXES, FLOAT)
def mean(shape: tuple, axes: tuple | None = None, dtype: str = "float32") -> Parts:
    """The mean over axes; None: over all; (): X as it is. Of no elements it is NaN, as numpy's."""
    X = te.placeholder(shape, dtype, name="X")
    many = prod(shape[k] for k in axes or ())
    total = topi.sum(widened(X), axes)
    return [X], [stored(topi.divide(total, te.const(many, total.dtype)), dtype)]


@graph_template("max", SHAPE, AXES, DTYPE)
def max_(shape: tuple, axes: tuple | None = None, dtype: str = "float32") -> Parts:
    """The maximum over axes; None: over all; (): X as it is.

    Of no elements it is the least value of the type, -inf of floats, where numpy refuses.
    """
    X = te.placeholder(shape, dtype, name="X")
    return [X], [topi.max(X, axes)]


@graph_template("min", SHAPE, AXES, DTYPE)
def min_(shape: tuple, axes: tuple | None = None, dtype: str = "float32") -> Parts:
    """The minimum over axes; None: over all; (): X as it is.

    Of no elements it is the largest value of the type, inf of floats, where numpy refuses.
    """
    X = te.placeholder(shape, dtype, name="X")
    return [X], [topi.min(X, axes)]


@graph_template("argmax", SHAPE, AXIS, DTYPE)
def argmax(shape: tuple, axis: int = -1, dtype: str = "float32") -> Parts:
    """Where along an axis the maximum is, the first of equals, as int32."""
    X = te.placeholder(shape, dtype, name="X")
    return [X], [topi.argmax(X, axis)]


@graph_template("argmin", SHAPE, AXIS, DTYPE)
def argmin(shape: tuple, axis: int = -1, dtype: str = "float32") -> Parts:
    """Where along an axis the minimum is, the first of equals, as int32."""
    X = te.placeholder(shape, dtype, name="X")
    return [X], [topi.argmin(X, axis)]


@graph_template("cumsum", SHAPE, AXIS, DTYPE)
def cumsum(shape: tuple, axis: int = -1, dtype: str = "float32") -> Parts:
    """The sum of all elements up to each one, along an axis."""
    X = te.placeholder(shape, dtype, name="X")
    return [X], [topi.cumsum(X, axis)]
