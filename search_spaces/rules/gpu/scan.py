"""The rule for running sums and products on a GPU.

Along what lies side by side a block goes through a row, tile by tile:

    bind row:
        for tile:
            own[v] = X[t*4 + v] + own[v - 1]                  each thread its own neighbours
            part[t] = own[3]; part[t] += part[t - 1], part[t - 2], part[t - 4], ...     shared
            Y[t*4 + v] = carry + part[t - 1] + own[v];  carry += part[last]

Across it, a thread goes through a column. Where there are too few rows for all multiprocessors,
they are cut into segments: one kernel sums each up, one adds up those before each, one goes on from
there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import prod
from operator import setitem
from typing import Any

from whet.compiler import te
from whet.compiler.te.lang.tensor import ExternOp, Tensor
from whet.compiler.te.schedule import Schedule
from whet.compiler.tir import Buffer, Stmt, ir_builder
from whet.compiler.tir.ops import ops
from whet.compiler.topi.half_precision import summed_in
from whet.search_spaces.graph.rule import Rule
from whet.search_spaces.graph.stages import Group
from whet.search_spaces.rules.gpu.hardware.device import processors

_OWN = (1, 2, 4, 8)
_THREADS = (128, 64, 256, 512)
_SEGMENTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
# Threads of a multiprocessor that keep its memory busy, and steps that are worth a segment.
_BUSY, _LONG = 1024, 64
# Rows from this length on are worth several elements of a thread.
_TILE = 512

Cut = tuple[int, int, int]
"""The segments of a row, the steps of each, and all steps."""
Combine = Callable[[Any, Any], Any]
Read = Callable[[Any], Any]
"""From (row, step or segment, column) to a number."""
Write = Callable[[Any, Any], None]
"""Of such a place and a number."""


class GpuScan(Rule):
    """Rows by blocks, columns by threads, either in segments."""

    def applies(self, group: Group) -> bool:
        """The stages of ``topi.cumsum`` and ``topi.cumprod``."""
        op = group.anchor.op
        return isinstance(op, ExternOp) and op.tag == "scan" and 0 not in op.attrs["sizes"]

    def rewrite(self, group: Group) -> Tensor | None:
        """The same elements by statements for threads."""
        op = group.anchor.op
        assert isinstance(op, ExternOp)
        rows, length, width = (int(n) for n in op.attrs["sizes"])
        threads, own, segments = _knobs(group, rows, length, width)
        along = width == 1
        unit = threads * own if along else 1
        each = -(-length // segments)
        size = -(-each // unit) * unit
        scan = _Scan(
            rows, length, width, -(-length // size), size, threads, own, op.output_dtype(0),
            bool(op.attrs["exclusive"]), *_OPERATIONS[str(op.attrs["operation"])],
        )  # fmt: skip
        shape = tuple(op.output_shape(0))
        return te.extern(
            shape, list(op.inputs), scan.body, name=op.name, dtype=scan.stored, tag=op.tag
        )

    def schedule(self, s: Schedule, group: Group) -> None:
        """Nothing: the statements say themselves what their threads do."""


def _knobs(group: Group, rows: int, length: int, width: int) -> tuple[int, int, int]:
    """Threads of a block, elements of a thread at a time, segments of a row."""
    along = width == 1
    many = [n for n in _SEGMENTS if n == 1 or length // n >= (_LONG * 8 if along else _LONG)]
    ready = rows * (_THREADS[0] if along else width)
    wanted = next((n for n in many if n * ready >= processors(group.target) * _BUSY), many[-1])
    return (
        group.choose("threads", _THREADS, _THREADS[0]),
        group.choose("own", _OWN if along else (1,), 4 if along and length >= _TILE else 1),
        group.choose("segments", many, wanted),
    )


_OPERATIONS: dict[str, tuple[Combine, int]] = {"add": (ops.add, 0), "multiply": (ops.multiply, 1)}


@dataclass(frozen=True)
class _Scan:
    """A scan of ``rows`` x ``length`` x ``width`` elements along the length.

    Attributes:
        segments, size: parts of a row, and the steps of each.
        threads, own: of a block, and elements of a thread at a time.
        stored: the type of the result.
        exclusive: whether an element is the sum of those before it.
        combine, begin: the operation, and its neutral element.
    """

    rows: int
    length: int
    width: int
    segments: int
    size: int
    threads: int
    own: int
    stored: str
    exclusive: bool
    combine: Combine
    begin: int

    def body(self, ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        """The kernels: one, or three where rows are in segments."""
        ib = ir_builder.create()
        sizes = (self.rows, self.length, self.width)
        given, made = ib.buffer_ptr(ins[0], shape=sizes), ib.buffer_ptr(outs[0], shape=sizes)

        def element(place: Any) -> Any:
            return given[place].astype(self.kind)

        def store(place: Any, value: Any) -> None:
            made[place] = value.astype(self.stored)

        # one kernel: every segment from the sum of those before it on
        scan = self._rows if self.width == 1 else self._columns
        if self.segments == 1:
            whole = (1, self.length, self.length)
            scan(ib, whole, element, lambda place: self.first, store, self.exclusive)
            return ib.get()
        parts = (self.rows, self.segments, self.width)
        memory = ib.allocate(self.kind, (prod(parts),), name="parts", scope="global")
        sums = ib.buffer_ptr(memory.buffer, shape=parts)

        total, keep = sums.__getitem__, partial(setitem, sums)
        cut = (self.segments, self.size, self.length)
        self._totals(ib, cut, element, keep)
        whole = (1, self.segments, self.segments)
        scan(ib, whole, total, lambda place: self.first, keep, True)
        scan(ib, cut, element, total, store, self.exclusive)
        return ib.get()

    @property
    def kind(self) -> str:
        """The type that sums are kept in."""
        return summed_in(self.stored)

    @property
    def first(self) -> Any:
        """The neutral element, in the type of the sums."""
        return ops.const(self.begin, self.kind)

    def _rows(
        self, ib: Any, cut: Cut, element: Read, start: Read, store: Write, exclusive: bool
    ) -> None:
        segments, size, limit = cut
        with ib.new_scope():
            i, s, t = self._threads_of_rows(ib, segments)
            own = ib.allocate(self.kind, self.own, name="own", scope="local")
            carry = ib.allocate(self.kind, 1, name="carry", scope="local")
            part = ib.allocate(self.kind, self.threads, name="part", scope="shared")
            carry[0] = start((i, s, 0))
            tile = self.threads * self.own
            with ib.for_range(0, -(-size // tile), name="tile") as n:
                first = s * size + n * tile + t * self.own
                places = range(self.own)
                self._by_vectors(
                    ib,
                    first,
                    limit,
                    lambda at, v: setitem(own, v, element((i, at, 0))),
                    lambda v: setitem(own, v, self.first),
                )
                for v in places[1:]:
                    own[v] = self.combine(own[v - 1], own[v])
                part[t] = own[self.own - 1]
                self._exchange(ib, part, t)
                others = self.combine(carry[0], part[t - 1])
                before = ib.let("before", te.if_then_else(t >= 1, others, carry[0]))
                for v in reversed(places):
                    inside = own[v - 1] if exclusive and v else own[v]
                    own[v] = before if exclusive and not v else self.combine(before, inside)
                self._by_vectors(ib, first, limit, lambda at, v: store((i, at, 0), own[v]))
                carry[0] = self.combine(carry[0], part[self.threads - 1])

    def _by_vectors(
        self, ib: Any, first: Any, limit: int, inside: Callable, outside: Callable | None = None
    ) -> None:
        """Do something for each of a thread's neighbours, all at once where they end together.

        Args:
            first, limit: the first of them, and where the row ends.
            inside: what is done for a place and its number. outside: for a number beyond the end.
        """
        together = self.own if limit % self.own == 0 else 1
        for begin in range(0, self.own, together):
            with (
                ib.if_scope(first + begin < limit),
                ib.for_range(0, together, name="v", kind="vectorize") as v,
            ):
                inside(first + begin + v, begin + v)
            if outside is None:
                continue
            with ib.else_scope(), ib.for_range(0, together, name="v", kind="vectorize") as v:
                outside(begin + v)

    def _columns(
        self, ib: Any, cut: Cut, element: Read, start: Read, store: Write, exclusive: bool
    ) -> None:
        segments, size, limit = cut
        with ib.new_scope(), self._thread_of_column(ib, segments) as (i, s, j):
            carry = ib.allocate(self.kind, 1, name="carry", scope="local")
            carry[0] = start((i, s, j))
            with ib.for_range(0, size, name="k") as k, ib.if_scope(s * size + k < limit):
                place = (i, s * size + k, j)
                x = ib.let("x", element(place))
                if exclusive:
                    store(place, carry[0])
                carry[0] = self.combine(carry[0], x)
                if not exclusive:
                    store(place, carry[0])

    def _totals(self, ib: Any, cut: Cut, element: Read, keep: Write) -> None:
        """One kernel: the sum of every segment."""
        segments, size, limit = cut
        if self.width > 1:
            with ib.new_scope(), self._thread_of_column(ib, segments) as (i, s, j):
                total = ib.allocate(self.kind, 1, name="total", scope="local")
                total[0] = self.first
                with ib.for_range(0, size, name="k") as k, ib.if_scope(s * size + k < limit):
                    total[0] = self.combine(total[0], element((i, s * size + k, j)))
                keep((i, s, j), total[0])
            return
        with ib.new_scope():
            i, s, t = self._threads_of_rows(ib, segments)
            total = ib.allocate(self.kind, 1, name="total", scope="local")
            part = ib.allocate(self.kind, self.threads, name="part", scope="shared")
            total[0] = self.first
            with ib.for_range(0, -(-size // self.threads), name="turn") as n:
                at = s * size + n * self.threads + t
                x = te.if_then_else(at < limit, element((i, at, 0)), self.first)
                total[0] = self.combine(total[0], x)
            part[t] = total[0]
            self._exchange(ib, part, t)
            with ib.if_scope(t == self.threads - 1):
                keep((i, s, 0), part[t])

    def _launch(self, ib: Any, blocks: int) -> tuple[Any, Any]:
        """The numbers of the block and of the thread in it, of a kernel of so many blocks."""
        block, thread = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")
        ib.scope_attr(block, "thread_extent", blocks)
        ib.scope_attr(thread, "thread_extent", self.threads)
        return block.var, thread.var

    def _threads_of_rows(self, ib: Any, segments: int) -> tuple[Any, Any, Any]:
        """A block for each segment: its row, its number, and a thread of it."""
        block, thread = self._launch(ib, self.rows * segments)
        return block // segments, block % segments, thread

    @contextmanager
    def _thread_of_column(self, ib: Any, segments: int) -> Iterator[tuple[Any, Any, Any]]:
        """A thread for each column of a segment: the row, the segment, the column."""
        count = self.rows * segments * self.width
        block, thread = self._launch(ib, -(-count // self.threads))
        place = block * self.threads + thread
        with ib.if_scope(place < count):
            rest = place // self.width
            yield rest // segments, rest % segments, place % self.width

    def _exchange(self, ib: Any, part: Any, t: Any) -> None:
        """``part[t]`` becomes the sum of all up to it, in as many steps as its number has bits."""
        held = ib.allocate(self.kind, 1, name="held", scope="local")
        step = 1
        while step < self.threads:
            both = self.combine(part[t - step], part[t])
            held[0] = te.if_then_else(t >= step, both, part[t])
            part[t] = held[0]
            step *= 2
