"""A row's maximum and the sum of its exponentials, in one pass over memory.

    m = max(x);  s = sum(exp(x - c))                        # c is m, as a rule

reads the row twice. Here it is read block by block, the second time while the first cache has it,
and each lane goes on with the larger of two maxima (Milakov, Gimelshein 2018):

    for b:
        for k: t[ramp(64)] = max(t[ramp(64)], x[b, k, ramp(64)])        # k < 32
        for k: e[ramp(64)] += exp(x[b, k, ramp(64)] - t[ramp(64)])
        top, total = max(top, t), total * exp(top - max(top, t)) + e * exp(t - max(top, t))
    m = max(top[l]);  s = sum(total[l] * exp(top[l] - c))

One exponential in 32 is computed twice. Tops are at least the lowest finite number, so that lanes
of nothing but -inf add nothing; the maximum of a row of them is -inf.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

from whet.compiler import te
from whet.compiler.te.lang.tensor import Tensor
from whet.compiler.tir.expr import EQ, Call, PrimExpr, Sub
from whet.compiler.tir.ops.mathematics import exp
from whet.compiler.tir.ops.ops import compare, const, maximum, min_value, select
from whet.search_spaces.rules.cpu.rows.row_blocks import RowBlocks


class Exponentials:
    """A row's maximum and the sum of exponentials.

    Attributes:
        in_block: the maxima of a block's lanes, and the sums of exponentials beside them.
        lanes: the sums of each lane over all blocks.
        first: the maximum of the row.
    """

    def __init__(self, row: RowBlocks, name: str) -> None:
        self._row = row
        tops = row.in_block(f"{name}_block", lambda x, *i: x, te.max)

        def top(*i: Any) -> Any:
            return maximum(tops(*i), min_value(row.dtype))

        sums = row.in_block(f"{name}_far", lambda x, *i: exp(x - top(*i)))
        self.in_block = (tops, sums)
        self._tops, self.lanes = row.together(
            f"{name}_lanes", lambda *i: (top(*i), sums(*i)), _together, _nothing
        )
        lanes = row.over_lanes(f"{name}_tops", self._top_of_lane, te.max)
        rest = row.over_rest(f"{name}_rest", lambda x, *i: x, te.max)
        self.first = te.compute(
            row.extents,
            lambda *i: lanes(*i) if rest is None else maximum(lanes(*i), rest(*i)),
            name,
        )

    def _top_of_lane(self, *i: Any) -> Any:
        """The maximum of a lane: of one with an element that is not -inf, the sum is 1 or more."""
        empty = compare(EQ, self.lanes(*i), const(0, self._row.dtype))
        return select(empty, const(-inf, self._row.dtype), self._tops(*i))

    @staticmethod
    def split(source: PrimExpr) -> tuple[PrimExpr, PrimExpr] | None:
        """The elements and the centre of ``exp(x - c)``; None for others."""
        if not isinstance(source, Call) or source.op != "exp":
            return None
        (n,) = source.args
        return (n.a, n.b) if isinstance(n, Sub) else None

    def second(self, name: str, centre: Any) -> Tensor:
        """The sum of the exponentials beside a row's centre."""

        def lane(*i: Any) -> Any:
            return self.lanes(*i) * exp(self._tops(*i) - centre(*i[:-1]))

        lanes = self._row.over_lanes(f"{name}_lanes", lane)
        rest = self._row.over_rest(f"{name}_rest", lambda x, *i: exp(x - centre(*i)))
        return te.compute(
            self._row.extents, lambda *i: lanes(*i) if rest is None else lanes(*i) + rest(*i), name
        )


def _together(a: Sequence[Any], b: Sequence[Any]) -> tuple[Any, Any]:
    """The maximum and the sum of exponentials of two sets as of one."""
    top = maximum(a[0], b[0])
    return top, a[1] * exp(a[0] - top) + b[1] * exp(b[0] - top)


def _nothing(top: str, total: str) -> list[Any]:
    return [min_value(top), const(0, total)]
