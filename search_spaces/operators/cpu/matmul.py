"""The templates of GEMMs: ``matmul``, ``dense`` and ``batch_matmul``."""

from __future__ import annotations

from typing import Any

from whet.compiler.target import Target
from whet.compiler.te import Schedule, Tensor
from whet.search_spaces.operators.arguments import operator, summed_dtype
from whet.search_spaces.operators.cpu.gemm.gemm import Gemm, operands, stages_of
from whet.search_spaces.operators.cpu.gemm.loops import schedule_gemm
from whet.search_spaces.operators.cpu.gemm.plan import plan_of
from whet.search_spaces.operators.cpu.gemm.stages import empty_gemm
from whet.search_spaces.operators.cpu.matvec import dot_products
from whet.search_spaces.template.config_scope import get_config


@operator("N K M transpose_a transpose_b dtype epilogue packed", version=2)
def matmul(**given: Any) -> tuple[Schedule, list]:
    """``C = A @ B`` for ``A`` (N, K) and ``B`` (K, M), both row-major.

    Args:
        transpose_a: ``A`` is (K, N).
        transpose_b: ``B`` is (M, K).
        dtype: of ``A``, ``B`` and what is summed up. On GPUs also float16, which is summed up in
            float32, and int8 and uint8, whose results are int32.
        epilogue: steps of :class:`~whet.compiler.topi.nn.epilogue.Epilogue`; a bias has M numbers.
        packed: ``B`` is packed ahead of the calls: ``kernel(A, kernel.pack_weights(B), C)``.
    """
    return gemm_template(Gemm.of(**given))


@operator("N K M dtype epilogue packed")
def dense(**given: Any) -> tuple[Schedule, list]:
    """Data (N, K) times the transpose of weights (M, K): ``topi.nn.dense``'s numbers.

    Args:
        dtype, epilogue: as ``matmul``'s.
        packed: the weights are packed ahead: ``kernel(data, kernel.pack_weights(weight), out)``.
    """
    names = ("data", "weight", "dense")
    return gemm_template(Gemm.of(transpose_b=True, names=names, **given))


@operator("B N K M transpose_a transpose_b dtype epilogue")
def batch_matmul(B: int, **given: Any) -> tuple[Schedule, list]:
    """``C[x] = A[x] @ B[x]`` for ``A`` (B, N, K) and ``B`` (B, K, M).

    Args:
        transpose_a: ``A`` is (B, K, N).
        transpose_b: ``B`` is (B, M, K).
        dtype, epilogue: as ``matmul``'s.
    """
    return gemm_template(Gemm.of(batch=B, **given))


def gemm_template(g: Gemm) -> tuple[Schedule, list]:
    """The schedule of a GEMM under the config in force."""
    summed_dtype(f"a product of {g.dtype} on a CPU", g.dtype)
    cfg = get_config()
    cfg.add_flop(g.flop)
    if not g.flop:
        return _empty(g)
    if not g.packed and g.batch is None:
        if g.transpose_b and g.N == 1:
            return _matrix_vector(g, rows_of_b=True)
        if not g.transpose_a and g.M == 1:
            return _matrix_vector(g, rows_of_b=False)
    target = Target.current() or Target("llvm")
    plan = plan_of(cfg, g, target)
    p = stages_of(g, plan)
    return schedule_gemm(g, plan, p, target), p.args


def _empty(g: Gemm) -> tuple[Schedule, list]:
    """A GEMM in which a dimension has extent 0."""
    a, b = operands(g)

    def term(right: Tensor, index: tuple, k: Any) -> Any:
        *x, i, j = index
        return g.of_a(a, x, i, k) * g.of_b(right, x, j, k)

    shape = (*g.lead, g.N, g.M)
    return empty_gemm(a, b, shape, term, g.K, g.epilogue, len(shape) - 1, g.names[2], g.packed)


def _matrix_vector(g: Gemm, rows_of_b: bool) -> tuple[Schedule, list]:
    """A matrix times a vector: the matrix is stored in rows along k: nothing is reused."""
    a, b = operands(g)
    matrix, vector, axis = (b, a, 1) if rows_of_b else (a, b, 0)
    s, out, extras = dot_products(matrix, vector, (g.N, g.M), axis, g.epilogue, 1, g.names[2])
    return s, [a, b, *extras, out]
