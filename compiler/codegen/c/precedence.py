"""Texts of expressions with their precedence, so that parentheses stand only where C needs them."""

from __future__ import annotations

# how tightly a text binds, as in C's grammar
ATOM, UNARY, MUL, ADD, SHIFT, LESS, EQUAL, BITS, AND, OR, CHOICE = (
    *(15, 14, 13, 12, 11, 10, 9, 6, 5, 4, 3),
)
Text = tuple[str, int]


def paren(text: Text, outer: int) -> str:
    """The text, in parentheses when it binds less than ``outer``."""
    return text[0] if text[1] >= outer else f"({text[0]})"


def signed_text(text: str) -> Text:
    """A constant, which may have a sign."""
    return text, UNARY if text.startswith(("-", "(double)")) else ATOM
