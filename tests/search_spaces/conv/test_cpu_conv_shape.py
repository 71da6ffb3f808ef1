"""Arguments that a convolution's template takes and refuses; one workload for several spellings."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import whet
from whet.compiler.errors import ArgumentError
from whet.search_spaces.operators.conv_arguments import conv_shape
from whet.search_spaces.template import get_template

GOOD = {"N": 1, "CI": 4, "H": 8, "W": 8, "CO": 6, "KH": 3, "KW": 3}


def _task(
    operator="conv2d_nhwc", strides=1, padding=0, dilation=1, groups=1, dtype="float32", **sizes
):
    args = (*{**GOOD, **sizes}.values(), strides, padding, dilation, groups, dtype)
    return whet.create_task(operator, args=args, target="llvm").config_space


@pytest.mark.parametrize("operator", ["conv2d_nhwc", "conv2d_nchw", "conv2d_nchwc"])
@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (
            {"padding": -1},
            r"conv2d_\w+\(1, 4, .*: padding is -1; it must be an int, at least 0\n  give",
        ),
        ({"padding": (1, 2, 3)}, r"padding has 3 numbers\n  give one number, 2, or 4"),
        ({"strides": 0}, r"strides is 0; it must be an int, at least 1"),
        ({"dilation": (1, 0)}, r"dilation is 0; it must be an int, at least 1"),
        ({"groups": 3}, r"3 groups do not divide 4 input and 6 output channels"),
        ({"groups": 0}, r"groups is 0; it must be an int, at least 1"),
        ({"KH": 9}, r"the 9x3 window is larger than the padded image, 8x8"),
        ({"dilation": 4}, r"the 9x9 window is larger than the padded image, 8x8"),
        ({"CI": -4}, r"CI is -4; it must be an int, at least 0"),
        ({"KW": 0}, r"KW is 0; it must be an int, at least 1"),
        ({"dtype": "int16"}, r"dtype 'int16' is not one of float32, float64"),
        ({"H": 2.5}, r"H is 2.5; it must be an int"),
        ({"H": "5"}, r"H is '5'; it must be an int, at least 0\n  give H as 5"),
        ({"N": True}, r"N is True; it must be an int, at least 0\n  give N as 1"),
    ],
    ids=str,
)
def test_errors(operator, wrong, says):
    with pytest.raises(ArgumentError, match=says):
        _task(operator, **wrong)


def test_blocks_must_divide_the_channels():
    says = r"blocks of 16 channels do not divide the 4 input and 6 output channels"
    with pytest.raises(ArgumentError, match=says):
        _task("conv2d_nchwc")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((1, 4, 8, 8, 6, 3, 3, 2, -1), r"conv2d_transpose_nchw\(1, 4, .*: padding is -1"),
        ((1, 4, "5", 8, 6, 3, 3), r"H is '5'; it must be an int, at least 0\n  give H as 5"),
        ((1, 4, 8, 8, 6, 0, 3), r"conv2d_transpose_nchw\(1, 4, 8, 8, 6, 0, 3, .*: KH is 0;"),
        ((1, 4, 8, 8, -6, 3, 3), r"conv2d_transpose_nchw\(1, 4, 8, 8, -6, 3, 3, .*: CO is -6;"),
        ((1, 4, 8, 8, 6, 3, 3, 1, (1, 1, 1, 1)), r"padding has 4 numbers\n  give one, or 2"),
        ((1, 4, 8, 8, 6, 3, 3, 1, 0, 0, "int8"), r"dtype 'int8' is not one of float32, float64"),
        ((1, 4, 8, 8, 6, 3, 3, 1, 0, 0, "float32", (), 3), r"packed is 3; it must be True"),
        ((1, 4, 8, 8, 6, 3, 3, 2, 1, 2), r"output padding 2 is not below the stride 2"),
        ((1, 4, 1, 1, 6, 3, 3, 2, 2), r"the result would be -1x-1"),
    ],
    ids=str,
)
def test_errors_of_the_transposed_one(args, says):
    with pytest.raises(ArgumentError, match=says):
        _ = whet.create_task("conv2d_transpose_nchw", args=args, target="llvm").config_space


@pytest.mark.parametrize(
    "operator",
    ["conv2d_nhwc", "conv2d_nchw", "conv2d_nchwc", "conv1d_ncw", "conv3d_ncdhw"]
    + ["depthwise_conv2d_nchw", "depthwise_conv2d_nhwc", "conv2d_transpose_nchw"]
    + ["matmul", "dense", "batch_matmul", "matvec"],
)
def test_each_argument_is_refused_by_its_name(operator):
    """The names that errors say are those of the template's signature."""
    template = get_template(operator)
    names = list(inspect.signature(template.func).parameters)
    good = [16] * len(names)
    for k, name in enumerate(names):
        good[k] = {"dtype": "float32", "epilogue": ()}.get(name, 1 if name.islower() else 16)
    template.workload(*good)
    for k, name in enumerate(names):
        wrong = {"dtype": "int16", "epilogue": "swish"}.get(name, "yes")
        with pytest.raises(
            ArgumentError, match=rf"{name} is 'yes'|dtype 'int16' is|an epilogue is"
        ):
            template.workload(*good[:k], wrong, *good[k + 1 :])


