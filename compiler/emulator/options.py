"""How the emulator runs kernels: with what checks, and in which order of threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from whet.compiler.errors import ArgumentError

ORDERS = {"forwards": 0, "backwards": 1}


@dataclass(frozen=True, slots=True)
class EmulatorOptions:
    """The way in which a launch is run.

    Attributes:
        checks: whether each access of memory is looked at: races, bounds, unwritten memory.
            Barriers that threads miss are found in any case. Without, kernels run much faster.
        order: in which order a block's threads take turns: ``"forwards"``, ``"backwards"``, or a
            number of at least 2, the seed of a random order.
    """

    checks: bool = True
    order: str | int = "forwards"

    def __post_init__(self) -> None:
        seeded = (
            isinstance(self.order, int) and not isinstance(self.order, bool) and self.order >= 2
        )
        if self.order not in ORDERS and not seeded:
            raise ArgumentError(
                f"EmulatorOptions(order={self.order!r})",
                "an order of threads is 'forwards', 'backwards', or an integer of at least 2",
                "EmulatorOptions(order=7) draws an order",
            )

    @property
    def seed(self) -> int:
        """The order as a number."""
        return ORDERS[self.order] if isinstance(self.order, str) else self.order


_DEFAULT = EmulatorOptions()
_current: ContextVar[EmulatorOptions] = ContextVar("emulator_options", default=_DEFAULT)


def current_options() -> EmulatorOptions:
    """The options in force."""
    return _current.get()


@contextmanager
def emulator_options(
    checks: bool | None = None, order: str | int | None = None
) -> Iterator[EmulatorOptions]:
    """Run what the block launches with these options; None: as they are outside.

    Args:
        checks: see :class:`EmulatorOptions`.
        order: see :class:`EmulatorOptions`.
    """
    options = current_options()
    options = options if checks is None else replace(options, checks=checks)
    options = options if order is None else replace(options, order=order)
    token = _current.set(options)
    try:
        yield options
    finally:
        _current.reset(token)
