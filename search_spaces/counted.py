"""How numbers of things are said to people."""

from __future__ import annotations


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its noun: ``1 trial``, ``1,234 trials``.

    Args:
        number: how many.
        one: one of them.
        many: the plural; "": with an s.
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"
