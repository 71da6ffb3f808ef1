"""Operations and allocated bytes of functions, and where their buffers are used."""

from __future__ import annotations

from typing import Any

from whet.compiler.errors import LowerError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import (
    ARITHMETIC,
    BufferLoad,
    BufferView,
    Call,
    IntImm,
    PrimExpr,
    ProducerLoad,
    Ramp,
    Select,
    is_choice,
)
from whet.compiler.tir.function import IRModule, PrimFunc, functions_of
from whet.compiler.tir.printer import expr_text
from whet.compiler.tir.stmt import (
    Allocate,
    AllocateConst,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
)
from whet.compiler.tir.visit.expect import FUNCTION, FUNCTIONS, expect
from whet.compiler.tir.visit.rewrite import statements_of


def estimate_flops(func: PrimFunc | IRModule) -> float:
    """How many operations a function does: additions, multiplications and so on of its data.

    A lane of a vector is an operation, as is a call such as ``exp``. Indices, conditions,
    conversions and copies do not count; of two branches, the larger one does.

    Raises:
        LowerError: if a loop's length is not a constant.
        ArgumentError: for anything but a PrimFunc or a module.
    """
    expect(func, FUNCTIONS, "estimate_flops(func)")
    return float(sum(_statement(f.body) for f in functions_of(func)))


estimate_tir_flops = estimate_flops


def _statement(n: Any) -> int:
    if isinstance(n, BufferStore):
        return _value(n.value)
    if isinstance(n, For):
        inside = _statement(n.body)
        if not inside:
            return 0
        if not isinstance(n.extent, IntImm):
            raise LowerError(
                f"estimate_flops: the loop over {n.var.name}",
                f"its length, {expr_text(n.extent)}, is not a constant",
                "specialize the function to the sizes of interest first",
            )
        return n.extent.value * inside
    if isinstance(n, IfThenElse):
        other = 0 if n.else_case is None else _statement(n.else_case)
        return max(_statement(n.then_case), other)
    if isinstance(n, (LetStmt, Evaluate)):
        own = _value(n.value) if dt.is_float(n.value.dtype) else 0
        return own + (_statement(n.body) if isinstance(n, LetStmt) else 0)
    return sum(_statement(p) for p in statements_of(n))


def _value(n: PrimExpr) -> int:
    """Operations of a value that is data."""
    if isinstance(n, (BufferLoad, ProducerLoad, Ramp, BufferView)):
        return 0
    parts = n.parts
    lanes = dt.lanes(n.dtype)
    if isinstance(n, Select) or is_choice(n):
        return max(_value(p) for p in parts[1:])
    own = lanes if isinstance(n, (*ARITHMETIC, Call)) else 0
    return own + sum(_value(p) for p in parts)


def calculate_allocated_bytes(func: PrimFunc | IRModule) -> dict[str, int]:
    """The bytes that a function allocates in each storage scope, at most at one time.

    Raises:
        LowerError: if a size is not a constant.
        ArgumentError: for anything but a PrimFunc or a module.
    """
    expect(func, FUNCTIONS, "calculate_allocated_bytes(func)")
    most: dict[str, int] = {}
    now: dict[str, int] = {}

    def visit(n: Any) -> None:
        if not isinstance(n, (Allocate, AllocateConst)):
            for p in statements_of(n):
                visit(p)
            return
        scope, size = n.buffer.storage_scope, _bytes(n.buffer)
        now[scope] = now.get(scope, 0) + size
        most[scope] = max(most.get(scope, 0), now[scope])
        visit(n.body)
        now[scope] -= size

    for f in functions_of(func):
        visit(f.body)
    return most


def _bytes(b: Buffer) -> int:
    flat = b.get_flattened_buffer() if b.strides else b
    total = dt.itemsize(b.dtype)
    for d in flat.shape:
        if not isinstance(d, IntImm):
            raise LowerError(
                f"calculate_allocated_bytes: {b.name}",
                f"its extent {expr_text(d)} is not a constant",
                "specialize the function to the sizes of interest first",
            )
        total *= d.value
    return total


def detect_buffer_access_lca(func: PrimFunc) -> dict[Buffer, Stmt | None]:
    """For each buffer, the innermost statement around all its uses; None for one in no loop.

    A statement counts as around a use if it is a loop, a branch or an allocation.

    Raises:
        ArgumentError: for anything but a PrimFunc.
    """
    expect(func, FUNCTION, "detect_buffer_access_lca(func)")
    paths: dict[Buffer, list[Stmt]] = {}

    def visit(n: Any, path: list[Stmt]) -> None:
        if isinstance(n, (BufferLoad, BufferStore, BufferView)):
            known = paths.get(n.buffer)
            if known is None:
                paths[n.buffer] = list(path)
            else:
                common = 0
                while common < min(len(known), len(path)) and known[common] is path[common]:
                    common += 1
                paths[n.buffer] = known[:common]
        inner = [*path, n] if isinstance(n, (For, IfThenElse, Allocate, While)) else path
        for p in n.parts:
            visit(p, inner)

    visit(func.body, [])
    return {b: path[-1] if path else None for b, path in paths.items()}
