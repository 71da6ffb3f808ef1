"""LLVM's names of types and constants."""

from __future__ import annotations

import struct
from functools import lru_cache
from math import copysign

from whet.compiler.codegen.constants import rounded
from whet.compiler.errors import CodegenError
from whet.compiler.tir import dtype as dt

_SCALARS = {
    "float16": "half",
    "bfloat16": "i16",  # its bits: every target can move those
    "float32": "float",
    "float64": "double",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "i8",
    "uint16": "i16",
    "uint32": "i32",
    "uint64": "i64",
    "bool": "i1",
}


@lru_cache(None)
def type_of(dtype: str) -> str:
    """The register type, e.g. ``<8 x float>``; bool is ``i1``."""
    name, lanes = dt.split(dtype)
    if name not in _SCALARS:
        raise CodegenError(f"a value of type {dtype}", "LLVM code has no such values")
    return _SCALARS[name] if lanes == 1 else f"<{lanes} x {_SCALARS[name]}>"


def in_memory(dtype: str) -> str:
    """The dtype in memory: a bool is a byte there."""
    return dtype.replace("bool", "int8")


@lru_cache(None)
def memory_type(dtype: str) -> str:
    """The type in memory; that of a bool is ``i8``."""
    return type_of(in_memory(dtype))


@lru_cache(None)
def suffix(dtype: str) -> str:
    """An intrinsic's suffix, e.g. ``v8f32``."""
    name, lanes = dt.split(dtype)
    if dt.is_float(name) and name != "bfloat16":
        short = f"f{dt.bits(name)}"
    else:
        short = "i1" if name == "bool" else f"i{dt.bits(name)}"
    return short if lanes == 1 else f"v{lanes}{short}"


@lru_cache(None)
def condition_type(kind: str) -> str:
    """The type of a condition for each lane of a type: ``<8 x i1>`` for ``<8 x float>``."""
    head, x, _ = kind.partition(" x ")
    return f"{head} x i1>" if x else "i1"


@lru_cache(None)
def scalar_of(kind: str) -> str:
    """The type of one lane: ``float`` of ``<8 x float>``."""
    return kind.rpartition(" x ")[2].rstrip(">")


def zero(dtype: str) -> str:
    """The zero of an integer type."""
    return "zeroinitializer" if dt.lanes(dtype) > 1 else "0"


def constant(value: float, dtype: str) -> str:
    """A number in all lanes."""
    return _constant(value, copysign(1.0, value), dtype)


@lru_cache(4096)
def _constant(value: float, sign: float, dtype: str) -> str:
    """A number in all lanes; its sign tells -0.0 from 0.0, which are one key without it."""
    name, lanes = dt.split(dtype)
    text = _float_constant(value, name) if dt.is_float(name) else str(int(value))
    return text if lanes == 1 else f"splat ({type_of(name)} {text})"


def _float_constant(value: float, dtype: str) -> str:
    """A scalar constant; LLVM reads the exact bits in hexadecimal."""
    value = rounded(value, dtype)
    if dtype == "float16":
        return "0xH" + struct.pack(">e", value).hex().upper()
    if dtype == "bfloat16":
        return str(struct.unpack(">h", struct.pack(">f", value)[:2])[0])
    return "0x" + struct.pack(">d", value).hex().upper()


def splat(constant: str, dtype: str) -> str:
    """A constant of a type with one value in all lanes."""
    name, lanes = dt.split(dtype)
    if lanes == 1:
        return constant
    return "<" + ", ".join([f"{type_of(name)} {constant}"] * lanes) + ">"
