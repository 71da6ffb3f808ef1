"""Transposed convolutions of any rank: plain products, never with the zeros between elements.

With strides of s, places Y of the result with the same remainder a = (Y + padding) % s, a phase,
meet the same places a, a + s, a + 2 s, ... of the window. There are two ways to compute them:

- phases: a plain convolution at stride 1 with a window of T = ceil(K / s) makes all of them as
  channels, and the result takes each element from its phase. A window that s does not divide is
  filled up with zero weights.

      sums[phase * CO + o, q] = sum over c, u of image[c, q + u] * W[c, o, a + s * (T - 1 - u)]
      result[o, Y] = sums[phase(Y) * CO + o, (Y + padding) // s]

- products: one matrix product of weights and pixels, nothing of it in vain, and the result adds
  those that meet.

      products[o, k, q] = sum over c of W[c, o, k] * image[c, q]
      result[o, Y] = sum over u of products[o, a + s * u, (Y + padding) // s - u]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import prod
from typing import Any

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute, reduce_axis
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.ops.ops import const, if_then_else
from whet.compiler.topi.half_precision import stored, sum_of_products, summed_in
from whet.compiler.topi.nn.convolution import check_ranks, convolution
from whet.compiler.topi.nn.windows import each
from whet.compiler.topi.shapes import is_constant, static

# Filled-up windows cost so many times the multiplications before products are the better way.
_FILLED = 1.5
# Products that stay in the caches cost less than the windows of phases, which overlap. Of 64
# channels, 32 results, 28x28, 4x4 at strides of 2 (1.6 MB): 490 and 575 us; 56x56 twice the
# channels (13 MB): 9.6 and 8.7 ms (one thread, 512 bits).
_CACHED = 4 << 20
# So many products of a dilated window are asked whether they meet, at most.
_MEET = 27


def transposed_convolution(
    data: Tensor,
    weight: Tensor,
    strides: object,
    padding: object,
    output_padding: object,
    out_dtype: str | None,
    operator: str,
    dilation: object = 1,
    ahead: Callable[[Tensor], Tensor] = lambda weight: weight,
) -> Tensor:
    """The transpose of a convolution: each element spreads a window; where they meet, they add.

    Args:
        data: (N, C, spatial ...).
        weight: (C, O, window ...).
        strides: how far the windows of neighbours are apart.
        padding: what is cut off on each side.
        output_padding: what is added behind, less than the strides.
        out_dtype: what is summed up and returned; ``data``'s by default.
        operator: its name, which ends in the layout; for errors and as a tag.
        dilation: the distance between two elements of the window, at least 1.
        ahead: what marks weights, in the order in which they are multiplied, as made beforehand.

    Returns:
        (N, O, spatial ...), each (size - 1) * stride - 2 * padding + (window - 1) * dilation + 1
        + output_padding.

    Raises:
        ArgumentError: if shapes, strides or paddings do not fit.
    """
    request = f"{operator}({data}, {weight}, strides={strides}, padding={padding})"
    rank = check_ranks(data, weight, operator, request)
    if not weight.shape[0] == data.shape[1]:
        raise ArgumentError(request, "the input channels of data and weight differ")
    sizes = _Sizes(
        [static(n, request) if is_constant(n) else n for n in data.shape[2:]],
        [static(k, request) for k in weight.shape[2:]],
        each(strides, "strides", rank, 1),
        each(padding, "padding", rank, 0),
        each(output_padding, "output_padding", rank, 0),
        each(dilation, "dilation", rank, 1),
    )
    for extra, stride in zip(sizes.more, sizes.strides):
        if extra >= stride:
            raise ArgumentError(
                request, f"output padding {extra} is not below the stride {stride}", "lower it"
            )
    opened = not all(map(is_constant, sizes.image))
    if min(n for n in [1, *sizes.result] if is_constant(n)) < 1:
        found = "x".join(map(str, sizes.result))
        raise ArgumentError(request, f"the result would be {found}", "pad by less")
    result = out_dtype or data.dtype
    if opened:  # how long phases are is not known
        return stored(_products(data, weight, sizes, result, operator, ahead), result)
    many = prod(static(n, request) for n in (weight.shape[1], *sizes.window, *sizes.image))
    cached = many * dt.bits(summed_in(result)) // 8 <= _CACHED
    way = _products if sizes.in_products(cached) else _phases
    return stored(way(data, weight, sizes, result, operator, ahead), result)


@dataclass(frozen=True)
class _Sizes:
    """Numbers of a transposed convolution, one for each spatial dimension.

    Attributes:
        image, window, strides: theirs; an image's may be open.
        cut: off each side of the result. more: behind it.
        dilation: the distance between two elements of the window.
    """

    image: Sequence[Any]
    window: Sequence[int]
    strides: Sequence[int]
    cut: Sequence[int]
    more: Sequence[int]
    dilation: Sequence[int]

    @property
    def reach(self) -> list[int]:
        """Of a window, with what lies between its elements."""
        return [(k - 1) * d + 1 for k, d in zip(self.window, self.dilation)]

    @property
    def result(self) -> list[Any]:
        """The sizes of the result."""
        each = zip(self.image, self.strides, self.cut, self.reach, self.more)
        return [(n - 1) * s - 2 * c + k + m for n, s, c, k, m in each]

    @property
    def taps(self) -> list[int]:
        """How many places within the reach of the window a phase meets at most."""
        return [-(-k // s) for k, s in zip(self.reach, self.strides)]

    def in_products(self, cached: bool) -> bool:
        """True where products are the better way; ``cached``: the caches hold them.

        Windows of three and more in a phase are left to phases: convolutions of such have faster
        algorithms, and many products would meet. Between the elements of dilated ones are zeros.
        """
        if max(self.dilation, default=1) > 1:
            return prod(self.window) <= _MEET
        taps = max(self.taps, default=1)
        if taps > 2 or max(self.strides, default=1) == 1:
            return False
        filled = prod(t * s for t, s in zip(self.taps, self.strides)) / max(1, prod(self.window))
        return filled >= _FILLED or (taps == 2 and cached)


def _products(
    data: Tensor,
    weight: Tensor,
    z: _Sizes,
    result: str,
    operator: str,
    ahead: Callable[[Tensor], Tensor],
) -> Tensor:
    """The sums of the products that meet."""
    rank, channel = len(z.image), reduce_axis((0, weight.shape[0]), name="rc")
    own = ahead(weight)

    def one(b: Any, o: Any, *index: Any) -> Any:
        left, right = data(b, channel, *index[rank:]), own(channel, o, *index[:rank])
        return sum_of_products(result, left, right, [channel])

    shape = (data.shape[0], weight.shape[1], *z.window, *z.image)
    made = compute(shape, one, "products")

    def element(b: Any, o: Any, *index: Any) -> Any:
        met = []
        for ks, qs, tests in _meeting(z, [i + c for i, c in zip(index, z.cut)]):
            tests = [t for q, n in zip(qs, z.image) for t in (q >= 0, q < n)] + tests
            read = made(b, o, *ks, *qs)
            met.append(if_then_else(te.all(*tests), read, const(0, made.dtype)))
        return reduce(lambda one, other: one + other, met)

    return compute((data.shape[0], weight.shape[1], *z.result), element, "conv", operator)


def _meeting(z: _Sizes, at: Sequence[Any]) -> Iterator[tuple[list[Any], list[Any], list[Any]]]:
    """The products that may meet at a place: of the window, of the image, where they do."""
    if max(z.dilation, default=1) > 1:
        for ks in product(*map(range, z.window)):
            apart = [i - k * d for i, k, d in zip(at, ks, z.dilation)]
            tests = [i % s == 0 for i, s in zip(apart, z.strides) if s > 1]
            yield [*ks], [i // s for i, s in zip(apart, z.strides)], tests
        return
    for steps in product(*map(range, z.taps)):
        places = [i % s + s * u for i, s, u in zip(at, z.strides, steps)]
        inside = [p < k for p, k, s in zip(places, z.window, z.strides) if k % s]
        yield places, [i // s - u for i, s, u in zip(at, z.strides, steps)], inside


def _phases(
    data: Tensor,
    weight: Tensor,
    z: _Sizes,
    result: str,
    operator: str,
    ahead: Callable[[Tensor], Tensor],
) -> Tensor:
    """Each element from its phase of a plain convolution.

    Padding from the window's size on cuts off all that the first and the last elements add to: the
    image is read without them.
    """
    rank, channels = len(z.image), weight.shape[1]
    many = max(1, static(channels, operator))  # without any, nothing is read
    first = [c // s for c, s in zip(z.cut, z.strides)]
    rows = [(n - 1 + c) // s - f + 1 for n, c, s, f in zip(z.result, z.cut, z.strides, first)]
    begin = [max(0, f + 1 - t) for f, t in zip(first, z.taps)]
    seen = [min(n, r + f) - b for n, r, f, b in zip(z.image, rows, first, begin)]
    before = [max(0, t - 1 - f) for t, f in zip(z.taps, first)]
    after = [max(0, r + f - n) for r, f, n in zip(rows, first, z.image)]
    image = data
    if seen != list(z.image):
        image = compute(
            (*data.shape[:2], *seen),
            lambda b, c, *at: data(b, c, *(i + n for i, n in zip(at, begin))),
            "seen",
        )

    def taps(o: Any, c: Any, *at: Any) -> Any:
        phase: Any = o // many
        places: list[Any] = []
        for s, t, u in reversed([*zip(z.strides, z.taps, at)]):
            places.insert(0, phase % s + s * (t - 1 - u))
            phase = phase // s
        tests = [p < r for p, r, s in zip(places, z.reach, z.strides) if r % s]
        tests += [p % d == 0 for p, d in zip(places, z.dilation) if d > 1]
        own = weight(c, o % many, *(p // d for p, d in zip(places, z.dilation)))
        return if_then_else(te.all(*tests), own, const(0, weight.dtype)) if tests else own

    shape = (prod(z.strides) * channels, weight.shape[0], *z.taps)
    own = ahead(compute(shape, taps, "weight.phases"))
    plain = f"conv{rank}d_nc{'dhw'[-rank:]}"
    kind = summed_in(result)
    sums = convolution(image, own, 1, (*before, *after), 1, 1, kind, plain, "sums")

    def element(b: Any, o: Any, *index: Any) -> Any:
        at = [i + c for i, c in zip(index, z.cut)]
        phase: Any = 0
        for i, s in zip(at, z.strides):
            phase = phase * s + i % s
        return sums(b, phase * many + o, *(i // s - f for i, s, f in zip(at, z.strides, first)))

    return compute((data.shape[0], channels, *z.result), element, "conv", operator)
