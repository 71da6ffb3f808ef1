"""TransposeLoads: a square of strided reads becomes plain reads of rows, transposed in registers.

    for v in unrolled(8):                          r0 = A[ramp(j * n + i, 1, 8)]   # ... r7
        C[ramp((i + v) * m + j, 1, 8)] =     ->    t0 = shuffle(r0, r1), ...       # c0 ... c7
            A[ramp(j * n + i + v, n, 8)]           C[ramp(i * m + j, 1, 8)] = c0
                                                   C[ramp((i + 1) * m + j, 1, 8)] = c1, ...

Lane k of step v is ``A[(j + k) * n + i + v]``: as many steps as lanes, whose reads are neighbours,
make a square. Gathering it takes a load and a shuffle for each element; so, two shuffles for each
vector and half as many loads of 16 bytes again. Shuffles stay within 16 bytes, which is quick on
every processor: the parts of a row that come to stand there are put together by the loads. Rows
may lie anywhere, as those of ``A[min(j + k, last) * n + i + v]`` that an edge clamps.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from whet.compiler.arith import Affine, Analyzer
from whet.compiler.arith.keys import structural_key
from whet.compiler.passes.contract.bottom_up import bottom_up
from whet.compiler.passes.contract.option import PassConfig
from whet.compiler.target import Target
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import (
    Add,
    Broadcast,
    BufferLoad,
    Call,
    IntImm,
    Let,
    Max,
    Min,
    Mul,
    PrimExpr,
    Ramp,
    Shuffle,
    Sub,
    Var,
)
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import UNROLLED, BufferStore, For, LetStmt, SeqStmt, Stmt, seq
from whet.compiler.tir.visit.renew import renewed
from whet.compiler.tir.visit.rewrite import Rewriter, nodes_of, substitute

_GROUP = 16  # bytes within which shuffles are quick
_SQUARES = (4, 8, 16)


def transpose_loads(func: PrimFunc, target: Target, config: PassConfig) -> PrimFunc:
    """The function with its squares of strided reads transposed in registers."""
    if target.kind.name != "llvm":
        return func

    def loop(n: For) -> Stmt:
        if n.kind != UNROLLED or not isinstance(n.extent, IntImm):
            return n
        return (n.extent.value in _SQUARES and _transposed(n)) or n

    return func.with_body(bottom_up(func.body, {For: loop}))


def _transposed(loop: For) -> Stmt | None:
    stores = loop.body.seq if isinstance(loop.body, SeqStmt) else (loop.body,)
    if not all(isinstance(x, BufferStore) and x.mask is None for x in stores):
        return None
    assert isinstance(loop.extent, IntImm)
    loads = _squares(stores, loop.var, loop.extent.value)
    if not loads:
        return None
    lets: list[tuple[Var, PrimExpr]] = []
    columns = {key: _columns(load, loop, lets) for key, load in loads.items()}
    steps: list[Stmt] = []
    for v in range(loop.extent.value):
        transposed = {key: columns[key][v] for key in loads}
        body = _with(loop.body, transposed)
        step = substitute(body, {loop.var: loop.min + ops.const(v, loop.var.dtype)})
        steps.append(renewed(step) if v else step)
    out = seq(*steps)
    for var, value in reversed(lets):
        out = LetStmt(var, value, out)
    return out


def _squares(stores: Sequence[Stmt], var: Var, count: int) -> dict[object, BufferLoad]:
    """The strided reads of a loop's steps that are neighbours; none where a branch guards one."""
    stored = {x.buffer.data for x in stores if isinstance(x, BufferStore)}
    squares: dict[object, BufferLoad] = {}
    for x in stores:
        for n in nodes_of(x, Let, Call, BufferLoad):
            if isinstance(n, BufferLoad):
                if n.buffer.data not in stored and _is_square(n, var, count):
                    squares[structural_key(n)] = n
            # loads move out of branches, and out of names that hold inside their expression only
            elif isinstance(n, Let) or n.op == "if_then_else":
                return {}
    return squares


def _is_square(n: BufferLoad, var: Var, count: int) -> bool:
    index = n.indices[0]
    if dt.lanes(index.dtype) != count or n.mask is not None:
        return False
    size = dt.itemsize(n.buffer.dtype)
    if size not in (1, 2, 4, 8) or dt.is_bool(n.dtype) or count * size < _GROUP:
        return False
    if isinstance(index, Ramp) and abs(index.stride) <= 1:
        return False
    analyzer = Analyzer()
    forms: list[Affine] = []
    for k in (0, 1) if isinstance(index, Ramp) else range(count):
        place = _place(index, k)
        if place is None:
            return False
        forms.append(analyzer.affine(place))
        rest = forms[-1].without(var)  # the same in each step: no ``v // 4``, nothing read
        if forms[-1].coefficient(var) != 1 or rest.mentions({var}):
            return False
        if any(nodes_of(x, BufferLoad) for x in rest.atoms):
            return False
    apart = forms[1] - forms[0]
    return not apart.is_const or abs(apart.const) > 1


