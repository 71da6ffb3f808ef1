"""An operator's row: its reference, and the same work by other libraries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Array = Any
Tensor = Any
Call = Callable[[], Any]


@dataclass(frozen=True)
class Operator:
    """The functions of one operator; all but the reference may be missing.

    Attributes:
        reference: from the template's arguments and the inputs, in numpy and float64, to the
            result.
        numpy: from the same, as they are, to a call that does the work once.
        torch: adds ways to a :class:`TorchWays`, from it and the inputs as tensors.
        triton: from the arguments and tensors to a call; None where it cannot do them.
        channels: the axes that an epilogue's bias belongs to.
    """

    reference: Callable[..., Array]
    numpy: Callable[..., Call] | None = None
    torch: Callable[..., None] | None = None
    triton: Callable[..., Call | None] | None = None
    channels: tuple[int, ...] = (-1,)


@dataclass
class Peers:
    """Ways to do a task's work with other libraries.

    Attributes:
        calls: a name such as ``"torch channels_last"`` -> a function that does the work once and
            returns the result.
        packed: those of them that had their weights packed ahead.
        left_out: what could not be had, and why.
    """

    calls: dict[str, Call] = field(default_factory=dict)
    packed: set[str] = field(default_factory=set)
    left_out: list[str] = field(default_factory=list)

    def add(self, name: str, make: Callable[[], Call], packed: bool = False) -> None:
        """Make a peer and let it run once; where it cannot, that is noted.

        Args:
            name: the library, and the way.
            make: does what is done once, and returns the call.
            packed: True if ``make`` packs the weights.
        """
        try:
            call = make()
            call()
        except Exception as error:  # whatever a library throws, the others are compared
            lines = str(error).strip().splitlines() or [type(error).__name__]
            self.left_out.append(f"{name}: {lines[0][:160]}")
            return
        self.calls[name] = call
        if packed:
            self.packed.add(name)


def into(work: Callable[..., Array], *inputs: Array, **more: Any) -> Call:
    """A call of work that takes ``out=``, with an output that exists already."""
    out = work(*inputs, **more)
    return lambda: work(*inputs, out=out, **more)
