"""How a value looks on its way to a packed function: 8 bytes, and the code of its type."""

from __future__ import annotations

# TVM's numbers. A result is one of the first three, or NOTHING.
INT, FLOAT, HANDLE, NOTHING, ARRAY, TEXT = 0, 2, 3, 4, 7, 11
