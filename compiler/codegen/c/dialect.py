"""The dialect C99, its types, constants and functions; other dialects refine it.

A dialect answers small questions; the writers of expressions and statements ask them. A value of a
type is what an expression computes with, which may be wider than what stands in memory: a bool is
a byte there, and C99 has no 16-bit floats, so that theirs are uint16_t there and float here.
"""

from __future__ import annotations

import math
from decimal import Decimal

from whet.compiler.codegen.c.functions import SHORT_FLOATS, Functions
from whet.compiler.codegen.c.mathematics import LIBRARY
from whet.compiler.codegen.constants import rounded
from whet.compiler.errors import CodegenError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.stmt import PARALLEL, THREAD_BINDING, For


class Dialect:
    """C99.

    Attributes:
        name: for messages.
        memory: dtype -> type of an element in memory.
        values: dtype -> type of a variable that holds a value, where it is another one.
        index: type of loop variables and subscripts; it has ``index_bits`` bits.
        pointer: a parameter that points to elements of a type, which nothing else aliases.
        function: how a small function begins.
        library: op -> function of floats.
        native_short: whether 16-bit floats have arithmetic of their own.
        own: (small function, dtype) -> the language's own function that does the same.
        expanded_lanes: vectors of at most so many lanes are written lane by lane.
        specials: float32 and float64 -> infinity and the quiet NaN.
        lane_pragma: a line before a loop over the lanes of others; empty: none.
    """

    name = "C"
    index = "int64_t"
    index_dtype = "int64"
    index_bits = 64
    pointer = "{kind} *restrict {name}"
    function = "static inline"
    library = LIBRARY
    native_short = False
    own: dict[tuple[str, str], str] = {}
    expanded_lanes = 0
    specials = {
        "float32": ("INFINITY", "NAN"),
        "float64": ("(double)INFINITY", "(double)NAN"),
    }
    lane_pragma = ""
    memory = {
        "float16": "uint16_t",
        "bfloat16": "uint16_t",
        "float32": "float",
        "float64": "double",
        "bool": "uint8_t",
        "handle": "void *",
        **{f"{u}int{b}": f"{u}int{b}_t" for u in ("", "u") for b in (8, 16, 32, 64)},
    }
    values = {"float16": "float", "bfloat16": "float", "bool": "int"}

    def memory_type(self, dtype: str) -> str:
        """The type of an element in memory.

        Raises:
            CodegenError: there is no such type.
        """
        name = dt.element(dtype)
        if name not in self.memory:
            raise CodegenError(f"a value of type {dtype}", f"{self.name} has no such values")
        return self.memory[name]

    def value_type(self, dtype: str) -> str:
        """The type of a variable that holds a value."""
        return self.values.get(dt.element(dtype)) or self.memory_type(dtype)

    def unsigned(self, dtype: str) -> str:
        """The type in which integers of ``dtype`` are added: unsigned, and no shorter than int."""
        return self.memory["uint64" if dt.bits(dtype) == 64 else "uint32"]

    def before_loop(self, n: For) -> list[str]:
        """The lines before a loop."""
        if n.kind in (PARALLEL, THREAD_BINDING):
            return [f"/* {n.thread or n.kind}: the steps run one after the other here */"]
        return []

    # constants

    def integer(self, value: int, dtype: str) -> str:
        """An integer constant of that type; it wraps where it does not fit."""
        if dt.is_bool(dtype):
            return str(int(bool(value)))
        bits = dt.bits(dtype)
        value %= 1 << bits
        if dt.is_uint(dtype):
            if bits == 64:
                return self.long_constant(value, unsigned=True)
            return f"{value}u" if bits == 32 else str(value)
        if value >= 1 << (bits - 1):
            value -= 1 << bits
        if value == -(1 << 63):
            return f"({self.long_constant(value + 1)} - 1)"
        if value == -(1 << 31):
            return f"({value + 1} - 1)"
        return self.long_constant(value) if not -(1 << 31) < value < 1 << 31 else str(value)

    def long_constant(self, value: int, unsigned: bool = False) -> str:
        """A constant of 64 bits."""
        return f"{'U' if unsigned else ''}INT64_C({value})"

    def floating(self, value: float, dtype: str) -> str:
        """A floating-point constant with all its bits, as a value."""
        name = dt.element(dtype)
        value = rounded(value, name)
        if math.isfinite(value):
            return short_text(value) + ("" if name == "float64" else "f")
        infinity, nan = self.specials["float64" if name == "float64" else "float32"]
        return nan if math.isnan(value) else ("-" if value < 0 else "") + infinity

    # 16-bit floats: in memory, as a value, and as the float that functions take

    def load(self, text: str, dtype: str, use: Functions) -> str:
        """An element in memory, as a value."""
        foreign = dtype in SHORT_FLOATS and not self.native_short
        return f"{use.get('widen', dtype)}({text})" if foreign else text

    def store(self, text: str, dtype: str, use: Functions) -> str:
        """A value, or a float that is not rounded yet, as it stands in memory."""
        foreign = dtype in SHORT_FLOATS and not self.native_short
        return f"{use.get('narrow', dtype)}({text})" if foreign else text

    def rounded(self, text: str, dtype: str, use: Functions) -> str:
        """A float as a value of a 16-bit type."""
        return f"{dtype if self.native_short else use.get('round', dtype)}({text})"

    def from_double(self, text: str, dtype: str, use: Functions) -> str:
        """A double as a value of a 16-bit type, rounded once."""
        single = text if self.native_short else f"{use.get('odd', 'float64')}({text})"
        return self.rounded(single, dtype, use)

    def as_float(self, text: str, dtype: str) -> str:
        """A value of a 16-bit type as float; others as they are."""
        return f"float({text})" if self.native_short and dtype in SHORT_FLOATS else text


def short_text(value: float) -> str:
    """A finite number: in decimal where that is short and exact, else in hexadecimal."""
    text = repr(value)
    if "e" not in text and len(text) <= 14 and Decimal(text) == Decimal(value):
        return text
    digits, _, power = value.hex().partition("p")
    head, _, tail = digits.partition(".")
    tail = tail.rstrip("0")
    return f"{head}.{tail or 0}p{power}"
