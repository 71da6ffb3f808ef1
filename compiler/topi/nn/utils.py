"""What TVM's ``topi.nn.utils`` has."""

from __future__ import annotations

from whet.compiler.topi.nn.windows import get_pad_tuple

__all__ = ["get_pad_tuple"]
