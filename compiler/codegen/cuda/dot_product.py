"""Products of bytes, summed four at a time by one instruction.

Before::

    for k in unrolled(4):
        C[i] = C[i] + int32(A[i * 16 + k]) * int32(B[j * 16 + k])

After::

    C[i] = dp4a(A[i * 16], B[j * 16], C[i])

The loop may have any multiple of four steps. The bytes must be consecutive and aligned, in memory
or shared, and both signed or both unsigned; the sum wraps, so that its sign does not matter.

A schedule may say so itself, on words of four bytes each: ``C[i] + dp4a(a, b, 0)`` becomes
``dp4a(a, b, C[i])``, and of :data:`PACK` of consecutive bytes the load of a word.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from whet.compiler.arith import Analyzer
from whet.compiler.arith.keys import structural_key
from whet.compiler.codegen.constants import constant
from whet.compiler.codegen.cuda.lanes import choice_of, multiple_of
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import Add, BufferLoad, Call, Cast, IntImm, Mul, PrimExpr, Var
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import SERIAL, UNROLLED, BufferStore, For, Stmt
from whet.compiler.tir.visit.rewrite import Rewriter, substitute, variables

#: the call in the place of the loop: of two loads of first bytes, or of two words, and of the sum
#: so far
DP4A = "dp4a"
#: four bytes, the first one lowest, as a word
PACK = "pack_bytes"
_BYTES = 4
_BYTE, _SUM = ("int8", "uint8"), ("int32", "uint32")


def with_dot_products(body: Stmt, analyzer: Analyzer) -> Stmt:
    """The statement with such loops replaced; the same object where there are none."""
    rewriter: Rewriter

    def loop(n: For) -> Stmt:
        found = _replaced(n, analyzer)
        return rewriter.children(n) if found is None else found

    def store(n: BufferStore) -> BufferStore:
        return _added(rewriter.children(n))

    def call(n: Call) -> PrimExpr:
        n = rewriter.children(n)
        return _under_one_condition(n) if n.op == PACK else n

    rewriter = Rewriter({For: loop, BufferStore: store, Call: call})
    out: Stmt = rewriter(body)
    return out


def _added(n: BufferStore) -> BufferStore:
    """``C[i] = C[i] + dp4a(a, b, 0)`` with the sum so far in the place of 0."""
    total, call = _sum_in_place(n, Call)
    if not isinstance(call, Call) or call.op != DP4A:
        return n
    *words, begin = call.args
    if constant(begin) != 0:
        return n
    return replace(n, value=Call(call.dtype, DP4A, (*words, total)))


def word_of(n: Call, analyzer: Analyzer) -> BufferLoad | None:
    """The load of the first of four bytes that lie side by side and aligned, of a :data:`PACK`."""
    first, *others = n.args
    if not isinstance(first, BufferLoad) or len(first.indices) != 1:
        return None
    for k, x in enumerate(others, 1):
        if not isinstance(x, BufferLoad) or x.buffer is not first.buffer or x.mask is not None:
            return None
        apart = analyzer.affine(ops.subtract(x.indices[0], first.indices[0]))
        if apart.terms or apart.const != k:
            return None
    return first if _is_word(first, first.indices[0], analyzer) else None


def _under_one_condition(n: Call) -> Call:
    """Four bytes that are 0 unless one condition holds as a word that is."""
    found = [x for x in map(value_or_zero, n.args) if x is not None]
    if len(found) < _BYTES or len({structural_key(condition) for condition, _ in found}) > 1:
        return n
    word = Call(n.dtype, PACK, tuple(value for _, value in found))
    return Call(n.dtype, "if_then_else", (found[0][0], word, ops.const(0, n.dtype)))


def value_or_zero(n: PrimExpr) -> tuple[PrimExpr, PrimExpr] | None:
    """The condition of ``x if condition else 0``, and x; None for anything else."""
    parts = choice_of(n)
    zero = len(parts) == 3 and isinstance(parts[2], IntImm) and parts[2].value == 0
    return (parts[0], parts[1]) if zero else None


def _sum_in_place(n: BufferStore, kind: type[PrimExpr]) -> tuple[Any, PrimExpr | None]:
    """The two operands of ``C[i] = C[i] + x``, where x is of a class; else x is None."""
    v = n.value
    if n.mask is not None or len(n.indices) != 1 or not isinstance(v, Add):
        return v, None
    total, x = (v.a, v.b) if isinstance(v.b, kind) else (v.b, v.a)
    if not isinstance(total, BufferLoad) or total.buffer is not n.buffer:
        return v, None
    same = structural_key(total.indices[0]) == structural_key(n.indices[0])
    if total.mask is not None or not same:
        return v, None
    return total, x


def _replaced(n: For, analyzer: Analyzer) -> Stmt | None:
    if n.kind not in (SERIAL, UNROLLED) or not isinstance(n.body, BufferStore):
        return None
    steps = constant(n.extent) or 0
    if steps < _BYTES or steps % _BYTES or constant(n.min) != 0:
        return None
    store = n.body
    parts = _product(store)
    if parts is None or n.var in variables(store.indices[0]):
        return None
    words = [_word(x, n.var, analyzer) for x in parts]
    if any(w is None for w in words):
        return None
    kind = parts[0].dtype
    if parts[1].dtype != kind or kind not in _BYTE or store.buffer.dtype not in _SUM:
        return None
    total = BufferLoad(store.buffer, store.indices, store.buffer.dtype)
    out = replace(store, value=Call(store.buffer.dtype, DP4A, (*words, total)))
    if steps == _BYTES:
        return substitute(out, {n.var: n.min})
    outer = Var(n.var.name, n.var.dtype)
    factor = ops.const(_BYTES, n.var.dtype)
    body = substitute(out, {n.var: ops.multiply(outer, factor)})
    count = ops.const(steps // _BYTES, n.var.dtype)
    return replace(n, var=outer, extent=count, body=body)


def _product(store: BufferStore) -> tuple[BufferLoad, BufferLoad] | None:
    """The two bytes of ``C[i] = C[i] + int32(a) * int32(b)``."""
    product = _sum_in_place(store, Mul)[1]
    if not isinstance(product, Mul):
        return None
    found = [
        x.value
        for x in (product.a, product.b)
        if isinstance(x, Cast) and isinstance(x.value, BufferLoad)
    ]
    return (found[0], found[1]) if len(found) == 2 else None


def _word(n: BufferLoad, var: Var, analyzer: Analyzer) -> BufferLoad | None:
    """The load of a byte as the load of the first one of four; None where that is none."""
    if len(n.indices) != 1:
        return None
    rest = analyzer.affine(ops.subtract(n.indices[0], var)).to_expr("int64")
    if var in variables(rest):
        return None  # its steps are not from byte to byte
    return n if _is_word(n, rest, analyzer) else None


def _is_word(n: BufferLoad, at: PrimExpr, analyzer: Analyzer) -> bool:
    """True if four bytes from an index on are a word of memory."""
    b = n.buffer
    if n.mask is not None or b.strides or dt.lanes(n.dtype) > 1 or n.dtype not in _BYTE:
        return False
    if b.storage_scope != "global" and not b.storage_scope.startswith("shared"):
        return False
    aligned = b.data_alignment % _BYTES == 0
    return aligned and multiple_of(ops.add(at, b.elem_offset), _BYTES, analyzer)
