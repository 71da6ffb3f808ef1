"""The loop IR of a script's statements, with its variables' types, and its parts."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from whet.compiler.te.hybrid.arrays import Array
from whet.compiler.te.hybrid.zero_fill import reads_early, zeros
from whet.compiler.tir.expr import Var
from whet.compiler.tir.ir_builder import IRBuilder, Rest
from whet.compiler.tir.stmt import Allocate, Stmt, seq


@dataclass(slots=True, eq=False)
class Program:
    """The loop IR of a script and of those that it calls.

    Attributes:
        types: place of a variable -> its type, as far as earlier readings found it.
        builder: takes the statements.
        loops: variable -> kind, of the loops that can be scheduled.
        threads: tag -> the number of threads.
        stale: True where a variable needs another type than it had: read again.
        depth: how many scripts call each other.
    """

    types: dict[tuple[Any, ...], str]
    builder: IRBuilder = field(default_factory=IRBuilder)
    loops: dict[Var, str] = field(default_factory=dict)
    threads: dict[str, Any] = field(default_factory=dict)
    stale: bool = False
    depth: int = 0


def outside(function: Callable[..., Any]) -> dict[str, Any]:
    """The names that a function takes from around it."""
    names = inspect.getclosurevars(function)
    return {**names.globals, **names.nonlocals}


def loop_value(begin: Any, step: int, var: Var) -> Any:
    """A loop's value at a step: plain where it counts from 0."""
    at = var if step == 1 else var * step
    return at if isinstance(begin, int) and begin == 0 else at + begin


def wrapped(parts: Sequence[Rest], body: Stmt) -> Stmt:
    """A statement in what goes around it, the first outermost."""
    for part in reversed(parts):
        body = part(body)
    return body


def placed(array: Array, body: Stmt) -> Stmt:
    """The statements behind an allocation, in its scope; set to 0 first where that is seen."""
    b = array.buffer
    if not b.storage_scope.startswith("shared"):  # whose threads would each set all of it
        body = seq(zeros(b), body) if reads_early(body, b) else body
    return body if array.returned else Allocate(b, body)


def as_read(target: ast.Subscript) -> ast.Subscript:
    """The element of an augmented assignment, as it is read."""
    out = ast.Subscript(target.value, target.slice, ast.Load())
    return ast.copy_location(out, target)
