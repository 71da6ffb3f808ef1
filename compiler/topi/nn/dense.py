"""Products of matrices, alone, in batches and as layers, and what goes around them."""

from __future__ import annotations

from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute, reduce_axis
from whet.compiler.tir.ops.ops import const
from whet.compiler.topi.elementwise import add, broadcast_shape
from whet.compiler.topi.half_precision import stored, sum_of_products
from whet.compiler.topi.shapes import is_one, one_axis, product
from whet.compiler.topi.transform import expand_dims, reshape


def matmul(
    a: Tensor, b: Tensor, transp_a: bool = False, transp_b: bool = False, name: str = "C"
) -> Tensor:
    """The product of ``a`` (..., N, K) and ``b`` (..., K, M) by numpy's rules, of ``a``'s dtype.

    Half precision is accumulated in float32.

    Args:
        a, b: matrices of one dtype; outer dimensions are broadcast; one of a single dimension is a
            row on the left, a column on the right.
        transp_a: ``a`` is (..., K, N).
        transp_b: ``b`` is (..., M, K).
        name: of the result.

    Raises:
        ArgumentError: they do not fit together, or their dtypes differ.
    """
    request = f"matmul({a}, {b})"
    if not a.ndim or not b.ndim:
        raise ArgumentError(request, "both must have a dimension")
    if a.dtype != b.dtype:
        raise ArgumentError(request, f"the dtypes {a.dtype} and {b.dtype} differ")
    row, column = a.ndim == 1, b.ndim == 1
    outer = broadcast_shape(a.shape[:-2], b.shape[:-2], request)
    length = a.shape[-2 if transp_a and not row else -1]
    rows = b.shape[0] if column else b.shape[-1 if transp_b else -2]
    if not length == rows:
        raise ArgumentError(request, f"{length} and {rows} elements are multiplied")
    n = () if row else (a.shape[-1 if transp_a else -2],)
    m = () if column else (b.shape[-2 if transp_b else -1],)
    k = reduce_axis((0, length), name="k")

    def of(t: Tensor, batch: tuple[Any, ...], i: Any, inner_last: bool) -> Any:
        if t.ndim == 1:
            return t(k)
        own = batch[len(batch) - (t.ndim - 2) :]
        place = tuple(const(0) if is_one(d) else x for d, x in zip(t.shape, own))
        return t(*place, i, k) if inner_last else t(*place, k, i)

    def element(*i: Any) -> Any:
        batch = i[: len(outer)]
        left = of(a, batch, None if row else i[len(outer)], not transp_a)
        right = of(b, batch, None if column else i[-1], transp_b)
        return sum_of_products(a.dtype, left, right, k)

    return stored(compute((*outer, *n, *m), element, name=name), a.dtype)


def dense(
    data: Tensor, weight: Tensor, bias: Tensor | None = None, out_dtype: str | None = None
) -> Tensor:
    """``data`` (N, K) times the transpose of ``weight`` (M, K), plus ``bias`` (M).

    Half precision is accumulated in float32, and stored in ``out_dtype``, ``data``'s by default.

    Raises:
        ArgumentError: the shapes do not fit.
    """
    request = f"dense({data}, {weight})"
    _check_ranks(data, weight, 2, request)
    if not data.shape[1] == weight.shape[1]:
        raise ArgumentError(request, "the columns of data and weight differ")
    k = reduce_axis((0, data.shape[1]), name="k")
    result = out_dtype or data.dtype
    made = compute(
        (data.shape[0], weight.shape[0]),
        lambda i, j: sum_of_products(result, data[i, k], weight[j, k], k),
        "T_dense",
        "dense",
    )
    out = stored(made, result)
    return out if bias is None else add(out, bias)


