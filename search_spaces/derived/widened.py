"""Halves are what numbers are stored in: templates compute with them in float32."""

from __future__ import annotations

from whet.compiler import topi
from whet.compiler.te import Tensor

_HALVES = ("float16", "bfloat16")


def widened(t: Tensor) -> Tensor:
    """A tensor of halves in float32; any other one as it is."""
    return topi.cast(t, "float32") if t.dtype in _HALVES else t


def stored(t: Tensor, dtype: str) -> Tensor:
    """A result in the type that it is stored in."""
    return t if t.dtype == dtype else topi.cast(t, dtype)
