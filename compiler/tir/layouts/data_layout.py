"""Layouts by name: in which order dimensions stand, and which of them are cut into blocks.

A capital letter is a dimension: ``NCHW``. A number with a small letter is a block of it: ``NCHW8c``
has the channels in blocks of 8, the block's number where C stands and the place in it at the end.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.tir.expr import PrimExpr, int_value
from whet.compiler.tir.ops import ops

_PART = re.compile(r"([A-Z])|([1-9][0-9]*)([a-z])")


@dataclass(frozen=True)
class Layout:
    """A layout.

    >>> nchw8c = tir.layout("NCHW8c")
    >>> len(nchw8c), nchw8c[1], nchw8c[-1], nchw8c.index_of("W"), nchw8c.factor_of("C")
    (5, 'C', 'c', 3, 8)
    >>> "c" in nchw8c, "D" in nchw8c
    (True, False)

    Attributes:
        name: its text, e.g. ``"NCHW8c"``.
        dtype: that of its indices.
        parts: for each dimension its letter, and the length of the block; 0: it is no block.
    """

    name: str
    dtype: str = "int32"
    parts: tuple[tuple[str, int], ...] = ()

    @staticmethod
    def of(text: str, request: str, dtype: str = "int32") -> Layout:
        """The layout that a text names.

        Raises:
            ArgumentError: it names none: a letter twice, a block without its dimension.
        """
        if not isinstance(text, str):
            raise ArgumentError(request, f"a {type(text).__name__} is no layout", '"NCHW8c"')
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
        return Layout(text, dtype, tuple(found))

    @property
    def letters(self) -> frozenset[str]:
        """The dimensions."""
        return frozenset(x for x, _ in self.parts)

    def block(self, letter: str) -> int:
        """The length of a dimension's block; 1 without one."""
        return next((b for x, b in self.parts if x == letter and b), 1)

    def __len__(self) -> int:
        return len(self.parts)

    def __contains__(self, axis: str) -> bool:
        return axis in self._axes

    def __getitem__(self, index: int) -> str:
        return self._axes[index]

    @property
    def _axes(self) -> list[str]:
        return [x.lower() if block else x for x, block in self.parts]

    def index_of(self, axis: str) -> int:
        """The place of an axis, ``"C"`` or ``"c"``; -1 where there is none."""
        return self._axes.index(axis) if axis in self else -1

    def factor_of(self, axis: str) -> int:
        """The length of the block of an axis, ``"C"`` or ``"c"``; -1 without one."""
        return next((b for x, b in self.parts if x == axis.upper() and b), -1)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Layout({self.name})"


@dataclass(frozen=True)
class BijectiveLayout:
    """Two layouts of the same dimensions, and where an element of one is in the other.

    >>> both = tir.bijective_layout("NCHW", "NCHW8c")
    >>> [int(i) for i in both.forward_index([0, 13, 2, 3])], both.forward_shape([1, 32, 7, 7])
    ([0, 1, 2, 3, 5], [1, 4, 7, 7, 8])
    >>> [int(i) for i in both.backward_index([0, 1, 2, 3, 5])], both.backward_shape([1, 4, 7, 7, 8])
    ([0, 13, 2, 3], [1, 32, 7, 7])
    """

    src_layout: Layout
    dst_layout: Layout

    def forward_index(self, index: Sequence[Any]) -> list[PrimExpr]:
        """The indices in the second layout of an element, from those in the first.

        Raises:
            ArgumentError: unless there is one for each dimension.
        """
        return _indices(self.src_layout, self.dst_layout, index)

    def backward_index(self, index: Sequence[Any]) -> list[PrimExpr]:
        """The indices in the first layout of an element, from those in the second.

        Raises:
            ArgumentError: unless there is one for each dimension.
        """
        return _indices(self.dst_layout, self.src_layout, index)

    def forward_shape(self, shape: Sequence[Any]) -> list[Any]:
        """The extents in the second layout; the last block is whole, be it of fewer elements.

        Raises:
            ArgumentError: unless there is one for each dimension, and blocks are of their length.
        """
        return _shape(self.src_layout, self.dst_layout, shape)

    def backward_shape(self, shape: Sequence[Any]) -> list[Any]:
        """The extents in the first layout, from those in the second.

        Raises:
            ArgumentError: unless there is one for each dimension, and blocks are of their length.
        """
        return _shape(self.dst_layout, self.src_layout, shape)

    def __repr__(self) -> str:
        return f"BijectiveLayout({self.src_layout} -> {self.dst_layout})"


