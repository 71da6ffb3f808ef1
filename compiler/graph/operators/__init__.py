"""The operators of a graph: for each name a function of tensors in :mod:`te`.

The function takes the operands, None for one that is left out, and the node's attributes by name.
Types and shapes of results follow from what it returns; so do the loops that are fused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from whet.compiler.errors import ArgumentError, nearest
from whet.compiler.graph.operators import elementwise, indexed, neural, reductions, shapes
from whet.compiler.te import Tensor

Compute = Callable[..., Tensor | list[Tensor]]

OPERATORS: Mapping[str, Compute] = {
    **elementwise.OPERATORS,
    **shapes.OPERATORS,
    **reductions.OPERATORS,
    **neural.OPERATORS,
    **indexed.OPERATORS,
}
"""Name -> function."""


def computed(operator: str, operands: list[Any], attrs: Mapping[str, Any]) -> list[Tensor]:
    """The results of an operator.

    Args:
        operator: its name.
        operands: tensors, numbers where an operator broadcasts them, None where one is left out.
        attrs: its other arguments.

    Raises:
        ArgumentError: there is no such operator, or what it is given does not fit.
    """
    compute = OPERATORS.get(operator)
    if compute is None:
        raise ArgumentError(
            f"operator {operator!r}", "there is none of this name", nearest(operator, OPERATORS)
        )
    made = compute(*operands, **attrs)
    return list(made) if isinstance(made, (list, tuple)) else [made]