def layer_matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    bias: Tensor | None = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Tensor:
    """``topi.nn.matmul``: the product of two matrices plus ``bias`` (M,).

    Half precision is accumulated in float32.

    Args:
        tensor_a: (N, K); (K, N) with ``transpose_a``.
        tensor_b: (K, M); (M, K) with ``transpose_b``.
        bias: added to each row, or None.
        out_dtype: what is summed up and returned; ``tensor_a``'s by default.

    Raises:
        ArgumentError: the shapes do not fit.
    """
    a, b = tensor_a, tensor_b
    request = f"matmul({a}, {b}, transpose_a={transpose_a}, transpose_b={transpose_b})"
    _check_ranks(a, b, 2, request)
    n, k = reversed(a.shape) if transpose_a else a.shape
    k2, m = reversed(b.shape) if transpose_b else b.shape
    if not k == k2:
        raise ArgumentError(request, f"{k} and {k2} elements are not multiplied")
    r = reduce_axis((0, k), name="k")
    result = out_dtype or a.dtype

    def element(i: Any, j: Any) -> Any:
        left = a[r, i] if transpose_a else a[i, r]
        right = b[j, r] if transpose_b else b[r, j]
        return sum_of_products(result, left, right, r)

    out = stored(compute((n, m), element, "T_matmul", "matmul"), result)
    return out if bias is None else add(out, bias)


def batch_matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    oshape: object = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = True,
) -> Tensor:
    """Products of matrices, one for each of a batch: (B, N, K) and (B, M, K) give (B, N, M).

    Args:
        tensor_a, tensor_b: three dimensions; a batch of 1 goes with any.
        oshape: TVM's; the shape follows from the tensors.
        out_dtype: what is returned; ``tensor_a``'s by default. Half precision sums in float32.
        transpose_a: ``tensor_a`` is (B, K, N).
        transpose_b: ``tensor_b`` is (B, M, K), or (B, K, M) if not.

    Raises:
        ArgumentError: the shapes do not fit.
    """
    a, b = tensor_a, tensor_b
    request = f"batch_matmul({a}, {b}, transpose_a={transpose_a}, transpose_b={transpose_b})"
    _check_ranks(a, b, 3, request)
    n, k = reversed(a.shape[1:]) if transpose_a else a.shape[1:]
    k2, m = reversed(b.shape[1:]) if transpose_b else b.shape[1:]
    if not k == k2:
        raise ArgumentError(request, f"{k} and {k2} elements are not multiplied")
    (batch,) = broadcast_shape(a.shape[:1], b.shape[:1], request)
    r = reduce_axis((0, k), name="k")
    result = out_dtype or a.dtype

    def element(x: Any, i: Any, j: Any) -> Any:
        p, q = (const(0) if is_one(t.shape[0]) else x for t in (a, b))
        left = a[p, r, i] if transpose_a else a[p, i, r]
        right = b[q, j, r] if transpose_b else b[q, r, j]
        return sum_of_products(result, left, right, r)

    out = compute((batch, n, m), element, "T_batch_matmul", "batch_matmul")
    return stored(out, result)


def _check_ranks(a: Tensor, b: Tensor, rank: int, request: str) -> None:
    if a.ndim != rank or b.ndim != rank:
        many = "two" if rank == 2 else "three"
        raise ArgumentError(request, f"both must have {many} dimensions")


def bias_add(data: Tensor, bias: Tensor, axis: int = 1) -> Tensor:
    """``data`` plus ``bias`` (one dimension) along ``axis``.

    Raises:
        ArgumentError: the bias has another number of dimensions, or does not fit.
    """
    request = f"bias_add({data}, {bias}, axis={axis})"
    k = one_axis(axis, data.ndim, request)
    if bias.ndim != 1:
        raise ArgumentError(request, f"the bias has {bias.ndim} dimensions, not 1")
    if k == data.ndim - 1:
        return add(data, bias)
    return add(data, expand_dims(bias, 1, data.ndim - 1 - k))


def flatten(data: Tensor) -> Tensor:
    """All axes but the first as one: (N, A, B, ...) becomes (N, A * B * ...)."""
    return reshape(data, (data.shape[0], product(data.shape[1:])))
