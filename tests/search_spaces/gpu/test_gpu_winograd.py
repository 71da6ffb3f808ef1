"""Winograd's algorithm for GPUs: both layouts, edge tiles, float16, when it is chosen."""

import numpy as np
import pytest
from gpu_checks import TARGET, check, configs_of, convolution

import whet
from whet.search_spaces.operators.conv_arguments import conv_shape
from whet.search_spaces.rules.gpu.conv.winograd import Winograd, winograds

_SHAPES = {
    "tiles beyond the edge": ((2, 16, 7, 9, 24, 3, 3, 1, 1), ("bias", "relu"), "float32"),
    "odd channels": ((1, 17, 8, 8, 19, 3, 3, 1, (0, 1, 2, 1)), ("residual",), "float32"),
    "one pixel": ((1, 16, 1, 1, 16, 3, 3, 1, 1), (), "float32"),
    "float16": ((1, 16, 6, 8, 16, 3, 3, 1, 1), ("bias",), "float16"),
    "parts of the sum": ((1, 512, 4, 4, 16, 3, 3, 1, 1), (), "float32"),
}
CASES = {
    f"{layout} {which}": convolution(f"conv2d_{layout}", args, epilogue, dtype)
    for layout in ("nchw", "nhwc")
    for which, (args, epilogue, dtype) in _SHAPES.items()
}
_ALGORITHMS = ("winograd2", "winograd4")


@pytest.mark.gpu_matrix(2)
@pytest.mark.parametrize("algorithm", _ALGORITHMS)
@pytest.mark.parametrize("which", CASES)
def test_in_the_emulator(which, algorithm, gpu_full):
    check(CASES[which], configs_of(CASES[which], 2, {"algorithm": algorithm})[-1], full=gpu_full)


@pytest.mark.gpu_matrix(2)
@pytest.mark.parametrize("algorithm", _ALGORITHMS)
@pytest.mark.parametrize("which", CASES)
def test_step_by_step(which, algorithm):
    check(CASES[which], configs_of(CASES[which], 1, {"algorithm": algorithm})[0], "cpu")


def test_parts_of_the_sum_are_added_before_the_inverse():
    case = CASES["nchw parts of the sum"]
    (config, *_) = configs_of(case, 8, {"algorithm": "winograd4", "split_k": 2})
    check(case, config, "cpu")


def _shape(**changes):
    given = {
        "layout": "NCHW", "batch": 16, "ci": 64, "image": (56, 56), "co": 64, "window": (3, 3),
        "strides": 1, "padding": 1, "dilation": 1, "groups": 1, **changes,
    }  # fmt: skip
    return conv_shape("conv", **given)


def test_what_is_worth_a_try():
    assert [w.name for w in winograds(_shape())] == list(_ALGORITHMS)
    for changes in (
        {"window": (3, 1)},
        {"strides": 2},
        {"dilation": 2},
        {"groups": 2},
        {"ci": 3},
        {"co": 8},
        {"batch": 0},
    ):
        assert winograds(_shape(**changes)) == []


def test_what_lies_between_kernels_has_at_most_2_gib():
    large = {"batch": 64, "image": (224, 224)}
    assert [w.name for w in winograds(_shape(**large))] == ["winograd4"]
    assert Winograd(_shape(**large), 2).scratch_bytes == 16 * 64 * 64 * 112 * 112 * 4
    assert winograds(_shape(batch=256, image=(224, 224))) == []


def test_tiles_of_an_image():
    w = Winograd(_shape(image=(14, 13)), 4)
    assert (w.across, w.plane, w.tiles) == (6, (4, 4), 16 * 16)
    assert (w.gemm_shape.lead, w.gemm_shape.rows, w.gemm_shape.columns) == (36, 64, 256)
    last = Winograd(_shape(layout="NHWC", image=(14, 13)), 2)
    assert (last.gemm_shape.rows, last.gemm_shape.columns) == (16 * 7 * 7, 64)


@pytest.mark.parametrize("which", ("conv2d_nchw", "conv2d_nhwc"))
def test_a_default_where_it_saves_time(which):
    def default(*sizes):
        space = whet.create_task(which, args=sizes, target=TARGET).config_space
        return space.default["algorithm"].val

    assert default(16, 64, 56, 56, 64, 3, 3, 1, 1) == "winograd4"
    assert default(16, 512, 7, 7, 512, 3, 3, 1, 1) == "winograd4"
    assert not default(1, 32, 8, 8, 32, 3, 3, 1, 1).startswith("winograd")
    assert default(16, 256, 56, 56, 64, 1, 1) == "implicit"


def test_errors_are_within_what_a_measurement_admits():
    case = convolution("conv2d_nchw", (1, 128, 8, 8, 16, 3, 3, 1, 1))
    config = configs_of(case, 1, {"algorithm": "winograd4"})[0]
    task = whet.create_task(case.name, args=case.args, target=TARGET)
    s, tensors = task.instantiate(config)
    rng = np.random.default_rng(0)
    x, w = (rng.uniform(-1, 1, [int(d) for d in t.shape]).astype("float32") for t in tensors[:2])
    out = np.full((1, 16, 8, 8), np.nan, "float32")
    whet.build(s, tensors, "llvm")(x, w, out)
    right = case.reference(x.astype("float64"), w.astype("float64"))
    bound = 1e-4 * np.abs(right) + 1e-4 * np.sqrt(np.mean(right**2))
    assert np.all(np.abs(out - right) < 0.5 * bound)
