"""Operators that put elements elsewhere: other shapes, other orders, parts and joins of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute
from whet.compiler.tir import IntImm, PrimExpr
from whet.compiler.tir.ops.ops import add, const, convert, floordiv, if_then_else
from whet.compiler.topi.elementwise import at, broadcast_shape
from whet.compiler.topi.shapes import (
    check_integers,
    index_at,
    is_one,
    is_zero,
    nearest_inside,
    one_axis,
    product,
    quotient,
    remainder,
    static,
    with_axis,
)
from whet.compiler.topi.tag import BROADCAST, INJECTIVE


def _moved(shape: Sequence[Any], element: Any, name: str) -> Tensor:
    return compute(shape, element, f"T_{name}", INJECTIVE)


def reshape(a: Tensor, newshape: Any) -> Tensor:
    """The elements of ``a`` in another shape, in row-major order; one extent may be -1.

    Raises:
        ArgumentError: the numbers of elements differ.
    """
    given = [newshape] if isinstance(newshape, (int, PrimExpr)) else list(newshape)
    request = f"reshape({a}, {[str(d) for d in given]})"
    have, shape = product(a.shape), [convert(d) for d in given]
    free = [k for k, d in enumerate(shape) if isinstance(d, IntImm) and d.value == -1]
    if len(free) > 1:
        raise ArgumentError(request, "only one extent can be -1")
    if free:
        rest = product([d for k, d in enumerate(shape) if k != free[0]])
        if is_zero(rest):
            raise ArgumentError(request, "-1 is no definite number beside an extent of 0")
        shape[free[0]] = floordiv(have, rest)
    want = product(shape)
    if isinstance(want, IntImm) and isinstance(have, IntImm) and want.value != have.value:
        raise ArgumentError(request, f"{have.value} elements do not fill {want.value}")

    def element(*i: Any) -> Any:
        flat: Any = const(0)
        for x, d in zip(i, shape):
            flat = flat * d + x
        index = []
        for k, d in enumerate(a.shape):
            step = product(a.shape[k + 1 :])
            whole = quotient(flat, step)
            index.append(whole if k == 0 else remainder(whole, d))
        return a(*index)

    return _moved(shape, element, "reshape")


def expand_dims(a: Tensor, axis: int, num_newaxis: int = 1) -> Tensor:
    """``a`` with new axes of extent 1 before ``axis``."""
    place = one_axis(axis, a.ndim + 1, f"expand_dims({a}, {axis})")
    shape = (*a.shape[:place], *[const(1)] * num_newaxis, *a.shape[place:])
    return _moved(shape, lambda *i: a(*i[:place], *i[place + num_newaxis :]), "expand_dims")


def squeeze(a: Tensor, axis: int | Sequence[int] | None = None) -> Tensor:
    """``a`` without axes of extent 1: without all of them, or those of ``axis``.

    Raises:
        ArgumentError: an axis has another extent.
    """
    request = f"squeeze({a}, {axis})"
    one = [k for k, d in enumerate(a.shape) if is_one(d)]
    gone = one
    if axis is not None:
        given = [axis] if isinstance(axis, int) else list(axis)
        gone = [one_axis(x, a.ndim, request) for x in given]
        for k in gone:
            if k not in one:
                raise ArgumentError(request, f"the extent of axis {k} is {a.shape[k]}, not 1")
    kept = [k for k in range(a.ndim) if k not in gone]

    def element(*i: Any) -> Any:
        outer = dict(zip(kept, i))
        return a(*[outer.get(k, const(0)) for k in range(a.ndim)])

    return _moved([a.shape[k] for k in kept], element, "squeeze")


def transpose(a: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """``a`` with its dimensions in the order ``axes``, reversed by default.

    Raises:
        ArgumentError: ``axes`` does not name each dimension once.
    """
    order = list(axes) if axes is not None else list(reversed(range(a.ndim)))
    if sorted(x % a.ndim for x in order if -a.ndim <= x < a.ndim) != list(range(a.ndim)):
        raise ArgumentError(
            f"transpose({a}, {order})", f"the axes are no order of {a.ndim} dimensions"
        )
    order = [x % a.ndim for x in order]

    back = sorted(range(a.ndim), key=order.__getitem__)
    return _moved([a.shape[x] for x in order], lambda *i: a(*[i[d] for d in back]), "transpose")


def flip(a: Tensor, axis: int = 0) -> Tensor:
    """``a`` from its end to its beginning along ``axis``."""
    k = one_axis(axis, a.ndim, f"flip({a}, {axis})")
    return _moved(a.shape, lambda *i: a(*with_axis(i, k, a.shape[k] - 1 - i[k])), "flip")


def concatenate(a_tuple: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Tensors one after the other along ``axis``.

    Raises:
        ArgumentError: they differ in their element type or in other axes, or there is none.
    """
    given = list(a_tuple)
    request = f"concatenate([{', '.join(map(str, given))}], axis={axis})"
    _alike(given, request)
    k = one_axis(axis, given[0].ndim, request)
    for t in given[1:]:
        for d, (x, y) in enumerate(zip(given[0].shape, t.shape)):
            if d != k and isinstance(x, IntImm) and isinstance(y, IntImm) and x.value != y.value:
                raise ArgumentError(request, f"axis {d} has the extents {x} and {y}")
    begins = list(accumulate((t.shape[k] for t in given), add, initial=const(0)))

    def element(*i: Any) -> Any:
        def of(first: int, last: int) -> Any:  # halves: as few comparisons as there can be
            if first == last:
                return given[first](*with_axis(i, k, i[k] - begins[first]))
            half = (first + last) // 2
            return if_then_else(i[k] < begins[half + 1], of(first, half), of(half + 1, last))

        return of(0, len(given) - 1)

    return _moved(with_axis(given[0].shape, k, begins[-1]), element, "concat")


