"""Named templates of reductions over axes, and of running sums."""

from __future__ import annotations

from math import prod

from whet.compiler import te, topi
from whet.compiler.te import Tensor
from whet.search_spaces.graph.canonical_args import AXES, AXIS, FLOAT
from whet.search_spaces.graph.graph_templates import tensor_template


@tensor_template("sum", AXES, wide=True)
def sum_(X: Tensor, axes: tuple | None = None) -> Tensor:
    """The sum over axes; None: over all; (): X as it is."""
    return topi.sum(X, axes)


@tensor_template("mean", AXES, dtype=FLOAT, wide=True)
def mean(X: Tensor, axes: tuple | None = None) -> Tensor:
    """The mean over axes; None: over all; (): X as it is. Of no elements it is NaN, as numpy's."""
    many = prod(int(X.shape[k]) for k in axes or ())
    total = topi.sum(X, axes)
    return topi.divide(total, te.const(many, total.dtype))


@tensor_template("max", AXES)
def max_(X: Tensor, axes: tuple | None = None) -> Tensor:
    """The maximum over axes; None: over all; (): X as it is.

    Of no elements it is the least value of the type, -inf of floats, where numpy refuses.
    """
    return topi.max(X, axes)


@tensor_template("min", AXES)
def min_(X: Tensor, axes: tuple | None = None) -> Tensor:
    """The minimum over axes; None: over all; (): X as it is.

    Of no elements it is the largest value of the type, inf of floats, where numpy refuses.
    """
    return topi.min(X, axes)


@tensor_template("argmax", AXIS)
def argmax(X: Tensor, axis: int = -1) -> Tensor:
    """Where along an axis the maximum is, the first of equals, as int32."""
    return topi.argmax(X, axis)


@tensor_template("argmin", AXIS)
def argmin(X: Tensor, axis: int = -1) -> Tensor:
    """Where along an axis the minimum is, the first of equals, as int32."""
    return topi.argmin(X, axis)


@tensor_template("cumsum", AXIS)
def cumsum(X: Tensor, axis: int = -1) -> Tensor:
    """The sum of all elements up to each one, along an axis."""
    return topi.cumsum(X, axis)
