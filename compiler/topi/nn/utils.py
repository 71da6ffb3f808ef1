"""The names of TVM's ``topi.nn.utils``."""

from __future__ import annotations

from whet.compiler.topi.nn.windows import get_pad_tuple

__all__ = ["get_pad_tuple"]
