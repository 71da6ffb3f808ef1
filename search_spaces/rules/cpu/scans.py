"""Running sums and products (``topi.cumsum``, ``topi.cumprod``) in vectors.

Along what lies side by side, the sums within a vector take as many steps as its number of lanes has
bits, and the sum of all vectors before it comes last:

    for b:                                                  # 8 lanes
        x = A[i, b*8 + ramp(8)]
        x = x + <0, x0, 0, x2, ..>;  x = x + <0, 0, x1, x1, ..>;  x = x + <0, 0, 0, 0, x3, ..>
        B[i, b*8 + ramp(8)] = carry + x
        carry = carry + broadcast(x[7])

Only the last line waits for the vector before. Across, the lanes are columns, and each goes on from
its own carry:

    for j:
        for k:
            carry[ramp(64)] = carry[ramp(64)] + A[k, j*64 + ramp(64)]
            B[k, j*64 + ramp(64)] = carry[ramp(64)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from whet.compiler import te
from whet.compiler.te.lang.tensor import ExternOp, Tensor
from whet.compiler.tir import Buffer, Stmt, decl_buffer, ir_builder
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import Broadcast, BufferLoad, PrimExpr, Ramp, Shuffle
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import BufferStore, DeclBuffer
from whet.compiler.topi.half_precision import summed_in
from whet.compiler.topi.tag import SCAN
from whet.search_spaces.graph.stages import Group
from whet.search_spaces.rules.cpu.loops import vector_sizes
from whet.search_spaces.rules.vectors import lanes_of, operation_bits

# Handing a loop to other threads is worth it from so many elements on.
_WORTH_THREADS = 1 << 15
# Columns that go on at once, if registers do not hold their sums: memory likes long reads.
_WHOLE_ROWS = 4096
_REGISTERS = 8
_UNROLLED = (1, 2, 4)

_OPERATIONS: dict[str, tuple[Callable[[Any, Any], Any], int]] = {
    "add": (ops.add, 0),
    "multiply": (ops.multiply, 1),
}


def is_scan(group: Group) -> bool:
    """True for the stages of ``topi.cumsum`` and ``topi.cumprod``."""
    op = group.anchor.op
    return isinstance(op, ExternOp) and op.tag == SCAN and 0 not in op.attrs["sizes"]


def in_vectors(group: Group) -> Tensor:
    """Define the knobs of a scan; the same elements by statements in vectors."""
    op = group.anchor.op
    assert isinstance(op, ExternOp)
    rows, length, width = (int(n) for n in op.attrs["sizes"])
    kind = summed_in(op.output_dtype(0))
    lanes = lanes_of(group.target, kind)
    if width == 1:
        sizes = [n for n in (lanes // 2, lanes, 2 * lanes) if 2 <= n <= length] or [1]
        # a register that takes two steps gains nothing, and has one shuffle more
        wide = min(lanes, max(operation_bits(group.target) // (8 * dt.itemsize(kind)), 1))
        size = group.choose("vector", sizes, wide if wide in sizes else sizes[-1])
        steps = [n for n in _UNROLLED if n * sizes[-1] <= length] or [1]
    else:
        whole = [min(width, _WHOLE_ROWS)]
        sizes = list(
            dict.fromkeys([n for n in vector_sizes(width, lanes, 8) if n <= width] + whole)
        )
        size = group.choose("columns", sizes, sizes[-1])
        steps = [n for n in _UNROLLED if n <= length]
    # rows in registers wait for each other's carries; whole rows of columns do not
    unroll = group.choose("unroll", steps, steps[min(1, len(steps) - 1) if width == 1 else 0])
    tasks, parallel = rows * -(-width // sizes[0]), False
    if group.target.num_threads > 1 and tasks > 1:
        worth = rows * length * width >= _WORTH_THREADS
        parallel = bool(group.choose("parallel", [False, True], worth))
    combine, begin = _OPERATIONS[str(op.attrs["operation"])]
    scan = _Scan(
        rows, length, width, size, _REGISTERS * lanes, unroll, parallel, kind, op.output_dtype(0),
        bool(op.attrs["exclusive"]), combine, begin,
    )  # fmt: skip
    shape = tuple(op.output_shape(0))
    return te.extern(shape, list(op.inputs), scan.body, name=op.name, dtype=scan.stored, tag=op.tag)


@dataclass(frozen=True)
class _Scan:
    """A scan of ``rows`` x ``length`` x ``width`` elements along the length.

    Attributes:
        size: lanes of a vector of a row, or columns at once.
        registers: columns whose sums fill the registers.
        unroll: vectors, or steps, that are unrolled.
        parallel: whether threads share rows and columns.
        kind, stored: the types of the sums and of the result.
        exclusive: whether an element is the sum of those before it.
        combine, begin: the operation, and its neutral element.
    """

    rows: int
    length: int
    width: int
    size: int
    registers: int
    unroll: int
    parallel: bool
    kind: str
    stored: str
    exclusive: bool
    combine: Callable[[Any, Any], Any]
    begin: int

    def body(self, ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        """The loops."""
        ib = ir_builder.create()
        count = self.rows * self.length * self.width
        given, made = (
            decl_buffer((count,), b.dtype, name=b.name, data=b.data) for b in (ins[0], outs[0])
        )
        ib.emit(partial(DeclBuffer, given))
        ib.emit(partial(DeclBuffer, made))
        place = _Place(ib, given, made, self.kind)
        (self._along if self.width == 1 else self._across)(ib, place)
        return ib.get()

    def _along(self, ib: Any, place: _Place) -> None:
        lanes = self.size
        with ib.for_range(0, self.rows, name="i", kind=self._loop) as i:
            carry = ib.allocate(self.kind, lanes, name="carry", scope="local")
            all_lanes = Ramp(ops.const(0), 1, lanes, f"int32x{lanes}") if lanes > 1 else 0
            carry[all_lanes] = _wide(self._first, lanes)

            def block(begin: Any, many: int) -> None:
                x = ib.let("x", place.read(i * self.length + begin, many))
                apart = 1
                while apart < many:
                    x = ib.let("x", self.combine(self._totals(x, apart), x))
                    apart *= 2
                before = ib.let("before", carry[all_lanes])
                sums = self._before(x) if self.exclusive else x
                own = _lanes(before, range(many))
                place.write(i * self.length + begin, self.combine(own, sums), self.stored)
                total = _lanes(x, [many - 1] * lanes)
                carry[all_lanes] = self.combine(before, total)

            step = lanes * self.unroll
            with ib.for_range(0, self.length // step, name="b") as b:
                for u in range(self.unroll):
                    block(b * step + u * lanes, lanes)
            begin, many = self.length // step * step, lanes
            while many:  # ever smaller vectors
                while self.length - begin >= many:
                    block(ops.const(begin), many)
                    begin += many
                many //= 2

    def _across(self, ib: Any, place: _Place) -> None:
        blocks = -(-self.width // self.size)
        with ib.for_range(0, self.rows * blocks, name="ij", kind=self._loop) as ij:
            # the last columns begin earlier: some are computed twice
            column = ops.minimum(ij % blocks * self.size, self.width - self.size)
            first = ij // blocks * (self.length * self.width) + column
            carry = ib.allocate(self.kind, self.size, name="carry", scope="local")
            with ib.for_range(0, self.size, name="j", kind="vectorize") as j:
                carry[j] = self._first

            def element(k: Any, j: Any) -> None:
                at = first + k * self.width + j
                if self.exclusive:
                    place.write(at, carry[j], self.stored)
                carry[j] = self.combine(carry[j], place.read(at, 1))
                if not self.exclusive:
                    place.write(at, carry[j], self.stored)

            whole, rest = divmod(self.size, self.registers)

            def step(k: Any) -> None:
                if whole > 1:
                    with (
                        ib.for_range(0, whole, name="c") as c,
                        ib.for_range(0, self.registers, name="j", kind="vectorize") as j,
                    ):
                        element(k, c * self.registers + j)
                begin = whole * self.registers if whole > 1 else 0
                if whole == 1 or rest:
                    with ib.for_range(0, self.size - begin, name="j", kind="vectorize") as j:
                        element(k, begin + j)

            with ib.for_range(0, self.length // self.unroll, name="k") as k:
                for u in range(self.unroll):
                    step(k * self.unroll + u)
            for last in range(self.length // self.unroll * self.unroll, self.length):
                step(ops.const(last))

    @property
    def _loop(self) -> str:
        return "parallel" if self.parallel else "serial"

    @property
    def _first(self) -> PrimExpr:
        """The neutral element, in the type of the sums."""
        return ops.const(self.begin, self.kind)

    def _totals(self, x: Any, size: int) -> PrimExpr:
        """In each second run of so many lanes the last lane of the run before; else nothing.

        (Lanes that move by a distance become ``vexpandps`` with AVX-512: eight times as slow.)
        """
        order = [j // size * size - 1 if j // size % 2 else -1 for j in range(dt.lanes(x.dtype))]
        return self._picked(x, order)

    def _before(self, x: Any) -> PrimExpr:
        """The lane before each; the neutral element for the first one."""
        return self._picked(x, range(-1, dt.lanes(x.dtype) - 1))

    def _picked(self, x: Any, order: Iterable[int]) -> PrimExpr:
        """Lanes of a vector; -1 for the neutral element."""
        lanes = dt.lanes(x.dtype)
        if lanes == 1:
            return self._first
        places = tuple(lanes if k < 0 else k for k in order)
        return Shuffle((x, _wide(self._first, lanes)), places, x.dtype)


@dataclass(frozen=True)
class _Place:
    """What is read and what is written, as flat memory.

    Attributes:
        ib: collects statements.
        given, made: the two buffers.
        kind: the type in which elements are read.
    """

    ib: Any
    given: Buffer
    made: Buffer
    kind: str

    def read(self, at: Any, lanes: int) -> PrimExpr:
        """So many elements side by side."""
        x = BufferLoad(self.given, (_ramp(at, lanes),), dt.vector(self.given.dtype, lanes))
        return ops.cast(dt.vector(self.kind, lanes), x)

    def write(self, at: Any, value: PrimExpr, stored: str) -> None:
        """Store a vector, or a number."""
        lanes = dt.lanes(value.dtype)
        value = ops.cast(dt.vector(stored, lanes), value)
        self.ib.emit(BufferStore(self.made, value, (_ramp(at, lanes),)))


def _ramp(at: Any, lanes: int) -> PrimExpr:
    return Ramp(at, 1, lanes, dt.vector(at.dtype, lanes)) if lanes > 1 else at


def _wide(x: PrimExpr, lanes: int) -> PrimExpr:
    return Broadcast(x, lanes, dt.vector(x.dtype, lanes)) if lanes > 1 else x


def _lanes(x: Any, order: Any) -> PrimExpr:
    """The lanes of a vector with these numbers."""
    picked, count = tuple(order), dt.lanes(x.dtype)
    if picked == tuple(range(count)) or count == 1:
        return x if len(picked) == count else _wide(x, len(picked))
    return Shuffle((x, x), picked, dt.vector(dt.element(x.dtype), len(picked)))
