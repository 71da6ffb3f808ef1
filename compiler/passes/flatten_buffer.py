"""FlattenBuffer: one index for each access, strides put in.

C[i, j] = A[i, j + 1]     ->     C[i * 64 + j] = A[i * 65 + j + 1]
"""

from __future__ import annotations

from whet.compiler.arith import Analyzer
from whet.compiler.passes.context import PassConfig
from whet.compiler.target import Target
from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.rewrite import Rewriter


def flatten_buffer(func: PrimFunc, target: Target, config: PassConfig) -> PrimFunc:
    """The function over one-dimensional buffers; its parameters are those."""
    analyzer = Analyzer()
    flat: dict[int, Buffer] = {}
    kept: list[Buffer] = []

    def buffer(b: Buffer) -> Buffer:
        if len(b.shape) == 1:
            return b
        if id(b) not in flat:
            flat[id(b)] = Buffer(b.name, (_product(b.shape),), b.dtype, b.scope)
            kept.append(b)
        return flat[id(b)]

    def load(n: e.BufferLoad) -> e.BufferLoad:
        n = rewrite.children(n)
        if len(n.buffer.shape) == 1:
            return n
        return e.BufferLoad(
            buffer(n.buffer), _index(analyzer, n.buffer, n.indices), n.dtype, n.mask
        )

    def store(n: s.BufferStore) -> s.BufferStore:
        n = rewrite.children(n)
        if len(n.buffer.shape) == 1:
            return n
        return s.BufferStore(
            buffer(n.buffer), n.value, _index(analyzer, n.buffer, n.indices), n.mask
        )

    def allocate(n: s.Allocate) -> s.Allocate:
        body = rewrite(n.body)
        b = buffer(n.buffer)
        return n if body is n.body and b is n.buffer else s.Allocate(b, body)

    rewrite = Rewriter({e.BufferLoad: load, s.BufferStore: store, s.Allocate: allocate})
    params = tuple(buffer(p) if isinstance(p, Buffer) else p for p in func.params)
    return PrimFunc(params, rewrite(func.body), func.attrs)


def _product(shape: tuple[e.PrimExpr, ...]) -> e.PrimExpr:
    if all(isinstance(d, e.IntImm) for d in shape):
        total = 1
        for d in shape:
            total *= d.value  # type: ignore[attr-defined]
        return e.IntImm("int64", total)  # no int32 arithmetic, which would wrap
    out: e.PrimExpr = e.IntImm("int32", 1)
    for d in shape:
        out = e.Mul(out, d, d.dtype)
    return out


def _index(analyzer: Analyzer, b: Buffer, indices: tuple[e.PrimExpr, ...]) -> tuple[e.PrimExpr]:
    # an affine form does not wrap, as int32 arithmetic would; and it is canonical from here on
    out: e.PrimExpr = e.IntImm("int32", 0)
    for i, d in zip(indices, b.shape):
        out = e.Add(e.Mul(out, d, i.dtype), i, i.dtype)
    return (analyzer.affine(out).to_expr(out.dtype),)
