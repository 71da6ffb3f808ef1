"""Templates for GPUs that rules schedule: convolutions of any rank, and scans."""

from functools import partial

import numpy as np
import pytest
from cpu_conv_checks import RANK, convolved
from cpu_gemm_checks import after
from gpu_checks import TARGET, Case, check, configs_of
from test_gpu_tiled import drawn, emulated
from transposed import transposed

import whet
from whet import te
from whet.compiler import topi
from whet.search_spaces.graph.graph_templates import NamedGraph
from whet.search_spaces.operators.arguments import each
from whet.search_spaces.template import get_template
from whet.search_spaces.values.builtin import BUILTIN


def convolution(name, args, epilogue=(), dtype="float32", block=0):
    """A convolution of any rank with the channels first, or in blocks; ``args`` up to groups."""
    rank = RANK[name]
    strides, padding, dilation, groups = args[3 + 2 * rank :]
    wide = isinstance(padding, tuple) and len(padding) == 2 * rank
    both = padding if wide else each("", "padding", padding, rank, 0) * 2

    def first(x):
        return np.moveaxis(x, -1, 2).reshape(len(x), -1, *x.shape[2:-1]) if block else x

    def reference(x, w, *extras):
        plain = convolved(
            first(x), w, each("", "strides", strides, rank, 1),
            [(both[k], both[rank + k]) for k in range(rank)],
            each("", "dilation", dilation, rank, 1), groups,
        )  # fmt: skip
        moved = [e if e.ndim == 1 else np.moveaxis(first(e), 1, -1) for e in extras]
        made = np.moveaxis(after(epilogue, np.moveaxis(plain, 1, -1), moved), -1, 1)
        if not block:
            return made
        n, c, *image = made.shape
        return np.moveaxis(made.reshape(n, c // block, block, *image), 2, -1)

    more = (block,) if block else ()
    return Case(name, (*args, dtype, epilogue, False, *more), reference)


def conv2d_transpose(args, dtype="float32"):
    """A transposed convolution with a bias; ``args`` up to the output padding."""

    def reference(x, w, bias):
        return transposed(x, w, *args[7:]) + bias[None, :, None, None]

    return Case("conv2d_transpose_nchw", (*args, dtype, ("bias",), False), reference)


signal, volume, blocks = (
    partial(convolution, name) for name in ("conv1d_ncw", "conv3d_ncdhw", "conv2d_nchwc")
)
CONVOLUTIONS = {
    "signal": signal((2, 9, 37, 20, 5, 2, 3, 1, 1), ("bias", "relu")),
    "signal in groups": signal((1, 16, 33, 64, 4, 1, (1, 2), 2, 2)),
    "signal of odd groups": signal((1, 6, 21, 9, 3, 1, 0, 1, 3), ("residual",)),
    "signal in float16": signal((1, 16, 64, 8, 1, 1, 0, 1, 1), (), "float16"),
    "signal of doubles": signal((1, 3, 9, 5, 3, 1, 1, 1, 1), (), "float64"),
    "volume": volume((1, 5, 6, 7, 9, 8, 3, 2, 2, 2, (1, 0, 2, 0, 1, 1), (1, 2, 1), 1)),
    "volume in groups": volume((2, 16, 4, 5, 6, 32, 2, 2, 2, 1, 0, 1, 2), ("bias",)),
    "volume in float16": volume((1, 2, 4, 4, 4, 7, 3, 3, 3, 1, 1, 1, 1), (), "float16"),
    "blocks": blocks((2, 24, 7, 9, 16, 3, 3, 2, 1, 1, 1), ("bias", "relu"), block=8),
    "blocks in groups": blocks((1, 16, 6, 6, 64, 3, 3, 1, (1, 0), 1, 2), ("residual",), block=4),
    "blocks in float16": blocks((1, 16, 5, 5, 32, 1, 1, 1, 0, 1, 1), (), "float16", 16),
    "transposed": conv2d_transpose((1, 3, 5, 6, 4, 3, 3, (2, 2), (1, 1), (1, 1))),
    "transposed by three": conv2d_transpose((1, 2, 6, 8, 5, 2, 4, (3, 2), (4, 1), (2, 1))),
    "transposed without padding": conv2d_transpose((2, 8, 4, 5, 16, 4, 4, (2, 2), (0, 0), (0, 0))),
    "transposed and cut": conv2d_transpose((1, 2, 9, 7, 3, 3, 2, (2, 1), (5, 3), (1, 0))),
    "transposed in float16": conv2d_transpose(
        (1, 4, 6, 6, 8, 4, 4, (2, 2), (1, 1), (0, 0)), "float16"
    ),
}


@pytest.mark.gpu_matrix(3)
@pytest.mark.parametrize("which", CONVOLUTIONS)
def test_convolutions_in_the_emulator(which, gpu_full):
    for config in configs_of(CONVOLUTIONS[which], 1):
        check(CONVOLUTIONS[which], config, full=gpu_full)


@pytest.mark.gpu_matrix(3)
@pytest.mark.parametrize("which", CONVOLUTIONS)
def test_convolutions_step_by_step(which):
    for config in configs_of(CONVOLUTIONS[which], 2):
        check(CONVOLUTIONS[which], config, "cpu")


SCANS = {
    "rows": ((5, 67), 1, "float32", False, "cumsum"),
    "columns": ((21, 35), 0, "float32", True, "cumsum"),
    "long float16": ((3, 3000), 1, "float16", False, "cumsum"),
    "the middle": ((2, 513, 3), 1, "int32", True, "cumsum"),
    "one": ((1,), 0, "float32", False, "cumsum"),
    "a long product": ((4000,), 0, "float64", True, "cumprod"),
    "all": ((7, 9, 11), None, "float32", False, "cumsum"),
}


@pytest.mark.gpu_matrix(3)
@pytest.mark.parametrize("which", SCANS)
def test_scans_in_the_emulator(which, gpu_full):
    shape, axis, dtype, exclusive, name = SCANS[which]
    out = getattr(topi, name)(te.placeholder(shape, dtype, name="X"), axis, exclusive=exclusive)
    task = whet.create_task(outputs=[out], target=TARGET)
    rng = np.random.default_rng(1)
    x = rng.integers(-9, 9, shape).astype(dtype)
    if name == "cumprod":
        x = (1 + x / 1000).astype(dtype)
    right = getattr(np, name)(x.astype("f8"), axis)
    if exclusive:
        k = axis or 0
        front = np.take(right, [0], k) * 0 + (name == "cumprod")
        right = np.concatenate([front, np.take(right, range(right.shape[k] - 1), k)], k)
    for config in drawn(task, 2):
        emulated(task, config, [x], right, gpu_full, 1e-3 if dtype == "float16" else 2e-6)


def test_few_long_rows_are_cut_into_segments():
    task = whet.create_task("cumsum", args=((2, 1 << 20),), target=TARGET)
    assert task.config_space.default["segments"].val > 64
    text = whet.build(*task.instantiate(), task.target).get_source("cuda")
    assert text.count("__global__") == 3
    many = whet.create_task("cumsum", args=((4096, 1 << 12),), target=TARGET)
    assert many.config_space.default["segments"].val == 1


def test_every_template_has_a_schedule_for_gpus():
    """Each is a graph, the same one for the rules of all kinds of targets."""
    assert all(isinstance(get_template(n).func, NamedGraph) for n in BUILTIN)


PACKED = ("signal", "volume in float16", "blocks", "transposed", "transposed by three")


@pytest.mark.gpu_matrix(2)
@pytest.mark.parametrize("which", PACKED)
def test_weights_are_packed_ahead(which, gpu_full):
    """A kernel before the calls copies them; those of a transposed convolution by its phases."""
    plain = CONVOLUTIONS[which]
    at = plain.args.index(False)
    case = Case(plain.name, (*plain.args[:at], True, *plain.args[at + 1 :]), plain.reference)
    for config in configs_of(case, 1):
        check(case, config, full=gpu_full)


def test_nothing_to_sum_gives_zeros():
    for case in (
        signal((1, 0, 9, 4, 3, 1, 0, 1, 1)),
        volume((0, 2, 4, 4, 4, 3, 2, 2, 2, 1, 0, 1, 1)),
        blocks((1, 0, 4, 4, 8, 3, 3, 1, 1, 1, 1), ("bias",), block=4),
    ):
        check(case, configs_of(case, 0)[0], "cpu")
