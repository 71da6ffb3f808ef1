"""Windows of images in any rank: how they are given, and how many of them fit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor
from whet.compiler.topi.nn.pad import pad
from whet.compiler.topi.shapes import is_constant, quotient_of, static


@dataclass(frozen=True)
class Windows:
    """Windows along one dimension of images.

    Attributes:
        image: pixels; an expression where they are open.
        size: pixels of a window.
        stride: from one window to the next.
        dilation: from one pixel of a window to the next.
        before, after: padding.
        overhang: pixels that the last window may take behind the padding.
    """

    image: Any
    size: int
    stride: int
    dilation: int
    before: int
    after: int
    overhang: int = 0

    @property
    def count(self) -> Any:
        """How many windows fit."""
        more = self.before + self.after + self.overhang - (self.size - 1) * self.dilation - 1
        if isinstance(self.image, int):
            return (self.image + more) // self.stride + 1
        return quotient_of(self.image, more + self.stride, self.stride)

    def place(self, window: Any, k: Any) -> Any:
        """The place of a window's pixel ``k`` in the padded image."""
        return window * self.stride + k * self.dilation


def windows_of(
    image: Sequence[Any],
    size: Sequence[Any],
    strides: object,
    padding: Any,
    dilation: object,
    request: str,
    ceil_mode: bool = False,
    start_inside: bool = False,
) -> list[Windows]:
    """The windows along each dimension of an image.

    Args:
        image, size: of the images and of the window, an extent for each dimension.
        strides, dilation: an int, or one for each dimension.
        padding: an int, one for each dimension, two (those in front, then those behind),
            ``"VALID"`` or ``"SAME"``.
        request: the call, for errors.
        ceil_mode: a last window may reach beyond the end.
        start_inside: but not begin behind the image.

    Raises:
        ArgumentError: they do not fit together, or no window fits.
    """
    rank = len(image)
    steps, spread = each(strides, "strides", rank, 1), each(dilation, "dilation", rank, 1)
    sizes = [static(k, request) for k in size]
    before, after = sides(padding, [(k - 1) * d + 1 for k, d in zip(sizes, spread)])
    # windows of open images are as many as an expression says
    pixels = [static(n, request) if is_constant(n) else n for n in image]
    overhang = [s - 1 if ceil_mode else 0 for s in steps]
    rows = zip(pixels, sizes, steps, spread, before, after, overhang)
    windows = [Windows(*row) for row in rows]
    if start_inside:
        windows = [
            replace(w, overhang=max(-1, -w.after)) if _begins_behind(w, request) else w
            for w in windows
        ]
    if any(is_constant(w.count) and w.count < 1 for w in windows):
        raise ArgumentError(request, "the window is larger than the padded image")
    return windows


def _begins_behind(w: Windows, request: str) -> bool:
    """True where the last window exists by its overhang only, and begins behind the image.

    Raises:
        ArgumentError: the image is open, and its size tells.
    """
    if w.after + w.overhang <= (w.size - 1) * w.dilation:  # a window is longer than what is behind
        return False
    image = static(w.image, request)
    return w.overhang > 0 and int((w.count - 1) * w.stride) >= w.before + image


def padded(
    data: Tensor,
    places: Iterable[int],
    windows: Sequence[Windows],
    value: float = 0.0,
    name: str = "padded",
) -> Tensor:
    """``data`` with the padding of its windows, whose dimensions are ``places``."""
    before, after = [0] * data.ndim, [0] * data.ndim
    for k, along in zip(places, windows):
        before[k], after[k] = along.before, along.after + along.overhang
    return pad(data, before, after, value, name) if any((*before, *after)) else data


def each(value: object, what: str, rank: int, least: float = -math.inf) -> list[int]:
    """An int, or one for each spatial dimension, as the latter.

    Raises:
        ArgumentError: it is neither, or a number is less than ``least``.
    """
    items: list[Any] = list(value) if isinstance(value, (tuple, list)) else [value] * rank
    if len(items) != rank or not all(type(v) is int for v in items):
        raise ArgumentError(f"{what}={value!r}", f"give an int, or {rank} ints")
    if min(items) < least:
        raise ArgumentError(f"{what}={value!r}", f"{what} must be at least {least}")
    return items


def sides(padding: Any, reach: Sequence[Any]) -> tuple[list[int], list[int]]:
    """Padding in front and behind; ``"SAME"`` keeps the size at a stride of 1."""
    rank = len(reach)
    if padding == "SAME":
        spans = [static(k, "padding='SAME'") for k in reach]
        return [k // 2 for k in spans], [(k - 1) // 2 for k in spans]
    if isinstance(padding, str) and padding != "VALID":
        raise ArgumentError(f"padding={padding!r}", "words for paddings are 'VALID' and 'SAME'")
    if isinstance(padding, (tuple, list)) and len(padding) == 2 * rank:
        both = each(padding, "padding", 2 * rank, 0)
        return both[:rank], both[rank:]
    one = each(0 if padding == "VALID" else padding, "padding", rank, 0)
    return one, one


def pair(value: object, what: str) -> tuple[int, int]:
    """An int or a pair of ints as a pair."""
    first, second = each(value, what, 2)
    return first, second


def get_pad_tuple(padding: Any, kernel: Any) -> tuple[int, int, int, int]:
    """Padding as (top, left, bottom, right).

    Args:
        padding: an int, (vertical, horizontal), all four, ``"VALID"`` or ``"SAME"``.
        kernel: the window's (height, width); ``"SAME"`` keeps the size at a stride of 1.

    Raises:
        ArgumentError: for anything else, or a negative number.
    """
    (top, left), (bottom, right) = sides(padding, kernel)
    return top, left, bottom, right
