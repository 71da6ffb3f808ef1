"""Products with a vector on a GPU: sums without reuse, which memory bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whet.compiler import te
from whet.compiler.te import Schedule, Tensor
from whet.compiler.topi.nn.epilogue import Epilogue
from whet.search_spaces.config_scope import get_config
from whet.search_spaces.graph.compute_graph import ComputeGraph
from whet.search_spaces.graph.template import schedule_graph
from whet.search_spaces.rules.gpu.contraction.unreduced import without_terms
from whet.search_spaces.rules.gpu.lanes import of_products


def matvec(N: int, K: int, dtype: str = "float32", epilogue: Any = ()) -> tuple[Schedule, list]:
    """``y = A @ x``; arguments as the CPU's template of this name takes them."""
    get_config().add_flop(2 * N * K)
    A = te.placeholder((N, K), dtype, name="A")
    x = te.placeholder((K,), dtype, name="x")
    steps = Epilogue.of(epilogue)
    if not N * K:
        return without_terms(A, x, (N,), steps, 0, "y")
    return vector_product(A, x, (N,), lambda index, k: (A(*index, k), x(k)), K, steps, 0, "y")


def vector_product(
    a: Tensor,
    b: Tensor,
    shape: tuple[int, ...],
    factors: Callable[[tuple, Any], tuple[Any, Any]],
    K: int,
    epilogue: Epilogue,
    channel_axis: int,
    name: str,
) -> tuple[Schedule, list]:
    """The schedule of a product in which nothing is read twice, and the kernel's arguments.

    Args:
        a, b: the factors.
        shape: of the result.
        factors: of a place of the result and a step, the two elements.
        K: the steps.
        epilogue, channel_axis: as for ``Epilogue.apply``.
        name: of the result.
    """
    k = te.reduce_axis((0, K), name="k")
    kind, stored = of_products(a.dtype)

    def element(*index: Any) -> Any:
        left, right = factors(index, k)
        return te.sum(left.astype(kind) * right.astype(kind), axis=k)

    plain = te.compute(shape, element, name=name)
    out, extras = epilogue.apply(plain, channel_axis, stored=stored)
    return schedule_graph(ComputeGraph([out], [a, b, *extras, out]))
