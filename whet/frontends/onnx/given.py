"""The sizes that a caller gives for a model: checked, made numbers, and laid over the file's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from whet.compiler.errors import ArgumentError, nearest
from whet.compiler.graph.symbolic.sizes import Dynamic

LISTED = 12
"""Names that an error lists."""


def checked_sizes(who: str, shapes: Any) -> dict[str, Any]:
    """A name -> its size, or a tuple of sizes or of shapes, all of Python's integers.

    Args:
        who: the function that was called.
        shapes: what it was given.

    Raises:
        ArgumentError: it is no such thing.
    """
    if not isinstance(shapes, Mapping):
        raise ArgumentError(
            f"{who}(shapes={_shown(shapes)})",
            f"{type(shapes).__name__} names no sizes",
            "shapes={'batch': 1}: an input's name -> its shape, a dimension's name -> its size",
        )
    found = {}
    for name, given in shapes.items():
        request = f"{who}(shapes={{{name!r}: {_shown(given)}}})"
        if not isinstance(name, str):
            raise ArgumentError(request, f"{name!r} is no name", "shapes={'batch': 1}")
        found[name] = _numbers(request, name, given)
    return found


def _numbers(request: str, name: str, given: Any, depth: int = 0) -> Any:
    """A size, or the sizes, as numbers of Python."""
    if isinstance(given, Dynamic):
        return given
    if isinstance(given, np.ndarray):
        given = given.tolist()
    if isinstance(given, Integral) and not isinstance(given, bool):
        if int(given) < 0:
            raise ArgumentError(
                request, f"{int(given)} is no size: it is fixed before the model runs",
                f"shapes={{{name!r}: 1}}",
            )  # fmt: skip
        return int(given)
    if isinstance(given, Sequence) and not isinstance(given, str | bytes) and depth < 2:
        return tuple(_numbers(request, name, one, depth + 1) for one in given)
    raise ArgumentError(
        request, f"{_shown(given)} is no size: sizes are integers", f"shapes={{{name!r}: 1}}"
    )


def of_one(who: str, shapes: Mapping[str, Any], inputs: Iterable[str]) -> None:
    """Refuse several sizes where one model is made.

    Args:
        who: the function that was called.
        shapes: after :func:`checked_sizes`.
        inputs: the names of the model's inputs, whose sizes are a shape.

    Raises:
        ArgumentError: several sizes of a dimension, or several shapes of an input.
    """
    known = set(inputs)
    for name, given in shapes.items():
        request = f"{who}(shapes={{{name!r}: {given!r}}})"
        if isinstance(given, Dynamic) or (
            not isinstance(given, int) and any(isinstance(one, Dynamic) for one in given)
        ):
            raise ArgumentError(
                request, "a graph has numbers for all sizes", "whet.compile keeps such a size open"
            )
        flat = isinstance(given, int) or (
            name in known and all(isinstance(one, int) for one in given)
        )
        if not flat:
            raise ArgumentError(
                request, f"it names {len(given)} sizes, and a graph is of one",
                f"shapes={{{name!r}: {given[0] if given else 1!r}}}",
            )  # fmt: skip


def shape_of(name: str, kind: Any, shapes: Mapping[str, Any]) -> tuple[int, ...]:
    """The shape of an input: the file's, and what is given where that leaves a size open.

    Args:
        name: the input's.
        kind: its type in the file.
        shapes: of one model, see :func:`of_one`.

    Raises:
        ArgumentError: a size is not known, or what is given is not the file's.
    """
    if not kind.HasField("shape"):
        if name in shapes:
            return _shape(shapes[name])
        raise ArgumentError(
            f"input {name!r}", "its shape is not known", f"shapes={{{name!r}: (...)}}"
        )
    dims = kind.shape.dim
    words = [d.dim_param or f"{name}[{k}]" for k, d in enumerate(dims)]
    fixed = [d.dim_value if d.HasField("dim_value") else None for d in dims]
    if name in shapes:
        return _fitting(name, shapes, words, fixed)
    for k, (word, size) in enumerate(zip(words, fixed)):
        if size is not None and shapes.get(word, size) != size:
            raise ArgumentError(
                f"shapes={{{word!r}: {shapes[word]}}}", f"the file fixes this size: {size}",
                "give the sizes that it leaves open",
            )  # fmt: skip
        if size is None and word not in shapes:
            raise ArgumentError(
                f"input {name!r}", f"its dimension {k}, {word!r}, is not known",
                f"shapes={{{word!r}: 1}}, or shapes={{{name!r}: (...)}}",
            )  # fmt: skip
    return tuple(shapes[w] if size is None else size for w, size in zip(words, fixed))


def _fitting(
    name: str, shapes: Mapping[str, Any], words: Sequence[str], fixed: Sequence[int | None]
) -> tuple[int, ...]:
    """A shape that is given, which has the file's sizes."""
    given = _shape(shapes[name])
    wanted = [shapes.get(word) if size is None else size for word, size in zip(words, fixed)]
    fits = len(given) == len(wanted) and all(w in (None, g) for w, g in zip(wanted, given))
    if not fits:
        sizes = ", ".join(w if s is None else str(s) for w, s in zip(words, fixed))
        also = "".join(
            f", shapes give {w!r} {shapes[w]}" for w in dict.fromkeys(words) if w in shapes
        )
        raise ArgumentError(
            f"shapes={{{name!r}: {shapes[name]}}}", f"the file's input {name!r} is [{sizes}]{also}",
            "give the sizes that it leaves open; others are another file's",
        )  # fmt: skip
    return given


def _shape(given: int | Sequence[int]) -> tuple[int, ...]:
    """A shape that is given; a number is the size of a vector."""
    return (given,) if isinstance(given, int) else tuple(given)


def no_such_name(request: str, why: str, name: str, known: Iterable[str]) -> ArgumentError:
    """The error of a name that a model does not have, with those that it has."""
    names = list(dict.fromkeys(n for n in known if n))
    listed = ", ".join(map(repr, names[:LISTED])) or "(none)"
    more = f", and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ArgumentError(request, why, f"{nearest(name, names)}it has: {listed}{more}")


def _shown(given: Any) -> str:
    """A value in a few words: never an array's numbers."""
    if isinstance(given, np.ndarray) and given.size > LISTED:
        return f"an array of {given.size} numbers"
    text = " ".join(repr(given).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
