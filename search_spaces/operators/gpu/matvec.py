"""GEMV on a GPU: reductions without reuse, which are memory-bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whet.compiler import te
from whet.compiler.te import Tensor
from whet.compiler.topi.nn.epilogue import Epilogue
from whet.search_spaces.operators.gpu.results import (
    Scheduled,
    accumulated,
    empty_contraction,
    scheduled_as_graph,
)
from whet.search_spaces.template.config_scope import get_config


def matvec(N: int, K: int, dtype: str = "float32", epilogue: Any = ()) -> Scheduled:
    """``y = A @ x``; arguments as the CPU's template of this name takes them."""
    get_config().add_flop(2 * N * K)
    A = te.placeholder((N, K), dtype, name="A")
    x = te.placeholder((K,), dtype, name="x")
    steps = Epilogue.of(epilogue)
    if not N * K:
        return empty_contraction(A, x, (N,), steps, 0, "y")
    return contraction(A, x, (N,), lambda index, k: (A(*index, k), x(k)), K, steps, 0, "y")


def contraction(
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
