"""The template of a dense layer: data times the transpose of weights."""

from __future__ import annotations

from typing import Any

from whet.compiler.te import Schedule
from whet.compiler.topi.nn.epilogue import Epilogue
from whet.search_spaces.operators.cpu.arguments import canonical_arguments, stored_dtype
from whet.search_spaces.operators.cpu.gemm.gemm import Gemm
from whet.search_spaces.operators.cpu.matmul import gemm_template
from whet.search_spaces.template import template

_ARGUMENTS = "N K M dtype epilogue packed"


@template(
    "dense", version=1, canonical=canonical_arguments("dense", _ARGUMENTS, dtype=stored_dtype)
)
def dense(
    N: int, K: int, M: int, dtype: str = "float32", epilogue: Any = (), packed: bool = False
) -> tuple[Schedule, list]:
    """Data (N, K) times the transpose of weights (M, K): ``topi.nn.dense``'s numbers.

    Args:
        dtype: of data, weights and what is summed up. On GPUs also float16, which is summed up in
            float32, and int8 and uint8, whose results are int32.
        epilogue: steps of :class:`~whet.compiler.topi.nn.epilogue.Epilogue`; a bias has M numbers.
        packed: the weights are packed ahead: ``kernel(data, kernel.pack_weights(weight), out)``.
    """
    names = ("data", "weight", "dense")
    g = Gemm(N, K, M, None, False, True, dtype, Epilogue.of(epilogue), packed, names)
    return gemm_template(g)
