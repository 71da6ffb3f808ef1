"""The signature of a compiled kernel: plain data for the generator, the runtime and artifacts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from whet.compiler.abi.extent import Shape, from_data, to_data


@dataclass(frozen=True, slots=True)
class BufferParam:
    """An array argument.

    Attributes:
        name: name in messages.
        dtype: element type, e.g. ``"float32"``.
        shape: an extent a dimension: a number; a symbol, which an array's shape binds; or an
            operation over symbols, which is only checked.
        written: the kernel writes it, so that it must be writable.
        strides: the step of each dimension in elements; none for a compact row-major array.
        value_range: the least and the largest value that it is called with, where that was said;
            a call does not check it.
        same: the place of the argument that it must be, too; None for an array of its own.
    """

    name: str
    dtype: str
    shape: Shape
    written: bool = False
    strides: Shape = ()
    value_range: tuple[float, float] | None = None
    same: int | None = None

    def __str__(self) -> str:
        shape = ", ".join(map(str, self.shape))
        return f"{'out ' if self.written else ''}{self.name}: {self.dtype}[{shape}]"

    def __setstate__(self, state: list[Any]) -> None:
        """Earlier versions pickled extents as texts."""
        name, dtype, shape, written, strides, *more = state
        shape, strides = (from_data(to_data(extents)) for extents in (shape, strides))
        self.__init__(name, dtype, shape, written, strides, *more)  # type: ignore[misc]


@dataclass(frozen=True, slots=True)
class ScalarParam:
    """A number passed by value, of a scalar ``dtype``."""

    name: str
    dtype: str

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}"


@dataclass(frozen=True, slots=True)
class Ahead:
    """How the arrays are made that a kernel takes in place of its weights.

    "Places" are counted among the arguments that the schedule was lowered for, weights included.

    Attributes:
        function: the name of the function that makes them: of weights, then of packed arrays.
        weights: the places of its weights.
        packed: which of the kernel's parameters are packed arrays, in that function's order.
        places: the place of each of the kernel's parameters; a packed array has a weight's.
    """

    function: str
    weights: tuple[int, ...]
    packed: tuple[int, ...]
    places: tuple[int, ...]


_PLACES = ("weights", "packed", "places")


@dataclass(frozen=True, slots=True)
class KernelSignature:
    """One kernel's parameters, in order; ``ahead``: how those are made that stand for weights.

    The raw kernel is the LLVM function ``i32 @{name}__raw(ptr buffer..., scalar..., i64
    symbol...)``: buffers and scalars in the order of ``params``, then the symbols; it returns 0,
    or 1 when the memory for an intermediate buffer could not be had, 2 when a function that it
    called raised, and ``16 + k`` when ``asserts[k]`` does not hold; the numbers that this message
    names are then in the i64 array ``@{name}__assert_values``.
    """

    name: str
    params: tuple[BufferParam | ScalarParam, ...]
    symbols: tuple[str, ...] = ()
    asserts: tuple[str, ...] = ()
    ahead: Ahead | None = None

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.params))})"

    def to_json(self) -> dict:
        """The signature as JSON-able data."""
        return {
            "name": self.name,
            "params": [_param_data(p) for p in self.params],
            "symbols": list(self.symbols),
            "asserts": list(self.asserts),
            **({"ahead": asdict(self.ahead)} if self.ahead else {}),
        }

    @staticmethod
    def from_json(data: dict) -> KernelSignature:
        """The signature that :meth:`to_json` described."""
        ahead = data.get("ahead")
        return KernelSignature(
            data["name"],
            tuple(_param(p) for p in data["params"]),
            tuple(data["symbols"]),
            tuple(data.get("asserts", ())),
            ahead and Ahead(ahead["function"], *(tuple(ahead[key]) for key in _PLACES)),
        )


def _param_data(p: BufferParam | ScalarParam) -> dict:
    if isinstance(p, ScalarParam):
        return {"scalar": p.name, "dtype": p.dtype}
    data = {"buffer": p.name, "dtype": p.dtype, "shape": to_data(p.shape), "written": p.written}
    more = {"strides": to_data(p.strides), "value_range": list(p.value_range or ())}
    same = {} if p.same is None else {"same": p.same}
    return data | {key: value for key, value in more.items() if value} | same


def _param(data: dict) -> BufferParam | ScalarParam:
    if "scalar" in data:
        return ScalarParam(data["scalar"], data["dtype"])
    shape, strides = from_data(data["shape"]), from_data(data.get("strides", ()))
    reach = tuple(data.get("value_range") or ()) or None
    more = (strides, reach, data.get("same"))
    return BufferParam(data["buffer"], data["dtype"], shape, bool(data["written"]), *more)
