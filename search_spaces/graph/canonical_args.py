"""Canonical arguments of templates: kinds that check an argument and give it one form.

A kind is a function ``(value, before, asked, name) -> value``: the value as a workload has it,
given the canonical arguments before it; errors say ``asked`` and the parameter's name.
``softmax((4, 8), -1)`` and ``softmax([4, 8], 1)`` are one workload.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te.lang.compute import element_type
from whet.compiler.tir import dtype as dt
from whet.search_spaces.template.canonical import Canonical

Kind = Callable[[Any, tuple, str, str], Any]


def canonical_arguments(name: str, parameters: Sequence[str], kinds: Sequence[Kind]) -> Canonical:
    """The canonical form of arguments of these kinds.

    Args:
        name: the template's, for messages.
        parameters: their names, for messages.
        kinds: one a parameter.
    """

    def canonical(args: tuple) -> tuple:
        asked = f"{name}({', '.join(map(repr, args))})"
        done: tuple = ()
        for value, parameter, kind in zip(args, parameters, kinds, strict=True):
            done = (*done, kind(value, done, asked, parameter))
        return done

    return canonical


def SHAPE(value: Any, before: tuple, asked: str, name: str) -> tuple[int, ...]:
    """Extents, none of them negative; an int is one extent."""
    extents = (value,) if isinstance(value, int) else value
    if not isinstance(extents, tuple | list) or not all(_is_int(d) for d in extents):
        raise ArgumentError(asked, f"{name} {value!r} is no shape", "a tuple of ints: (1024, 1024)")
    if min(extents, default=0) < 0:
        raise ArgumentError(asked, f"{name} {value!r} has a negative extent", "0 or more")
    return tuple(extents)


def IMAGES(value: Any, before: tuple, asked: str, name: str) -> tuple[int, ...]:
    """A shape of four extents: (N, C, H, W)."""
    shape = SHAPE(value, before, asked, name)
    if len(shape) != 4:
        raise ArgumentError(
            asked, f"{name} {shape} has {_dimensions(shape)}", "images are (N, C, H, W)"
        )
    return shape


def SHAPES(value: Any, before: tuple, asked: str, name: str) -> tuple[tuple[int, ...], ...]:
    """Several shapes."""
    if not isinstance(value, tuple | list) or not value or _is_int(value[0]):
        raise ArgumentError(
            asked, f"{name} {value!r} is no list of shapes", "a tuple of tuples: ((4, 8), (4, 3))"
        )
    return tuple(SHAPE(shape, before, asked, name) for shape in value)


def AXIS(value: Any, before: tuple, asked: str, name: str) -> int:
    """An axis of the first argument (of the first shape of it), from 0."""
    shape = _shape(before)
    rank = len(shape)
    if not _is_int(value) or not -rank <= value < rank:
        why = f"there is no axis {value!r} in {_dimensions(shape)}"
        raise ArgumentError(asked, why, _axes_of(shape, value, name))
    return value % rank


def AXES(value: Any, before: tuple, asked: str, name: str) -> tuple[int, ...]:
    """Axes of the first argument, from 0 and in order; None: all of them."""
    return tuple(sorted(_axes(value, before, asked, name)))


def AXES_IN_ORDER(value: Any, before: tuple, asked: str, name: str) -> tuple[int, ...]:
    """Axes of the first argument that another input has, too, in the order of both; None: all."""
    found = _axes(value, before, asked, name)
    if not found:
        raise ArgumentError(asked, f"{name} {value!r} names no axis", "one or more, e.g. (-1,)")
    if list(found) != sorted(found):
        own = tuple(_shape(before)[k] for k in sorted(found))
        raise ArgumentError(
            asked,
            f"{name} {value!r} are not in ascending order, which gamma's dimensions are in",
            f"write {tuple(sorted(found))}, with gamma (and beta) of shape {own}",
        )
    return found


def ORDER(value: Any, before: tuple, asked: str, name: str) -> tuple[int, ...]:
    """All axes of the first argument in a new order; None: reversed."""
    shape = _shape(before)
    if value is None:
        return tuple(reversed(range(len(shape))))
    given = value if isinstance(value, tuple | list) else ()
    order = tuple(AXIS(axis, before, asked, name) for axis in given)
    if sorted(order) != list(range(len(shape))):
        why = f"{name} {value!r} are no order of {_dimensions(shape)}"
        raise ArgumentError(asked, why, f"each axis once; {_axes_of(shape, value, name)}")
    return order


def PAIR(value: Any, before: tuple, asked: str, name: str) -> tuple[int, int]:
    """(vertical, horizontal), none negative; an int is both."""
    two = (value, value) if _is_int(value) else value
    if not isinstance(two, tuple | list) or len(two) != 2 or not all(_is_int(v) for v in two):
        raise ArgumentError(
            asked, f"{name} {value!r} is neither an int nor a pair of ints", "e.g. 2, or (2, 3)"
        )
    if min(two) < 0:
        raise ArgumentError(asked, f"{name} {value!r} is negative", "0 or more")
    return tuple(two)


def SIZES(value: Any, before: tuple, asked: str, name: str) -> tuple[int, int]:
    """(vertical, horizontal), each at least 1; an int is both."""
    two = PAIR(value, before, asked, name)
    if min(two) < 1:
        raise ArgumentError(asked, f"{name} {value!r} has a 0", "1 or more")
    return two


def COUNTS(value: Any, before: tuple, asked: str, name: str) -> tuple[int, ...]:
    """A number >= 0 for each dimension of the first argument; None: those of the one before."""
    if value is None:
        return before[-1]
    shape = _shape(before)
    given = (value,) if _is_int(value) else value
    if not isinstance(given, tuple | list) or not all(_is_int(n) for n in given):
        raise ArgumentError(
            asked, f"{name} {value!r} is no tuple of ints", f"{(1,) * len(shape)}, for example"
        )
    if len(given) != len(shape):
        many = f"{len(given)} number{'' if len(given) == 1 else 's'}"
        raise ArgumentError(
            asked,
            f"{name} {tuple(given)} has {many} for {_dimensions(shape)}",
            f"one for each: {(*given, *(0,) * len(shape))[: len(shape)]}, for example",
        )
    if min(given, default=0) < 0:
        raise ArgumentError(asked, f"{name} {value!r} has a negative number", "0 or more")
    return tuple(given)


def REAL(value: Any, before: tuple, asked: str, name: str) -> float:
    """A number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ArgumentError(asked, f"{name} {value!r} is no number", "an int or a float")
    return float(value)


