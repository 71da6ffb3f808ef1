"""Data types as text: ``float32``, ``int8``, ``bool``, and vectors of them, ``float32x8``."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.late_numpy import is_scalar_type, np

# bits an element takes in memory; bool takes a byte there and one bit in registers
_BITS = {
    "float16": 16,
    "bfloat16": 16,
    "float32": 32,
    "float64": 64,
    "int4": 4,
    "int8": 8,
    "int16": 16,
    "int32": 32,
    "int64": 64,
    "uint4": 4,
    "uint8": 8,
    "uint16": 16,
    "uint32": 32,
    "uint64": 64,
    "bool": 8,
    "handle": 64,
}


#: the types of constants: of integers and bools, and of floats
INTEGERS = frozenset(name for name in _BITS if name.startswith(("int", "uint", "bool")))
FLOATS = frozenset(name for name in _BITS if "float" in name)


@lru_cache(None)
def split(dtype: str) -> tuple[str, int]:
    """``"float32x8"`` as ``("float32", 8)``; a scalar has one lane."""
    element, x, lanes = dtype.partition("x")
    return (element, int(lanes)) if x else (dtype, 1)


def element(dtype: str) -> str:
    """The type of one lane."""
    return split(dtype)[0]


def lanes(dtype: str) -> int:
    """How many lanes: 1 for a scalar."""
    return split(dtype)[1]


def vector(element_type: str, count: int) -> str:
    """A vector type of ``count`` lanes (the scalar itself for one lane)."""
    return element_type if count == 1 else f"{element_type}x{count}"


def bits(dtype: str) -> int:
    """Bits one element takes in memory."""
    return _BITS[element(dtype)]


def itemsize(dtype: str) -> int:
    """Bytes one element takes in memory that a kernel allocates: int4 takes a byte there."""
    return _BITS[element(dtype)] // 8 or 1


@lru_cache(None)
def is_nibble(dtype: str) -> bool:
    """True for elements of four bits, of which an array holds two a byte."""
    return element(dtype) in NIBBLES


def is_float(dtype: str) -> bool:
    """True if it is a floating-point type, bfloat16 included."""
    return "float" in dtype


def is_uint(dtype: str) -> bool:
    """True if it is an unsigned integer type."""
    return dtype.startswith("uint")


def is_int(dtype: str) -> bool:
    """True if it is a signed or unsigned integer type (bool is none)."""
    return dtype.startswith(("int", "uint"))


def is_bool(dtype: str) -> bool:
    """True if it is bool."""
    return dtype.startswith("bool")


#: other names that TVM has for some types
_ALIASES = {
    "float": "float32",
    "int": "int32",
    "uint": "uint32",
    "uint1": "bool",
    "bfloat": "bfloat16",
}


#: types of which an argument holds two elements a byte
NIBBLES = ("int4", "uint4")
#: types that TVM packs several to a byte, and Whet does not
PARTS_OF_BYTES = ("int1", "int2", "uint2")


def usual(name: str) -> str:
    """The usual one of a type's names; a name that is no type's as it is."""
    return _ALIASES.get(name, name)


def check(dtype: Any) -> str:
    """``dtype`` by its usual name, if it is one that Whet knows.

    Args:
        dtype: a name, one of TVM's other names (``"float"`` is float32, ``"int"`` int32, ``"uint"``
            uint32), a dtype of numpy's, or a class of numpy's scalars.

    Raises:
        ArgumentError: if it is not.
    """
    if type(dtype) is str:
        return dtype if dtype in _BITS else _checked(dtype)
    if is_scalar_type(dtype):
        dtype = np.dtype(dtype)
    return _checked(str(dtype))


@lru_cache(None)
def _checked(dtype: str) -> str:
    name, x, count = dtype.partition("x")
    name = usual(name)
    if name in _BITS and (not x or (count.isdecimal() and int(count) > 0)):
        return vector(name, int(count)) if x else name
    why, way_out = "there is no such data type", ""
    if name in PARTS_OF_BYTES:
        why = "no array is kept of elements smaller than half a byte"
        way_out = "keep them in an int4, or several in an int8, and take them apart with >> and &\n"
    raise ArgumentError(f"dtype {dtype!r}", why, f"{way_out}known: {', '.join(_BITS)}")


def int_range(name: str) -> tuple[int, int]:
    """The least and the greatest value of an integer type."""
    count = bits(name)
    return (0, 2**count - 1) if is_uint(name) else (-(2 ** (count - 1)), 2 ** (count - 1) - 1)


def promote(a: str, b: str) -> str:
    """The common type of two operands, by TVM's rules.

    A float wins over an integer, more bits over fewer, unsigned over signed of the same size,
    float16 over bfloat16; bool is the least. A scalar takes the other's lanes.

    Raises:
        ArgumentError: for two vectors of different lanes, and for what is no number.
    """
    if a == b:
        return a
    (ea, la), (eb, lb) = split(a), split(b)
    if la != lb and 1 not in (la, lb):
        raise ArgumentError(f"combine {a} with {b}", "the numbers of lanes differ")
    if "handle" in (ea, eb):
        raise ArgumentError(
            f"combine {a} with {b}",
            "a string or an address is no number",
            "use it as an argument of a call only",
        )
    count = max(la, lb)
    if ea == eb:
        return vector(ea, count)
    rank_a, rank_b = _rank(ea), _rank(eb)
    return vector(ea if rank_a >= rank_b else eb, count)


def _rank(name: str) -> tuple[int, int, int]:
    kind = 2 if is_float(name) else 0 if is_bool(name) else 1
    return kind, _BITS[name], 1 if is_uint(name) or name == "float16" else 0
