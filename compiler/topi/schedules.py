"""The one table of operators' schedules: what ``topi.<kind>.schedule_*`` looks up.

A kind's row wins over ``generic``'s. ``search_spaces`` adds tuned schedules with
:func:`register_schedule`; rows name a function as ``"module:function"``, which is imported when it
is first asked for, or are the function itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.target import Target
from whet.compiler.te import Schedule, Tensor

Make = Callable[[list[Tensor]], Schedule]

_DEFAULTS = "whet.compiler.topi.default_schedules"
SCHEDULES: dict[str, dict[str, str | Make]] = {
    "generic": {
        "injective": f"{_DEFAULTS}:generic_injective",
        "elemwise": f"{_DEFAULTS}:generic_injective",
        "broadcast": f"{_DEFAULTS}:generic_injective",
        "reduce": f"{_DEFAULTS}:generic_reduce",
        "extern": f"{_DEFAULTS}:generic_extern",
    },
    "x86": {
        "injective": f"{_DEFAULTS}:x86_injective",
        "elemwise": f"{_DEFAULTS}:x86_injective",
        "broadcast": f"{_DEFAULTS}:x86_injective",
        "reduce": f"{_DEFAULTS}:x86_reduce",
    },
    "cuda": {
        "injective": f"{_DEFAULTS}:cuda_injective",
        "elemwise": f"{_DEFAULTS}:cuda_injective",
        "broadcast": f"{_DEFAULTS}:cuda_injective",
        "reduce": f"{_DEFAULTS}:cuda_reduce",
    },
}
"""Kind (``generic``, ``x86``, ``cuda``, ...) -> operator -> what makes its schedule."""


def register_schedule(kind: str, name: str, make: str | Make, override: bool = False) -> None:
    """Add a row.

    Args:
        kind: ``"generic"``, ``"x86"``, ``"cuda"`` or a new one.
        name: the operator, e.g. ``"conv2d_nchw"``.
        make: ``"module:function"`` or a function from the output tensors to a schedule.
        override: replace a row that is there.

    Raises:
        ArgumentError: there is one.
    """
    rows = SCHEDULES.setdefault(kind, {})
    if name in rows and not override:
        raise ArgumentError(
            f"register_schedule({kind!r}, {name!r})", "there is one", "give override=True"
        )
    rows[name] = make


def find_schedule(kind: str, name: str) -> Make:
    """What makes the schedule of an operator for a kind, or for any.

    Raises:
        ArgumentError: nobody has registered one.
    """
    row = SCHEDULES.get(kind, {}).get(name) or SCHEDULES["generic"].get(name)
    if row is None:
        known = sorted({*SCHEDULES.get(kind, {}), *SCHEDULES["generic"]})
        raise ArgumentError(
            f"topi.{kind}.schedule_{name}",
            "there is no such schedule",
            f"schedules: {', '.join(known)}; or te.create_schedule",
        )
    if isinstance(row, str):
        module, _, function = row.partition(":")
        found: Make = getattr(import_module(module), function)
        return found
    return row


def scheduler(kind: str, name: str) -> Callable[..., Schedule]:
    """The function ``topi.<kind>.schedule_<name>``.

    It takes ``(outs)``, or as TVM's documentation has it ``(target, outs)``: a tensor or a list of
    them.
    """

    def schedule(*args: Any) -> Schedule:
        outs = _outputs(args, f"topi.{kind}.schedule_{name}")
        make = find_schedule(kind, name)
        if len(args) == 2:
            with Target(args[0]):
                return make(outs)
        return make(outs)

    schedule.__name__ = f"schedule_{name}"
    schedule.__doc__ = f"The schedule of {name} for {kind}: ``(outs)`` or ``(target, outs)``."
    return schedule


def _outputs(args: Sequence[Any], asked: str) -> list[Tensor]:
    if len(args) not in (1, 2):
        raise ArgumentError(f"{asked}({len(args)} arguments)", "give (outs) or (target, outs)")
    given = args[-1]
    outs = list(given) if isinstance(given, (list, tuple)) else [given]
    if not outs or not all(isinstance(t, Tensor) for t in outs):
        raise ArgumentError(f"{asked}({given!r})", "the outputs are tensors", "[C]")
    return outs


def face(kind: str) -> Callable[[str], Any]:
    """``__getattr__`` of a module ``topi.<kind>``, which finds ``schedule_*`` in the table."""

    def get(attribute: str) -> Any:
        name = attribute.removeprefix("schedule_")
        if name == attribute or (
            name not in SCHEDULES.get(kind, {}) and name not in SCHEDULES["generic"]
        ):
            there = ", ".join(
                f"schedule_{n}" for n in sorted({**SCHEDULES["generic"], **SCHEDULES.get(kind, {})})
            )
            raise AttributeError(
                f"topi.{kind} has no attribute {attribute!r}\n  it has {there}; what an operator "
                f"computes is in topi and topi.nn, and whet.create_task(outputs=[C], target=...) "
                "makes and tunes its schedule"
            )
        return scheduler(kind, name)

    return get