def FLAG(value: Any, before: tuple, asked: str, name: str) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise ArgumentError(asked, f"{name} {value!r} is neither True nor False", "one of them")
    return value


def WORD(value: Any, before: tuple, asked: str, name: str) -> str:
    """A word that the operator knows: a mode, a layout."""
    if not isinstance(value, str):
        raise ArgumentError(asked, f"{name} {value!r} is no word", "a str")
    return value


def DTYPE(value: Any, before: tuple, asked: str, name: str) -> str:
    """A scalar element type, by its usual name."""
    return element_type(value, asked)


def FLOAT(value: Any, before: tuple, asked: str, name: str) -> str:
    """The element type of what is computed with fractions."""
    dtype = element_type(value, asked)
    if not dt.is_float(dtype):
        raise ArgumentError(
            asked,
            f"{name} {dtype!r} holds whole numbers, and the result is made of fractions",
            f'{name} "float32", or another float; convert the data before',
        )
    return dtype


def _axes(value: Any, before: tuple, asked: str, name: str) -> tuple[int, ...]:
    """Axes from 0, as they were given."""
    if value is None:
        return tuple(range(len(_shape(before))))
    given = [value] if isinstance(value, int) else value
    if not isinstance(given, tuple | list):
        raise ArgumentError(
            asked, f"{name} {value!r} are no axes", "a tuple of ints, or None for all"
        )
    found = tuple(AXIS(axis, before, asked, name) for axis in given)
    if len(set(found)) != len(found):
        raise ArgumentError(asked, f"{name} {tuple(given)} names an axis twice", "once is enough")
    return found


def _axes_of(shape: tuple[int, ...], value: Any, name: str) -> str:
    """The axes that exist; an int after a shape of one extent was probably meant for another."""
    if not shape:
        return "a shape of at least one dimension, e.g. (1024,)"
    known = f"{name} from {-len(shape)} to {len(shape) - 1}"
    if len(shape) > 1 or not _is_int(value) or value < 2:
        return known
    return f'{known}; a shape is one argument: "({shape[0]}, {value})" on a command line'


def _shape(before: tuple) -> tuple[int, ...]:
    """The first shape of the arguments."""
    first = before[0]
    return first[0] if first and isinstance(first[0], tuple) else first


def _dimensions(shape: tuple[int, ...]) -> str:
    return f"{len(shape)} dimension{'' if len(shape) == 1 else 's'}"


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
