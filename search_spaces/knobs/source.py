"""A function's source as a hash: equal where the text is, whichever process reads it."""

from __future__ import annotations

import hashlib
import inspect
import linecache
import textwrap
import types
from collections.abc import Callable
from typing import Any


def source_text(func: Callable[..., Any] | types.CodeType) -> str | None:
    """The text of ``func`` with its decorators, or None where there is no file behind it."""
    try:
        text = _from_its_line(func)
        return textwrap.dedent(inspect.getsource(func) if text is None else text)
    except (OSError, TypeError, IndentationError, SyntaxError):
        return None


def _from_its_line(func: Callable[..., Any] | types.CodeType) -> str | None:
    """``inspect.getsource`` without its search through all modules, which takes milliseconds.

    None where the text is not to be had from a file by the line where the function begins.
    """
    unwrapped = func if isinstance(func, types.CodeType) else inspect.unwrap(func)
    code = unwrapped if isinstance(unwrapped, types.CodeType) else None
    if isinstance(unwrapped, types.FunctionType):
        code = unwrapped.__code__
    if code is None:
        return None
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename)[code.co_firstlineno - 1 :]
    if not lines or not lines[0].lstrip().startswith(("def ", "@", "async def ")):
        return None
    return "".join(inspect.getblock(lines))


def source_hash(func: Callable[..., Any]) -> str:
    """Hex digits of the source text; of the byte code where there is no text."""
    text = source_text(func)
    if text is None:
        text = repr(code_facts(func.__code__)) if hasattr(func, "__code__") else repr(func)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def still_in_file(text: str, path: str) -> bool:
    """True if ``text`` is (still) a part of the file at ``path``, read afresh."""
    linecache.checkcache(path)
    return text in textwrap.dedent("".join(linecache.getlines(path)))


def code_facts(code: types.CodeType) -> tuple:
    """A code object in values whose text is the same in every process."""
    # Not hash(code): that differs between processes, and file names and line numbers are no matter.
    constants = tuple(
        code_facts(c) if isinstance(c, types.CodeType) else _constant(c) for c in code.co_consts
    )
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, constants


def _constant(value: Any) -> str:
    return repr(sorted(map(repr, value)) if isinstance(value, frozenset) else value)
