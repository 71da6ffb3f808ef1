"""GEMM on a GPU: ``matmul``, ``dense`` and ``batch_matmul``; GEMV, ``matvec``, is memory-bound."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from whet.compiler import te
from whet.compiler.target import Target
from whet.compiler.te import Tensor
from whet.compiler.tir import dtype as dt
from whet.compiler.topi.half_precision import summed_in
from whet.compiler.topi.nn.epilogue import Epilogue
from whet.search_spaces.knobs.prefixed import Prefixed
from whet.search_spaces.operators.arguments import BYTES, accumulated
from whet.search_spaces.operators.gemm_arguments import Gemm, operands
from whet.search_spaces.operators.gpu.results import (
    Scheduled,
    empty_contraction,
    refuse_packed,
    scheduled_as_graph,
    versioned,
    with_epilogue,
)
from whet.search_spaces.rules.gpu.contraction.gemm import (
    gemm_stages,
    matrix_operand,
)
from whet.search_spaces.rules.gpu.contraction.gemm_loops import matrix_loops, store_result
from whet.search_spaces.rules.gpu.contraction.gemm_plan import GemmShape, plan_of
from whet.search_spaces.template.config_scope import get_config


def _gemm(fields: str, *args: Any, **fixed: Any) -> Scheduled:
    """The schedule under the config in force; arguments as the CPU's template takes them.

    Args:
        fields: those of :class:`Gemm` that ``args`` are, in order.
        fixed: other fields.

    Of int8 and of vectors the schedule is by the rules of graphs.

    Raises:
        ArgumentError: ``packed``: a GPU's kernel reads its operands as they are.
    """
    g = Gemm.of(**dict(zip(fields.split(), args, strict=True)), **fixed)
    refuse_packed(g.names[1], g.packed)
    cfg = get_config()
    cfg.add_flop(g.flop)
    a, b = operands(g)
    summed = summed_in(g.dtype)
    shape, channel_axis = (*g.lead, g.N, g.M), len(g.lead) + 1
    if not g.flop:
        return empty_contraction(a, b, shape, g.epilogue, channel_axis, g.names[2])
    if g.dtype in BYTES or (g.batch is None and min(g.N, g.M) == 1):

        def elements(index: tuple, k: Any) -> tuple[Any, Any]:
            *x, i, j = index
            return g.of_a(a, x, i, k), g.of_b(b, x, j, k)

        return _contraction(a, b, shape, elements, g.K, g.epilogue, channel_axis, g.names[2])
    target = Target.current() or Target("cuda")
    gemm_shape = GemmShape(g.batch or 1, g.N, g.M, g.K, itemsize=dt.itemsize(summed))
    plan = plan_of(Prefixed(cfg), target, gemm_shape)
    left = matrix_operand(a, g.N, g.K, not g.transpose_a)
    right = matrix_operand(b, g.M, g.K, g.transpose_b)
    sums = gemm_stages(left, right, g.lead, (), g.K, plan, summed)
    plain = te.compute(shape, lambda *i: sums.total(*i), name=g.names[2])
    s, out, arguments = with_epilogue(plain, g.epilogue, channel_axis, [a, b])
    store_result(s, sums, matrix_loops(s[out], plan))
    return s, arguments


matmul = versioned(2, partial(_gemm, "N K M transpose_a transpose_b dtype epilogue packed"))
dense = versioned(
    1,
    partial(
        _gemm, "N K M dtype epilogue packed", transpose_b=True, names=("data", "weight", "dense")
    ),
)
batch_matmul = versioned(1, partial(_gemm, "batch N K M transpose_a transpose_b dtype epilogue"))


def matvec(N: int, K: int, dtype: str = "float32", epilogue: Any = ()) -> Scheduled:
    """``y = A @ x``; arguments as the CPU's template of this name takes them."""
    get_config().add_flop(2 * N * K)
    A = te.placeholder((N, K), dtype, name="A")
    x = te.placeholder((K,), dtype, name="x")
    steps = Epilogue.of(epilogue)
    if not N * K:
        return empty_contraction(A, x, (N,), steps, 0, "y")
    return _contraction(A, x, (N,), lambda index, k: (A(*index, k), x(k)), K, steps, 0, "y")


versioned(1, matvec)


def _contraction(
    a: Tensor,
    b: Tensor,
    shape: tuple[int, ...],
    elements: Callable[[tuple, Any], tuple[Any, Any]],
    K: int,
    epilogue: Epilogue,
    channel_axis: int,
    name: str,
) -> Scheduled:
    """The schedule, by the rules of graphs, of a contraction, and the kernel's arguments.

    Args:
        a, b: the operands.
        shape: of the result.
        elements: the two elements of an index of the result and of k.
        K: extent of the reduction.
        epilogue, channel_axis: as for ``Epilogue.apply``.
        name: of the result.
    """
    k = te.reduce_axis((0, K), name="k")
    kind, _ = accumulated(a.dtype)

    def element(*index: Any) -> Any:
        left, right = elements(index, k)
        return te.sum(left.astype(kind) * right.astype(kind), axis=k)

    plain = te.compute(shape, element, name=name)
    return scheduled_as_graph(plain, epilogue, channel_axis, [a, b])
