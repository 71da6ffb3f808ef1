"""LLVM text of one function under construction."""

from __future__ import annotations

from collections.abc import Mapping

from whet.compiler.abi.extent import Extent, Operation, Symbol


class Text:
    """LLVM instructions of one function under construction, with fresh names."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._count = 0

    def fresh(self, stem: str = "v") -> str:
        """A name that was not used before, without ``%``."""
        self._count += 1
        return f"{stem}{self._count}"

    def op(self, text: str) -> str:
        """Append an instruction with a result; the result's name."""
        name = "%" + self.fresh()
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """Append an instruction without a result."""
        self.lines.append("  " + text)

    def label(self, name: str) -> None:
        """Begin the basic block ``name``."""
        self.lines.append(f"{name}:")

    def require(self, condition: str) -> None:
        """Go to the block ``slow`` unless an instruction gives true."""
        self.require_value(self.op(condition))

    def require_value(self, value: str) -> None:
        """Go to the block ``slow`` unless an i1 is true."""
        following = self.fresh("ok")
        self.do(f"br i1 {value}, label %{following}, label %slow")
        self.label(following)

    def extent(self, extent: Extent, values: Mapping[str, str]) -> str:
        """Append what computes an extent as i64; the name of the result.

        Args:
            extent: the extent.
            values: each symbol's LLVM value.
        """
        if isinstance(extent, Symbol):
            return values[extent.name]
        if not isinstance(extent, Operation):
            return str(extent)
        a, b = self.extent(extent.a, values), self.extent(extent.b, values)
        if extent.op in _SIMPLE:
            return self.op(f"{_SIMPLE[extent.op]} i64 {a}, {b}")
        if extent.op in _PICKS:
            first = self.op(f"icmp {_PICKS[extent.op]} i64 {a}, {b}")
            return self.op(f"select i1 {first}, i64 {a}, i64 {b}")
        divisor = self.op(f"select i1 {self.op(f'icmp eq i64 {b}, 0')}, i64 1, i64 {b}")
        rest = self.op(f"srem i64 {a}, {divisor}")
        opposite = self.op(f"icmp slt i64 {self.op(f'xor i64 {rest}, {divisor}')}, 0")
        below = self.op(f"and i1 {self.op(f'icmp ne i64 {rest}, 0')}, {opposite}")
        if extent.op == "%":
            return self.op(f"add i64 {rest}, {self.op(f'select i1 {below}, i64 {divisor}, i64 0')}")
        quotient = self.op(f"sdiv i64 {a}, {divisor}")
        return self.op(f"sub i64 {quotient}, {self.op(f'zext i1 {below} to i64')}")


_SIMPLE = {"+": "add", "-": "sub", "*": "mul"}
_PICKS = {"min": "slt", "max": "sgt"}
