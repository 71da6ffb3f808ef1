"""How the primitives of a ``tir.Schedule`` run: recorded, and undone where they fail."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from whet.compiler.errors import LowerError, ScheduleError
from whet.compiler.te.blocks.trace import Instruction

if TYPE_CHECKING:
    from whet.compiler.te.blocks.schedule import Schedule

F = TypeVar("F", bound=Callable[..., Any])


def primitive(function: F) -> F:
    """Decorator of a primitive: a step of the trace, or no change at all.

    Raises:
        ScheduleError: in the place of an error of lowering, too.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def run(sch: Schedule, *args: Any, **kwargs: Any) -> Any:
        before = sch.saved()
        try:
            out = function(sch, *args, **kwargs)
            for state in sch.states.values():
                state.changed()
                _ = state.bounds
        except BaseException as error:
            sch.restore(before)
            if isinstance(error, LowerError):
                raise ScheduleError(*error.args) from None
            raise
        _record(sch, function.__name__, signature.bind(sch, *args, **kwargs), out)
        return out

    return cast(F, run)


def query(function: F) -> F:
    """Decorator of a method that changes nothing, and whose results the trace names."""
    signature = inspect.signature(function)

    @wraps(function)
    def run(sch: Schedule, *args: Any, **kwargs: Any) -> Any:
        out = function(sch, *args, **kwargs)
        _record(sch, function.__name__, signature.bind(sch, *args, **kwargs), out)
        return out

    return cast(F, run)


def _record(sch: Schedule, name: str, bound: inspect.BoundArguments, out: Any) -> None:
    if sch.trace is None:
        return
    given = dict(list(bound.arguments.items())[1:])
    outputs = () if out is None else tuple(out) if isinstance(out, list) else (out,)
    drawn = name.startswith("sample_")
    decision = sch.drawn if drawn else None
    if drawn:
        given.pop("decision", None)
    sch.trace.append(Instruction(name, given, outputs, isinstance(out, list), decision))
