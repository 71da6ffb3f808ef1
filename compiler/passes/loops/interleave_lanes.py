"""InterleaveLanes: two to four unrolled steps whose lanes stand as far apart share whole vectors.

    for c in unrolled(3):                       r0, r1, r2 = A[ramp(i*3, 1, 8)], A[... + 8], ...
        C[c, ramp(i, 1, 8)] =              ->   C[0, ramp(i, 1, 8)] = shuffle(r0, r1, r2), ...
            A[ramp(i*3 + c, 3, 8)]

    for c in unrolled(3):                       v0, v1, v2 = A[0, ramp(i, 1, 8)], ...
        C[ramp(i*3 + c, 3, 8)] =           ->   C[ramp(i*3, 1, 8)] = shuffle(v0, v1, v2)
            A[c, ramp(i, 1, 8)]                 C[ramp(i*3 + 8, 1, 8)] = ...

The steps together read, or write, all elements of a range. Alone each of them would read the whole
range and take a part of it, or store it lane by lane.
"""

from __future__ import annotations

from collections.abc import Sequence

from whet.compiler.arith import Analyzer
from whet.compiler.arith.keys import structural_key
from whet.compiler.passes.contract.bottom_up import bottom_up
from whet.compiler.passes.contract.option import PassConfig
from whet.compiler.target import Target
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import BufferLoad, Call, IntImm, Let, PrimExpr, Ramp, Shuffle, Var
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import UNROLLED, BufferStore, For, LetStmt, SeqStmt, Stmt, seq
from whet.compiler.tir.visit.rewrite import Rewriter, nodes_of, substitute

_STEPS = (2, 3, 4)
_LEAST = 16  # bytes of a vector
# where each lane of a vector comes from: which vector, and which lane of it
Places = list[tuple[int, int]]


def interleave_lanes(func: PrimFunc, target: Target, config: PassConfig) -> PrimFunc:
    """The function with strided reads and stores of neighbouring steps as whole vectors."""
    if target.kind.name != "llvm":
        return func

    def loop(n: For) -> Stmt:
        if n.kind != UNROLLED or not isinstance(n.extent, IntImm) or n.extent.value not in _STEPS:
            return n
        return _shared(n, n.extent.value) or n

    return func.with_body(bottom_up(func.body, {For: loop}))


def _shared(loop: For, count: int) -> Stmt | None:
    stores = loop.body.seq if isinstance(loop.body, SeqStmt) else (loop.body,)
    whole = [x for x in stores if isinstance(x, BufferStore) and x.mask is None]
    if len(whole) < len(stores) or any(_is_guarded(x) for x in whole):
        return None
    strided = [_is_strided(x.indices[0], x.value.dtype, loop.var, count) for x in whole]
    loads = _loads(whole, loop.var, count)
    if not loads and not any(strided):
        return None
    stored = {x.buffer.data for x in whole}
    if any(n.buffer.data in stored for x in whole for n in nodes_of(x, BufferLoad)):
        return None  # a step might read what another one stores
    lets: list[tuple[Var, PrimExpr]] = []
    columns = {key: _deinterleaved(n, loop, count, lets) for key, n in loads.items()}
    out: list[Stmt] = []
    for x, apart in zip(whole, strided):
        steps = [_step(x, loop, columns, c) for c in range(count)]
        out += _interleaved(steps, count, lets) if apart else steps
    made = seq(*out)
    for var, value in reversed(lets):
        made = LetStmt(var, value, made)
    return made


def _is_guarded(x: BufferStore) -> bool:
    """True where a value is named or chosen inside of an expression: it must not move."""
    return any(isinstance(n, Let) or n.op == "if_then_else" for n in nodes_of(x, Let, Call))


