"""Canonical arguments of templates: kinds that check an argument and give it one form.

A kind is a function ``(value, argument) -> value``: the value as a workload has it, given the
:class:`Argument` that it is, which makes the errors.
``softmax((4, 8), -1)`` and ``softmax([4, 8], 1)`` are one workload.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te.lang.compute import element_type
from whet.compiler.tir import dtype as dt
from whet.search_spaces.template.canonical import Canonical


@dataclass(frozen=True)
class Argument:
    """An argument of a template, for its kind.

    Attributes:
        before: the canonical arguments before it.
        request: the call, for messages. name: of the parameter.
    """

    before: tuple
    request: str
    name: str

    @property
    def shape(self) -> tuple[int, ...]:
        """The first shape of the arguments before."""
        first = self.before[0]
        return first[0] if first and isinstance(first[0], tuple) else first

    def error(self, problem: str, way_out: str) -> ArgumentError:
        """An error whose reason begins with the parameter's name."""
        return ArgumentError(self.request, f"{self.name} {problem}", way_out)


Kind = Callable[[Any, Argument], Any]


def canonical_arguments(name: str, parameters: Sequence[str], kinds: Sequence[Kind]) -> Canonical:
    """The canonical form of arguments of these kinds.

    Args:
        name: the template's, for messages.
        parameters: their names, for messages.
        kinds: one a parameter.
    """

    def canonical(args: tuple) -> tuple:
        request = f"{name}({', '.join(map(repr, args))})"
        done: tuple = ()
        for value, parameter, kind in zip(args, parameters, kinds, strict=True):
            done = (*done, kind(value, Argument(done, request, parameter)))
        return done

    return canonical


def SHAPE(value: Any, a: Argument) -> tuple[int, ...]:
    """Extents, none of them negative; an int is one extent."""
    extents = (value,) if isinstance(value, int) else value
    if not _are_ints(extents):
        raise a.error(f"{value!r} is no shape", "a tuple of ints: (1024, 1024)")
    if min(extents, default=0) < 0:
        raise a.error(f"{value!r} has a negative extent", "0 or more")
    return tuple(extents)


def IMAGES(value: Any, a: Argument) -> tuple[int, ...]:
    """A shape of four extents: (N, C, H, W)."""
    shape = SHAPE(value, a)
    if len(shape) != 4:
        raise a.error(f"{shape} has {_dimensions(shape)}", "images are (N, C, H, W)")
    return shape


def SHAPES(value: Any, a: Argument) -> tuple[tuple[int, ...], ...]:
    """Several shapes."""
    if not isinstance(value, tuple | list) or not value or _is_int(value[0]):
        raise a.error(f"{value!r} is no list of shapes", "a tuple of tuples: ((4, 8), (4, 3))")
    return tuple(SHAPE(shape, a) for shape in value)


def AXIS(value: Any, a: Argument) -> int:
    """An axis of the first argument (of the first shape of it), from 0."""
    rank = len(a.shape)
    if not _is_int(value) or not -rank <= value < rank:
        why = f"there is no axis {value!r} in {_dimensions(a.shape)}"
        raise ArgumentError(a.request, why, _axes_of(value, a))
    return value % rank


def AXES(value: Any, a: Argument) -> tuple[int, ...]:
    """Axes of the first argument, from 0 and in order; None: all of them."""
    return tuple(sorted(_axes(value, a)))


def AXES_IN_ORDER(value: Any, a: Argument) -> tuple[int, ...]:
    """Axes of the first argument that another input has, too, in the order of both; None: all."""
    axes = _axes(value, a)
    if not axes:
        raise a.error(f"{value!r} names no axis", "one or more, e.g. (-1,)")
    if list(axes) != sorted(axes):
        own = tuple(a.shape[k] for k in sorted(axes))
        raise a.error(
            f"{value!r} are not in ascending order, which gamma's dimensions are in",
            f"write {tuple(sorted(axes))}, with gamma (and beta) of shape {own}",
        )
    return axes