@pytest.mark.parametrize("more", [(), (2, 1, 1, "float32", ("bias",), True)], ids=str)
def test_a_transposed_convolution_without_output_channels(more):
    task = whet.create_task("conv2d_transpose_nchw", args=(1, 2, 5, 5, 0, 3, 3, *more))
    f = whet.build(task)
    data, weight = np.ones((1, 2, 5, 5), "float32"), np.ones((2, 0, 3, 3), "float32")
    side = 10 if more else 7
    out = np.empty((1, 0, side, side), "float32")
    bias = [np.empty(0, "float32")] if more else []
    f(data, f.pack_weights(weight) if more else weight, *bias, out)
    assert task.flop == 0


def test_other_ranks_say_how_many_numbers():
    with pytest.raises(ArgumentError, match=r"strides has 2 numbers\n  give one$"):
        _ = whet.create_task("conv1d_ncw", args=(1, 2, 9, 3, 3, (1, 1))).config_space
    with pytest.raises(ArgumentError, match=r"padding has 2 numbers\n  give one number, 3, or 6"):
        _ = whet.create_task(
            "conv3d_ncdhw", args=(1, 2, 5, 5, 5, 3, 3, 3, 3, 1, (1, 1))
        ).config_space


def test_spellings_of_one_workload():
    def key(*more):
        args = (*GOOD.values(), *more)
        return whet.create_task("conv2d_nhwc", args=args, target="llvm").workload.key

    assert key(2, 1) == key((2, 2), (1, 1)) == key([2, 2], (1, 1, 1, 1), 1)
    assert key(2, 1) != key(2, (1, 1, 1, 2))
    more = (1, 0, 1, 1, "float32")
    assert key(*more, (), 1) == key(*more, (), True) == key(1, 0, 1, 1, "float", None, True)
    assert key(*more, (), 1) != key(*more, (), 0) == key(*more)
    assert key(*more, [("clip", 0, 6)]) == key(*more, (["clip", 0.0, 6.0],))


def test_a_shape_knows_its_sizes():
    shape = conv_shape(
        "conv2d_nhwc", "NHWC", 2, 6, (9, 8), 4, (3, 2), (2, 1), (1, 0, 2, 3), (1, 2), 2
    )
    assert (shape.reach, shape.padded, shape.out) == ((3, 3), (12, 11), (5, 9))
    assert shape.data_shape == (2, 9, 8, 6) and shape.result_shape == (2, 5, 9, 4)
    assert shape.weight_shape == (3, 2, 3, 4) and shape.channel_axis == 3
    assert shape.flop == 2 * (2 * 4 * 5 * 9) * 3 * 6
    assert not shape.is_pointwise and not shape.is_empty and shape.is_padded


def test_the_template_counts_the_direct_algorithm():
    task = whet.create_task("conv2d_nhwc", args=(1, 64, 28, 28, 64, 3, 3, 1, 1), target="llvm")
    assert task.config_space.default["algorithm"].val.startswith("winograd")
    assert task.flop == 2 * 64 * 784 * 64 * 9


def test_knobs_that_an_algorithm_does_not_read_are_pinned():
    task = whet.create_task(
        "conv2d_nhwc", args=(1, 16, 8, 8, 32, 3, 3, 1, 1), target="llvm -num_threads=1"
    )
    space = task.config_space
    seen = {c["algorithm"].val: set() for c in space}
    for config in space:
        name = config["algorithm"].val
        own = {n for n in space.knobs if n.startswith("winograd.") == name.startswith("winograd")}
        idle = tuple(config[n].val for n in space.knobs if n not in own and n != "algorithm")
        seen[name].add(idle)
    assert set(seen) == {"direct", "im2col", "winograd2", "winograd4"}
    assert all(len(others) == 1 for others in seen.values())
