"""The signature of a function: what its callers must know, while its buffers have their shapes."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from keyword import iskeyword

from whet.compiler.abi.signature import BufferParam, KernelSignature, ScalarParam
from whet.compiler.errors import LowerError
from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.printer import Printer
from whet.compiler.tir.visit.rewrite import (
    Rewriter,
    post_order_visit,
    replace_buffers,
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
    uses = _Uses(func.body)
    printer = Printer()
    own = [p for p in func.params if isinstance(p, e.Var)]
    scalars = set(own)
    buffers = [p for p in func.params if isinstance(p, Buffer)]
    given = [d for b in buffers for d in b.shape] + [d for b in buffers for d in _strides(b)]
    symbols = list(dict.fromkeys(d for d in given if isinstance(d, e.Var) and d not in scalars))
    known = scalars.union(symbols)
    handed = uses.handed - {id(moved.get(b, b)) for b in read_only}
    params: list[BufferParam | ScalarParam] = []
    taken = {printer.name(v, _readable(v.name)) for v in (*own, *symbols)}
    for p in func.params:
        if isinstance(p, e.Var):
            params.append(ScalarParam(printer.name(p), p.dtype))
            continue
        _check_known(p, known)
        shape, strides = extent_texts(printer, p.shape), extent_texts(printer, _strides(p))
        written = id(p) in uses.written or id(p) in handed
        name = f"v{p.name}" if p.name.isdecimal() else p.name  # launches are handed numbers, too
        params.append(BufferParam(_fresh(name, taken), p.dtype, shape, written, strides))
    for v in uses.free:
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


class _Uses:
    """What a body does with buffers and variables.

    Attributes:
        written: ids of the buffers that it stores to.
        handed: ids of the buffers that it hands to functions which may write them.
        free: variables that it does not define itself.
    """

    def __init__(self, body: s.Stmt) -> None:
        self.written: set[int] = set()
        self.handed: set[int] = set()
        used: dict[e.Var, None] = {}
        defined: set[e.Var] = set()

        def visit(n: object) -> None:
            if isinstance(n, e.Var):
                used[n] = None
            elif isinstance(n, s.BufferStore):
                self.written.add(id(n.buffer))
            elif isinstance(n, e.BufferView):
                self.handed.add(id(n.buffer))
            elif isinstance(n, e.Call):
                self._called(n)
            elif isinstance(n, (s.For, s.LetStmt, e.Let)):
                defined.add(n.var)
            elif isinstance(n, s.AttrStmt) and n.key == "thread_extent":
                defined.add(n.node)

        post_order_visit(body, visit)
        # a handle is the memory of a buffer, whose declaration says where it comes from
        self.free = [v for v in used if v not in defined and v.dtype != "handle"]

    def _called(self, n: e.Call) -> None:
        first = n.args[0] if n.args else None
        if n.op not in ("address_of", "tvm_access_ptr") or not isinstance(first, e.BufferLoad):
            return
        mask = n.args[-1]
        if n.op == "address_of" or not (isinstance(mask, e.IntImm) and not mask.value & 2):
            self.handed.add(id(first.buffer))


def _from_the_first_element(func: PrimFunc) -> tuple[PrimFunc, dict[Buffer, Buffer]]:
    """The function with ``elem_offset`` 0 in its parameters: a caller passes the first element.

    Also says which buffers were replaced.
    """
    moved: dict[Buffer, Buffer] = {}
    zero: dict[e.Var, e.PrimExpr] = {}
    for p in func.params:
        if not isinstance(p, Buffer):
            continue
        if isinstance(p.elem_offset, e.IntImm) and not p.elem_offset.value:
            continue
        new = Buffer(
            p.name,
            p.shape,
            p.dtype,
            p.storage_scope,
            p.strides,
            data=p.data,
            data_alignment=p.data_alignment,
        )
        moved[p] = new
        if isinstance(p.elem_offset, e.Var):
            zero[p.elem_offset] = e.IntImm(p.elem_offset.dtype, 0)
    if not moved:
        return func, moved
    body = substitute(replace_buffers(func.body, moved), zero)
    params = tuple(moved.get(p, p) if isinstance(p, Buffer) else p for p in func.params)
    return PrimFunc(params, body, func.ret_type, None, func.attrs), moved


def _strides(b: Buffer) -> tuple[e.PrimExpr, ...]:
    """The strides of a buffer; none where they are those of a compact array."""
    step = 1
    for d, given in zip(reversed(b.shape), reversed(b.strides)):
        if not (isinstance(given, e.IntImm) and given.value == step):
            return b.strides
        if not isinstance(d, e.IntImm):
            return () if d is b.shape[0] else b.strides
        step *= d.value
    return ()


def extent_texts(printer: Printer, dims: Sequence[e.PrimExpr]) -> tuple[int | str, ...]:
    """Extents as numbers, or as the texts that a signature's shapes have."""
    # a caller computes with 64 bits: there is nothing to widen
    widened = Rewriter({e.Cast: lambda n: widened(n.value)})
    return tuple(d.value if isinstance(d, e.IntImm) else printer.expr(widened(d)) for d in dims)


def _check_known(p: Buffer, known: Collection[e.Var]) -> None:
    for what, dims in (("shape", p.shape), ("strides", _strides(p))):
        for v in (v for d in dims for v in variables(d)):
            if v not in known:
                raise LowerError(
                    f"lower: the {what} of {p.name}",
                    f"it uses {v.name}, which no argument gives",
                    f"pass an array with the dimension {v.name}, or {v.name} itself",
                )
