"""Tensors made of their own indices: ranges, one-hot vectors, triangles, diagonals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute
from whet.compiler.tir.ops.ops import (
    all_of,
    cast,
    const,
    floordiv,
    floormod,
    if_then_else,
    select,
)
from whet.compiler.topi.shapes import check_integers, index_at, static, with_axis
from whet.compiler.topi.tag import INJECTIVE


def arange(
    start: float, stop: float | None = None, step: float = 1, dtype: str = "float32"
) -> Tensor:
    """``start``, ``start + step``, ... up to before ``stop``, as numpy's; numbers, not tensors.

    Raises:
        ArgumentError: the step is 0.
    """
    first, last = (0, start) if stop is None else (start, stop)
    if not step:
        raise ArgumentError(f"arange({start}, {stop}, {step})", "the step is 0")
    many = max(math.ceil((last - first) / step), 0)
    begin, by = const(first, dtype), const(step, dtype)
    return compute((many,), lambda i: begin + cast(dtype, i) * by, "T_arange", INJECTIVE)


def one_hot(
    indices: Tensor, on_value: float, off_value: float, depth: int, axis: int, dtype: str
) -> Tensor:
    """``on_value`` where the index along ``axis``, of ``depth`` places, is the one given.

    Args:
        indices: integers; one outside ``-depth .. depth - 1`` is nowhere, a negative one counts
            from the end.
        axis: of the result, which has a dimension more than the indices; -1 for the last.

    Raises:
        ArgumentError: the indices are no integers.
    """
    check_integers(indices, f"one_hot({indices}, depth={depth})")
    rank = indices.ndim + 1
    k = axis % rank
    on, off = const(on_value, dtype), const(off_value, dtype)

    def element(*i: Any) -> Any:
        at = cast("int64", indices(*i[:k], *i[k + 1 :]))
        place = select(at < 0, at + depth, at)
        return select(place.equal(cast("int64", i[k])), on, off)

    shape = (*indices.shape[:k], const(depth), *indices.shape[k:])
    return compute(shape, element, "T_one_hot", INJECTIVE)


def meshgrid(a_tuple: Sequence[Tensor], indexing: str = "xy") -> list[Tensor]:
    """Each vector (n,) repeated over the grid of all, as numpy's.

    Args:
        a_tuple: vectors, or tensors without axes.
        indexing: ``"ij"``, or ``"xy"``: the first two dimensions change places.

    Raises:
        ArgumentError: another indexing, or a tensor of more dimensions.
    """
    request = f"meshgrid({list(a_tuple)}, {indexing!r})"
    if indexing not in ("ij", "xy") or any(t.ndim > 1 for t in a_tuple):
        raise ArgumentError(request, "give vectors, and indexing 'ij' or 'xy'")
    order = list(range(len(a_tuple)))
    if indexing == "xy" and len(order) > 1:
        order[:2] = 1, 0
    extents = [t.shape[0] if t.ndim else const(1) for t in a_tuple]
    shape = [extents[k] for k in order]

    def of(t: Tensor, k: int) -> Tensor:
        at = order.index(k)
        return compute(shape, lambda *i: t(i[at]) if t.ndim else t(), "T_meshgrid", INJECTIVE)

    return [of(t, k) for k, t in enumerate(a_tuple)]


def unravel_index(indices: Tensor, shape: Sequence[int] | Tensor) -> Tensor:
    """The indices in ``shape`` of elements counted in row-major order.

    Args:
        indices: integers, of any shape.
        shape: extents, or a vector of them of the type of the indices.

    Returns:
        (dimensions of ``shape``, those of ``indices`` ...).

    Raises:
        ArgumentError: the indices are no integers.
    """
    request = f"unravel_index({indices}, {shape})"
    check_integers(indices, request)
    if isinstance(shape, Tensor):
        extents: list[Any] = [shape(const(k)) for k in range(static(shape.shape[0], request))]
    else:
        extents = [const(int(d), indices.dtype) for d in shape]

    def element(k: Any, *i: Any) -> Any:
        rest: Any = indices(*i)
        found: Any = const(0, indices.dtype)
        for at in reversed(range(len(extents))):
            found = select(k.equal(at), floormod(rest, extents[at]), found)
            rest = floordiv(rest, extents[at])
        return found

    return compute((len(extents), *indices.shape), element, "T_unravel_index", INJECTIVE)


def trilu(data: Tensor, k: int = 0, upper: bool = True) -> Tensor:
    """The upper or the lower triangle of matrices (..., rows, columns), 0 elsewhere.

    Args:
        k: the diagonal at which it ends; 0 is the main one, 1 the one above it.

    Raises:
        ArgumentError: the data have fewer than two dimensions.
    """
    if data.ndim < 2:
        raise ArgumentError(f"trilu({data}, {k})", "a matrix has two dimensions")
    zero = const(0, data.dtype)

    def element(*i: Any) -> Any:
        off = i[-1] - i[-2]
        return if_then_else(off >= k if upper else off <= k, data(*i), zero)

    return compute(data.shape, element, "T_trilu", INJECTIVE)


def matrix_set_diag(
    data: Tensor,
    diagonal: Tensor,
    k: int | tuple[int, int] = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    """Matrices (..., rows, columns) with other diagonals, as TensorFlow's.

    Args:
        diagonal: (..., longest) for one, (..., diagonals, longest) for several, the highest first.
        k: which; 0 is the main one, above it they are positive; or (lowest, highest).
        align: where shorter ones stand in their rows: those above the main one, then the others.

    Raises:
        ArgumentError: shapes do not fit, or there is no such alignment.
    """
    request = f"matrix_set_diag({data}, {diagonal}, k={k}, align={align!r})"
    low, high = (k, k) if isinstance(k, int) else k
    words = align.split("_")
    if len(words) != 2 or not {*words} <= {"LEFT", "RIGHT"} or low > high or data.ndim < 2:
        raise ArgumentError(request, "align is e.g. 'RIGHT_LEFT', k is ordered, data are matrices")
    rows, columns = (static(d, request) for d in data.shape[-2:])
    length = {d: min(rows + min(d, 0), columns - max(d, 0)) for d in range(low, high + 1)}
    longest = max(length.values())
    several = (high - low + 1,) if diagonal.ndim == data.ndim else ()
    wanted = (*data.shape[:-2], *several, longest)
    if [str(d) for d in diagonal.shape] != [str(d) for d in wanted]:
        raise ArgumentError(request, f"the diagonals would be ({', '.join(map(str, wanted))})")

    def element(*i: Any) -> Any:
        row, column = i[-2:]
        found: Any = data(*i)
        for d, n in length.items():
            right = words[0 if d > 0 else 1] == "RIGHT"
            at = (row if d > 0 else column) + (longest - n if right else 0)
            place = (const(high - d), at) if several else (at,)
            found = if_then_else((column - row).equal(d), diagonal(*i[:-2], *place), found)
        return found

    return compute(data.shape, element, "T_matrix_set_diag", INJECTIVE)


def sequence_mask(
    data: Tensor, valid_length: Tensor, mask_value: float = 0, axis: int = 0
) -> Tensor:
    """``mask_value`` for the steps of each sequence behind its length.

    Args:
        data: (steps, batch, ...) for axis 0, (batch, steps, ...) for axis 1.
        valid_length: (batch,), numbers.
        axis: of the steps, 0 or 1.

    Raises:
        ArgumentError: another axis, or not one length a sequence.
    """
    request = f"sequence_mask({data}, {valid_length}, axis={axis})"
    fits = axis in (0, 1) and data.ndim > 1 and valid_length.ndim == 1
    if not fits or not valid_length.shape[0] == data.shape[1 - axis]:
        raise ArgumentError(request, "give two dimensions or more, one length each, axis 0 or 1")
    masked = const(mask_value, data.dtype)

    def element(*i: Any) -> Any:
        inside = cast(valid_length.dtype, i[axis]) < valid_length(i[1 - axis])
        return if_then_else(inside, data(*i), masked)

    return compute(data.shape, element, "T_sequence_mask", INJECTIVE)


def reverse_sequence(
    a: Tensor, seq_lengths: Tensor, seq_axis: int = 1, batch_axis: int = 0
) -> Tensor:
    """The first ``seq_lengths[b]`` elements of each sequence in reverse; others stay.

    Args:
        a: any tensor of two dimensions or more.
        seq_lengths: (batch,), integers; below 2 nothing moves.
        seq_axis, batch_axis: of steps and of sequences.

    Raises:
        ArgumentError: the axes are the same, or not one integer length a sequence.
    """
    request = f"reverse_sequence({a}, {seq_lengths}, {seq_axis}, {batch_axis})"
    check_integers(seq_lengths, request)
    seq, batch = seq_axis % a.ndim, batch_axis % a.ndim
    one_each = seq_lengths.ndim == 1 and seq_lengths.shape[0] == a.shape[batch]
    if seq == batch or not one_each:
        raise ArgumentError(request, "give two axes, and one length for each sequence")
    extent = a.shape[seq]

    def element(*i: Any) -> Any:
        length = index_at(seq_lengths, i[batch])
        at = i[seq]
        turned = all_of(at < length, length <= extent)
        place = select(turned, length - 1 - at, cast(length.dtype, at))
        return a(*with_axis(i, seq, place))

    return compute(a.shape, element, "T_reverse_sequence", INJECTIVE)


def dynamic_strided_slice(
    a: Tensor, begin: Tensor, end: Tensor, strides: Tensor, output_shape: Sequence[Any]
) -> Tensor:
    """``a[begin:end:strides]`` where the kernel reads the numbers, in a shape that is known.

    Args:
        a: any tensor.
        begin, strides: vectors of integers, one for each of the first axes. A negative ``begin``
            counts from the end; what would be outside is the nearest element.
        end: not read: ``output_shape`` says how many there are.
        output_shape: of the result.

    Raises:
        ArgumentError: they are no vectors of integers, or the dimensions differ.
    """
    request = f"dynamic_strided_slice({a}, {begin}, {end}, {strides}, {list(output_shape)})"
    for t in (begin, end, strides):
        check_integers(t, request)
    if len(output_shape) != a.ndim or begin.ndim != 1 or strides.ndim != 1:
        raise ArgumentError(request, "give vectors, and a shape of as many dimensions")
    axes = static(begin.shape[0], request)

    def element(*i: Any) -> Any:
        at: list[Any] = list(i)
        for d in range(min(axes, a.ndim)):
            first, n = cast("int64", begin(const(d))), cast("int64", a.shape[d])
            place = select(first < 0, first + n, first) + i[d] * cast("int64", strides(const(d)))
            below, above = place < 0, place >= n
            inside = select(below, const(0, "int64"), select(above, n - 1, place))
            at[d] = inside
        return a(*at)

    return compute(tuple(output_shape), element, "T_dynamic_strided_slice", INJECTIVE)