def _is_strided(index: PrimExpr, dtype: str, var: Var, count: int) -> bool:
    """True for lanes ``count`` apart, of which each step takes the next ones."""
    if not isinstance(index, Ramp) or index.stride != count or dt.is_bool(dtype):
        return False
    if index.lanes * dt.itemsize(dt.element(dtype)) < _LEAST or index.lanes & (index.lanes - 1):
        return False
    form = Analyzer().affine(index.base)
    rest = form.without(var)
    fixed = not rest.mentions({var}) and not any(nodes_of(a, BufferLoad) for a in rest.atoms)
    return form.coefficient(var) == 1 and fixed


def _loads(stores: Sequence[BufferStore], var: Var, count: int) -> dict[object, BufferLoad]:
    found: dict[object, BufferLoad] = {}
    for x in stores:
        for n in nodes_of(x.value, BufferLoad):
            if n.mask is None and _is_strided(n.indices[0], n.dtype, var, count):
                found[structural_key(n)] = n
    return found


def _named(name: str, value: PrimExpr, lets: list[tuple[Var, PrimExpr]]) -> Var:
    var = Var(name, value.dtype)
    lets.append((var, value))
    return var


def _deinterleaved(
    load: BufferLoad, loop: For, count: int, lets: list[tuple[Var, PrimExpr]]
) -> list[PrimExpr]:
    """The vector of each step."""
    index = load.indices[0]
    assert isinstance(index, Ramp)
    lanes, name = index.lanes, f"{load.buffer.name}_r"
    first = substitute(index.base, {loop.var: loop.min})
    parts: list[PrimExpr] = []
    for k in range(count):
        ramp = Ramp(first + ops.const(k * lanes, first.dtype), 1, lanes, index.dtype)
        parts.append(_named(name, BufferLoad(load.buffer, (ramp,), load.dtype), lets))
    places = [[divmod(i * count + c, lanes) for i in range(lanes)] for c in range(count)]
    return [_named(name, _picked(parts, p), lets) for p in places]


def _step(x: BufferStore, loop: For, columns: dict[object, list[PrimExpr]], c: int) -> BufferStore:
    """The store of one step, with vectors in place of its strided reads."""

    def load(n: BufferLoad) -> PrimExpr:
        made = columns.get(structural_key(n))
        return made[c] if made is not None else rewrite.children(n)

    rewrite = Rewriter({BufferLoad: load}, once=True)
    out = substitute(rewrite(x), {loop.var: loop.min + ops.const(c, loop.var.dtype)})
    assert isinstance(out, BufferStore)
    return out


def _interleaved(
    steps: Sequence[BufferStore], count: int, lets: list[tuple[Var, PrimExpr]]
) -> list[Stmt]:
    """Stores of whole vectors that hold the lanes of all steps in turn."""
    index, buffer = steps[0].indices[0], steps[0].buffer
    assert isinstance(index, Ramp)
    lanes = index.lanes
    values = [_named(f"{buffer.name}_v", x.value, lets) for x in steps]
    out: list[Stmt] = []
    for k in range(count):
        taken = [divmod(e, count) for e in range(k * lanes, (k + 1) * lanes)]
        vector = _picked(values, [(c, lane) for lane, c in taken])
        at = index.base + ops.const(k * lanes, index.base.dtype)
        out.append(BufferStore(buffer, vector, (Ramp(at, 1, lanes, index.dtype),)))
    return out


def _picked(vectors: Sequence[PrimExpr], places: Places) -> PrimExpr:
    """The vector with lanes from some vectors, two of which are merged at a time."""
    lanes = len(places)
    while len(vectors) > 1:
        merged: list[PrimExpr] = []
        for k in range(0, len(vectors), 2):
            pair = vectors[k : k + 2]
            if len(pair) < 2:
                merged.append(pair[0])
                continue
            # a lane that neither has keeps its place
            order = [
                (v - k) * lanes + lane if v in (k, k + 1) else i
                for i, (v, lane) in enumerate(places)
            ]
            merged.append(Shuffle((pair[0], pair[1]), tuple(order), pair[0].dtype))
        odd = len(vectors) - 1 if len(vectors) % 2 else -1
        places = [(v // 2, lane if v == odd else i) for i, (v, lane) in enumerate(places)]
        vectors = merged
    return vectors[0]
