"""Checks of arguments for the public names that take loop IR, before they walk into it.

The compiler's own code calls what is behind them, and pays for nothing here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import IterVar, PrimExpr
from whet.compiler.tir.function import IRModule, PrimFunc
from whet.compiler.tir.visit.rewrite import TABLE

#: every class of statements and expressions
NODES: tuple[type, ...] = tuple(TABLE)
EXPRESSIONS = tuple(kind for kind in TABLE if issubclass(kind, PrimExpr))
STATEMENTS = tuple(kind for kind in TABLE if not issubclass(kind, PrimExpr))
FUNCTION: tuple[type, ...] = (PrimFunc,)
FUNCTIONS: tuple[type, ...] = (PrimFunc, IRModule)

_WORDS = (
    (NODES, "a statement or an expression of the loop IR"),
    (EXPRESSIONS, "an expression of the loop IR"),
    (STATEMENTS, "a statement of the loop IR"),
    ((PrimFunc, *NODES), "a PrimFunc, a statement or an expression of the loop IR"),
    ((*FUNCTIONS, *NODES), "a PrimFunc, an IRModule, a statement or an expression of the loop IR"),
)


def expect(obj: Any, types: tuple[type, ...], request: str) -> None:
    """Refuse what is none of ``types``.

    Args:
        obj: what was given.
        types: what it may be.
        request: the call and the name of its parameter, e.g. ``"verify_ssa(func)"``.

    Raises:
        ArgumentError: naming what it is and what it should be.
    """
    if isinstance(obj, types):
        return
    wanted = next((words for known, words in _WORDS if known == types), None)
    if wanted is None:
        wanted = " or ".join(t.__name__ for t in types)
    raise ArgumentError(request, f"it is a {type(obj).__name__}", _way_out(obj, wanted, types))


def expect_function(obj: Any, request: str) -> None:
    """Refuse what cannot be called.

    Raises:
        ArgumentError: naming what it is.
    """
    if not callable(obj):
        raise ArgumentError(
            request, f"a {type(obj).__name__} cannot be called", "give a function of one node"
        )


def _way_out(obj: Any, wanted: str, types: tuple[type, ...]) -> str:
    hint = ""
    if isinstance(obj, PrimFunc) and types == NODES:
        hint = "; func.body is one"
    elif isinstance(obj, IterVar):
        hint = "; axis.var is the variable of an axis"
    elif isinstance(obj, IRModule) and PrimFunc in types:
        hint = '; mod["main"] is a function of a module'
    elif isinstance(obj, Buffer):
        hint = "; buffer[i] reads an element"
    elif hasattr(obj, "leaf_iter_vars") or hasattr(obj, "stage_map"):
        hint = '; whet.lower(schedule, arguments)["main"] makes a function of a schedule'
    elif isinstance(obj, NODES) and PrimFunc in types:
        hint = "; tir.PrimFunc(parameters, statement) makes a function of a statement"
    return f"it has to be {wanted}{hint}"


def guarded(function: Callable[..., Any], types: tuple[type, ...], request: str) -> Any:
    """The same function for callers outside: its first argument has to be one of ``types``."""
    from functools import wraps

    @wraps(function)
    def checked(node: Any, *args: Any, **kwargs: Any) -> Any:
        expect(node, types, request)
        return function(node, *args, **kwargs)

    return checked
