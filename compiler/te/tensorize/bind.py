"""The statements of an instruction on the real buffers: each declared one is a region of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from whet.compiler.arith import Affine, Analyzer
from whet.compiler.te.tensorize.tile import Tile
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import (
    BufferLoad,
    BufferView,
    IntImm,
    PrimExpr,
    Ramp,
    SizeVar,
    Var,
    int_value,
)
from whet.compiler.tir.ops import ops
from whet.compiler.tir.printer import expr_text
from whet.compiler.tir.stmt import BufferStore, DeclBuffer, Stmt
from whet.compiler.tir.visit.renew import renewed
from whet.compiler.tir.visit.rewrite import Node, Rewriter, changed, nodes_of, substitute

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(slots=True, frozen=True)
class Place:
    """Where the region is that a declared buffer stands for.

    Attributes:
        buffer: the real one.
        first: the indices of its first element there.
        steps: dimension of the real one -> for each of the declared one's, the step of the index.
    """

    buffer: Buffer
    first: tuple[PrimExpr, ...]
    steps: tuple[tuple[int, ...], ...]

    def index(self, indices: Sequence[PrimExpr]) -> list[tuple[PrimExpr, dict[int, int]]]:
        """Of each dimension its scalar part and the vector indices with their steps."""
        out = []
        for base, row in zip(self.first, self.steps):
            vectors = {}
            for k, (c, i) in enumerate(zip(row, indices)):
                if c and dt.lanes(i.dtype) > 1:
                    vectors[k] = c
                elif c:
                    base = ops.add(base, ops.multiply(i, ops.const(c, i.dtype)))
            out.append((base, vectors))
        return out

    def strides(self, analyzer: Analyzer) -> list[PrimExpr]:
        """How far apart neighbours are in memory, along each dimension of the declared buffer."""
        real = [analyzer.affine(x) for x in self.buffer.steps()]
        out = []
        for k in range(len(self.steps[0]) if self.steps else 0):
            total = Affine({}, 0)
            for row, step in zip(self.steps, real):
                total = total + step.scaled(row[k])
            out.append(total.to_expr())
        return out


class Binding:
    """Gives the buffers and variables that an instruction declares their real ones.

    Args:
        tile: which tile it is.
        analyzer: of the schedule.
        scalars: scalar parameter -> its value.
        places: declared buffer -> where it is.

    Raises:
        LowerError: where a buffer is declared to be what the region is not.
    """

    def __init__(
        self,
        tile: Tile,
        analyzer: Analyzer,
        scalars: Mapping[Var, PrimExpr],
        places: Mapping[Buffer, Place],
    ) -> None:
        self.tile, self.analyzer, self.places = tile, analyzer, places
        self.values: dict[Var, PrimExpr] = dict(scalars)
        for b, place in places.items():
            self._bind(b, place)

    def _bind(self, b: Buffer, place: Place) -> None:
        strides = self._whole_strides(b, place)
        for k, (said, real) in enumerate(zip(b.steps(), strides)):
            known = not b.strides or isinstance(said, IntImm)
            if int_value(b.shape[k]) == 1 and known:
                continue  # no step is ever taken there
            what = f"the stride of dimension {k}"
            self._match(b, what, said, real, "" if b.strides else " (it is declared compact)")
        flat = self.analyzer.affine(place.buffer.offset_of(place.first))
        offset = flat.to_expr()
        if not (isinstance(b.elem_offset, IntImm) and b.elem_offset.value == 0):
            self._match(b, "the offset", b.elem_offset, offset, "")
        factor = b.offset_factor
        if any(c % factor for c in (flat.const, *[c for _, c in flat.terms.values()])):
            raise self.tile.error(
                f"the buffer {b.name} is declared with offset_factor={factor}, and its tile begins "
                f"at element {expr_text(offset)} of {place.buffer.name}",
                "declare a factor that divides it",
            )
        if b.storage_scope != place.buffer.storage_scope:
            raise self.tile.error(
                f"the buffer {b.name} is declared in scope {b.storage_scope}, and "
                f"{place.buffer.name} is kept in {place.buffer.storage_scope}",
                "decl_buffer(..., scope=...) and set_scope or cache_write name the same",
            )

    def _whole_strides(self, b: Buffer, place: Place) -> list[PrimExpr]:
        """The strides of a region; a dimension of one element goes on as a compact one would."""
        strides = place.strides(self.analyzer)
        for k in reversed(range(b.ndim)):
            if int_value(b.shape[k]) == 1:
                inner = strides[k + 1 : k + 2]
                size = b.shape[k + 1] if inner else ops.const(1)
                strides[k] = ops.multiply(inner[0], size) if inner else ops.const(1)
        return strides

    def _match(self, b: Buffer, what: str, said: PrimExpr, real: PrimExpr, note: str) -> None:
        """Learn that ``said`` is ``real``, or see that it is."""
        if isinstance(said, Var) and said not in self.values:
            self.values[said] = real
            return
        known = substitute(said, self.values)
        difference = self.analyzer.affine(known) - self.analyzer.affine(real)
        if not (difference.is_const and difference.const == 0):
            raise self.tile.error(
                f"{what} of the buffer {b.name} is {expr_text(known)}{note}, and that of its tile "
                f"of {self.places[b].buffer.name} is {expr_text(real)}",
                "declare it with a variable, e.g. decl_buffer(..., strides=[te.var(), 1])",
            )

    def put(self, body: Stmt) -> Stmt:
        """A statement of the instruction on the real buffers."""
        views = {n.buffer.data for n in nodes_of(body, DeclBuffer)}
        for b in self.places:
            if b.data in views:
                raise self.tile.error(
                    f"a statement of {self.tile.intrin.name} has another view of the memory of "
                    f"{b.name}",
                    "index the buffer itself",
                )
        data = {b.data: p.buffer.data for b, p in self.places.items()}

        def access(n: BufferLoad | BufferStore) -> Node:
            n = rewrite.children(n)
            place = self.places.get(n.buffer)
            if place is None:
                return n
            return changed(n, buffer=place.buffer, indices=self._indices(n.buffer, n.indices))

        def view(n: BufferView) -> Node:
            n = rewrite.children(n)
            place = self.places.get(n.buffer)
            if place is None:
                return n
            strides = tuple(self._whole_strides(n.buffer, place))
            offset = place.buffer.offset_of(place.first)
            return BufferView(place.buffer, n.shape, strides, offset, n.dtype)

        def variable(v: Var) -> PrimExpr:
            return data[v] if v in data else self.values.get(v, v)

        rewrite: Rewriter = Rewriter({
            BufferLoad: access, BufferStore: access, BufferView: view, Var: variable,
            SizeVar: variable,
        })  # fmt: skip
        return renewed(rewrite(body))

    def _indices(self, b: Buffer, indices: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
        """Where an element of a declared buffer, or a vector of them, is in the real one."""
        place = self.places[b]
        made = place.index(indices)
        out: list[PrimExpr] = []
        for d, (base, vectors) in enumerate(made):
            if not vectors:
                out.append(base)
                continue
            ((k, step), *more) = vectors.items()
            lanes = indices[k]
            if more or d < len(made) - 1 or not isinstance(lanes, Ramp):
                raise self.tile.error(
                    f"the instruction reads or writes vectors along dimension {k} of {b.name}, "
                    f"which is not along the last dimension of {place.buffer.name}",
                    "declare its stride as 1, and tensorize loops along the last dimension",
                )
            start = ops.add(base, ops.multiply(lanes.base, ops.const(step, lanes.base.dtype)))
            kind = dt.vector(start.dtype, lanes.lanes)
            out.append(Ramp(start, lanes.stride * step, lanes.lanes, kind))
        return tuple(out)


def placed(
    buffer: Buffer,
    first: Sequence[Affine],
    steps: Sequence[tuple[int, ...]],
    shift: Callable[[tuple[PrimExpr, ...]], tuple[PrimExpr, ...]] | None = None,
) -> Place:
    """The place of a region whose first element is at ``first``."""
    at = tuple(x.to_expr() for x in first)
    return Place(buffer, shift(at) if shift else at, tuple(steps))
