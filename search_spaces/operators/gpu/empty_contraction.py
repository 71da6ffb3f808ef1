"""A contraction in which a dimension has extent 0: no knobs; a sum of nothing is 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whet.compiler import te
from whet.compiler.te import PlaceholderOp, Tensor
from whet.compiler.topi.nn.epilogue import Epilogue
from whet.search_spaces.operators.gpu.results import Scheduled, accumulated, with_epilogue
from whet.search_spaces.rules.gpu.hardware.threads import bind_fused

_THREADS = 128


def empty_contraction(
    a: Tensor,
    b: Tensor,
    shape: tuple[int, ...],
    epilogue: Epilogue,
    channel_axis: int | Sequence[int],
    name: str,
) -> Scheduled:
    """Zeros of a shape after an epilogue; the kernel takes both operands all the same.

    Args:
        a, b: the operands, of which one has no elements, or the result has none. A ``b`` that is
            computed is named for elements that there are not, so that the kernel takes it.
        shape: of the result.
        epilogue, channel_axis: as for ``Epilogue.apply``.
        name: of the result.
    """
    kind, _ = accumulated(a.dtype)
    zero = te.const(0, kind)

    def element(*index: Any) -> Any:
        if isinstance(b.op, PlaceholderOp):
            return zero
        return te.if_then_else(index[0] < 0, b(*(0 for _ in b.shape)).astype(kind), zero)

    zeros = te.compute(shape, element, name=name)
    s, out, arguments = with_epilogue(zeros, epilogue, channel_axis, [a, b])
    bind_fused(s[out], threads=_THREADS)
    return s, arguments
