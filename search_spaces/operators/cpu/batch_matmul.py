"""The template of a batch of matrix products."""

from __future__ import annotations

from typing import Any

from whet.compiler.te import Schedule
from whet.compiler.topi.nn.epilogue import Epilogue
from whet.search_spaces.operators.cpu.arguments import canonical_arguments, stored_dtype
from whet.search_spaces.operators.cpu.gemm.gemm import Gemm
from whet.search_spaces.operators.cpu.matmul import gemm_template
from whet.search_spaces.template import template

_ARGUMENTS = "B N K M transpose_a transpose_b dtype epilogue"


@template(
    "batch_matmul",
    version=1,
    canonical=canonical_arguments("batch_matmul", _ARGUMENTS, dtype=stored_dtype),
)
def batch_matmul(
    B: int,
    N: int,
    K: int,
    M: int,
    transpose_a: bool = False,
    transpose_b: bool = False,
    dtype: str = "float32",
    epilogue: Any = (),
) -> tuple[Schedule, list]:
    """``C[x] = A[x] @ B[x]`` for ``A`` (B, N, K) and ``B`` (B, K, M).

    Args:
        transpose_a: ``A`` is (B, K, N).
        transpose_b: ``B`` is (B, M, K).
        dtype: of ``A``, ``B`` and what is summed up. On GPUs also float16, which is summed up in
            float32, and int8 and uint8, whose results are int32.
        epilogue: steps of :class:`~whet.compiler.topi.nn.epilogue.Epilogue`; a bias has M numbers.
    """
    g = Gemm(N, K, M, B, transpose_a, transpose_b, dtype, Epilogue.of(epilogue))
    return gemm_template(g)
