"""Convolutions with the channels first, of rows, images and volumes, and transposed ones."""

from __future__ import annotations

import re

import numpy as np
import pytest
from cpu_conv_checks import check
from cpu_gemm_checks import built, drawn
from test_cpu_conv_last import CASES
from transposed import transposed

import whet


@pytest.mark.parametrize("case", CASES, ids=str)
def test_nchw(case):
    check("conv2d_nchw", case, packed=len(case) % 2 == 0, count=2)


def test_nchw_algorithms():
    case = (1, 20, 9, 9, 24, 3, 3, 1, 1)
    for algorithm in ("direct", "im2col", "channels_last", "winograd2", "winograd4"):
        check("conv2d_nchw", case, algorithm=algorithm, count=1)


@pytest.mark.parametrize("threads", [1, 2])
def test_strided_points_are_picked_first(threads):
    """Of odd images, padded ones, and ones whose picked pixels fill vectors."""
    more = {"target": f"llvm -num_threads={threads}", "algorithm": "im2col", "count": 4}
    check("conv2d_nchw", (2, 5, 13, 7, 9, 1, 1, (3, 2), 1), epilogue=("bias", "relu"), **more)
    check("conv2d_nchw", (1, 4, 16, 15, 6, 1, 1, 2), packed=True, **more)
    check("conv1d_ncw", (1, 6, 33, 5, 1, 2), **more)


def test_picked_pixels_are_whole_vectors():
    """No pixel is gathered lane by lane: its rows are loads and shuffles."""
    target = "llvm -mcpu=x86-64-v3 -mtriple=x86_64-unknown-linux-gnu -num_threads=1"
    args = (1, 4, 32, 32, 8, 1, 1, 2)
    task = whet.create_task(
        "conv2d_nchw", args=(*args, 0, 1, 1, "float32", (), True), target=target
    )
    wanted = {"algorithm": "im2col", "columns.pick": True, "columns.copy": False}
    config = task.config_space.nearest(wanted)
    assert {name: config[name].val for name in wanted} == wanted
    f, _ = built(task, config)
    text = f.get_source("ll")
    lanes = re.findall(r"insertelement <8 x float> .*, i64 (\d+)", text)
    assert "<8 x i32> <i32 0, i32 2, i32 4" in text and set(lanes) <= {"0"}  # 0: a broadcast


def test_knobs_of_other_algorithms_are_said_in_words():
    case = (1, 20, 9, 9, 24, 3, 3, 1, 1)
    said = str(whet.create_task("conv2d_nchw", args=case, target="llvm").config_space)
    assert "\n  where tile varies only with algorithm=direct\n" in said
    assert "\n  where winograd.tile varies only with algorithm=winograd2 or winograd4\n" in said
    assert "functools" not in said and " at 0x" not in said and ".py" not in said


def test_nchw_strides_of_both_ways():
    check("conv2d_nchw", (1, 3, 15, 40, 6, 3, 3, (1, 2), 1), packed=True, count=6)
    check("conv2d_nchw", (1, 2, 9, 50, 4, 3, 5, 3, (1, 0), (1, 2)), packed=True, count=4)


@pytest.mark.parametrize("epilogue", [("bias", "relu"), ("residual", "gelu")], ids=str)
def test_nchw_epilogues(epilogue):
    check("conv2d_nchw", (1, 6, 7, 5, 10, 3, 3, 2, 1), epilogue=epilogue, packed=True, count=3)
    check("conv2d_nchw", (1, 16, 6, 6, 16, 3, 3, 1, 1), epilogue=epilogue, count=1)


def test_nchw_other_widths_and_threads():
    case = (2, 7, 8, 19, 11, 3, 3, 2, 1)
    for target in ("llvm -mcpu=x86-64", "llvm -num-threads=2"):
        check("conv2d_nchw", case, target=target, packed=True, count=2)
        check("conv2d_nchw", case, target=target, count=1)


@pytest.mark.parametrize(
    "case",
    [
        (2, 3, 17, 5, 3, 1, 1),
        (1, 8, 30, 24, 5, 2, 2),
        (1, 6, 23, 9, 3, 3, (1, 2), 2, 3),
        (1, 16, 50, 20, 1),
        (1, 1, 1, 1, 1),
    ],
    ids=str,
)
def test_ncw(case):
    check("conv1d_ncw", case, epilogue=("bias", "relu"), packed=True, count=3)


@pytest.mark.parametrize(
    "case",
    [
        (1, 3, 5, 6, 7, 4, 3, 3, 3, 1, 1),
        (2, 4, 4, 9, 8, 6, 2, 3, 1, (1, 2, 1), (0, 1, 0), 1, 2),
        (1, 2, 5, 5, 5, 17, 1, 1, 1),
        (1, 5, 6, 7, 9, 8, 3, 2, 2, 2, (1, 0, 2, 0, 1, 1), (1, 2, 1)),
    ],
    ids=str,
)
def test_ncdhw(case):
    check("conv3d_ncdhw", case, epilogue=("bias", "relu"), packed=True, count=3)


