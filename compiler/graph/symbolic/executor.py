"""The executor of a model with symbols: loops over blocks of rows, sizes from its arguments.

model(x: float32[n, 3], y: float32[n, 8], constants, arena):
    assert 1 <= n <= 64
    for i in range(n // 16 + more):                      more: the rest is nearly a block
        k16__raw(&x[min(i * 16, n - 16)], &constants[64], &arena[min(i * 16, n - 16) * 32])
    ...
    for i in range(rest):
        k1__raw(&x[n - rest + i], ...)
    s0__raw(&arena[0], &y[0], n)                         a kernel that takes sizes
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from whet.compiler.abi.entry import RETURN
from whet.compiler.abi.extent import Extent, Shape
from whet.compiler.abi.extent_expr import to_expr
from whet.compiler.graph.executor import ARENA, CONSTANTS, Place
from whet.compiler.graph.ir import Value
from whet.compiler.graph.symbolic.sizes import Dynamic, range_text
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.constants import const
from whet.compiler.tir.expr import (
    EQ,
    GE,
    LE,
    NE,
    Add,
    And,
    BufferLoad,
    Call,
    Cast,
    FloorDiv,
    FloorMod,
    IntImm,
    Min,
    Mul,
    PrimExpr,
    StringImm,
    Sub,
    Var,
)
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.stmt import (
    AssertStmt,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
    seq,
)


@dataclass(frozen=True)
class SizedStep:
    """The call of a kernel whose arguments are whole arrays.

    Attributes:
        kernel: its symbol.
        places: of its arrays.
        numbers: sizes that it takes behind them.
        flop: its arithmetic operations; 0 where sizes say how many.
    """

    kernel: str
    places: tuple[Place, ...]
    numbers: tuple[Extent, ...] = ()
    flop: int = 0


@dataclass(frozen=True)
class Block:
    """A kernel for a number of rows.

    Attributes:
        rows: their number.
        kernel: its symbol.
        places: of its arrays' first rows.
        strides: bytes from a row to the next one; 0 for what has no rows.
        flop: its arithmetic operations.
    """

    rows: int
    kernel: str
    places: tuple[Place, ...]
    strides: tuple[int, ...]
    flop: int = 0


@dataclass(frozen=True)
class RowStep:
    """The call of kernels for blocks of rows.

    Attributes:
        rows: how many there are.
        blocks: the largest first; there are always as many rows as the last one has.
    """

    rows: Extent
    blocks: tuple[Block, ...]


def symbolic_function(
    name: str,
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    shapes: Mapping[Value, Shape],
    ranges: Mapping[str, Dynamic],
    memory: tuple[int, int],
    scaled: bool,
    steps: Sequence[SizedStep | RowStep],
) -> PrimFunc:
    """The function that runs a model for any sizes of some ranges.

    Args:
        name: its symbol.
        inputs, outputs: what it is given; the outputs are written.
        shapes: value -> its extents.
        ranges: symbol -> its range.
        memory: bytes of the constants and of the arena, which are arguments behind them.
        scaled: places in the arena are for sizes of 1, and each is so many times further behind as
            the product of all symbols is.
        steps: in order.
    """
    symbols = {s: Var(f"s{k}", "int64") for k, s in enumerate(ranges)}
    buffers = {
        v.name: Buffer(v.name, tuple(_size(d, symbols) for d in shapes[v]), v.dtype)
        for v in (*inputs, *outputs)
    }
    for word, size in zip((CONSTANTS, ARENA), memory):
        buffers[word] = Buffer(word, (const(max(size, 1)),), "uint8")
    scale = Var("scale", "int64") if scaled else None
    work = _Calls(buffers, {*(v.name for v in inputs), CONSTANTS}, symbols, scale)
    body = seq(*(work.step(s) for s in steps))
    if scale is not None:
        product: PrimExpr = _int(1)
        for one in symbols.values():
            product = Mul(product, one, "int64")
        body = LetStmt(scale, product, body)
    for s, r in ranges.items():
        body = AssertStmt(_is_in(symbols[s], r), range_text(s, r), body)
    return PrimFunc(tuple(buffers.values()), body, attrs={"global_symbol": name})


def _size(d: Extent, symbols: Mapping[str, PrimExpr]) -> PrimExpr:
    return const(d) if isinstance(d, int) else to_expr(d, symbols)


def _is_in(size: Var, r: Dynamic) -> PrimExpr:
    """The condition that a size is one of a range."""
    inside: PrimExpr = And(GE(size, _int(r.low), "bool"), LE(size, _int(r.high), "bool"), "bool")
    if r.step == 1:
        return inside
    beyond = FloorMod(Sub(size, _int(r.low), "int64"), _int(r.step), "int64")
    return And(inside, EQ(beyond, _int(0), "bool"), "bool")


def _int(n: int) -> PrimExpr:
    return IntImm("int64", n)


class _Calls:
    """The calls of a model's function."""

    def __init__(
        self,
        buffers: Mapping[str, Buffer],
        only_read: set[str],
        symbols: Mapping[str, Var],
        scale: Var | None,
    ) -> None:
        self._buffers, self._only_read, self._symbols = buffers, only_read, symbols
        self._scale = scale

    def step(self, step: SizedStep | RowStep) -> Stmt:
        """The statement of a step."""
        if isinstance(step, RowStep):
            return self._blocks(step)
        numbers = [to_expr(n, self._symbols) for n in step.numbers]
        return self._call(step.kernel, [self._address(p) for p in step.places], numbers)

    def _blocks(self, step: RowStep) -> Stmt:
        """Loops over blocks, the largest first; one that reaches back does most of a block."""
        rows = Var("rows", "int64")
        body = self._rest(step.blocks, rows, _int(0))
        return LetStmt(rows, to_expr(step.rows, self._symbols), body)

    def _rest(self, blocks: Sequence[Block], rows: Var, done: PrimExpr) -> Stmt:
        """The rows from ``done`` on."""
        block, *smaller = blocks
        size = _int(block.rows)
        begin, count, i = Var("done", "int64"), Var("count", "int64"), Var("i", "int64")
        left = Sub(rows, begin, "int64")
        at = Min(Add(begin, Mul(i, size, "int64"), "int64"), Sub(rows, size, "int64"), "int64")
        if not smaller:  # the last one reaches back, too
            many: PrimExpr = FloorDiv(Add(left, _int(block.rows - 1), "int64"), size, "int64")
            loop = For(i, _int(0), many, ForKind.SERIAL, self._block(block, at))
            return LetStmt(begin, done, loop)
        # a rest of three quarters of a block is one more block, if there are as many rows in front
        lack = _int(block.rows - block.rows // 4 * 3)
        many = FloorDiv(Add(left, lack, "int64"), size, "int64")
        enough = Cast("int64", GE(rows, size, "bool"))
        loop = For(i, _int(0), count, ForKind.SERIAL, self._block(block, at))
        now = Min(rows, Add(begin, Mul(count, size, "int64"), "int64"), "int64")
        rest = self._rest(smaller, rows, now)
        work = LetStmt(count, Mul(many, enough, "int64"), seq(loop, rest))
        return LetStmt(begin, done, work)

    def _block(self, block: Block, row: PrimExpr) -> Stmt:
        at = Var("row", "int64")
        given = [self._address(p, s, at) for p, s in zip(block.places, block.strides)]
        return LetStmt(at, row, self._call(block.kernel, given))

    def _call(
        self, kernel: str, given: Sequence[PrimExpr], numbers: Sequence[PrimExpr] = ()
    ) -> Stmt:
        call = Call("int32", "call_extern", (StringImm(f"{kernel}__raw"), *given, *numbers))
        code = Var("code", "int32")
        failed = Evaluate(Call("int32", RETURN, (code,)))
        return LetStmt(code, call, IfThenElse(NE(code, const(0, "int32"), "bool"), failed))

    def _address(self, p: Place, stride: int = 0, row: PrimExpr | None = None) -> PrimExpr:
        """The address of a place, so many rows behind its start."""
        b = self._buffers[p.argument]
        bytes_each = dt.itemsize(b.dtype)
        offset: PrimExpr = _int(p.offset // bytes_each)
        if p.argument == ARENA and self._scale is not None:
            offset = Mul(offset, self._scale, "int64")
        if stride and row is not None:
            offset = Add(offset, Mul(row, _int(stride // bytes_each), "int64"), "int64")
        place = (*(const(0) for _ in range(b.ndim - 1)), offset) if b.ndim else ()
        mask = const(1 if p.argument in self._only_read else 3)
        return Call("handle", "tvm_access_ptr", (BufferLoad(b, place), const(1), mask))
