"""Tensors of one layout in another one."""

from __future__ import annotations

from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute
from whet.compiler.tir.layouts.data_layout import Layout, check_same, places
from whet.compiler.topi.shapes import static
from whet.compiler.topi.tag import INJECTIVE


def layout_transform(array: Tensor, src_layout: str, dst_layout: str) -> Tensor:
    """A tensor of one layout in another one.

    Args:
        array: of the layout ``src_layout``.
        src_layout, dst_layout: e.g. ``"NCHW"`` and ``"NCHW8c"``; of the same dimensions.

    Raises:
        ArgumentError: no layouts, other dimensions, or extents that are no whole blocks.
    """
    request = f"layout_transform({array}, {src_layout!r}, {dst_layout!r})"
    src, dst = Layout.of(src_layout, request), Layout.of(dst_layout, request)
    check_same(src, dst, request)
    if len(src.parts) != array.ndim:
        raise ArgumentError(
            request,
            f"{src_layout!r} has {len(src.parts)} dimensions, the tensor {array.ndim}",
            "a letter, or a block, for each dimension of the tensor",
        )
    extents: dict[str, int] = dict.fromkeys(src.letters, 1)
    for (x, block), d in zip(src.parts, array.shape):
        n = static(d, request)
        if block and n != block:
            raise ArgumentError(request, f"the block {block}{x.lower()} has {n} elements")
        extents[x] *= n
    for x, n in extents.items():
        if n % dst.block(x):
            raise ArgumentError(
                request, f"{n} is no number of blocks {dst.block(x)}{x.lower()}", "pad it before"
            )
    shape = [b or extents[x] // dst.block(x) for x, b in dst.parts]

    def element(*i: Any) -> Any:
        return array(*places(dst, src, i))

    return compute(shape, element, "T_layout_trans", INJECTIVE)
