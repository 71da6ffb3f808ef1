"""The arguments of named templates: what each is, checked, and spelt in one way.

A kind is a function ``(value, before, asked) -> value``: the value as a workload has it, given the
canonical arguments before it. ``softmax((4, 8), -1)`` and ``softmax([4, 8], 1)`` are one workload.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te.build import element_type
from whet.search_spaces.canonical import Canonical

Kind = Callable[[Any, tuple, str], Any]


def spelled(name: str, kinds: Sequence[Kind]) -> Canonical:
    """The canonical form of arguments of these kinds.

    Args:
        name: the template's, for messages.
        kinds: one a parameter.
    """

    def canonical(args: tuple) -> tuple:
        asked = f"{name}({', '.join(map(repr, args))})"
        done: tuple = ()
        for value, kind in zip(args, kinds, strict=True):
            done = (*done, kind(value, done, asked))
        return done

    return canonical


def SHAPE(value: Any, before: tuple, asked: str) -> tuple[int, ...]:
    """Extents, none of them negative; an int is one extent."""
    extents = (value,) if isinstance(value, int) else value
    if not isinstance(extents, tuple | list) or not all(_is_int(d) for d in extents):
        raise ArgumentError(asked, f"{value!r} is no shape", "a tuple of ints: (1024, 1024)")
    if min(extents, default=0) < 0:
        raise ArgumentError(asked, f"the shape {value!r} has a negative extent", "0 or more")
    return tuple(extents)


def IMAGES(value: Any, before: tuple, asked: str) -> tuple[int, ...]:
    """A shape of four extents: (N, C, H, W)."""
    shape = SHAPE(value, before, asked)
    if len(shape) != 4:
        raise ArgumentError(
            asked, f"{shape} has {len(shape)} dimensions", "images are (N, C, H, W)"
        )
    return shape


def SHAPES(value: Any, before: tuple, asked: str) -> tuple[tuple[int, ...], ...]:
    """Several shapes."""
    if not isinstance(value, tuple | list) or not value or _is_int(value[0]):
        raise ArgumentError(
            asked, f"{value!r} is no list of shapes", "a tuple of tuples: ((4, 8), (4, 3))"
        )
    return tuple(SHAPE(shape, before, asked) for shape in value)


def AXIS(value: Any, before: tuple, asked: str) -> int:
    """An axis of the first argument (of the first shape of it), from 0."""
    rank = _rank(before)
    if not _is_int(value) or not -rank <= value < rank:
        raise ArgumentError(asked, f"there is no axis {value!r} in {rank} dimensions")
    return value % rank


def AXES(value: Any, before: tuple, asked: str) -> tuple[int, ...]:
    """Axes of the first argument, in order; None: all of them."""
    if value is None:
        return tuple(range(_rank(before)))
    given = [value] if isinstance(value, int) else value
    if not isinstance(given, tuple | list):
        raise ArgumentError(asked, f"{value!r} are no axes", "a tuple of ints, or None for all")
    found = [AXIS(axis, before, asked) for axis in given]
    if len(set(found)) != len(found):
        raise ArgumentError(asked, f"{tuple(given)} names an axis twice", "once is enough")
    return tuple(sorted(found))


def ORDER(value: Any, before: tuple, asked: str) -> tuple[int, ...]:
    """All axes of the first argument in a new order; None: reversed."""
    rank = _rank(before)
    if value is None:
        return tuple(reversed(range(rank)))
    given = value if isinstance(value, tuple | list) else ()
    order = tuple(AXIS(axis, before, asked) for axis in given)
    if sorted(order) != list(range(rank)):
        raise ArgumentError(
            asked, f"the axes {value!r} are no order of {rank} dimensions", "each of them once"
        )
    return order


def PAIR(value: Any, before: tuple, asked: str) -> tuple[int, int]:
    """(vertical, horizontal), none negative; an int is both."""
    two = (value, value) if _is_int(value) else value
    if not isinstance(two, tuple | list) or len(two) != 2 or not all(_is_int(v) for v in two):
        raise ArgumentError(asked, f"{value!r} is neither an int nor a pair of ints")
    if min(two) < 0:
        raise ArgumentError(asked, f"{value!r} is negative", "0 or more")
    return tuple(two)


def COUNTS(value: Any, before: tuple, asked: str) -> tuple[int, ...]:
    """A number >= 0 for each dimension of the first argument; None: those of the one before."""
    if value is None:
        return before[-1]
    rank = _rank(before)
    given = SHAPE(value, before, asked)
    if len(given) != rank:
        raise ArgumentError(asked, f"{given} are {len(given)} numbers for {rank} dimensions")
    return given


def REAL(value: Any, before: tuple, asked: str) -> float:
    """A number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ArgumentError(asked, f"{value!r} is no number")
    return float(value)


def FLAG(value: Any, before: tuple, asked: str) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise ArgumentError(asked, f"{value!r} is neither True nor False")
    return value


def WORD(value: Any, before: tuple, asked: str) -> str:
    """A word that the operator knows: a mode, a layout."""
    if not isinstance(value, str):
        raise ArgumentError(asked, f"{value!r} is no word")
    return value


def DTYPE(value: Any, before: tuple, asked: str) -> str:
    """A scalar element type, by its usual name."""
    return element_type(value, asked)


def _rank(before: tuple) -> int:
    first = before[0]
    return len(first[0]) if first and isinstance(first[0], tuple) else len(first)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
