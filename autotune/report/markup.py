"""Markup: elements of HTML and SVG whose text is escaped, whoever wrote it."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Characters that neither HTML nor XML may hold, however they are escaped."""
EMPTY = frozenset({"meta", "br", "col", "hr", "link"})
"""Elements of HTML that have no end tag."""


class Markup(str):
    """Text that is markup already; any other text becomes text in it.

    >>> print(tag("p", "1 < 2 ", tag("b", "&"), class_="x"))
    <p class="x">1 &lt; 2 <b>&amp;</b></p>
    """

    __slots__ = ()


Child = str | int | float | None | Iterable["Child"]


def tag(name: str, /, *children: Child, **attributes: object) -> Markup:
    """An element.

    Args:
        name: the element's name.
        children: its content: text, which is escaped, markup, None, or nests of those.
        attributes: its attributes; None leaves one out, ``class_`` is ``class``, and an
            underscore inside a name is a hyphen.
    """
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    content = join(children)
    if not content:
        return Markup(f"<{name}{said}/>" if name in EMPTY else f"<{name}{said}></{name}>")
    return Markup(f"<{name}{said}>{content}</{name}>")


def join(children: Iterable[Child]) -> Markup:
    """Children, one after the other."""
    return Markup("".join(map(_rendered, children)))


def escape(value: object) -> Markup:
    """A value's text, safe between tags and between quotes; markup is text here, too."""
    return Markup(html.escape(CONTROL.sub(_visible, str.__str__(str(value))), quote=True))


def _rendered(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, str | int | float):
        return escape(child)
    return join(child)


def _visible(match: re.Match) -> str:
    """A stray byte of a crashed tool, spelled out."""
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
