"""The computation of a GEMM, cut into register tiles.

    T[it, jt, ir, jr] = sum over k of a[it * mr + ir, k] * b[k, jt * nr + jr]
    C[i, j] = epilogue(T[i // mr, j // nr, i % mr, j % nr])

A tile of T is whole even where C ends, so that the loops that sum it up have no guards. Either
operand may be packed into panels of the tile's height or width:

    Q[it, k, ir] = a[it * mr + ir, k]        P[jt, k, jr] = b[k, jt * nr + jr]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from whet.compiler import te
from whet.compiler.te import Tensor
from whet.compiler.topi.nn.epilogue import Epilogue
from whet.search_spaces.operators.cpu.gemm.plan import Plan
from whet.search_spaces.operators.cpu.gemm.stages import or_zero

NO_EPILOGUE = Epilogue()


@dataclass(frozen=True)
class Gemm:
    """A GEMM: (N, K) times (K, M), one for each of a batch.

    Attributes:
        N, K, M: the sizes.
        batch: how many GEMMs; None: one, and no axis for it.
        transpose_a, transpose_b: whether an operand is stored as (K, N), as (M, K).
        dtype: of the operands and of what is summed up.
        epilogue: what is done to each element, a bias along the columns.
        packed: whether the second operand is packed ahead of the kernel's calls.
        names: of the operands and of the product.
    """

    N: int
    K: int
    M: int
    batch: int | None = None
    transpose_a: bool = False
    transpose_b: bool = False
    dtype: str = "float32"
    epilogue: Epilogue = NO_EPILOGUE
    packed: bool = False
    names: tuple[str, str, str] = ("A", "B", "C")

    @staticmethod
    def of(epilogue: Any = (), **given: Any) -> Gemm:
        """The GEMM of a template's arguments, whose names are this class's."""
        return Gemm(epilogue=Epilogue.of(epilogue), **given)

    @property
    def flop(self) -> int:
        """Multiplications and additions of the GEMM, the epilogue left out."""
        return 2 * math.prod((*self.lead, self.N, self.K, self.M))

    def of_a(self, a: Tensor, x: Sequence[Any], i: Any, k: Any) -> Any:
        """The element of the first operand, or of a tensor like it, of a row and k."""
        return a(*x, k, i) if self.transpose_a else a(*x, i, k)

    def of_b(self, b: Tensor, x: Sequence[Any], j: Any, k: Any) -> Any:
        """The element of the second operand, or of a tensor like it, of a column and k."""
        return b(*x, j, k) if self.transpose_b else b(*x, k, j)

    @property
    def lead(self) -> tuple[int, ...]:
        """The dimension of the batch, if there is one."""
        return () if self.batch is None else (self.batch,)


@dataclass(frozen=True)
class GemmStages:
    """The tensors of a GEMM under a plan.

    Attributes:
        a, b: the operands. Q, P: their panels, or None.
        tiles: T. plain: C before its epilogue, to be inlined; the result where there is none.
        result: C. extras: what the epilogue reads.
    """

    a: Tensor
    b: Tensor
    Q: Tensor | None
    P: Tensor | None
    tiles: Tensor
    plain: Tensor
    result: Tensor
    extras: list[Tensor]

    @property
    def args(self) -> list[Tensor]:
        """The kernel's arguments."""
        return [self.a, self.b, *self.extras, self.result]


def operands(g: Gemm) -> tuple[Tensor, Tensor]:
    """The placeholders of both operands."""
    a = (g.K, g.N) if g.transpose_a else (g.N, g.K)
    b = (g.M, g.K) if g.transpose_b else (g.K, g.M)
    return (
        te.placeholder((*g.lead, *a), g.dtype, name=g.names[0]),
        te.placeholder((*g.lead, *b), g.dtype, name=g.names[1]),
    )


def stages_of(g: Gemm, plan: Plan) -> GemmStages:
    """The computation of a GEMM under a plan."""
    a, b = operands(g)
    lead, mr, nr = g.lead, plan.mr, plan.nr

    Q = _panels(g, g.of_a, a, g.N, mr) if plan.pack_a else None
    P = _panels(g, g.of_b, b, g.M, nr) if plan.pack_b != "none" else None
    k = te.reduce_axis((0, g.K), name="k")

    def tile(*index: Any) -> Any:
        *x, it, jt, ir, jr = index
        if Q is None:
            left = g.of_a(a, x, _within(it * mr + ir, g.N, mr), k)
        else:
            left = Q(*x, it, k, ir)
        if P is None:
            right = g.of_b(b, x, _within(jt * nr + jr, g.M, nr), k)
        else:
            right = P(*x, jt, k, jr)
        return te.sum(left * right, axis=k)

    shape = (*lead, -(-g.N // mr), -(-g.M // nr), mr, nr)
    tiles = te.compute(shape, tile, name=f"{g.names[2]}.tiles")

    plain = te.compute(
        (*lead, g.N, g.M),
        lambda *index: tiles(
            *index[:-2], index[-2] // mr, index[-1] // nr, index[-2] % mr, index[-1] % nr
        ),
        name=g.names[2],
    )
    result, extras = g.epilogue.apply(plain, len(lead) + 1)
    return GemmStages(a, b, Q, P, tiles, plain, result, extras)


def _within(place: Any, extent: int, tile: int) -> Any:
    """An index of a tile that may reach beyond the end, clamped to the last one."""
    return place if extent % tile == 0 else te.min(place, extent - 1)


def _panels(g: Gemm, read: Callable[..., Any], t: Tensor, extent: int, width: int) -> Tensor:
    """An operand in panels of ``width``; what is beyond its end is zero."""

    def element(*index: Any) -> Any:
        *x, panel, k, inside = index
        place = panel * width + inside
        value = read(t, x, place, k)
        return or_zero(value, [place < extent] if extent % width else [])

    shape = (*g.lead, -(-extent // width), g.K, width)
    return te.compute(shape, element, name=f"{t.name}.packed")
