"""Layouts: in which order dimensions stand, and which of them are cut into blocks.

A letter is a dimension: ``NCHW``. A number with a small letter is a block of it: ``NCHW8c`` has the
channels in blocks of 8, the block's number where C stands and the place in it at the end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute
from whet.compiler.tir.ops.ops import floordiv, floormod
from whet.compiler.topi.shapes import static
from whet.compiler.topi.tag import INJECTIVE

_PART = re.compile(r"([A-Z])|([1-9][0-9]*)([a-z])")


@dataclass(frozen=True)
class Layout:
    """A layout taken apart.

    Attributes:
        parts: for each dimension its letter, and the length of the block; 0: it is no block.
    """

    parts: tuple[tuple[str, int], ...]

    @staticmethod
    def of(text: str, request: str) -> Layout:
        """The layout that a text names.

        Raises:
            ArgumentError: it names none: a letter twice, a block without its dimension.
        """
        found: list[tuple[str, int]] = []
        at = 0
        while at < len(text):
            m = _PART.match(text, at)
            if m is None:
                raise ArgumentError(
                    request, f"{text!r} is no layout at {text[at:]!r}", 'e.g. "NCHW", "NCHW8c"'
                )
            found.append((m[1], 0) if m[1] else (m[3].upper(), int(m[2])))
            at = m.end()
        whole = [x for x, block in found if not block]
        blocks = [x for x, block in found if block]
        for x in (*whole, *blocks):
            if whole.count(x) != 1 or blocks.count(x) > 1:
                raise ArgumentError(
                    request, f"{text!r} does not have {x} once, or in one block of it", '"NCHW8c"'
                )
        return Layout(tuple(found))

    @property
    def letters(self) -> frozenset[str]:
        """The dimensions."""
        return frozenset(x for x, _ in self.parts)

    def block(self, letter: str) -> int:
        """The length of a dimension's block; 1 without one."""
        return next((b for x, b in self.parts if x == letter and b), 1)


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
    for one, other in ((src, dst), (dst, src)):
        lacking = [x for x, block in other.parts if not block and x not in one.letters]
        if lacking:
            here, there = (src_layout, dst_layout) if one is src else (dst_layout, src_layout)
            raise ArgumentError(
                request,
                f"the layout {here!r} lacks {', '.join(lacking)}, which {there!r} has",
                "name the same dimensions in both, e.g. 'NCHW' and 'NCHW8c'",
            )
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
        outer = {x: v for (x, b), v in zip(dst.parts, i) if not b}
        inner = {x: v for (x, b), v in zip(dst.parts, i) if b}
        return array(*[_place(x, b, src, dst, outer, inner) for x, b in src.parts])

    return compute(shape, element, "T_layout_trans", INJECTIVE)


def _place(x: str, block: int, src: Layout, dst: Layout, outer: dict, inner: dict) -> Any:
    """The index of one dimension of the source."""
    have, want = src.block(x), dst.block(x)
    if have == want:  # blocks stay blocks: no arithmetic
        return (inner[x] if block else outer[x]) if want > 1 else outer[x]
    whole = outer[x] * want + inner[x] if want > 1 else outer[x]
    if have == 1:
        return whole
    return floormod(whole, have) if block else floordiv(whole, have)