def _place(index: PrimExpr, k: int) -> PrimExpr | None:
    """Lane ``k`` of an index; None where it is not put together from ramps."""
    if dt.lanes(index.dtype) == 1:
        return index
    if isinstance(index, Ramp):
        return index.base + ops.const(k * index.stride, index.base.dtype)
    if isinstance(index, Broadcast):
        return index.value
    if type(index) not in _LANEWISE:
        return None
    a, b = _place(index.a, k), _place(index.b, k)  # type: ignore[attr-defined]
    return None if a is None or b is None else _LANEWISE[type(index)](a, b)


_LANEWISE: dict[type, Callable[[PrimExpr, PrimExpr], PrimExpr]] = {
    Add: operator.add, Sub: operator.sub, Mul: operator.mul, Min: ops.minimum, Max: ops.maximum,
}  # fmt: skip
"""The parts that an index of lanes may be made of, and how its lanes are."""


def _columns(load: BufferLoad, loop: For, lets: list[tuple[Var, PrimExpr]]) -> list[PrimExpr]:
    """The vectors of each step; what they are made of is appended to ``lets``."""
    index = load.indices[0]
    size, element = dt.lanes(index.dtype), dt.element(load.dtype)
    group = _GROUP // dt.itemsize(load.buffer.dtype)
    places = [_place(index, k) for k in range(size)]
    firsts = [substitute(x, {loop.var: loop.min}) for x in places if x is not None]

    def named(value: PrimExpr) -> PrimExpr:
        var = Var(f"{load.buffer.name}_r", value.dtype)
        lets.append((var, value))
        return var

    def part(row: int, column: int) -> PrimExpr:
        at = firsts[row] + ops.const(column, firsts[row].dtype)
        kind = dt.vector(element, group)
        ramp = Ramp(at, 1, group, dt.vector(at.dtype, group))
        return BufferLoad(load.buffer, (ramp,), kind)

    out: list[PrimExpr] = []
    for column in range(0, size, group):
        rows = [
            named(_joined([part(r, column) for r in range(k, size, group)])) for k in range(group)
        ]
        width = 1
        while width < group:
            rows = [named(x) for x in _interleaved(rows, width, group)]
            width *= 2
        out += rows
    return out


def _joined(parts: list[PrimExpr]) -> PrimExpr:
    """Vectors one behind the other, two at a time."""
    while len(parts) > 1:
        parts = [_both(a, b, range(2 * dt.lanes(a.dtype))) for a, b in zip(parts[::2], parts[1::2])]
    return parts[0]


def _interleaved(rows: list[PrimExpr], width: int, group: int) -> list[PrimExpr]:
    """Runs of ``width`` lanes of neighbouring rows in turn, within each group of lanes.

    The rows that come first are of the lower halves of pairs, block by block, so that after
    widths 1, 2, ... the rows are columns in order.
    """
    block = len(rows) // width
    out: list[PrimExpr] = []
    for begin in range(0, len(rows), block):
        lows: list[PrimExpr] = []
        highs: list[PrimExpr] = []
        for k in range(begin, begin + block, 2):
            a, b = rows[k], rows[k + 1]
            lanes = dt.lanes(a.dtype)
            for half, into in ((0, lows), (1, highs)):
                order: list[int] = []
                for g in range(0, lanes, group):
                    for u in range(half * group // 2, (half + 1) * group // 2, width):
                        run = range(g + u, g + u + width)
                        order += [*run, *(lanes + x for x in run)]
                into.append(_both(a, b, order))
        out += [*lows, *highs]
    return out


def _both(a: PrimExpr, b: PrimExpr, lanes: Sequence[int]) -> PrimExpr:
    return Shuffle((a, b), tuple(lanes), dt.vector(dt.element(a.dtype), len(lanes)))


def _with(body: Stmt, transposed: dict[object, PrimExpr]) -> Stmt:
    """A body that uses vectors in place of reads."""

    def load(n: BufferLoad) -> PrimExpr:
        return transposed.get(structural_key(n), n)

    return Rewriter({BufferLoad: load}, once=True)(body)
