"""Arrays of a launch by their texts: ``float32[64]``, ``int32[8]=iota``, ``@x.npy``."""

from __future__ import annotations

import ast
import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from whet.compiler.abi.layout import numpy_dtype
from whet.compiler.emulator.sanitizer.run import Unwritten
from whet.compiler.errors import ArgumentError, WhetError

_ARRAY = re.compile(r"^(out\s+)?([a-z]+\d*)\s*\[([\d\s,*]+)\]\s*(?:=\s*(.+))?$")
_FILE = re.compile(r"^@\s*(.+)$")
HOW_ARRAY = (
    "float32[64, 48] is an array of drawn values, int32[8]=zeros, =ones, =iota (0, 1, ...), =7 or "
    "=@file.npy one that holds these, @file.npy what the file holds, out float32[64] one that the "
    "kernel writes"
)


def read_array(text: str, rng: np.random.Generator) -> np.ndarray | Unwritten | None:
    """The array that a text stands for; None: it is none.

    Args:
        text: an argument of a launch.
        rng: what values are drawn from.

    Raises:
        ArgumentError: its type, its contents or its file cannot be.
    """
    file = _FILE.match(text)
    if file is not None:
        return load_array(file[1])
    array = _ARRAY.match(text)
    if array is None:
        return None
    shape = tuple(int(n) for n in re.findall(r"\d+", array[3]))
    try:
        dtype = numpy_dtype(array[2])
    except WhetError:
        raise _no_array(text, f"{array[2]} is no type") from None
    if array[1] and array[4]:
        raise _no_array(text, "what a kernel writes (out) holds nothing before")
    if array[1]:
        return Unwritten(shape, array[2])
    try:
        if array[4] is None:
            return _drawn(rng, shape, dtype)
        return _filled(text, array[4].strip(), shape, dtype)
    except MemoryError as error:
        raise _no_array(text, str(error)) from None


def load_array(path: str) -> np.ndarray:
    """The array of a ``.npy`` file; nothing in it is unpickled.

    Raises:
        ArgumentError: there is no such file, or it holds no array of numbers.
    """
    try:
        array = np.load(Path(path).expanduser(), allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ArgumentError(
            f"the array of {path}", str(error), "numpy.save(file, array) writes one"
        ) from None
    if not isinstance(array, np.ndarray):
        raise ArgumentError(f"the array of {path}", "it holds several: give a .npy file")
    return array


def literal(text: str) -> Any:
    """The value of a literal of C or of a tuple of such; None where it is none."""
    try:
        return ast.literal_eval(re.sub(r"(?<=[\d.])[fuUlL]+$", "", text))
    except (ValueError, SyntaxError):
        return None


def _filled(text: str, contents: str, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    if contents == "iota":
        count = math.prod(shape)
        if dtype.kind in "iu" and count - 1 > np.iinfo(dtype).max:
            raise _no_array(text, f"{dtype} does not count to {count - 1}")
        return np.arange(count).astype(dtype).reshape(shape)
    if contents == "random":
        return _drawn(np.random.default_rng(), shape, dtype)
    file = _FILE.match(contents)
    if file is not None:
        array = load_array(file[1])
        if array.shape != shape or array.dtype != dtype:
            raise _no_array(text, f"{file[1]} holds {array.dtype}{list(array.shape)}")
        return array
    return np.full(shape, _number(text, contents, dtype), dtype)


def _number(text: str, contents: str, dtype: np.dtype) -> int | float:
    named = {"zeros": 0, "ones": 1, "nan": math.nan, "inf": math.inf, "-inf": -math.inf}
    value = named[contents] if contents in named else literal(contents)
    if not isinstance(value, (int, float)):
        raise _no_array(text, f"{contents!r} fills no array")
    if dtype.kind in "iu" and not (
        np.iinfo(dtype).min <= value <= np.iinfo(dtype).max and float(value).is_integer()
    ):
        raise _no_array(text, f"{contents} is no {dtype}")
    return value


def _drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Small values; integers are drawn below 8, so that they may be indices."""
    if dtype.kind in "iub":
        return rng.integers(0, 2 if dtype.kind == "b" else 8, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def _no_array(text: str, why: str) -> ArgumentError:
    return ArgumentError(f"the argument {text!r}", why, HOW_ARRAY)
