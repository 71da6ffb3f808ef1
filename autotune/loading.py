"""Files that a command loads for their templates: a search at their top level does not begin."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_file: ContextVar[str] = ContextVar("loaded file", default="")


class SearchWhileLoading(BaseException):
    """``tune()`` was called by a file that is loaded for its templates and tasks.

    No ``Exception``: the file's own handlers of errors shall not take it for one.
    """


@contextmanager
def loading(file: str) -> Iterator[None]:
    """In this block, :func:`refuse_search` ends what runs.

    Args:
        file: what is loaded.
    """
    token = _file.set(file)
    try:
        yield
    finally:
        _file.reset(token)


def refuse_search() -> None:
    """Raise :class:`SearchWhileLoading` in a file that is being loaded."""
    if file := _file.get():
        raise SearchWhileLoading(file)
