"""The host's side of a function with kernels: plain data for every runtime."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from whet.compiler.abi.extent import Extent, Operation, Shape, from_data, parse, to_data

Extents3 = tuple[Extent, Extent, Extent]
"""Along x, y and z, over a function's symbols and scalar parameters."""

Argument = str | int | Operation
"""An argument of a launch: an array, a symbol or a scalar parameter by its name; a number."""


@dataclass(frozen=True, slots=True)
class Temporary:
    """An array on the device that lives as long as one call of its function.

    Attributes:
        name: what launches call it; no parameter and no symbol has this name.
        dtype: element type, e.g. ``"float32"``.
        shape: its dimensions; it is compact and row-major. What it holds at first is undefined.
    """

    name: str
    dtype: str
    shape: Shape


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a kernel. Where an extent turns out to be 0 there is nothing to launch.

    Attributes:
        kernel: the kernel's symbol, the name of one of the artifact's ``kernels``.
        arguments: what it gets, in the order of its parameters: for an array the name of a buffer
            parameter or of a temporary, for a number its extent or its name.
        grid: blocks along x, y and z.
        block: threads of a block along x, y and z.
        shared_bytes: dynamic shared memory of a block.
    """

    kernel: str
    arguments: tuple[Argument, ...]
    grid: Extents3
    block: Extents3
    shared_bytes: Extent = 0


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """The host's side of one function: what it needs, and its launches one after the other.

    Attributes:
        function: the function's name; a signature of the artifact describes its parameters.
        temporaries: arrays between its kernels.
        launches: in order; each sees what those before it have written.
    """

    function: str
    temporaries: tuple[Temporary, ...]
    launches: tuple[Launch, ...]

    def to_json(self) -> dict:
        """The plan as JSON-able data."""
        return {
            "function": self.function,
            "temporaries": [
                {"name": t.name, "dtype": t.dtype, "shape": to_data(t.shape)}
                for t in self.temporaries
            ],
            "launches": [
                {
                    "kernel": x.kernel,
                    "arguments": to_data(x.arguments),
                    "grid": to_data(x.grid),
                    "block": to_data(x.block),
                    "shared_bytes": to_data([x.shared_bytes])[0],
                }
                for x in self.launches
            ],
        }

    def __setstate__(self, state: list[Any]) -> None:
        """Earlier versions pickled extents as texts."""
        read = LaunchPlan.from_json(LaunchPlan(*state).to_json())
        self.__init__(read.function, read.temporaries, read.launches)  # type: ignore[misc]

    @staticmethod
    def from_json(data: dict) -> LaunchPlan:
        """The plan that :meth:`to_json` described."""
        temporaries = tuple(
            Temporary(t["name"], t["dtype"], from_data(t["shape"])) for t in data["temporaries"]
        )
        launches = tuple(
            Launch(
                x["kernel"],
                tuple(map(_argument, x["arguments"])),
                _three(x["grid"]),
                _three(x["block"]),
                *from_data([x["shared_bytes"]]),
            )
            for x in data["launches"]
        )
        return LaunchPlan(data["function"], temporaries, launches)


def _argument(data: Any) -> Argument:
    # an earlier version's text of an expression stays one: names of arrays may look like it
    return data if isinstance(data, str) else from_data([data])[0]  # type: ignore[return-value]


def _three(data: list) -> Extents3:
    x, y, z = from_data(data)
    return x, y, z


def extent_of(argument: Argument) -> Extent:
    """The extent that an argument is where it names no array."""
    return parse(argument) if isinstance(argument, str) else argument
