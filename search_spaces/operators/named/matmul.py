"""The templates of GEMMs, ``matmul``, ``dense`` and ``batch_matmul``, and of GEMV, ``matvec``."""

from __future__ import annotations

from typing import Any

from whet.compiler import te
from whet.search_spaces.graph.compute_graph import ComputeGraph
from whet.search_spaces.graph.stages import computed_ahead
from whet.search_spaces.operators.arguments import accumulated, summed_dtype
from whet.search_spaces.operators.gemm_arguments import Gemm, operands
from whet.search_spaces.operators.graph_operator import after_epilogue, graph_operator


@graph_operator("N K M transpose_a transpose_b dtype epilogue packed", version=2)
def matmul(**given: Any) -> ComputeGraph:
    """``C = A @ B`` for ``A`` (N, K) and ``B`` (K, M), both row-major.

    Args:
        transpose_a: ``A`` is (K, N).
        transpose_b: ``B`` is (M, K).
        dtype: of ``A``, ``B`` and what is summed up. On GPUs also float16, which is summed up in
            float32, and int8 and uint8, whose results are int32.
        epilogue: steps of :class:`~whet.compiler.topi.nn.epilogue.Epilogue`; a bias has M numbers.
        packed: ``B`` is packed ahead of the calls: ``kernel(A, kernel.pack_weights(B), C)``.
    """
    return _gemm(Gemm.of(**given))


@graph_operator("N K M dtype epilogue packed")
def dense(**given: Any) -> ComputeGraph:
    """Data (N, K) times the transpose of weights (M, K): ``topi.nn.dense``'s numbers.

    Args:
        dtype, epilogue: as ``matmul``'s.
        packed: the weights are packed ahead: ``kernel(data, kernel.pack_weights(weight), out)``.
    """
    return _gemm(Gemm.of(transpose_b=True, names=("data", "weight", "dense"), **given))


@graph_operator("B N K M transpose_a transpose_b dtype epilogue")
def batch_matmul(B: int, **given: Any) -> ComputeGraph:
    """``C[x] = A[x] @ B[x]`` for ``A`` (B, N, K) and ``B`` (B, K, M).

    Args:
        transpose_a: ``A`` is (B, K, N).
        transpose_b: ``B`` is (B, M, K).
        dtype, epilogue: as ``matmul``'s.
    """
    return _gemm(Gemm.of(batch=B, **given))


@graph_operator("N K dtype epilogue")
def matvec(N: int, K: int, dtype: str, epilogue: Any) -> ComputeGraph:
    """``y = A @ x`` for ``A`` (N, K) and ``x`` (K,).

    Args:
        dtype: of ``A``, ``x`` and what is summed up. On GPUs also float16, which is summed up in
            float32, and int8 and uint8, whose results are int32.
        epilogue: steps of :class:`~whet.compiler.topi.nn.epilogue.Epilogue`; a bias has N numbers.
    """
    summed_dtype(f"matvec({N}, {K}, {dtype!r}) on a CPU", dtype)
    A = te.placeholder((N, K), dtype, name="A")
    x = te.placeholder((K,), dtype, name="x")
    k = te.reduce_axis((0, K), name="k")
    kind, _ = accumulated(dtype)

    def element(*index: Any) -> Any:
        return te.sum(A(*index, k).astype(kind) * x[k].astype(kind), axis=k)

    y = te.compute((N,), element, name="y")
    return after_epilogue(y, epilogue, 0, [A, x], 2 * N * K)


def _gemm(g: Gemm) -> ComputeGraph:
    """The graph of a GEMM."""
    summed_dtype(f"a product of {g.dtype} on a CPU", g.dtype)
    a, b = operands(g)
    right = computed_ahead(b) if g.packed else b
    k = te.reduce_axis((0, g.K), name="k")
    kind, _ = accumulated(g.dtype)

    def element(*index: Any) -> Any:
        *x, i, j = index
        left, other = g.of_a(a, x, i, k), g.of_b(right, x, j, k)
        return te.sum(left.astype(kind) * other.astype(kind), axis=k)

    C = te.compute((*g.lead, g.N, g.M), element, name=g.names[2])
    return after_epilogue(C, g.epilogue, len(g.lead) + 1, [a, b], g.flop)
