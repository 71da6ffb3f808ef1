"""The sizes that a model is compiled for: one set of shapes, or several buckets."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import product
from numbers import Integral
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.frontends.onnx.given import checked_sizes

Shapes = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
"""A name -> its size or sizes; or a bucket each."""


def checked(who: str, shapes: Any) -> Shapes:
    """The shapes with Python's integers for all sizes.

    Args:
        who: the function that was called.
        shapes: what it was given.

    Raises:
        ArgumentError: it names no sizes.
    """
    if shapes is None:
        return None
    several = isinstance(shapes, Sequence) and not isinstance(shapes, str | bytes)
    if not several or not all(isinstance(one, Mapping) for one in shapes):
        return checked_sizes(who, shapes)
    return [checked_sizes(who, one) for one in shapes]


def buckets(shapes: Shapes, inputs: Collection[str]) -> list[dict[str, Any]] | None:
    """The shapes of each bucket; None where sizes are numbers, and there is one model.

    >>> buckets({"batch": [1, 4], "sequence": 128}, ["x"])
    [{'batch': 1, 'sequence': 128}, {'batch': 4, 'sequence': 128}]
    >>> buckets({"batch": 1, "x": [2, 3]}, ["x"]) is None
    True

    Args:
        shapes: as of :func:`whet.compile`. Several sizes of several names are all combinations.
        inputs: the names of the model's inputs, whose sizes are a shape.

    Raises:
        ArgumentError: a name has no size at all.
    """
    if shapes is None:
        return None
    if not isinstance(shapes, Mapping):
        if not shapes:
            raise ArgumentError("compile(shapes=[])", "no bucket is named", '[{"batch": 1}]')
        return [dict(one) for one in shapes]
    each = {name: _choices(name, given, name in inputs) for name, given in shapes.items()}
    if all(choices is None for choices in each.values()):
        return None
    many = [[shapes[n]] if choices is None else choices for n, choices in each.items()]
    return [dict(zip(shapes, chosen)) for chosen in product(*many)]


def _choices(name: str, given: Any, is_input: bool) -> list[Any] | None:
    """The sizes to choose from; None: it is one."""
    if isinstance(given, Integral) or not isinstance(given, Sequence) or isinstance(given, str):
        return None
    if is_input and (not given or isinstance(given[0], Integral)):
        return None
    if not given:
        raise ArgumentError(
            f"compile(shapes={{{name!r}: []}})", "it names no size", f"{{{name!r}: [1, 4]}}"
        )
    return list(given)
