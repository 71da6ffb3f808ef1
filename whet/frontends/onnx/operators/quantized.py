"""Quantised operators, by integers and floats of the graph."""

from __future__ import annotations

import numpy as np

from whet.compiler.graph import Value
from whet.frontends.onnx.operators.networks import convolution
from whet.frontends.onnx.operators.node import OnnxNode, Translate
from whet.frontends.onnx.operators.shapes import reshaped


def _along(n: OnnxNode, v: Value, rank: int, axis: int) -> Value:
    """One number, or one for each place of an axis, as an operand of this rank."""
    if v.size == 1 and len(v.shape) <= 1:
        return reshaped(n, v, ())
    if len(v.shape) != 1:
        raise n.refused(f"scales of shape {list(v.shape)}, in blocks, are not supported")
    return reshaped(n, v, [v.shape[0] if k == axis else 1 for k in range(rank)])


def _axis(n: OnnxNode, x: Value, scale: Value) -> int:
    """The axis along which scales differ; any where there is one scale."""
    many = len(scale.shape) == 1 and scale.size > 1
    return n.axis(n.attr("axis", 1), len(x.shape)) if many else 0


def _quantize(n: OnnxNode) -> Value:
    x, scale = n.input(0), n.input(1)
    axis = (
        n.axis(n.attr("axis", 1), len(x.shape)) if len(scale.shape) == 1 and scale.size > 1 else 0
    )
    zero = n.input(2) if n.has(2) else n.constant(0, "uint8")
    return quantized(n, x, scale, zero, axis)


def quantized(n: OnnxNode, x: Value, scale: Value, zero: Value, axis: int) -> Value:
    """x / scale, rounded to even, plus the zero point, within the type's range."""
    if zero.dtype not in ("int8", "uint8", "int16", "uint16"):
        raise n.refused(f"the quantised type {zero.dtype} is not supported")
    rank = len(x.shape)
    wide = x if x.dtype == "float32" else n.add("cast", [x], dtype="float32")
    by = _along(n, scale, rank, axis)
    by = by if by.dtype == "float32" else n.add("cast", [by], dtype="float32")
    moved = n.add("cast", [_along(n, zero, rank, axis)], dtype="float32")
    rounded = n.add("round", [n.add("divide", [wide, by])])
    info = np.iinfo(zero.dtype)
    bounded = n.add(
        "clip", [n.add("add", [rounded, moved])], low=float(info.min), high=float(info.max)
    )
    return n.add("cast", [bounded], dtype=zero.dtype)


def _dequantize(n: OnnxNode) -> Value:
    x, scale = n.input(0), n.input(1)
    rank = len(x.shape)
    axis = _axis(n, x, scale)
    wide = n.add("cast", [x], dtype="int32")
    if n.has(2):
        zero = n.add("cast", [_along(n, n.input(2), rank, axis)], dtype="int32")
        wide = n.add("subtract", [wide, zero])
    by = _along(n, scale, rank, axis)
    return n.add("multiply", [n.add("cast", [wide], dtype=by.dtype), by])


def _less_zero(n: OnnxNode, k: int, zero: int, axis: int) -> Value:
    """Operand k as int32, less its zero point."""
    x = n.input(k)
    wide = n.add("cast", [x], dtype="int32")
    if not n.has(zero):
        return wide
    point = n.add("cast", [_along(n, n.input(zero), len(x.shape), axis)], dtype="int32")
    return n.add("subtract", [wide, point])


def _matmul_integer(n: OnnxNode) -> Value:
    rank_a, rank_b = len(n.input(0).shape), len(n.input(1).shape)
    a, b = _less_zero(n, 0, 2, max(rank_a - 2, 0)), _less_zero(n, 1, 3, rank_b - 1)
    return n.add("matmul", [a, b])


def _requantized(
    n: OnnxNode, sums: Value, scales: tuple[int, int, int], zero: int, axis: int
) -> Value:
    """Sums of products, in the result's scale."""
    rank = len(sums.shape)
    a, b, y = (_along(n, n.input(k), rank, axis) for k in scales)
    factor = n.add("multiply", [a, b])
    wide = n.add("multiply", [n.add("cast", [sums], dtype="float32"), _float(n, factor)])
    return quantized(n, wide, _float(n, y), n.input(zero), axis)


def _float(n: OnnxNode, v: Value) -> Value:
    return v if v.dtype == "float32" else n.add("cast", [v], dtype="float32")


def _qlinear_matmul(n: OnnxNode) -> Value:
    rank_a, rank_b = len(n.input(0).shape), len(n.input(3).shape)
    a, b = _less_zero(n, 0, 2, max(rank_a - 2, 0)), _less_zero(n, 3, 5, rank_b - 1)
    sums = n.add("matmul", [a, b])
    return _requantized(n, sums, (1, 4, 6), 7, len(sums.shape) - 1)


def _conv_integer(n: OnnxNode) -> Value:
    return convolution(n, [_less_zero(n, 0, 2, 1), _less_zero(n, 1, 3, 0)])


def _qlinear_conv(n: OnnxNode) -> Value:
    x, w = _less_zero(n, 0, 2, 1), _less_zero(n, 3, 5, 0)
    bias = n.input(8) if n.has(8) else None
    return _requantized(n, convolution(n, [x, w, bias]), (1, 4, 6), 7, 1)


TABLE: dict[str, Translate] = {
    "ConvInteger": _conv_integer,
    "DequantizeLinear": _dequantize,
    "MatMulInteger": _matmul_integer,
    "QLinearConv": _qlinear_conv,
    "QLinearMatMul": _qlinear_matmul,
    "QuantizeLinear": _quantize,
}
