"""The signature of a function: what its callers must know, while its buffers have their shapes."""

from __future__ import annotations

import re
from collections.abc import Collection
from keyword import iskeyword

from whet.compiler.abi.extent import packed_shape
from whet.compiler.abi.extent_expr import from_expr
from whet.compiler.abi.signature import BufferParam, KernelSignature, ScalarParam
from whet.compiler.errors import LowerError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.analysis.effects import may_write
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import BufferLoad, BufferView, Call, IntImm, Let, PrimExpr, Var
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.printer import Printer
from whet.compiler.tir.stmt import AttrStmt, BufferStore, For, LetStmt, Stmt
from whet.compiler.tir.visit.buffers import replace_buffers
from whet.compiler.tir.visit.rewrite import (
    nodes_of,
    substitute,
    variables,
)


def with_signature(func: PrimFunc, read_only: Collection[Buffer] = ()) -> PrimFunc:
    """The function with its signature and the symbols that its arguments' shapes bind.

    Args:
        func: has not been lowered.
        read_only: buffers that functions it calls only read. Of others that are handed to a
            function, nobody knows: they count as written.

    Raises:
        LowerError: something has no value.
    """
    func, moved = _from_the_first_element(func)
    stored, handed, free = _uses(func.body)
    printer = Printer()
    own = [p for p in func.params if isinstance(p, Var)]
    scalars = set(own)
    buffers = [p for p in func.params if isinstance(p, Buffer)]
    given = [d for b in buffers for d in b.shape] + [d for b in buffers for d in _strides(b)]
    symbols = list(dict.fromkeys(d for d in given if isinstance(d, Var) and d not in scalars))
    known = scalars.union(symbols)
    handed -= {moved.get(b, b).data for b in read_only}
    params: list[BufferParam | ScalarParam] = []
    taken = {printer.name(v, _readable(v.name)) for v in (*own, *symbols)}
    for p in func.params:
        if isinstance(p, Var):
            params.append(ScalarParam(printer.name(p), p.dtype))
            continue
        _check_known(p, known)
        shape, strides = (
            tuple(from_expr(d, printer.name) for d in dims) for dims in (p.shape, _strides(p))
        )
        written = p.data in stored | handed
        name = f"v{p.name}" if p.name.isdecimal() else p.name  # launches are handed numbers, too
        element, lanes = dt.split(p.dtype)
        if lanes > 1:  # an array's last dimension is the lanes
            shape = (*shape, lanes)
        if dt.is_nibble(element) and strides:
            raise LowerError(
                f"lower: the argument {p.name}: {p.dtype}",
                "an array that holds two elements a byte has no strides",
                "pass it compact, as whet.nd.array makes it",
            )
        if dt.is_nibble(element):  # an array of bytes, which hold two elements each
            element, shape = "uint8", packed_shape(shape)
        params.append(BufferParam(_fresh(name, taken), element, shape, written, strides))
    for v in free:
        if v not in known:
            raise LowerError(
                f"lower: the body uses {v.name}",
                "no argument gives it a value",
                f"pass an array with the dimension {v.name}, or {v.name} itself",
            )
    name = str(func.attrs.get("global_symbol", "main"))
    signature = KernelSignature(name, tuple(params), tuple(printer.name(v) for v in symbols))
    return func.with_attr("signature", signature).with_attr("symbols", tuple(symbols))


def _readable(name: str) -> str:
    """A size's name as Python reads it in the text of an expression: no keyword, nothing odd."""
    text = re.sub(r"\W", "_", name, flags=re.ASCII)
    return text if text.isidentifier() and not iskeyword(text) else f"v{text}"


def _fresh(wanted: str, taken: set[str]) -> str:
    """A name that no other argument has, now taken: launches tell arguments apart by it."""
    name, count = wanted, 0
    while name in taken:
        count += 1
        name = f"{wanted}_{count}"
    taken.add(name)
    return name


def _uses(body: Stmt) -> tuple[set[Var], set[Var], list[Var]]:
    """The uses of buffers and variables in a body.

    Returns:
        The memory that it stores to, that which it hands to functions which may write it (a
        buffer may be one of several views of it), and the variables that it does not define.
    """
    written: set[Var] = set()
    handed: set[Var] = set()
    used: dict[Var, None] = {}
    defined: set[Var] = set()
    definitions = (For, LetStmt, Let)
    for n in nodes_of(body, Var, BufferStore, BufferView, Call, AttrStmt, *definitions):
        match n:
            case Var():
                used[n] = None
            case BufferStore():
                written.add(n.buffer.data)
            case BufferView():
                handed.add(n.buffer.data)
            case Call(args=(BufferLoad() as first, *_)) if may_write(n):
                handed.add(first.buffer.data)
            case AttrStmt(key="thread_extent"):
                defined.add(n.node)
            case For() | LetStmt() | Let():
                defined.add(n.var)
    # a handle is the memory of a buffer, whose declaration says where it comes from
    return written, handed, [v for v in used if v not in defined and v.dtype != "handle"]


def _from_the_first_element(func: PrimFunc) -> tuple[PrimFunc, dict[Buffer, Buffer]]:
    """The function with ``elem_offset`` 0 in its parameters: a caller passes the first element.

    Also says which buffers were replaced.
    """
    moved: dict[Buffer, Buffer] = {}
    zero: dict[Var, PrimExpr] = {}
    for p in func.params:
        if not isinstance(p, Buffer):
            continue
        if isinstance(p.elem_offset, IntImm) and not p.elem_offset.value:
            continue
        kept = p.name, p.shape, p.dtype, p.storage_scope, p.strides
        moved[p] = Buffer(*kept, data=p.data, data_alignment=p.data_alignment)
        if isinstance(p.elem_offset, Var):
            zero[p.elem_offset] = IntImm(p.elem_offset.dtype, 0)
    if not moved:
        return func, moved
    body = substitute(replace_buffers(func.body, moved), zero)
    params = tuple(moved.get(p, p) if isinstance(p, Buffer) else p for p in func.params)
    return PrimFunc(params, body, func.ret_type, None, func.attrs), moved


def _strides(b: Buffer) -> tuple[PrimExpr, ...]:
    """The strides of a buffer; none where they are those of a compact array."""
    step = 1
    for d, given in zip(reversed(b.shape), reversed(b.strides)):
        if not (isinstance(given, IntImm) and given.value == step):
            return b.strides
        if not isinstance(d, IntImm):
            return () if d is b.shape[0] else b.strides
        step *= d.value
    return ()


def _check_known(p: Buffer, known: Collection[Var]) -> None:
    for what, dims in (("shape", p.shape), ("strides", _strides(p))):
        for v in (v for d in dims for v in variables(d)):
            if v not in known:
                raise LowerError(
                    f"lower: the {what} of {p.name}",
                    f"it uses {v.name}, which no argument gives",
                    f"pass an array with the dimension {v.name}, or {v.name} itself",
                )
