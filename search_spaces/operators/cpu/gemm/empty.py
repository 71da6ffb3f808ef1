"""A GEMM in which a dimension has extent 0: no tiles and no knobs; a sum of nothing is 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whet.compiler import te
from whet.compiler.te import Schedule, Tensor
from whet.compiler.topi.nn.epilogue import Epilogue


def empty_gemm(
    a: Tensor,
    b: Tensor,
    shape: tuple[int, ...],
    term: Callable[[Tensor, tuple, Any], Any],
    K: int,
    epilogue: Epilogue,
    channel_axis: int,
    name: str,
    packed: bool = False,
) -> tuple[Schedule, list[Tensor]]:
    """The schedule of ``sum over k of term(b, index, k)``, and its arguments.

    Args:
        a, b: the operands.
        shape: of the result.
        term: what is summed up, of ``b`` or its packed copy, a place of the result, and k.
        K: the terms of a sum.
        epilogue, channel_axis: as for ``Epilogue.apply``.
        name: of the result.
        packed: ``b`` is copied ahead of the calls.
    """
    right = te.compute(b.shape, lambda *i: b(*i), name=f"{b.name}.packed") if packed else b
    k = te.reduce_axis((0, K), name="k")
    sums = te.compute(shape, lambda *index: te.sum(term(right, index, k), axis=k), name=name)
    out, extras = epilogue.apply(sums, channel_axis)
    s = te.create_schedule(out.op)
    if packed:
        s[right].compute_ahead()
    return s, [a, b, *extras, out]
