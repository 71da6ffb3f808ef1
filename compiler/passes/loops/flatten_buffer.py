"""FlattenBuffer: one index for each access, strides and offsets put in.

C[i, j] = A[i, j + 1]     ->     C[i * 64 + j] = A[i * 65 + j + 1]

A buffer with strides takes as much memory as its last element needs; another view of a buffer is
flattened over the same memory. A buffer of vectors becomes one of their lanes:

x[k] = ramp(0, 1, 2)  (int32x2)     ->     x[ramp(k * 2, 1, 2)] = ramp(0, 1, 2)
"""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from whet.compiler.arith import Analyzer
from whet.compiler.errors import LowerError
from whet.compiler.passes.context import PassConfig
from whet.compiler.target import Target
from whet.compiler.tir import dtype as dt
from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.ops import ops
from whet.compiler.tir.visit.rewrite import Rewriter

_ZERO = e.IntImm("int32", 0)


def flatten_buffer(func: PrimFunc, target: Target, config: PassConfig) -> PrimFunc:
    """The function over one-dimensional buffers; its parameters are those.

    Raises:
        LowerError: a parameter's elements are vectors, or vectors are used in a way that has no
            lanes side by side.
    """
    for p in func.params:
        if isinstance(p, Buffer) and dt.lanes(p.dtype) > 1:
            _refuse(p, "an argument's elements are numbers, as an array's are")
    flatten = _Flatten()
    body = flatten(func.body)
    params = tuple(flatten.buffer(p) if isinstance(p, Buffer) else p for p in func.params)
    if body is func.body and all(a is b for a, b in zip(params, func.params)):
        return func
    return PrimFunc(params, body, func.ret_type, None, func.attrs)


class _Flatten(Rewriter):
    def __init__(self) -> None:
        super().__init__(
            {
                e.BufferLoad: self._load,
                e.BufferView: self._view,
                s.BufferStore: self._store,
                s.Allocate: self._holder,
                s.DeclBuffer: self._holder,
                s.AllocateConst: self._const,
                s.AttrStmt: self._attr,
            }
        )
        self.analyzer = Analyzer()
        self.flat: dict[Buffer, Buffer] = {}

    def buffer(self, b: Buffer) -> Buffer:
        """The same memory with one dimension; ``b`` itself where it has that already."""
        if _is_flat(b):
            return b
        known = self.flat.get(b)
        if known is None:
            lanes = dt.lanes(b.dtype)
            size = _size(b) if lanes == 1 else ops.multiply(_size(b), lanes)
            known = self.flat[b] = replace(
                b,
                shape=(size,),
                dtype=dt.element(b.dtype),
                strides=(),
                elem_offset=_ZERO,
                offset_factor=1,
            )
        return known

    def _load(self, n: e.BufferLoad) -> e.BufferLoad:
        n = self.children(n)
        if _is_flat(n.buffer):
            return n
        return e.BufferLoad(self.buffer(n.buffer), self._index(n), n.dtype, n.mask)

    def _store(self, n: s.BufferStore) -> s.BufferStore:
        n = self.children(n)
        if _is_flat(n.buffer):
            return n
        return s.BufferStore(self.buffer(n.buffer), n.value, self._index(n), n.mask)

    def _view(self, n: e.BufferView) -> e.BufferView:
        n = self.children(n)  # its offset counts from the memory's begin already
        if dt.lanes(n.buffer.dtype) > 1:
            _refuse(n.buffer, "who is handed a buffer expects numbers in it")
        b = self.buffer(n.buffer)
        return n if b is n.buffer else e.BufferView(b, n.shape, n.strides, n.offset, n.dtype)

    def _holder(self, n: s.Allocate | s.DeclBuffer) -> s.Stmt:
        body, b = self(n.body), self.buffer(n.buffer)
        return n if body is n.body and b is n.buffer else type(n)(b, body)

    def _const(self, n: s.AllocateConst) -> s.Stmt:
        body, b = self(n.body), self.buffer(n.buffer)
        if body is n.body and b is n.buffer:
            return n
        return s.AllocateConst(b, n.data.reshape(-1), body)

    def _attr(self, n: s.AttrStmt) -> s.Stmt:
        n = self.children(n)
        if not isinstance(n.node, Buffer) or _is_flat(n.node):
            return n
        return s.AttrStmt(self.buffer(n.node), n.key, n.value, n.body)

    def _index(self, n: e.BufferLoad | s.BufferStore) -> tuple[e.PrimExpr]:
        """The one index of an access: of a number, of several, or of the lanes of vectors."""
        (index,) = self._of_elements(n)
        lanes = dt.lanes(n.buffer.dtype)
        if lanes == 1:
            return (index,)
        base, count = (index.base, index.lanes) if isinstance(index, e.Ramp) else (index, 1)
        if dt.lanes(base.dtype) > 1 or (isinstance(index, e.Ramp) and index.stride != 1):
            _refuse(n.buffer, "several of its elements are accessed that are no neighbours")
        first = self.analyzer.affine(ops.multiply(base, lanes)).to_expr(base.dtype)
        return (e.Ramp(first, 1, lanes * count, dt.vector(first.dtype, lanes * count)),)

    def _of_elements(self, n: e.BufferLoad | s.BufferStore) -> tuple[e.PrimExpr]:
        """The one index of an access; of a vector of elements, along its last dimension."""
        last = n.indices[-1] if n.indices else None
        if last is None or dt.lanes(last.dtype) == 1:
            return (self._scalar(n.buffer, n.indices),)
        if isinstance(last, e.Ramp):
            step = n.buffer.strides[-1] if n.buffer.strides else ops.const(1)
            if isinstance(step, e.IntImm):
                base = self._scalar(n.buffer, (*n.indices[:-1], last.base))
                kind = dt.vector(base.dtype, last.lanes)
                return (e.Ramp(base, last.stride * step.value, last.lanes, kind),)
        count = dt.lanes(last.dtype)
        first = self._scalar(n.buffer, (*n.indices[:-1], ops.const(0, dt.element(last.dtype))))
        if n.buffer.strides:
            last = ops.multiply(last, ops.cast(last.dtype, n.buffer.strides[-1]))
        rest = e.Broadcast(ops.cast(dt.element(last.dtype), first), count, last.dtype)
        return (e.Add(rest, last, last.dtype),)

    def _scalar(self, b: Buffer, indices: tuple[e.PrimExpr, ...]) -> e.PrimExpr:
        # an affine form does not wrap, as int32 arithmetic would; and it is canonical from here on
        out: e.PrimExpr = b.elem_offset if b.strides else _ZERO
        if b.strides:
            for i, step in zip(indices, b.strides):
                out = e.Add(out, e.Mul(i, step, i.dtype), i.dtype)
        else:
            for i, d in zip(indices, b.shape):
                out = e.Add(e.Mul(out, d, i.dtype), i, i.dtype)
            if not _is_zero(b.elem_offset):
                out = e.Add(out, b.elem_offset, out.dtype)
        return self.analyzer.affine(out).to_expr("int64" if self._is_long(b) else out.dtype)

    def _is_long(self, b: Buffer) -> bool:
        """Whether 32 bits may not hold the index of the last element."""
        size = self.buffer(b).shape[0]
        return isinstance(size, e.IntImm) and size.value >= 2**31


