"""NVIDIA's management library (NVML), which comes with the driver.

Where there is none, one from long ago, or it does not say, its functions have no answer.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
_TEXT_BYTES = 96


@functools.cache
def _library() -> Any:
    """The library; None where this machine has none."""
    try:
        return ctypes.CDLL(LIBRARY)
    except OSError:
        return None


def answers(function: str, *arguments: Any) -> bool:
    """Call a function; False where there is no NVML, an older one, or it does not say.

    Args:
        function: its name without ``nvml``, such as ``"Init_v2"``: answers are had after that one.
        arguments: of ctypes.
    """
    call = getattr(_library(), f"nvml{function}", None)
    return call is not None and call(*arguments) == 0


@contextmanager
def session() -> Iterator[None]:
    """NVML answers inside the ``with``; afterwards it holds nothing that a fork would share."""
    begun = answers("Init_v2")
    try:
        yield
    finally:
        if begun:
            answers("Shutdown")


def handle(function: str, *arguments: Any) -> ctypes.c_void_p | None:
    """The handle of a GPU that a function finds; None: it finds none."""
    found = ctypes.c_void_p()
    return found if answers(function, *arguments, ctypes.byref(found)) else None


def number(function: str, *arguments: Any, kind: type = ctypes.c_uint) -> int | None:
    """The number, of a type of ctypes, that a function answers; None: it does not say."""
    value: Any = kind()
    return value.value if answers(function, *arguments, ctypes.byref(value)) else None


def text(function: str, *arguments: Any) -> str | None:
    """The text that a function answers; None: it does not say."""
    value = ctypes.create_string_buffer(_TEXT_BYTES)
    found = answers(function, *arguments, value, _TEXT_BYTES)
    return value.value.decode(errors="replace") if found else None