def ORDER(value: Any, a: Argument) -> tuple[int, ...]:
    """All axes of the first argument in a new order; None: reversed."""
    every = list(range(len(a.shape)))
    if value is None:
        return tuple(reversed(every))
    given = value if isinstance(value, tuple | list) else ()
    order = tuple(AXIS(axis, a) for axis in given)
    if sorted(order) != every:
        why = f"{value!r} are no order of {_dimensions(a.shape)}"
        raise a.error(why, f"each axis once; {_axes_of(value, a)}")
    return order


def PAIR(value: Any, a: Argument) -> tuple[int, int]:
    """(vertical, horizontal), none negative; an int is both."""
    two = (value, value) if _is_int(value) else value
    if not _are_ints(two) or len(two) != 2:
        raise a.error(f"{value!r} is neither an int nor a pair of ints", "e.g. 2, or (2, 3)")
    if min(two) < 0:
        raise a.error(f"{value!r} is negative", "0 or more")
    return tuple(two)


def SIZES(value: Any, a: Argument) -> tuple[int, int]:
    """(vertical, horizontal), each at least 1; an int is both."""
    two = PAIR(value, a)
    if min(two) < 1:
        raise a.error(f"{value!r} has a 0", "1 or more")
    return two


def COUNTS(value: Any, a: Argument) -> tuple[int, ...]:
    """A number >= 0 for each dimension of the first argument; None: those of the one before."""
    if value is None:
        return a.before[-1]
    rank = len(a.shape)
    given = (value,) if _is_int(value) else value
    if not _are_ints(given):
        raise a.error(f"{value!r} is no tuple of ints", f"{(1,) * rank}, for example")
    if len(given) != rank:
        many = f"{len(given)} number{'' if len(given) == 1 else 's'}"
        raise a.error(
            f"{tuple(given)} has {many} for {_dimensions(a.shape)}",
            f"one for each: {(*given, *(0,) * rank)[:rank]}, for example",
        )
    if min(given, default=0) < 0:
        raise a.error(f"{value!r} has a negative number", "0 or more")
    return tuple(given)


def REAL(value: Any, a: Argument) -> float:
    """A number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise a.error(f"{value!r} is no number", "an int or a float")
    return float(value)


def FLAG(value: Any, a: Argument) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise a.error(f"{value!r} is neither True nor False", "one of them")
    return value


def WORD(value: Any, a: Argument) -> str:
    """A word that the operator knows: a mode, a layout."""
    if not isinstance(value, str):
        raise a.error(f"{value!r} is no word", "a str")
    return value


def DTYPE(value: Any, a: Argument) -> str:
    """A scalar element type, by its usual name."""
    return element_type(value, a.request)


def FLOAT(value: Any, a: Argument) -> str:
    """A floating-point dtype, for operators whose results are no integers."""
    dtype = element_type(value, a.request)
    if not dt.is_float(dtype):
        raise a.error(
            f"{dtype!r} holds integers, and the result is floating point",
            f'{a.name} "float32", or another float; convert the data before',
        )
    return dtype


def _axes(value: Any, a: Argument) -> tuple[int, ...]:
    """Axes from 0, as they were given."""
    if value is None:
        return tuple(range(len(a.shape)))
    given = [value] if isinstance(value, int) else value
    if not isinstance(given, tuple | list):
        raise a.error(f"{value!r} are no axes", "a tuple of ints, or None for all")
    axes = tuple(AXIS(axis, a) for axis in given)
    if len(set(axes)) != len(axes):
        raise a.error(f"{tuple(given)} names an axis twice", "once is enough")
    return axes


def _axes_of(value: Any, a: Argument) -> str:
    """The axes that exist; an int after a shape of one extent was probably meant for another."""
    rank = len(a.shape)
    if not rank:
        return "a shape of at least one dimension, e.g. (1024,)"
    known = f"{a.name} from {-rank} to {rank - 1}"
    if rank > 1 or not _is_int(value) or value < 2:
        return known
    return f'{known}; a shape is one argument: "({a.shape[0]}, {value})" on a command line'


def _dimensions(shape: tuple[int, ...]) -> str:
    return f"{len(shape)} dimension{'' if len(shape) == 1 else 's'}"


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _are_ints(value: Any) -> bool:
    return isinstance(value, tuple | list) and all(map(_is_int, value))
