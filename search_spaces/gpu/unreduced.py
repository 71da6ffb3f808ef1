"""A product in which a dimension has extent 0: no knobs; a sum of nothing is 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whet.compiler import te
from whet.compiler.te import Schedule, Tensor
from whet.compiler.topi.nn.epilogue import Epilogue
from whet.search_spaces.gpu.lanes import summed_in
from whet.search_spaces.gpu.threads import bind

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
        a, b: the factors, of which one has no elements, or the result has none.
        shape: of the result.
        epilogue, channel_axis: as for ``Epilogue.apply``.
        name: of the result.
    """
    zero = te.const(0, summed_in(a.dtype))

    def element(*index: Any) -> Any:
        return zero

    zeros = te.compute(shape, element, name=name)
    out, extras = epilogue.apply(zeros, channel_axis, stored=a.dtype)
    s = te.create_schedule(out.op)
    if out.op is not zeros.op:
        s[zeros].compute_inline()
    block, thread = s[out].split(s[out].fuse(*s[out].op.axis), factor=_THREADS)
    bind(s[out], block, "blockIdx.x")
    bind(s[out], thread, "threadIdx.x")
    return s, [a, b, *extras, out]
