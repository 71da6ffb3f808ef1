"""Constraints as text: their words for messages, and the meaning that a fingerprint holds."""

from __future__ import annotations

import ast
import functools
import linecache
import types
from collections.abc import Callable
from typing import Any

from whet.compiler.late_numpy import is_array, is_scalar
from whet.search_spaces.knobs.source import code_facts, source_text

_CACHED = type(functools.cache(str))
_FUNCTIONS = (types.FunctionType, types.MethodType, functools.partial, _CACHED)
# These, and objects without one of their own, show an address.
_PLAIN_REPRS = (
    object.__repr__,
    *(kind.__repr__ for kind in (*_FUNCTIONS, types.BuiltinFunctionType)),
)
_PLAIN = (int, float, str, bytes, bool, type(None))
# Functions that a constraint calls are a part of its meaning, down to this depth.
_DEPTH = 3
# Characters of a constraint's words.
_LONGEST = 160


def described(function: Callable[..., Any]) -> str:
    """A constraint's :func:`words`, with the file and the line where it is one of Python's own."""
    code = getattr(function, "__code__", None)
    if code is None:
        return words(function)
    return f"{words(function)} ({code.co_filename}:{code.co_firstlineno})"


def words(function: Callable[..., Any]) -> str:
    """A constraint's text on one line, at most 160 characters, without addresses or paths.

    A ``__repr__`` of its own is its text. Else a lambda is shown as it is written; a function, also
    as a ``functools.partial``, by its name, the arguments that are bound, and the first line of its
    docstring.
    """
    text = " ".join(_text(function).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _text(function: Any) -> str:
    if not _is_plain(function):
        return repr(function)
    bound: list[str] = []
    if isinstance(function, functools.partial):
        named = (f"{k}={_name(v)}" for k, v in function.keywords.items())
        bound = [*map(_name, function.args), *named]
        function = function.func
    code = getattr(function, "__code__", None)
    if code is not None and code.co_name == "<lambda>":
        written = _lambda_text(code) or f"lambda of line {code.co_firstlineno}"
        return f"{written}, with {', '.join(bound)}" if bound else written
    name = _name(function)
    if bound:
        name += f"({', '.join(bound)})"
    said = _first_line(function) if _is_plain(function) else ""
    return f"{name}: {said}" if said else name


def _is_plain(value: Any) -> bool:
    """True if its ``repr`` would be an address."""
    return type(value).__repr__ in _PLAIN_REPRS


def _name(value: Any) -> str:
    if not _is_plain(value):
        return repr(value)
    return str(getattr(value, "__name__", type(value).__name__)).removeprefix("_")


def _first_line(function: Any) -> str:
    """The first line of a function's docstring, as a part of a sentence."""
    line = (getattr(function, "__doc__", None) or "").strip().partition("\n")[0].rstrip(".")
    return line if line[1:2].isupper() else line[:1].lower() + line[1:]


def meaning_of(function: Callable[..., Any], by_source: bool) -> str:
    """A text that is another one where the constraint may decide otherwise.

    It is of the source and of the plain values (numbers, texts, ranges, arrays; tuples, lists, sets
    and dicts of those) that the function captures, takes as defaults or reads from its module, and
    of the functions among them. A method counts with what its object holds. Of other objects only
    the type counts.

    Args:
        function: the constraint.
        by_source: take the source text, which is the same for every Python; else the byte code,
            which is the same in a process that got the function by value. Whet's own functions
            are always taken by their source.
    """
    return repr(_meaning(function, by_source, _DEPTH))


def _meaning(function: Any, by_source: bool, depth: int) -> Any:
    partial = isinstance(function, functools.partial)
    if partial:
        bound = [function.args, sorted(function.keywords.items())]
        inner = _meaning(function.func, by_source, depth)
        return ("partial", inner, _value(bound, by_source, depth))
    if isinstance(function, types.MethodType):
        holder, inner = function.__self__, _meaning(function.__func__, by_source, depth)
        state = {} if isinstance(holder, type) else getattr(holder, "__dict__", {})
        return ("method", inner, _value(state, by_source, depth))
    if isinstance(function, _CACHED):
        return _meaning(function.__wrapped__, by_source, depth)
    if not isinstance(function, types.FunctionType):
        call = next(vars(k)["__call__"] for k in type(function).__mro__ if "__call__" in vars(k))
        if isinstance(call, types.FunctionType):
            state = getattr(function, "__dict__", {})
            return (_meaning(call, by_source, depth), _value(state, by_source, depth))
        return f"{type(function).__module__}.{type(function).__qualname__}"
    code = function.__code__
    # Whet's own files are where its workers run.
    by_source = by_source or (function.__module__ or "").partition(".")[0] == "whet"
    text = _source(code) if by_source else None
    names = sorted({*_names(code)} & function.__globals__.keys())
    captured = [
        [
            (n, _cell(c, by_source, depth))
            for n, c in zip(code.co_freevars, function.__closure__ or ())
        ],
        _value(function.__defaults__ or (), by_source, depth),
        _value(function.__kwdefaults__ or {}, by_source, depth),
        [(n, _value(function.__globals__[n], by_source, depth)) for n in names],
    ]
    return (text if text is not None else repr(code_facts(code)), captured)


@functools.lru_cache(maxsize=1024)
def _source(code: types.CodeType) -> str | None:
    """The text of a function, in one spelling."""
    if code.co_name == "<lambda>":
        return _lambda_text(code)
    text = source_text(code)
    if text is None:
        return None
    try:
        return ast.unparse(ast.parse(text))
    except SyntaxError:
        return text


def _cell(cell: Any, by_source: bool, depth: int) -> Any:
    try:
        return _value(cell.cell_contents, by_source, depth)
    except ValueError:  # not filled yet
        return "empty"


def _value(value: Any, by_source: bool, depth: int) -> Any:
    if isinstance(value, _PLAIN):
        return (type(value).__name__, value)
    if is_array(value) or is_scalar(value):
        return (str(value.dtype), _value(value.tolist(), by_source, depth))
    if isinstance(value, range):
        return repr(value)
    if isinstance(value, tuple | list):
        return (type(value).__name__, [_value(item, by_source, depth) for item in value])
    if isinstance(value, set | frozenset):
        return ("set", sorted(repr(_value(item, by_source, depth)) for item in value))
    if isinstance(value, dict):
        items = value.items()
        return ("dict", [(repr(k), _value(v, by_source, depth)) for k, v in items])
    if isinstance(value, _FUNCTIONS) and depth:
        return _meaning(value, by_source, depth - 1)
    if isinstance(value, types.ModuleType | type | types.FunctionType):
        return getattr(value, "__qualname__", value.__name__)
    return type(value).__qualname__


def _names(code: types.CodeType) -> set[str]:
    """Names that the code, and the code inside it, reads from its module."""
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return set(code.co_names).union(*map(_names, inner))


@functools.lru_cache(maxsize=1024)
def _lambda_text(code: types.CodeType) -> str | None:
    """The text of one lambda, in one spelling: ``inspect`` gives the whole statement around it."""
    found = [
        node
        for node in _lambdas("".join(linecache.getlines(code.co_filename)))
        if node.lineno == code.co_firstlineno
    ]
    if len(found) > 1:
        found = [node for node in found if _holds(node, code)]
    return ast.unparse(found[0]) if len(found) == 1 else None


@functools.lru_cache(maxsize=16)
def _lambdas(text: str) -> list[ast.Lambda]:
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return []
    return [node for node in ast.walk(tree) if isinstance(node, ast.Lambda)]


def _holds(node: ast.Lambda, code: types.CodeType) -> bool:
    """True if the code's own instructions span the lambda's body: one line may hold several."""
    places = [p for p in code.co_positions() if None not in p and p[2] != p[3]]
    if not places:
        return False
    body = node.body
    begin = min((p[0], p[2]) for p in places)
    end = max((p[1], p[3]) for p in places)
    return begin == (body.lineno, body.col_offset) and end == (body.end_lineno, body.end_col_offset)
