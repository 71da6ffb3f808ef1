"""True if the types of operands, indices, conditions and stored values agree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import BINARY, And, BinaryOp, BufferLoad, CmpOp, Let, Or, Select
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.printer import expr_text
from whet.compiler.tir.stmt import (
    PARALLEL,
    SERIAL,
    THREAD_BINDING,
    UNROLLED,
    VECTORIZED,
    AssertStmt,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
    While,
)
from whet.compiler.tir.visit.expect import FUNCTION, expect


def type_errors(func: PrimFunc) -> Iterator[str]:
    """Messages about types that do not agree.

    Raises:
        ArgumentError: for anything but a PrimFunc.
    """
    expect(func, FUNCTION, "type_errors(func)")
    stack: list[Any] = [func.body]
    while stack:
        n = stack.pop()
        check = _CHECKS.get(type(n))
        if check is not None:
            said = check(n)
            if said:
                yield said
        stack.extend(n.parts)


def _operands(n: BinaryOp) -> str:
    if n.a.dtype != n.b.dtype and not _indices(n.a.dtype, n.b.dtype):
        return f"{expr_text(n)}: operands of {n.a.dtype} and {n.b.dtype}"
    if isinstance(n, (CmpOp, And, Or)):
        wanted = dt.vector("bool", dt.lanes(n.a.dtype))
    else:
        wanted = n.a.dtype
    if n.dtype == wanted or _indices(n.dtype, wanted):
        return ""
    return f"{expr_text(n)}: a {n.dtype} computed from {n.a.dtype}"


def _indices(a: str, b: str) -> bool:
    """True if both are types of indices, which generators compute in 64 bits anyway."""
    return {a, b} == {"int32", "int64"}


def _access(n: BufferLoad | BufferStore) -> str:
    for i in n.indices:
        if not dt.is_int(i.dtype):
            return f"{n.buffer.name}[{expr_text(i)}]: an index of {i.dtype}"
    if len(n.indices) != max(len(n.buffer.shape), len(n.indices) and 1):
        return f"{n.buffer.name}: {len(n.indices)} indices for {len(n.buffer.shape)} dimensions"
    kind = n.value.dtype if isinstance(n, BufferStore) else n.dtype
    if dt.element(kind) != n.buffer.dtype:
        return f"{n.buffer.name}: a {kind} in a buffer of {n.buffer.dtype}"
    count = dt.lanes(n.indices[-1].dtype) if n.indices else 1
    if count != dt.lanes(kind):
        return f"{n.buffer.name}: {count} places for a {kind}"
    if n.mask is not None and n.mask.dtype != dt.vector("bool", count):
        return f"{n.buffer.name}: a mask of {n.mask.dtype} for {count} lanes"
    return ""


def _condition(n: IfThenElse | AssertStmt | While) -> str:
    if n.condition.dtype == "bool":
        return ""
    return f"the condition {expr_text(n.condition)} is a {n.condition.dtype}"


def _select(n: Select) -> str:
    if n.true_value.dtype != n.false_value.dtype or n.dtype != n.true_value.dtype:
        return f"{expr_text(n)}: a choice of {n.true_value.dtype} and {n.false_value.dtype}"
    return ""


def _let(n: LetStmt | Let) -> str:
    if n.var.dtype == n.value.dtype or _indices(n.var.dtype, n.value.dtype):
        return ""
    return f"{n.var.name}, a {n.var.dtype}, stands for a {n.value.dtype}"


def _loop(n: For) -> str:
    if n.kind not in _KINDS:
        return f"the loop over {n.var.name} is of the kind {n.kind!r}"
    for x in (n.min, n.extent, n.var):
        if x.dtype not in ("int32", "int64"):
            return f"the loop over {n.var.name} counts in {x.dtype}"
    return ""


_KINDS = (SERIAL, PARALLEL, VECTORIZED, UNROLLED, THREAD_BINDING)
_CHECKS: dict[type, Any] = {
    **dict.fromkeys(BINARY, _operands),
    BufferLoad: _access,
    BufferStore: _access,
    IfThenElse: _condition,
    AssertStmt: _condition,
    While: _condition,
    Select: _select,
    Let: _let,
    LetStmt: _let,
    For: _loop,
}
