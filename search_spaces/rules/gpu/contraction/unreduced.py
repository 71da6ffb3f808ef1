"""A product in which a dimension has extent 0: no knobs; a sum of nothing is 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whet.compiler import te
from whet.compiler.te import PlaceholderOp, Schedule, Tensor
from whet.compiler.topi.nn.epilogue import Epilogue
from whet.search_spaces.rules.gpu.lanes import of_products
from whet.search_spaces.rules.gpu.threads import bind

_THREADS = 128


def without_terms(
    a: Tensor,
    b: Tensor,
    shape: tuple[int, ...],
    epilogue: Epilogue,
    channel_axis: int | Sequence[int],
    name: str,
) -> tuple[Schedule, list[Tensor]]:
    """Zeros of a shape after an epilogue; the kernel takes both factors all the same.

    Args:
        a, b: the factors, of which one has no elements, or the result has none. A ``b`` that is
            computed is named for elements that there are not, so that the kernel takes it.
        shape: of the result.
        epilogue, channel_axis: as for ``Epilogue.apply``.
        name: of the result.
    """
    kind, stored = of_products(a.dtype)
    zero = te.const(0, kind)

    def element(*index: Any) -> Any:
        if isinstance(b.op, PlaceholderOp):
            return zero
        return te.if_then_else(index[0] < 0, b(*(0 for _ in b.shape)).astype(kind), zero)

    zeros = te.compute(shape, element, name=name)
    out, extras = epilogue.apply(zeros, channel_axis, stored=stored)
    s = te.create_schedule(out.op)
    if out.op is not zeros.op:
        s[zeros].compute_inline()
    block, thread = s[out].split(s[out].fuse(*s[out].op.axis), factor=_THREADS)
    bind(s[out], block, "blockIdx.x")
    bind(s[out], thread, "threadIdx.x")
    return s, [a, b, *extras, out]
