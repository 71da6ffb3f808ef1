"""Facts of nodes that follow from their structure alone, worked out once for equal nodes.

An unrolled network has thousands of nodes and few structures; what a node's tensors show is asked
of each several times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from whet.compiler.graph.operators import computed
from whet.compiler.te import Tensor, placeholder

if TYPE_CHECKING:
    from whet.compiler.graph.ir import Value

T = TypeVar("T")

_MOST_KNOWN = 1 << 14
_PLAIN = (int, float, str, bool, type(None))
_known: dict[tuple[Any, str], Any] = {}


def of_equal_nodes(
    fact: Callable[[list[Tensor]], T],
    operator: str,
    operands: Sequence[Value | None],
    attrs: Mapping[str, Any],
) -> T:
    """A fact of an operator's results; equal operators, types and attributes share it.

    Args:
        fact: a function of the results, whatever they are called; one object for each fact.
        operator: its name.
        operands: what it reads; None where one is left out.
        attrs: its other arguments.

    Raises:
        ArgumentError: there is no such operator, or what it is given does not fit.
    """
    types = tuple(None if v is None else (v.shape, v.dtype) for v in operands)
    given = dict(attrs)
    # a text tells 1 from 1.0 and True; that of what is no plain data may leave something out
    key = (fact, repr((operator, types, given))) if _is_plain((types, given)) else None
    if key is not None and key in _known:
        return cast("T", _known[key])
    tensors = [None if v is None else placeholder(v.shape, v.dtype, v.name) for v in operands]
    found = fact(computed(operator, tensors, given))
    if key is not None:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[key] = found
    return found


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    return type(value) in _PLAIN
