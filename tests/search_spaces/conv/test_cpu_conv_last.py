"""Convolutions with the channels last, NHWC and NCHWc: right under drawn configs."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_conv_checks import check

import whet

# N, CI, H, W, CO, KH, KW, strides, padding, dilation, groups
CASES = [
    (1, 3, 9, 8, 5, 3, 3, 1, 1),
    (2, 5, 7, 9, 17, 3, 2, 2, (1, 0)),
    (1, 8, 7, 7, 20, 1, 1),
    (1, 8, 7, 6, 20, 1, 1, 2),
    (1, 4, 11, 10, 9, 3, 3, 1, (0, 1, 2, 3), 2),
    (1, 6, 8, 9, 7, 1, 3, (1, 3), (0, 2), (1, 2)),
    (1, 8, 6, 5, 12, 3, 3, 1, 1, 1, 4),
    (2, 6, 5, 5, 6, 3, 3, 2, 1, 2, 6),
    (1, 1, 1, 1, 1, 1, 1),
    (1, 3, 20, 21, 16, 7, 7, 2, 3),
    (3, 2, 5, 4, 3, 5, 4, 3, (2, 3)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_nhwc(case):
    check("conv2d_nhwc", case, packed=len(case) % 2 == 0, count=3)


def test_nhwc_im2col_and_winograd_are_drawn():
    case = (1, 20, 9, 9, 24, 3, 3, 1, 1)
    for algorithm in ("im2col", "winograd2", "winograd4"):
        check("conv2d_nhwc", case, algorithm=algorithm, count=1)


@pytest.mark.parametrize(
    "epilogue",
    [
        ("bias", "relu"),
        ("bias", "residual", "relu"),
        ("silu", ("clip", -0.5, 2.0)),
        (("cast", "float16"),),
    ],
    ids=str,
)
def test_nhwc_epilogues(epilogue):
    check("conv2d_nhwc", (1, 6, 7, 5, 10, 3, 3, 2, 1), epilogue=epilogue, packed=True, count=3)
    check("conv2d_nhwc", (1, 16, 6, 6, 16, 3, 3, 1, 1), epilogue=epilogue, packed=True, count=1)


def test_nhwc_float64():
    check("conv2d_nhwc", (1, 5, 6, 7, 9, 3, 3, 1, 1), dtype="float64", packed=True, count=3)


def test_nhwc_other_widths_and_threads():
    case = (2, 7, 8, 9, 21, 3, 3, 2, 1)
    for target in ("llvm -mcpu=x86-64", "llvm -num-threads=2"):
        check("conv2d_nhwc", case, target=target, packed=True, count=2)
        check("conv2d_nhwc", case, target=target, count=1)


@pytest.mark.parametrize(
    ("case", "block"),
    [
        ((1, 8, 5, 6, 16, 3, 3, 1, 1), 8),
        ((2, 6, 7, 5, 9, 3, 2, 2, 1), 3),
        ((1, 16, 9, 9, 32, 1, 1), 16),
        ((1, 16, 6, 6, 16, 3, 3, 1, 2, 2, 2), 4),
        ((1, 4, 3, 3, 4, 1, 1), 1),
    ],
    ids=str,
)
def test_nchwc(case, block):
    check("conv2d_nchwc", case, block=block, epilogue=("bias", "relu"), packed=True, count=3)


def test_nchwc_without_packing():
    check("conv2d_nchwc", (1, 8, 5, 5, 8, 3, 3, 1, 1), block=4, count=3)


@pytest.mark.parametrize(
    ("shapes", "args"),
    [
        (((0, 5, 5, 3), (3, 3, 3, 4), (0, 5, 5, 4)), (0, 3, 5, 5, 4, 3, 3, 1, 1)),
        (((1, 5, 5, 0), (3, 3, 0, 4), (1, 5, 5, 4)), (1, 0, 5, 5, 4, 3, 3, 1, 1)),
        (((1, 5, 5, 3), (3, 3, 3, 0), (1, 5, 5, 0)), (1, 3, 5, 5, 0, 3, 3, 1, 1)),
        (((1, 0, 5, 2), (3, 3, 2, 4), (1, 2, 7, 4)), (1, 2, 0, 5, 4, 3, 3, 1, 2)),
    ],
    ids=str,
)
def test_nothing_to_sum_gives_zeros(shapes, args):
    f = whet.build(whet.create_task("conv2d_nhwc", args=args))
    x, w, y = (np.full(s, v, np.float32) for s, v in zip(shapes, (1, 1, np.nan)))
    f(x, w, y)
    np.testing.assert_array_equal(y, np.zeros_like(y))