def layout(layout_str: str, dtype: str = "int32") -> Layout:
    """The layout of a name, e.g. ``"NCHW16c"``.

    Raises:
        ArgumentError: it names none.
    """
    return Layout.of(layout_str, f"layout({layout_str!r})", dtype)


def bijective_layout(src_layout: str | Layout, dst_layout: str | Layout) -> BijectiveLayout:
    """Two layouts of the same dimensions.

    Raises:
        ArgumentError: one names no layout, or they have other dimensions.
    """
    request = f"bijective_layout({str(src_layout)!r}, {str(dst_layout)!r})"
    src, dst = (
        x if isinstance(x, Layout) else Layout.of(x, request) for x in (src_layout, dst_layout)
    )
    check_same(src, dst, request)
    return BijectiveLayout(src, dst)


def check_same(src: Layout, dst: Layout, request: str) -> None:
    """Refuse layouts of other dimensions.

    Raises:
        ArgumentError: naming what one of them lacks.
    """
    for one, other in ((src, dst), (dst, src)):
        lacking = [x for x, block in other.parts if not block and x not in one.letters]
        if lacking:
            raise ArgumentError(
                request,
                f"the layout {one.name!r} lacks {', '.join(lacking)}, which {other.name!r} has",
                "name the same dimensions in both, e.g. 'NCHW' and 'NCHW8c'",
            )


def places(src: Layout, dst: Layout, index: Sequence[Any]) -> list[Any]:
    """The indices in ``dst`` of an element, from those in ``src``: blocks stay blocks."""
    outer = {x: i for (x, b), i in zip(src.parts, index) if not b}
    inner = {x: i for (x, b), i in zip(src.parts, index) if b}
    return [_place(x, b, src, dst, outer, inner) for x, b in dst.parts]


def _place(
    x: str, block: int, src: Layout, dst: Layout, outer: dict[str, Any], inner: dict[str, Any]
) -> Any:
    """The index of one dimension of ``dst``."""
    have, want = src.block(x), dst.block(x)
    if have == want:  # no arithmetic
        return inner[x] if block and want > 1 else outer[x]
    whole = ops.add(ops.multiply(outer[x], have), inner[x]) if have > 1 else outer[x]
    if want == 1:
        return whole
    return ops.floormod(whole, want) if block else ops.floordiv(whole, want)


def _check_count(one: Layout, other: Layout, given: Sequence[Any]) -> str:
    request = f"bijective_layout({one.name!r}, {other.name!r})"
    if len(given) != len(one):
        raise ArgumentError(
            request, f"{one.name!r} has {len(one)} dimensions, {len(given)} were given"
        )
    return request


def _indices(src: Layout, dst: Layout, index: Sequence[Any]) -> list[PrimExpr]:
    _check_count(src, dst, index)
    return places(src, dst, [ops.convert(i) for i in index])


def _shape(src: Layout, dst: Layout, shape: Sequence[Any]) -> list[Any]:
    request = _check_count(src, dst, shape)
    extents: dict[str, PrimExpr] = {}
    for (x, block), given in zip(src.parts, shape):
        d = ops.convert(given)
        if block and int_value(d) not in (block, None):
            raise ArgumentError(
                request, f"the block {block}{x.lower()} has {int_value(d)} elements"
            )
        extents[x] = ops.multiply(extents[x], d) if x in extents else d
    out: list[Any] = []
    for x, block in dst.parts:
        by = dst.block(x)
        rounded = ops.add(extents[x], by - 1) if by > 1 else extents[x]
        d = ops.const(block) if block else ops.floordiv(rounded, by)
        n = int_value(d)
        out.append(d if n is None else n)
    return out
