"""A row's sum and the squares of its distances from a centre, in one pass over memory.

    a = sum(x);  c = a / n;  q = sum((x - c) ** 2)

reads the row twice. Here it is read block by block, the second time while the first cache has it;
each lane then adds a block's mean and squares to those of the blocks before it, and the sums of
the row follow from those of the lanes, whatever the centre is:

    for b:
        for k: s[ramp(64)] += x[b, k, ramp(64)]                         # k < 32
        for k: t[ramp(64)] += (x[b, k, ramp(64)] - s[ramp(64)] / 32) ** 2
        count, mean[ramp(64)], far[ramp(64)] = those of both sets together
    a = sum(count * mean[l])
    q = sum(far[l] + count * (mean[l] - c) ** 2)

Nothing is subtracted but from what it is near to, so that q is as good as that of two passes,
however large the mean is beside the deviation (Chan, Golub, LeVeque 1983).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whet.compiler import te
from whet.compiler.te.lang.tensor import Tensor
from whet.compiler.tir.analysis.structural import structural_equal
from whet.compiler.tir.expr import Mul, PrimExpr, Sub
from whet.compiler.tir.ops.ops import const
from whet.search_spaces.rules.cpu.rows.row_blocks import STEPS, RowBlocks


class Statistics:
    """A row's sum and squares.

    Attributes:
        in_block: the sums of a block's lanes, and the squares about their means.
        lanes: means of each lane over all blocks, beside its first element.
        first: the sum of the row.
    """

    def __init__(self, row: RowBlocks, name: str) -> None:
        self._row, dtype = row, row.dtype
        self._many = const(row.count * STEPS, dtype)
        sums = row.in_block(f"{name}_block", lambda x, *i: x)

        def mean(*i: Any) -> Any:
            return sums(*i) * const(1 / STEPS, dtype)

        far = row.in_block(f"{name}_far", lambda x, *i: (x - mean(*i)) * (x - mean(*i)))
        self.in_block = (sums, far)

        def block(*i: Any) -> Any:
            # means beside a row's first elements: small numbers, which lose nothing in a sum
            beside = mean(*i) - row.element(i[:-2], 0, 0, i[-1])
            return const(STEPS, dtype), beside, far(*i)

        _, self.lanes, self._squares = row.together(f"{name}_lanes", block, _together, _nothing)
        means = row.over_lanes(f"{name}_means", self._mean)
        rest = row.over_rest(f"{name}_rest", lambda x, *i: x)
        self.first = te.compute(
            row.extents,
            lambda *i: means(*i) * self._many + (const(0, dtype) if rest is None else rest(*i)),
            name,
        )

    @staticmethod
    def split(source: PrimExpr) -> tuple[PrimExpr, PrimExpr] | None:
        """The elements and the centre of ``(x - c) * (x - c)``; None for others."""
        n = source
        if not isinstance(n, Mul) or not isinstance(n.a, Sub) or not structural_equal(n.a, n.b):
            return None
        return n.a.a, n.a.b

    def second(self, name: str, centre: Any) -> Tensor:
        """The squares of all distances from a row's centre."""

        def lane(*i: Any) -> Any:
            away = self._mean(*i) - centre(*i[:-1])
            return self._squares(*i) + away * (away * self._many)

        lanes = self._row.over_lanes(f"{name}_lanes", lane)
        rest = self._row.over_rest(
            f"{name}_rest", lambda x, *i: (x - centre(*i)) * (x - centre(*i))
        )
        return te.compute(
            self._row.extents, lambda *i: lanes(*i) if rest is None else lanes(*i) + rest(*i), name
        )

    def _mean(self, *i: Any) -> Any:
        """The mean of a lane over all blocks."""
        return self._row.element(i[:-1], 0, 0, i[-1]) + self.lanes(*i)


def _together(a: Sequence[Any], b: Sequence[Any]) -> tuple[Any, Any, Any]:
    """Numbers of elements, means and squares about them, of two sets as of one."""
    away, count = b[1] - a[1], a[0] + b[0]
    part = b[0] / count
    # by the weight first: of nothing and a block it is 0, which times an overflow would be NaN
    return count, a[1] + away * part, a[2] + b[2] + away * (away * (a[0] * part))


def _nothing(*types: str) -> list[Any]:
    return [const(0, t) for t in types]