@pytest.mark.parametrize(
    ("sizes", "strides", "padding", "more"),
    [
        ((1, 3, 5, 6, 4, 3, 3), (2, 2), (1, 1), (1, 1)),
        ((2, 4, 4, 5, 3, 4, 4), (2, 2), (1, 1), (0, 0)),
        ((1, 5, 3, 3, 2, 3, 2), (3, 1), (1, 0), (1, 0)),
        ((1, 2, 1, 1, 1, 1, 1), (1, 1), (0, 0), (0, 0)),
        ((1, 8, 7, 7, 16, 5, 5), (1, 1), (2, 2), (0, 0)),
        ((1, 3, 6, 5, 9, 2, 3), (3, 3), (0, 0), (2, 2)),
        ((1, 2, 4, 4, 3, 5, 5), (2, 2), (4, 4), (0, 0)),
        ((1, 4, 8, 8, 4, 1, 1), (1, 1), (1, 1), (0, 0)),
        ((1, 2, 9, 7, 3, 3, 2), (2, 1), (5, 3), (1, 0)),
        ((1, 2, 6, 8, 5, 2, 4), (3, 2), (4, 1), (2, 1)),
    ],
    ids=str,
)
@pytest.mark.parametrize("packed", [False, True])
def test_transposed(sizes, strides, padding, more, packed):
    n, ci, h, wide, co, kh, kw = sizes
    args = (*sizes, strides, padding, more, "float32", ("bias",), packed)
    task = whet.create_task("conv2d_transpose_nchw", args=args, target="llvm -num-threads=1")
    assert task.flop == 2 * n * ci * h * wide * co * kh * kw
    rng = np.random.default_rng(3)
    for config in drawn(task, 2):
        f, tensors = built(task, config)
        x = rng.standard_normal((n, ci, h, wide), dtype=np.float32)
        w = rng.standard_normal((ci, co, kh, kw), dtype=np.float32)
        bias = rng.standard_normal(co, dtype=np.float32)
        exact = transposed(x.astype(np.float64), w.astype(np.float64), strides, padding, more)
        right = exact + bias[None, :, None, None]
        out = np.full([int(d) for d in tensors[-1].shape], np.nan, np.float32)
        f(x, f.pack_weights(w) if packed else w, bias, out)
        np.testing.assert_allclose(out, right, rtol=1e-5, atol=1e-4, err_msg=str(config))


@pytest.mark.parametrize(
    ("shapes", "args"),
    [
        (((0, 3, 5, 5), (4, 3, 3, 3), (0, 4, 5, 5)), (0, 3, 5, 5, 4, 3, 3, 1, 1)),
        (((1, 0, 5, 5), (4, 0, 3, 3), (1, 4, 5, 5)), (1, 0, 5, 5, 4, 3, 3, 1, 1)),
        (((1, 3, 5, 5), (0, 3, 3, 3), (1, 0, 5, 5)), (1, 3, 5, 5, 0, 3, 3, 1, 1)),
    ],
    ids=str,
)
def test_nothing_to_sum_gives_zeros(shapes, args):
    f = whet.build(whet.create_task("conv2d_nchw", args=args))
    x, w, y = (np.full(s, v, np.float32) for s, v in zip(shapes, (1, 1, np.nan)))
    f(x, w, y)
    np.testing.assert_array_equal(y, np.zeros_like(y))


@pytest.mark.parametrize(
    ("operator", "args"),
    [
        ("conv2d_nchw", (1, 6, 8, 8, 0, 3, 3, 1, 1, 1, 2)),
        ("conv2d_nhwc", (1, 6, 8, 8, 0, 3, 3, 1, 1, 1, 2)),
        ("conv2d_nchwc", (1, 6, 8, 8, 0, 3, 3, 1, 1, 1, 2, "float32", (), False, 3)),
        ("conv1d_ncw", (1, 4, 6, 0, 3, 1, 1, 1, 2)),
        ("conv3d_ncdhw", (1, 4, 5, 9, 6, 0, 4, 4, 1, 1, (0, 1, 0), 1, 2, "float32", (), True)),
    ],
)
def test_groups_without_output_channels_give_an_empty_result(operator, args):
    task = whet.create_task(operator, args=args, target="llvm -num-threads=1")
    for config in drawn(task, 3):
        f, tensors = built(task, config)
        x, w, y = (np.ones([int(d) for d in t.shape], np.float32) for t in tensors)
        f(x, f.pack_weights(w) if args[-1] is True else w, y)
        assert y.size == 0 and task.flop == 0
