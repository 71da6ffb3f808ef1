"""Products of bytes, summed four at a time by one instruction.

Before::

    for k in unrolled(4):
        C[i] = C[i] + int32(A[i * 16 + k]) * int32(B[j * 16 + k])

After::

    C[i] = dp4a(A[i * 16], B[j * 16], C[i])

The loop may have any multiple of four steps. The bytes must be consecutive and aligned, in memory
or shared, and both signed or both unsigned; the sum wraps, so that its sign does not matter.
"""

from __future__ import annotations

from whet.compiler.arith import Analyzer
from whet.compiler.codegen.cuda.lanes import multiple_of
from whet.compiler.tir import dtype as dt
from whet.compiler.tir import expr as e
from whet.compiler.tir import ops
from whet.compiler.tir import stmt as s
from whet.compiler.tir.printer import expr_text
from whet.compiler.tir.rewrite import Rewriter, substitute, variables

#: the call in the place of the loop: of two loads of first bytes, and of the sum so far
DP4A = "dp4a"
_BYTES = 4
_BYTE, _SUM = ("int8", "uint8"), ("int32", "uint32")


def with_dot_products(body: s.Stmt, analyzer: Analyzer) -> s.Stmt:
    """The statement with such loops replaced; the same object where there are none."""
    rewriter: Rewriter

    def loop(n: s.For) -> s.Stmt:
        found = _replaced(n, analyzer)
        return rewriter.children(n) if found is None else found

    rewriter = Rewriter({s.For: loop})
    out: s.Stmt = rewriter(body)
    return out


def _replaced(n: s.For, analyzer: Analyzer) -> s.Stmt | None:
    if n.kind not in (s.SERIAL, s.UNROLLED) or not isinstance(n.body, s.BufferStore):
        return None
    steps = n.extent.value if isinstance(n.extent, e.IntImm) else 0
    begin = n.min.value if isinstance(n.min, e.IntImm) else -1
    if steps < _BYTES or steps % _BYTES or begin != 0:
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
    total = e.BufferLoad(store.buffer, store.indices, store.buffer.dtype)
    call = e.Call(store.buffer.dtype, DP4A, (words[0], words[1], total))
    out = s.BufferStore(store.buffer, call, store.indices)
    if steps == _BYTES:
        return substitute(out, {n.var: n.min})
    outer = e.Var(n.var.name, n.var.dtype)
    factor = ops.const(_BYTES, n.var.dtype)
    body = substitute(out, {n.var: ops.multiply(outer, factor)})
    count = ops.const(steps // _BYTES, n.var.dtype)
    return s.For(outer, n.min, count, n.kind, body, n.annotations, n.thread)


def _product(store: s.BufferStore) -> tuple[e.BufferLoad, e.BufferLoad] | None:
    """The two bytes of ``C[i] = C[i] + int32(a) * int32(b)``."""
    v = store.value
    if store.mask is not None or len(store.indices) != 1 or not isinstance(v, e.Add):
        return None
    total, product = (v.a, v.b) if isinstance(v.b, e.Mul) else (v.b, v.a)
    if not isinstance(product, e.Mul) or not isinstance(total, e.BufferLoad):
        return None
    same = total.buffer is store.buffer and total.mask is None
    if not same or expr_text(total.indices[0]) != expr_text(store.indices[0]):
        return None
    found = [
        x.value
        for x in (product.a, product.b)
        if isinstance(x, e.Cast) and isinstance(x.value, e.BufferLoad)
    ]
    return (found[0], found[1]) if len(found) == 2 else None


def _word(n: e.BufferLoad, var: e.Var, analyzer: Analyzer) -> e.BufferLoad | None:
    """The load of a byte as the load of the first one of four; None where that is none."""
    b = n.buffer
    if n.mask is not None or len(n.indices) != 1 or b.strides or dt.lanes(n.dtype) > 1:
        return None
    if b.storage_scope != "global" and not b.storage_scope.startswith("shared"):
        return None
    at = ops.add(n.indices[0], b.elem_offset)
    rest = analyzer.affine(ops.subtract(at, var)).to_expr("int64")
    if var in variables(rest):
        return None  # its steps are not from byte to byte
    return n if multiple_of(rest, _BYTES, analyzer) else None
