"""Expressions that are nested deeper than the compiler goes, as an error that names them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from whet.compiler.errors import LowerError
from whet.compiler.te.lang.tensor import ComputeOp
from whet.compiler.te.schedule import Schedule
from whet.compiler.tir.function import IRModule, PrimFunc
from whet.compiler.tir.visit.rewrite import LEAVES


@contextmanager
def nesting_explained(request: str, given: Any) -> Iterator[None]:
    """Python's RecursionError as one that says which expression is too deep.

    Args:
        request: what is being done.
        given: the schedule, function or module that it is done to.

    Raises:
        LowerError: in the place of a RecursionError, without its traceback of many thousand calls.
    """
    try:
        yield
    except RecursionError:
        raise _too_deep(request, given) from None


def _too_deep(request: str, given: Any) -> LowerError:
    name, deep = max(_parts(given), key=lambda part: part[1], default=("it", 0))
    return LowerError(
        request,
        f"{name} has {deep} operations one inside the other, with what is inlined into it even "
        f"more: expressions are walked by recursion, to a depth of {sys.getrecursionlimit()} calls",
        "sum many terms up with te.sum over an axis, add them pair by pair, or give parts of a few "
        "thousand a te.compute of their own that is not inlined",
    )


def _parts(given: Any) -> list[tuple[str, int]]:
    if isinstance(given, Schedule):
        ops = [s.op for s in given.stages if isinstance(s.op, ComputeOp)]
        return [(op.name, depth(op.body)) for op in ops]
    if isinstance(given, IRModule):
        return [(name, depth((f.body,))) for name, f in given.functions.items()]
    return [(given.name, depth((given.body,)))] if isinstance(given, PrimFunc) else []


def depth(roots: Sequence[Any]) -> int:
    """How many nodes stand one inside the other, at most; shared parts are looked at once."""
    known: dict[int, int] = {}
    stack = [(n, False) for n in roots]
    while stack:
        n, ready = stack.pop()
        if ready:
            known[id(n)] = 1 + max((known.get(id(p), 1) for p in n.parts), default=0)
        elif id(n) not in known and type(n) not in LEAVES:
            known[id(n)] = 1
            stack.append((n, True))
            stack.extend((p, False) for p in n.parts)
    return max((known.get(id(n), 1) for n in roots), default=0)