def _is_zero(n: e.PrimExpr) -> bool:
    return isinstance(n, e.IntImm) and n.value == 0


def _is_flat(b: Buffer) -> bool:
    plain = not b.strides and _is_zero(b.elem_offset)
    return len(b.shape) == 1 and plain and dt.lanes(b.dtype) == 1


def _refuse(b: Buffer, why: str) -> NoReturn:
    element, lanes = dt.split(b.dtype)
    raise LowerError(
        f"a buffer {b.name} of {b.dtype}",
        why,
        f"declare it with elements of {element} and {lanes} of them in a last dimension, and give "
        f"vload and vstore the dtype {b.dtype!r}",
    )


def _size(b: Buffer) -> e.PrimExpr:
    """How many elements of memory a buffer spans."""
    if b.strides:
        # up to the last element
        size: e.PrimExpr = ops.add(b.elem_offset, 1)
        for d, step in zip(b.shape, b.strides):
            size = ops.add(size, ops.multiply(ops.subtract(d, 1), step))
        return size
    size = _product(b.shape)
    return size if _is_zero(b.elem_offset) else ops.add(size, b.elem_offset)


def _product(shape: tuple[e.PrimExpr, ...]) -> e.PrimExpr:
    total = 1
    for d in shape:
        if isinstance(d, e.IntImm):
            total *= d.value
    sizes = [d for d in shape if not isinstance(d, e.IntImm)]
    if not sizes:
        return e.IntImm("int64", total)  # no int32 arithmetic, which would wrap
    wide = total >= 2**31 or any(d.dtype == "int64" for d in sizes)
    out = ops.cast("int64" if wide else "int32", sizes[0])
    for d in sizes[1:]:
        out = ops.multiply(out, ops.cast(out.dtype, d))
    return ops.multiply(out, ops.const(total, out.dtype))
