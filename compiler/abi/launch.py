"""What the host does when a function with kernels is called: plain data for every runtime."""

from __future__ import annotations

from dataclasses import dataclass

Extent = int | str
"""A number, or the text of an expression (Python syntax, integers) over a function's symbols and
scalar parameters, as in the shapes of a :class:`~whet.compiler.abi.signature.KernelSignature`."""

Extents3 = tuple[Extent, Extent, Extent]


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
    shape: tuple[Extent, ...]


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a kernel. Where an extent turns out to be 0 there is nothing to launch.

    Attributes:
        kernel: the kernel's symbol, the name of one of the artifact's ``kernels``.
        arguments: what it gets, in the order of its parameters: for an array the name of a buffer
            parameter or of a temporary, for a number an extent's text.
        grid: blocks along x, y and z.
        block: threads of a block along x, y and z.
        shared_bytes: dynamic shared memory of a block.
    """

    kernel: str
    arguments: tuple[str, ...]
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
                {"name": t.name, "dtype": t.dtype, "shape": list(t.shape)} for t in self.temporaries
            ],
            "launches": [
                {
                    "kernel": x.kernel,
                    "arguments": list(x.arguments),
                    "grid": list(x.grid),
                    "block": list(x.block),
                    "shared_bytes": x.shared_bytes,
                }
                for x in self.launches
            ],
        }

    @staticmethod
    def from_json(data: dict) -> LaunchPlan:
        """The plan that :meth:`to_json` described."""
        temporaries = tuple(
            Temporary(t["name"], t["dtype"], tuple(t["shape"])) for t in data["temporaries"]
        )
        launches = tuple(
            Launch(
                x["kernel"],
                tuple(x["arguments"]),
                _three(x["grid"]),
                _three(x["block"]),
                x["shared_bytes"],
            )
            for x in data["launches"]
        )
        return LaunchPlan(data["function"], temporaries, launches)


def _three(extents: list[Extent]) -> Extents3:
    x, y, z = extents
    return x, y, z
