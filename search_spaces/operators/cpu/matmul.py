"""The template of the matrix product: either factor as it is or transposed."""

from __future__ import annotations

from typing import Any

from whet.compiler.target import Target
from whet.compiler.te import Schedule, Tensor
from whet.compiler.topi.nn.epilogue import Epilogue
from whet.search_spaces.config_scope import get_config
from whet.search_spaces.operators.cpu.arguments import (
    canonical_arguments,
    stored_dtype,
    summed_dtype,
)
from whet.search_spaces.operators.cpu.gemm.empty import empty_product
from whet.search_spaces.operators.cpu.gemm.gemm import Gemm, factors, product
from whet.search_spaces.operators.cpu.gemm.loops import schedule_product
from whet.search_spaces.operators.cpu.gemm.plan import plan_of
from whet.search_spaces.operators.cpu.matvec import dot_products
from whet.search_spaces.template import template

_ARGUMENTS = "N K M transpose_a transpose_b dtype epilogue packed"


@template(
    "matmul", version=2, canonical=canonical_arguments("matmul", _ARGUMENTS, dtype=stored_dtype)
)
def matmul(
    N: int,
    K: int,
    M: int,
    transpose_a: bool = False,
    transpose_b: bool = False,
    dtype: str = "float32",
    epilogue: Any = (),
    packed: bool = False,
) -> tuple[Schedule, list]:
    """``C = A @ B`` for ``A`` (N, K) and ``B`` (K, M), both row-major.

    Args:
        transpose_a: ``A`` is (K, N).
        transpose_b: ``B`` is (M, K).
        dtype: of ``A``, ``B`` and what is summed up. On GPUs also float16, which is summed up in
            float32, and int8 and uint8, whose results are int32.
        epilogue: steps of :class:`~whet.compiler.topi.nn.epilogue.Epilogue`; a bias has M numbers.
        packed: ``B`` is packed ahead of the calls: ``kernel(A, kernel.pack_weights(B), C)``.
    """
    return gemm_template(
        Gemm(N, K, M, None, transpose_a, transpose_b, dtype, Epilogue.of(epilogue), packed)
    )


def gemm_template(g: Gemm) -> tuple[Schedule, list]:
    """The schedule of a product under the config in force."""
    summed_dtype(f"a product of {g.dtype} on a CPU", g.dtype)
    cfg = get_config()
    cfg.add_flop(g.flop)
    if not g.flop:
        return _without_terms(g)
    if not g.packed and g.batch is None:
        if g.transpose_b and g.N == 1:
            return _row_by_row(g, rows_of_b=True)
        if not g.transpose_a and g.M == 1:
            return _row_by_row(g, rows_of_b=False)
    target = Target.current() or Target("llvm")
    plan = plan_of(cfg, g, target)
    p = product(g, plan)
    return schedule_product(g, plan, p, target), p.args


def _without_terms(g: Gemm) -> tuple[Schedule, list]:
    """A product in which a dimension has extent 0."""
    a, b = factors(g)

    def term(right: Tensor, index: tuple, k: Any) -> Any:
        *x, i, j = index
        left = a(*x, k, i) if g.transpose_a else a(*x, i, k)
        return left * (right(*x, j, k) if g.transpose_b else right(*x, k, j))

    shape = (*g.lead, g.N, g.M)
    return empty_product(a, b, shape, term, g.K, g.epilogue, len(shape) - 1, g.names[2], g.packed)


def _row_by_row(g: Gemm, rows_of_b: bool) -> tuple[Schedule, list]:
    """A product with a vector, whose matrix is stored in rows along k: nothing is reused."""
    a, b = factors(g)
    matrix, vector, axis = (b, a, 1) if rows_of_b else (a, b, 0)
    s, out, extras = dot_products(matrix, vector, (g.N, g.M), axis, g.epilogue, 1, g.names[2])
    return s, [a, b, *extras, out]
