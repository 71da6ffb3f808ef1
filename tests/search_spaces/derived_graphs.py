"""Small graphs with numpy's answers, for the tests of spaces that are derived from a graph."""

from __future__ import annotations

from collections.abc import Callable

from derived_contractions import (
    Case,
    attention_scores,
    batch_matmul,
    contraction,
    expensive_operand,
    gated_matmul,
    largest_sum,
    looked_up,
    matmul,
)
from derived_convolutions import (
    conv1d,
    conv2d,
    conv2d_nchwc,
    conv2d_nhwc,
    conv2d_transpose,
    conv3d,
    depthwise,
    two_convolutions,
)

CASES: dict[str, Callable[[], Case]] = {
    "matmul": lambda: matmul(33, 40, 70),
    "matmul_small": lambda: matmul(13, 7, 5),
    "matmul_row": lambda: matmul(1, 300, 65),
    "matmul_column": lambda: matmul(65, 300, 1),
    "matmul_one": lambda: matmul(3, 1, 4),
    "matmul_odd": lambda: matmul(101, 257, 63),
    "dense": lambda: matmul(16, 130, 50, turn="B"),
    "matmul_turned": lambda: matmul(37, 29, 41, turn="AB"),
    "matmul_epilogue": lambda: matmul(30, 260, 47, epilogue=True),
    "matmul_gated": lambda: gated_matmul(29, 31, 45),
    "matmul_double": lambda: matmul(31, 33, 35, dtype="float64"),
    "matmul_int": lambda: matmul(31, 140, 35, dtype="int32", turn="A", epilogue=True),
    "batch_matmul": lambda: batch_matmul(3, 17, 19, 23),
    "contraction": lambda: contraction(11, 13, 3, 20),
    "conv2d": lambda: conv2d(1, 5, 13, 15, 9, 3, pad=1),
    "conv2d_batch": lambda: conv2d(2, 4, 9, 14, 12, 3, epilogue=True, pad=1),
    "conv2d_1x1": lambda: conv2d(1, 24, 7, 7, 17, 1),
    "conv2d_strided": lambda: conv2d(1, 6, 15, 15, 16, 3, stride=2, pad=1),
    "conv2d_dilated": lambda: conv2d(1, 3, 17, 19, 8, 3, dilation=2, pad=2),
    "conv2d_grouped": lambda: conv2d(1, 8, 10, 11, 12, 3, groups=4, pad=1),
    "conv2d_double": lambda: conv2d(1, 3, 9, 9, 4, 5, pad=2, dtype="float64"),
    "conv2d_nhwc": lambda: conv2d_nhwc(1, 9, 10, 12, 20, 3, 1),
    "conv2d_nchwc": lambda: conv2d_nchwc(16, 9, 11, 24, 3, 8),
    "depthwise": lambda: depthwise(5, 14, 15, 3),
    "depthwise_strided": lambda: depthwise(4, 15, 15, 5, stride=2),
    "depthwise_nhwc": lambda: depthwise(13, 9, 10, 3, last=True),
    "conv1d": lambda: conv1d(2, 6, 40, 9, 5, stride=2),
    "conv3d": lambda: conv3d(3, 6, 7, 12, 5, 3),
    "conv2d_transpose": lambda: conv2d_transpose(4, 5, 6, 7, 3, 2),
    "largest_sum": lambda: largest_sum(12, 70, 33),
    "expensive_operand": lambda: expensive_operand(20, 30, 40),
    "looked_up": lambda: looked_up(9, 21, 18, 26),
    "attention_scores": lambda: attention_scores(2, 3, 19, 16),
    "two_convolutions": lambda: two_convolutions(6, 11, 13),
}
"""Name -> a graph at a small size."""
