"""Convolutions for GPUs: both layouts, both algorithms, groups, dilation, depthwise, float16."""

import pytest
from gpu_checks import TARGET, check, configs_of, convolution, packed

import whet
from whet.compiler.errors import ArgumentError
from whet.search_spaces.operators.conv_arguments import conv_shape
from whet.search_spaces.rules.gpu.conv.rectangle import Rectangle

_SHAPES = {
    "pointwise": ((1, 8, 6, 6, 16, 1, 1), (), "float32"),
    "3x3": ((2, 16, 7, 9, 24, 3, 3, 1, 1), ("bias", "relu"), "float32"),
    "first layer": ((1, 3, 13, 11, 20, 5, 5, 2, 2), (), "float32"),
    "groups": ((2, 8, 8, 6, 32, 3, 3, 2, 1, 1, 2), (), "float32"),
    "odd groups": ((1, 6, 7, 6, 10, 3, 3, 1, 1, 1, 2), (), "float32"),
    "odd float16": ((2, 3, 5, 5, 2, 2, 3, (1, 2), (0, 1, 1, 2), (2, 1)), (), "float16"),
    "many channels": ((1, 260, 4, 4, 8, 2, 2, 1, (1, 0, 0, 0)), ("residual",), "float32"),
    "float16": ((1, 16, 6, 8, 16, 3, 3, 1, 1), ("bias",), "float16"),
    "far apart": ((2, 3, 9, 9, 17, 2, 3, (1, 3), (0, 1, 1, 2), (2, 2)), (), "float32"),
}
_DEPTHWISE = {
    "3x3": ((2, 8, 13, 11, 3, 3, 1, 1), ("bias", "relu"), "float32"),
    "odd": ((1, 5, 9, 10, 5, 3, 2, (0, 1, 2, 1)), (), "float32"),
    "multiplier": ((1, 3, 9, 10, 3, 3, 1, 2, 2, 2), (), "float32"),
    "float16": ((1, 8, 9, 10, 3, 3, 1, 1), (), "float16"),
    "7x7": ((1, 4, 9, 8, 7, 7, 1, 3), (), "float32"),
    "11x11": ((1, 4, 13, 12, 11, 11, (1, 2), 5), (), "float32"),
    "large": ((1, 4, 41, 38, 37, 37, 2, 1), (), "float32"),
    "far apart": ((1, 4, 26, 25, 3, 3, 1, 1, 12), (), "float32"),
}
CASES = {
    f"{layout} {which}": convolution(f"conv2d_{layout}", args, epilogue, dtype)
    for layout in ("nchw", "nhwc")
    for which, (args, epilogue, dtype) in _SHAPES.items()
}
DEPTHWISE = {
    f"{layout} {which}": convolution(f"depthwise_conv2d_{layout}", args, epilogue, dtype)
    for layout in ("nchw", "nhwc")
    for which, (args, epilogue, dtype) in _DEPTHWISE.items()
}
EVERY = {**CASES, **{f"depthwise {k}": c for k, c in DEPTHWISE.items()}}


@pytest.mark.gpu_matrix(4)
@pytest.mark.parametrize("which", EVERY)
def test_in_the_emulator(which, gpu_full):
    for config in configs_of(EVERY[which], 1):
        check(EVERY[which], config, full=gpu_full)


@pytest.mark.gpu_matrix(6)
@pytest.mark.parametrize("which", EVERY)
def test_step_by_step(which):
    for config in configs_of(EVERY[which], 2):
        check(EVERY[which], config, "cpu")


@pytest.mark.gpu_matrix(2)
@pytest.mark.parametrize("algorithm", ("implicit", "direct"))
@pytest.mark.parametrize(
    "which", ("nchw 3x3", "nhwc 3x3", "nchw groups", "nhwc many channels", "nchw far apart")
)
def test_each_algorithm_in_the_emulator(which, algorithm, gpu_full):
    config = configs_of(CASES[which], 2, {"algorithm": algorithm})[-1]
    check(CASES[which], config, full=gpu_full)


def test_knobs_that_an_algorithm_does_not_read_have_one_choice():
    case = CASES["nchw 3x3"]
    for config in configs_of(case, 20, {"algorithm": "direct"}):
        assert not config["double_buffer"].val and config["split_k"].val == 1
    for config in configs_of(case, 20, {"algorithm": "implicit"}):
        assert config["channels"].val == 4


def _rectangle(*sizes):
    task = whet.create_task("conv2d_nchw", args=sizes, target=TARGET)
    default = task.config_space.default
    assert default["algorithm"].val == "direct"
    return Rectangle.of(default)


def test_a_first_layer_reads_each_column_of_pixels_once():
    sizes = (16, 3, 224, 224, 64, 7, 7, 2, 3)
    shape = conv_shape("conv", "NCHW", 16, 3, (224, 224), 64, (7, 7), 2, 3)
    r = _rectangle(*sizes)
    assert r.keeps_columns(shape) and shape.ci % r.channels == 0
    assert r.rows_read(shape) == (r.own_rows - 1) * 2 + 7
    assert r.columns_read(shape) == (2, r.x + 3)  # even and odd columns apart
    _rectangle(16, 3, 224, 224, 64, 3, 3, 1, 1)


def test_a_window_too_large_for_shared_memory_leaves_the_other_algorithm():
    case = convolution("conv2d_nchw", (1, 1, 65, 65, 2, 64, 64))
    configs = configs_of(case, 5)
    assert {config["algorithm"].val for config in configs} == {"implicit"}
    check(case, configs[0], "cpu")
    task = whet.create_task("conv2d_nchw", args=(1, 16, 70, 70, 4, 64, 64), target=TARGET)
    assert task.config_space.default["tile"].val[0] == 8  # chosen for it: rows for 4 channels
    # neither the direct algorithm nor a GEMM: another rule's
    other = convolution("conv2d_nchw", (1, 2, 65, 65, 2, 64, 64, 1, 0, 1, 2))
    check(other, configs_of(other, 0)[0], "cpu")


def test_what_cannot_be():
    with pytest.raises(ArgumentError, match="2 groups do not divide 3 input"):
        _ = whet.create_task(
            "conv2d_nchw", args=(1, 3, 8, 8, 4, 3, 3, 1, 1, 1, 2), target=TARGET
        ).config_space


@pytest.mark.gpu_matrix(1)
@pytest.mark.parametrize("which", ("nchw 3x3", "nhwc multiplier", "nchw float16"))
def test_depthwise_weights_are_packed_ahead(which, gpu_full):
    case = packed(DEPTHWISE[which])
    for config in configs_of(case, 1):
        check(case, config, full=gpu_full)


def test_no_pixels_and_no_channels():
    for args in ((0, 3, 5, 5, 2, 3, 3), (1, 0, 5, 5, 2, 3, 3)):
        empty = convolution("conv2d_nchw", args, ("bias",))
        check(empty, configs_of(empty, 0)[0])
