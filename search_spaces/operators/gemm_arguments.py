"""The arguments of GEMMs: sizes, transpositions, names; and their operands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from whet.compiler import te
from whet.compiler.te import Tensor
from whet.compiler.topi.nn.epilogue import Epilogue

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


def operands(g: Gemm) -> tuple[Tensor, Tensor]:
    """The placeholders of both operands."""
    a = (g.K, g.N) if g.transpose_a else (g.N, g.K)
    b = (g.M, g.K) if g.transpose_b else (g.K, g.M)
    return (
        te.placeholder((*g.lead, *a), g.dtype, name=g.names[0]),
        te.placeholder((*g.lead, *b), g.dtype, name=g.names[1]),
    )
