"""The form of a GEMM: which axes of a stage are its batch, its M, its N and its K.

    C[x, i, j] = sum over k of A[x, i, k] * B[x, k, j]

Each of them may be several axes, numbered through, in any order; the columns ``j`` are those in
which the result lies side by side. Operands may be stored in any order, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from whet.compiler.te.lang.tensor import Operation
from whet.compiler.tir.expr import Mul, ProducerLoad, Var
from whet.compiler.tir.ops import ops
from whet.compiler.tir.visit.rewrite import substitute, variables
from whet.search_spaces.forms.contraction import Axis, contraction_of, extent_of
from whet.search_spaces.forms.widened_sum import DTYPES, plain_reduction
from whet.search_spaces.graph.access import Access, affine


@dataclass(frozen=True)
class GemmSize:
    """A GEMM in numbers: (N, K) times (K, M), one for each of a batch.

    Attributes:
        N, K, M: the sizes.
        batch: how many GEMMs.
        transpose_a, transpose_b: whether an operand is stored as (K, N), as (M, K).
        dtype: of the operands and of what is summed up.
        packed: whether the second operand is packed ahead of the kernel's calls.
        has_rows: whether an axis of the result is the rows; without one N is 1.
        staged: whether A, whether B is computed by stages of the kernel that no one else reads.
    """

    N: int
    K: int
    M: int
    batch: int = 1
    transpose_a: bool = False
    transpose_b: bool = False
    dtype: str = "float32"
    packed: bool = False
    has_rows: bool = True
    staged: tuple[bool, bool] = (False, False)

    @property
    def turned(self) -> GemmSize:
        """The GEMM with its rows and columns, and so its operands, exchanged."""
        return replace(
            self, N=self.M, M=self.N, transpose_a=not self.transpose_b,
            transpose_b=not self.transpose_a, has_rows=True, staged=self.staged[::-1],
        )  # fmt: skip

    @property
    def multiplications(self) -> int:
        """Of numbers, in all."""
        return self.batch * self.N * self.K * self.M


@dataclass(frozen=True, eq=False)
class GemmForm:
    """A GEMM in a stage; what follows from its structure alone.

    Attributes:
        size: its numbers; ``packed`` is not known yet.
        side: which operand of the product A is, 0 or 1.
        ones, lead, rows, columns, steps: the axes of the result of one step, those of the batch, of
            N, of M; those of K.
        places: the numbers of the first four in the result.
    """

    size: GemmSize
    side: int
    ones: tuple[Axis, ...]
    lead: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    steps: tuple[Axis, ...]
    places: tuple[tuple[int, ...], ...]

    @property
    def turned(self) -> GemmForm:
        """The same GEMM with its rows and columns exchanged."""
        ones, lead, rows, columns = self.places
        return replace(
            self, size=self.size.turned, side=1 - self.side, rows=self.columns, columns=self.rows,
            places=(ones, lead, columns, rows),
        )  # fmt: skip

    def joined(self, op: Operation, lanes: int) -> GemmForm:
        """The same GEMM, axes of the batch that A does not have being columns.

        Such are the heads of an attention, which all read the same rows: one large GEMM, if a
        vector of ``lanes`` columns never has elements of two of them.
        """
        read = variables(self.operands(op)[0].load)
        apart = [n for n, axis in enumerate(self.lead) if axis.var not in read]
        if not apart or not self.columns or extent_of(self.columns) % lanes:
            return self
        rest = [n for n in range(len(self.lead)) if n not in apart]
        columns = (*(self.lead[n] for n in apart), *self.columns)
        lead = tuple(self.lead[n] for n in rest)
        ones, at_lead, at_rows, at_columns = self.places
        places = (
            ones, tuple(at_lead[n] for n in rest), at_rows,
            (*(at_lead[n] for n in apart), *at_columns),
        )  # fmt: skip
        size = replace(self.size, M=extent_of(columns), batch=extent_of(lead))
        return replace(self, size=size, lead=lead, columns=columns, places=places)

    def operands(self, op: Operation) -> tuple[Operand, ...]:
        """A and B as the stage reads them by now, when producers may have been rewritten."""
        body = plain_reduction(op)
        assert body is not None and isinstance(body.source[0], Mul)
        pair = body.source[0].a, body.source[0].b
        a, b = pair[self.side], pair[1 - self.side]
        assert isinstance(a, ProducerLoad) and isinstance(b, ProducerLoad)
        return tuple(
            Operand(x, self.ones, self.lead, own, self.steps)
            for x, own in ((a, self.rows), (b, self.columns))
        )


@dataclass(frozen=True, eq=False)
class Operand:
    """An operand of a GEMM.

    Attributes:
        load: as the stage reads it.
        ones, lead, own, steps: the axes of one step, of the batch, of the rows (A) or columns (B),
            and of K.
    """

    load: ProducerLoad
    ones: tuple[Axis, ...]
    lead: tuple[Axis, ...]
    own: tuple[Axis, ...]
    steps: tuple[Axis, ...]

    def at(self, x: Sequence[Any], place: Any, k: Any) -> Any:
        """The element of a GEMM of the batch, a row or column, and a step of K."""
        values = {axis.var: ops.convert(0) for axis in self.ones}
        values |= {axis.var: ops.convert(i) for axis, i in zip(self.lead, x, strict=True)}
        values |= dict(zip((a.var for a in self.own), unflattened(place, self.own)))
        values |= dict(zip((a.var for a in self.steps), unflattened(k, self.steps)))
        return substitute(self.load, values)


def unflattened(index: Any, axes: Sequence[Axis]) -> list[Any]:
    """The places on some axes of an index that numbers all of them through."""
    found: list[Any] = []
    whole = rest = extent_of(axes)
    for axis in axes:
        outermost, rest = rest == whole, rest // axis.extent
        place = index if rest == 1 else index // rest
        found.append(place if outermost else place % axis.extent)
    return [ops.convert(0 if axis.extent == 1 else i) for axis, i in zip(axes, found)]


def gemm_form(op: Operation) -> GemmForm | None:
    """The GEMM that a stage is; None: it is none.

    Args:
        op: the stage: a sum of products of two loads of its own element type.
    """
    c = contraction_of(op, fewest=1)
    body = plain_reduction(op)
    if c is None or body is None or c.windows or c.divided or not c.is_product:
        return None
    source = body.source[0]
    if not isinstance(source, Mul) or not any(c.left is x for x in (source.a, source.b)):
        return None
    side = 0 if c.left is source.a else 1
    pair = (source.a, source.b)
    a, b = pair[side], pair[1 - side]
    if type(a) is not ProducerLoad or type(b) is not ProducerLoad:
        return None
    if (a.dtype, b.dtype) != (body.dtype,) * 2 or body.dtype not in DTYPES:
        return None
    reads = [_access(x) for x in (a, b)]
    if not all(read.is_affine for read in reads):
        return None
    every = [part.axes[0] for part in c.parts]
    columns = _columns(every, [x.var for x in c.columns], reads[1])
    row_vars = [x.var for x in c.rows if x.extent > 1]
    rows = [x for x in every if x.var in row_vars]
    ones = [x for x in every if x.extent == 1]
    lead = [x for x in every if x not in columns and x not in rows and x not in ones]
    # A row of one step is a row all the same where there is no other, if it is A's alone.
    of_a, of_b = variables(a), variables(b)
    if not rows and (one := next((x for x in ones if x.var in of_a and x.var not in of_b), None)):
        rows, ones = [one], [x for x in ones if x is not one]
    steps = tuple(c.steps)
    k = next((x for x in reversed(steps) if x.extent > 1), steps[-1])
    size = GemmSize(
        extent_of(rows), extent_of(steps), extent_of(columns), extent_of(lead),
        transpose_a=reads[0].stride(k.var) != 1 and reads[0].stride(k.var) != 0,
        transpose_b=reads[1].stride(columns[-1].var) != 1,
        dtype=body.dtype, has_rows=bool(rows),
    )  # fmt: skip
    numbers = {axis: n for n, axis in enumerate(every)}
    places = tuple(tuple(numbers[x] for x in part) for part in (ones, lead, rows, columns))
    parts = (tuple(ones), tuple(lead), tuple(rows), tuple(columns), steps)
    return GemmForm(size, side, *parts, places)


def _access(load: ProducerLoad) -> Access:
    return Access(load.producer, tuple(affine(i) for i in load.indices))


def _columns(every: Sequence[Axis], own: Sequence[Var], read: Access) -> list[Axis]:
    """The last axes of the result that B has for itself, as far as they lie side by side in it."""
    found: list[Axis] = []
    for axis in reversed([x for x in every if x.extent > 1]):
        if not any(axis.var is v for v in own):
            break
        if found:
            step = read.stride(found[0].var)
            if step is None or read.stride(axis.var) != step * found[0].extent:
                break
        found.insert(0, axis)
    return found
