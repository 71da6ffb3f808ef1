"""The template of the matrix product: either factor as it is or transposed."""

from __future__ import annotations

from typing import Any

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.target import Target
from whet.compiler.te import Schedule
from whet.compiler.tir import dtype as dt
from whet.compiler.topi.nn.epilogue import Epilogue
from whet.search_spaces.config_scope import get_config
from whet.search_spaces.cpu.gemm import Gemm, flag, product
from whet.search_spaces.cpu.gemm_loops import schedule_product
from whet.search_spaces.cpu.gemm_plan import plan_of
from whet.search_spaces.cpu.matvec import dot_products
from whet.search_spaces.template import template


def _canonical(args: tuple) -> tuple:
    *sizes, transpose_a, transpose_b, dtype, epilogue, packed = args
    flags = flag(transpose_a, "transpose_a"), flag(transpose_b, "transpose_b")
    return (*sizes, *flags, dt.check(dtype), Epilogue.of(epilogue).steps, flag(packed, "packed"))


@template("matmul", version=2, canonical=_canonical)
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
        dtype: of ``A``, ``B`` and what is summed up.
        epilogue: steps of :class:`~whet.compiler.topi.nn.epilogue.Epilogue`; a bias has M numbers.
        packed: ``B`` is packed ahead of the calls: ``kernel(A, kernel.pack_weights(B), C)``.
    """
    asked = f"matmul({N}, {K}, {M})"
    return gemm_template(
        Gemm(N, K, M, 0, transpose_a, transpose_b, dtype, Epilogue.of(epilogue), packed), asked
    )


def gemm_template(g: Gemm, asked: str) -> tuple[Schedule, list]:
    """The schedule of a product under the config in force.

    Raises:
        ArgumentError: a size is no int from 1 on.
    """
    sizes = {"N": g.N, "K": g.K, "M": g.M}
    for name, value in sizes.items():
        if not isinstance(value, int) or value < 1:
            raise ArgumentError(asked, f"{name} must be an int, at least 1")
    cfg = get_config()
    cfg.add_flop(g.flop)
    if not g.packed and not g.batch:
        if g.transpose_b and g.N == 1:
            return _row_by_row(g, rows_of_b=True)
        if not g.transpose_a and g.M == 1:
            return _row_by_row(g, rows_of_b=False)
    target = Target.current() or Target("llvm")
    plan = plan_of(cfg, g, target)
    p = product(g, plan)
    return schedule_product(g, plan, p, target), p.args


def _row_by_row(g: Gemm, rows_of_b: bool) -> tuple[Schedule, list]:
    """A product with a vector, whose matrix is stored in rows along k: nothing is reused."""
    a = te.placeholder((g.K, g.N) if g.transpose_a else (g.N, g.K), g.dtype, name=g.names[0])
    b = te.placeholder((g.M, g.K) if g.transpose_b else (g.K, g.M), g.dtype, name=g.names[1])
    matrix, vector, axis = (b, a, 1) if rows_of_b else (a, b, 0)
    s, out, extras = dot_products(matrix, vector, (g.N, g.M), axis, g.epilogue, 1, g.names[2])
    return s, [a, b, *extras, out]
