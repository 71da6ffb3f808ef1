"""Tags: words about operations, for schedules to look at."""

from __future__ import annotations

from contextlib import ContextDecorator
from contextvars import ContextVar, Token
from typing import Any

from whet.compiler.errors import ArgumentError

_current: ContextVar[str] = ContextVar("whet_tag", default="")


class TagScope(ContextDecorator):
    """The result of :func:`tag_scope`: a ``with`` block, or a decorator of a function."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self._before: list[Token[str]] = []

    def __enter__(self) -> TagScope:
        outer = _current.get()
        if outer:
            raise ArgumentError(
                f"tag_scope({self.tag!r})",
                f"it stands inside tag_scope({outer!r})",
                "an operation has one tag: leave the outer scope first",
            )
        self._before.append(_current.set(self.tag))
        return self

    def __exit__(self, *error: object) -> None:
        _current.reset(self._before.pop())


def tag_scope(tag: str) -> TagScope:
    """Tag every operation that is made inside: ``with te.tag_scope("conv2d"):`` or a decorator.

    Raises:
        ArgumentError: for a tag that is no word, and for a scope inside another.
    """
    if not isinstance(tag, str) or not tag:
        raise ArgumentError(f"tag_scope({tag!r})", "a tag is a word", 'te.tag_scope("conv2d")')
    return TagScope(tag)


def chosen_tag(tag: Any, request: str) -> str:
    """The tag of a new operation: the one that is given, or that of the scope around it."""
    if not isinstance(tag, str):
        raise ArgumentError(request, f"the tag {tag!r} is a {type(tag).__name__}, not a str")
    scope = _current.get()
    if tag and scope:
        raise ArgumentError(
            request, f"tag={tag!r} was given inside tag_scope({scope!r})", "leave one of them out"
        )
    return tag or scope