def stack(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Tensors of one shape along a new ``axis``.

    Raises:
        ArgumentError: they differ in shape or element type, or there is none.
    """
    given = list(tensors)
    request = f"stack([{', '.join(map(str, given))}], axis={axis})"
    _alike(given, request)
    place = one_axis(axis, given[0].ndim + 1, request)
    return concatenate([expand_dims(t, place) for t in given], place)


def _alike(given: list[Tensor], request: str) -> None:
    """Refuse tensors of other element types or numbers of dimensions, or none at all."""
    if not given:
        raise ArgumentError(request, "there is no tensor")
    for t in given[1:]:
        if t.dtype != given[0].dtype or t.ndim != given[0].ndim:
            raise ArgumentError(
                request,
                f"{t.ndim} dimensions of {t.dtype} do not go together with "
                f"{given[0].ndim} of {given[0].dtype}",
            )


def split(ary: Tensor, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """Parts of a tensor along ``axis``: so many of one length, or with cuts at some indices.

    Raises:
        ArgumentError: the parts are not of one length, or the cuts are not in order.
    """
    request = f"split({ary}, {indices_or_sections}, axis={axis})"
    k = one_axis(axis, ary.ndim, request)
    n = static(ary.shape[k], request)
    if isinstance(indices_or_sections, int):
        if indices_or_sections < 1 or n % indices_or_sections:
            raise ArgumentError(request, f"{n} is not {indices_or_sections} parts of one length")
        length = n // indices_or_sections
        cuts = list(range(0, n + 1, length)) if length else [0] * (indices_or_sections + 1)
    else:
        cuts = [0, *(static(x, request) for x in indices_or_sections), n]
    if cuts != sorted(cuts):
        raise ArgumentError(request, f"the cuts {cuts[1:-1]} are not in order, up to {n}")

    def part(begin: int, end: int) -> Tensor:
        shape = with_axis(ary.shape, k, const(end - begin))
        return _moved(shape, lambda *i: ary(*with_axis(i, k, i[k] + begin)), "split")

    return [part(begin, end) for begin, end in pairwise(cuts)]


def strided_slice(
    a: Tensor,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    slice_mode: str = "end",
    assume_inbound: bool = True,
) -> Tensor:
    """``a[begin:end:strides]`` for each axis, by numpy's rules; for those of ``axes`` if given.

    Args:
        a: any tensor.
        begin, end, strides, axes: an int for each axis, or for each of ``axes``.
        slice_mode: ``"end"``, or ``"size"``: ``end`` says how many elements there are, -1 for all
            to the end, and every stride is 1.
        assume_inbound: whether a symbolic slice lies inside; extents are constants here.

    Raises:
        ArgumentError: a stride or a size that cannot be, the numbers of values differ, or there is
            no such mode.
    """
    request = (
        f"strided_slice({a}, {list(begin)}, {list(end)}, {strides}, slice_mode={slice_mode!r})"
    )
    over = [one_axis(x, a.ndim, request) for x in axes] if axes is not None else range(len(begin))
    steps = list(strides) if strides is not None and len(strides) else [1] * len(begin)
    steps = steps * len(begin) if len(steps) == 1 else steps
    if not len(begin) == len(end) == len(steps) == len(over) or len(begin) > a.ndim:
        raise ArgumentError(request, "give one begin, one end and one stride for each axis")
    if slice_mode not in ("end", "size"):
        raise ArgumentError(request, f"there is no slice_mode {slice_mode!r}", "'end' or 'size'")
    if slice_mode == "size" and (set(steps) - {1} or min(end, default=0) < -1):
        raise ArgumentError(
            request, "sizes are at least -1, and have strides of 1", "slice_mode='end'"
        )
    shape, first, by = list(a.shape), [0] * a.ndim, [1] * a.ndim
    for k, x, y, step in zip(over, begin, end, steps):
        if not step:
            raise ArgumentError(request, "a stride is 0")
        many = static(a.shape[k], request)
        part = slice(x, y, step)
        if slice_mode == "size":
            start = range(many)[x:].start
            part = slice(start, many if y == -1 else start + y)
        cut = range(*part.indices(many))
        shape[k], first[k], by[k] = const(len(cut)), cut.start, step
    return _moved(
        shape,
        lambda *i: a(*[x * step + start for x, step, start in zip(i, by, first)]),
        "strided_slice",
    )


def tile(a: Tensor, reps: int | Sequence[int]) -> Tensor:
    """``a`` so many times along each axis; more numbers than axes make new axes in front."""
    counts = [reps] if isinstance(reps, int) else list(reps)
    rank = max(a.ndim, len(counts))
    counts = [1] * (rank - len(counts)) + counts
    lengths = [const(1)] * (rank - a.ndim) + list(a.shape)
    if min(counts, default=1) < 0:
        raise ArgumentError(f"tile({a}, {reps})", "a number of times is negative")

    def element(*i: Any) -> Any:
        own = list(zip(i, lengths, counts))[rank - a.ndim :]
        return a(*[x if n == 1 else remainder(x, d) for x, d, n in own])

    return _moved([d * n for d, n in zip(lengths, counts)], element, "tile")


def repeat(a: Tensor, repeats: int, axis: int = 0) -> Tensor:
    """``a`` with each of its parts along ``axis`` so many times."""
    request = f"repeat({a}, {repeats}, axis={axis})"
    k = one_axis(axis, a.ndim, request)
    if repeats < 0:
        raise ArgumentError(request, "the number of times is negative", "at least 0")
    shape = with_axis(a.shape, k, a.shape[k] * repeats)
    return _moved(shape, lambda *i: a(*with_axis(i, k, quotient(i[k], repeats))), "repeat")


def take(
    a: Tensor,
    indices: Tensor,
    axis: int | None = None,
    batch_dims: int = 0,
    mode: str = "clip",
) -> Tensor:
    """The parts of ``a`` at ``indices`` along ``axis``; of all its elements in a row for None.

    Args:
        a: any tensor.
        indices: integers, any shape.
        axis: along which.
        batch_dims: dimensions in front that ``a`` and ``indices`` have in common.
        mode: what becomes of indices outside: ``"clip"`` takes the nearest inside, ``"wrap"``
            counts around; ``"fast"`` looks at none: each must be inside.

    Raises:
        ArgumentError: another mode, other dimensions in common, or indices that are no integers.
    """
    request = f"take({a}, {indices}, axis={axis}, batch_dims={batch_dims}, mode={mode!r})"
    if mode not in ("clip", "wrap", "fast"):
        raise ArgumentError(request, "modes are 'clip', 'wrap' and 'fast'", "mode='clip'")
    check_integers(indices, request)
    if not isinstance(batch_dims, int):
        raise ArgumentError(
            request, f"batch_dims is {batch_dims!r}, no int", "name it: mode='wrap'"
        )
    source = a if axis is not None else reshape(a, [-1])
    k = one_axis(axis or 0, source.ndim, request)
    n = source.shape[k]
    if is_zero(n) and not any(map(is_zero, indices.shape)):
        raise ArgumentError(request, "there is no element to take", "give no indices: (0,) of them")
    shared = batch_dims + indices.ndim if batch_dims < 0 else batch_dims
    if not 0 <= shared <= min(k, indices.ndim):
        raise ArgumentError(
            request,
            f"{shared} dimensions in common, of {indices.ndim} of the indices and {k} before the "
            "axis",
            "an axis behind them",
        )
    for d, (x, y) in enumerate(zip(indices.shape[:shared], source.shape)):
        if not x == y:
            raise ArgumentError(request, f"dimension {d} has {y} elements and {x} indices")
    behind = k + indices.ndim - shared

    def element(*i: Any) -> Any:
        x = index_at(indices, *i[:shared], *i[k:behind])
        if mode == "clip":
            x = nearest_inside(x, n)
        elif mode == "wrap":
            x = remainder(x, n)
        return source(*i[:k], x, *i[behind:])

    shape = (*source.shape[:k], *indices.shape[shared:], *source.shape[k + 1 :])
    return _moved(shape, element, "take")


def where(condition: Any, x: Any, y: Any) -> Tensor:
    """``x`` where the condition holds (is not 0), else ``y``; shapes are broadcast."""
    shape: tuple[PrimExpr, ...] = ()
    for t in (condition, x, y):
        if isinstance(t, Tensor):
            shape = broadcast_shape(shape, t.shape, f"where({condition}, {x}, {y})")

    def element(*i: Any) -> Any:
        c = convert(at(condition, i))
        return if_then_else(c if c.dtype == "bool" else c != 0, at(x, i), at(y, i))

    return compute(shape, element, "T_where", BROADCAST)
