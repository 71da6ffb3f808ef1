"""FlattenBuffer: one index for each access, strides and offsets put in.

C[i, j] = A[i, j + 1]     ->     C[i * 64 + j] = A[i * 65 + j + 1]

A buffer with strides takes as much memory as its last element needs; another view of a buffer is
flattened over the same memory. A buffer of vectors becomes one of their lanes:

x[k] = ramp(0, 1, 2)  (int32x2)     ->     x[ramp(k * 2, 1, 2)] = ramp(0, 1, 2)
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import reduce
from typing import NoReturn

from whet.compiler.arith import Analyzer
from whet.compiler.errors import LowerError
from whet.compiler.passes.contract.option import PassConfig
from whet.compiler.target import Target
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import Add, Broadcast, BufferView, IntImm, Mul, PrimExpr, Ramp, is_int
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import AllocateConst, Stmt
from whet.compiler.tir.visit.buffers import BufferRewriter
from whet.compiler.tir.visit.rewrite import changed

_ZERO = IntImm("int32", 0)


def flatten_buffer(func: PrimFunc, target: Target, config: PassConfig) -> PrimFunc:
    """The function over one-dimensional buffers; its parameters are those.

    Raises:
        LowerError: a parameter of vectors has strides, or vectors are used in a way that has no
            lanes side by side.
    """
    for p in func.params:
        if isinstance(p, Buffer) and dt.lanes(p.dtype) > 1 and p.strides:
            _refuse(p, "an argument of vectors has no strides")
    flatten = _Flatten()
    body = flatten(func.body)
    params = tuple(flatten.flattened(p) if isinstance(p, Buffer) else p for p in func.params)
    if body is func.body and all(a is b for a, b in zip(params, func.params)):
        return func
    return PrimFunc(params, body, func.ret_type, None, func.attrs)


class _Flatten(BufferRewriter):
    def __init__(self) -> None:
        super().__init__(
            self.flattened, self._indices, {BufferView: self._view, AllocateConst: self._const}
        )
        self.analyzer = Analyzer()
        self.flat: dict[Buffer, Buffer] = {}

    def flattened(self, b: Buffer) -> Buffer:
        """The same memory with one dimension; ``b`` itself where it has that already."""
        if _is_flat(b):
            return b
        known = self.flat.get(b)
        if known is None:
            lanes = dt.lanes(b.dtype)
            size = _size(b) if lanes == 1 else _size(b) * lanes
            known = self.flat[b] = replace(
                b,
                shape=(size,),
                dtype=dt.element(b.dtype),
                strides=(),
                elem_offset=_ZERO,
                offset_factor=1,
            )
        return known

    def _view(self, n: BufferView) -> BufferView:
        n = self.children(n)  # its offset counts from the memory's begin already
        if dt.lanes(n.buffer.dtype) > 1:
            _refuse(n.buffer, "who is handed a buffer expects numbers in it")
        return changed(n, buffer=self.flattened(n.buffer))

    def _const(self, n: AllocateConst) -> Stmt:
        b = self.flattened(n.buffer)
        data = n.data if b is n.buffer else n.data.reshape(-1)
        return changed(n, buffer=b, data=data, body=self(n.body))

    def _indices(self, b: Buffer, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr]:
        """The one index of an access: of a number, of several, or of the lanes of vectors."""
        index = self._of_elements(b, indices)
        lanes = dt.lanes(b.dtype)
        if lanes == 1:
            return (index,)
        base, count = (index.base, index.lanes) if isinstance(index, Ramp) else (index, 1)
        if dt.lanes(base.dtype) > 1 or (isinstance(index, Ramp) and index.stride != 1):
            _refuse(b, "several of its elements are accessed that are no neighbours")
        first = self.analyzer.affine(base * lanes).to_expr(base.dtype)
        return (Ramp(first, 1, lanes * count, dt.vector(first.dtype, lanes * count)),)

    def _of_elements(self, b: Buffer, indices: tuple[PrimExpr, ...]) -> PrimExpr:
        """The one index of an access; of a vector of elements, along its last dimension."""
        if not indices or dt.lanes(indices[-1].dtype) == 1:
            return self._scalar(b, indices)
        *outer, last = indices
        step = b.strides[-1] if b.strides else ops.const(1)
        if isinstance(last, Ramp) and isinstance(step, IntImm):
            base = self._scalar(b, (*outer, last.base))
            kind = dt.vector(base.dtype, last.lanes)
            return Ramp(base, last.stride * step.value, last.lanes, kind)
        element = dt.element(last.dtype)
        first = ops.cast(element, self._scalar(b, (*outer, ops.const(0, element))))
        if b.strides:
            last = last * ops.cast(last.dtype, step)
        return Add(Broadcast(first, dt.lanes(last.dtype), last.dtype), last, last.dtype)

    def _scalar(self, b: Buffer, indices: tuple[PrimExpr, ...]) -> PrimExpr:
        # an affine form does not wrap, as int32 arithmetic would; and it is canonical from here on
        out: PrimExpr = b.elem_offset if b.strides else _ZERO
        if b.strides:
            for i, step in zip(indices, b.strides):
                out = Add(out, Mul(i, step, i.dtype), i.dtype)
        else:
            for i, d in zip(indices, b.shape):
                out = Add(Mul(out, d, i.dtype), i, i.dtype)
            if not is_int(b.elem_offset, 0):
                out = Add(out, b.elem_offset, out.dtype)
        return self.analyzer.affine(out).to_expr("int64" if self._is_long(b) else out.dtype)

    def _is_long(self, b: Buffer) -> bool:
        """True where 32 bits may not hold the index of the last element."""
        size = self.flattened(b).shape[0]
        return isinstance(size, IntImm) and size.value >= 2**31


def _is_flat(b: Buffer) -> bool:
    plain = not b.strides and is_int(b.elem_offset, 0)
    return len(b.shape) == 1 and plain and dt.lanes(b.dtype) == 1


def _refuse(b: Buffer, why: str) -> NoReturn:
    element, lanes = dt.split(b.dtype)
    raise LowerError(
        f"a buffer {b.name} of {b.dtype}",
        why,
        f"declare it with elements of {element} and {lanes} of them in a last dimension, and give "
        f"vload and vstore the dtype {b.dtype!r}",
    )


def _size(b: Buffer) -> PrimExpr:
    """How many elements of memory a buffer spans."""
    if b.strides:
        # up to the last element
        size: PrimExpr = b.elem_offset + 1
        for d, step in zip(b.shape, b.strides):
            size += (d - 1) * step
        return size
    size = _product(b.shape)
    return size if is_int(b.elem_offset, 0) else size + b.elem_offset


def _product(shape: tuple[PrimExpr, ...]) -> PrimExpr:
    total = math.prod(d.value for d in shape if isinstance(d, IntImm))
    sizes = [d for d in shape if not isinstance(d, IntImm)]
    if not sizes:
        return IntImm("int64", total)  # no int32 arithmetic, which would wrap
    wide = total >= 2**31 or any(d.dtype == "int64" for d in sizes)
    kind = "int64" if wide else "int32"
    return reduce(ops.multiply, [ops.cast(kind, d) for d in sizes]) * ops.const(total, kind)
