"""What a compiled kernel takes: plain data for the generator, the runtime and artifacts."""

from __future__ import annotations

from dataclasses import dataclass


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
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    written: bool = False
    strides: tuple[int | str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScalarParam:
    """A number passed by value, of a scalar ``dtype``."""

    name: str
    dtype: str


@dataclass(frozen=True, slots=True)
class KernelSignature:
    """One kernel's parameters, in order.

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
                    }
                )
            else:
                params.append({"scalar": p.name, "dtype": p.dtype})
        return {
            "name": self.name,
            "params": params,
            "symbols": list(self.symbols),
            "asserts": list(self.asserts),
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
                    )
                )
            else:
                params.append(ScalarParam(p["scalar"], p["dtype"]))
        return KernelSignature(
            data["name"], tuple(params), tuple(data["symbols"]), tuple(data.get("asserts", ()))
        )
