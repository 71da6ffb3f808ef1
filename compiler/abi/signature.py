"""What a compiled kernel takes: plain data for the generator, the runtime and artifacts."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class BufferParam:
    """An array argument.

    Attributes:
        name: name in messages.
        dtype: element type, e.g. ``"float32"``.
        shape: one entry a dimension: an int; the name of a symbol, which an array's shape binds;
            or the text of an expression over symbols (Python syntax), which is only checked.
        written: whether the kernel writes it, so that it must be writable.
        strides: the step of each dimension in elements, as ``shape`` has its entries; none for a
            compact row-major array.
        value_range: the least and the largest value that it is called with, where that was said;
            a call does not check it.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    written: bool = False
    strides: tuple[int | str, ...] = ()
    value_range: tuple[float, float] | None = None

    def __str__(self) -> str:
        shape = ", ".join(map(str, self.shape))
        return f"{'out ' if self.written else ''}{self.name}: {self.dtype}[{shape}]"


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
        params: list[dict] = []
        for p in self.params:
            if isinstance(p, BufferParam):
                params.append(
                    {
                        "buffer": p.name,
                        "dtype": p.dtype,
                        "shape": list(p.shape),
                        "written": p.written,
                        **({"strides": list(p.strides)} if p.strides else {}),
                        **({"value_range": list(p.value_range)} if p.value_range else {}),
                    }
                )
            else:
                params.append({"scalar": p.name, "dtype": p.dtype})
        return {
            "name": self.name,
            "params": params,
            "symbols": list(self.symbols),
            "asserts": list(self.asserts),
            **({"ahead": asdict(self.ahead)} if self.ahead else {}),
        }

    @staticmethod
    def from_json(data: dict) -> KernelSignature:
        """The signature that :meth:`to_json` described."""
        params: list[BufferParam | ScalarParam] = []
        for p in data["params"]:
            if "buffer" in p:
                params.append(
                    BufferParam(
                        p["buffer"],
                        p["dtype"],
                        tuple(p["shape"]),
                        bool(p["written"]),
                        tuple(p.get("strides", ())),
                        _range(p.get("value_range")),
                    )
                )
            else:
                params.append(ScalarParam(p["scalar"], p["dtype"]))
        ahead = data.get("ahead")
        return KernelSignature(
            data["name"],
            tuple(params),
            tuple(data["symbols"]),
            tuple(data.get("asserts", ())),
            None if ahead is None else _ahead(ahead),
        )


def _range(data: list | None) -> tuple[float, float] | None:
    return None if data is None else (data[0], data[1])


def _ahead(data: dict) -> Ahead:
    places = (tuple(data[key]) for key in ("weights", "packed", "places"))
    return Ahead(data["function"], *places)
