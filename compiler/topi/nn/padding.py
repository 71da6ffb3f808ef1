"""How windows are given: pairs, paddings on four sides, and how many windows fit."""

from __future__ import annotations

from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.topi.shapes import static


def pair(value: object, what: str) -> tuple[int, int]:
    """An int or a pair of ints as a pair."""
    items = tuple(value) if isinstance(value, (tuple, list)) else (value, value)
    if len(items) != 2 or not all(isinstance(v, int) and not isinstance(v, bool) for v in items):
        raise ArgumentError(f"{what}={value!r}", "give an int or a pair of ints")
    return items[0], items[1]


def get_pad_tuple(padding: Any, kernel: Any) -> tuple[int, int, int, int]:
    """Padding as (top, left, bottom, right).

    Args:
        padding: an int, (vertical, horizontal), all four, ``"VALID"`` or ``"SAME"``.
        kernel: the window's (height, width); ``"SAME"`` keeps the size at a stride of 1.

    Raises:
        ArgumentError: for anything else, or a negative number.
    """
    asked = f"padding={padding!r}"
    if padding == "VALID":
        return 0, 0, 0, 0
    if padding == "SAME":
        h, w = (static(k, asked) - 1 for k in kernel)
        return (h + 1) // 2, (w + 1) // 2, h // 2, w // 2
    if isinstance(padding, (tuple, list)) and len(padding) == 4:
        top, left = pair(tuple(padding[:2]), "padding")
        bottom, right = pair(tuple(padding[2:]), "padding")
    elif isinstance(padding, str):
        raise ArgumentError(asked, "words for paddings are 'VALID' and 'SAME'")
    else:
        top, left = bottom, right = pair(padding, "padding")
    if min(top, left, bottom, right) < 0:
        raise ArgumentError(asked, "padding must not be negative")
    return top, left, bottom, right


def windows(size: Any, kernel: int, stride: int, padding: int, asked: str) -> int:
    """How many windows of ``kernel`` elements fit, ``padding`` in all.

    Raises:
        ArgumentError: none, or the stride is below 1.
    """
    if stride < 1:
        raise ArgumentError(asked, "strides must be at least 1")
    count = (static(size, asked) + padding - kernel) // stride + 1
    if count < 1:
        raise ArgumentError(asked, "the window is larger than the padded image")
    return count


__all__ = ["get_pad_tuple", "pair", "windows"]
