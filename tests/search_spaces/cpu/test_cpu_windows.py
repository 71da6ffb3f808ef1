"""Pooling: windows in lanes across a row, in registers, whatever the sizes and the config."""

import numpy as np
import pytest

import whet
from whet import te, topi

LEVELS = {"x86-64-v2": 16, "x86-64-v3": 32, "x86-64-v4": 64}
levels = pytest.mark.parametrize(
    "level",
    [
        pytest.param(
            name,
            marks=pytest.mark.skipif(
                whet.Target("llvm").vector_bytes < size, reason=f"no {name} here"
            ),
        )
        for name, size in LEVELS.items()
    ],
)


def pooled(x, kind, k, stride, pad, relu):
    """The windows' maxima or averages in float64, zeros outside counted."""
    edge = -np.inf if kind == "max" else 0.0
    sides = [(0, 0)] * (x.ndim - 2) + [(pad, pad)] * 2
    image = np.pad(x.astype("float64"), sides, constant_values=edge)
    seen = np.lib.stride_tricks.sliding_window_view(image, (k, k), (-2, -1))
    seen = seen[..., ::stride, ::stride, :, :]
    out = seen.max((-1, -2)) if kind == "max" else seen.mean((-1, -2))
    return np.maximum(out, 0) if relu else out


def task_of(shape, dtype, kind, k, stride, pad, relu, level):
    x = te.placeholder(shape, dtype, name="X")
    out = topi.nn.pool2d(x, (k, k), (stride, stride), 1, (pad, pad), kind)
    out = topi.nn.relu(out) if relu else out
    return whet.create_task(outputs=[out], target=f"llvm -mcpu={level} -num-cores=1")


def kernel_of(task, config=None):
    with task.target:
        return whet.build(*task.instantiate(config))


@levels
@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize(
    ("image", "k", "stride", "pad"),
    [
        ((7, 9), 3, 2, 1),
        ((17, 31), 2, 2, 0),
        ((9, 112), 3, 2, 1),
        ((6, 301), 5, 4, 2),
        ((8, 56), 3, 3, 0),
        ((9, 20), 3, 3, 1),
    ],
)
def test_numbers_of_drawn_configs(image, k, stride, pad, kind, level):
    rng = np.random.default_rng()
    shape, dtype = (2, 3, *image), str(rng.choice(["float32", "float64"]))
    relu = bool(rng.integers(2))
    x = rng.standard_normal(shape).astype(dtype)
    wanted = pooled(x, kind, k, stride, pad, relu)
    task = task_of(shape, dtype, kind, k, stride, pad, relu, level)
    space = task.config_space
    for config in (space.default, space.sample(rng), space.sample(rng)):
        out = np.full(wanted.shape, 77, dtype)
        kernel_of(task, config)(x, out)
        np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-5, err_msg=str(config))


@levels
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "float16"])
@pytest.mark.parametrize("pad", [0, 1])
def test_maxima_of_other_types(pad, dtype, level):
    x = np.random.default_rng().integers(0, 99, (1, 2, 21, 75)).astype(dtype)
    out = np.zeros((1, 2, 10 + pad, 37 + pad), dtype)
    kernel_of(task_of(x.shape, dtype, "max", 3, 2, pad, False, level))(x, out)
    np.testing.assert_array_equal(out, pooled(x, "max", 3, 2, pad, False))


@pytest.mark.parametrize("pad", [0, 1])
@pytest.mark.parametrize("level", ["x86-64-v3", "x86-64-v4"])
def test_a_row_of_windows_is_whole_vectors(level, pad):
    lanes = LEVELS[level] // 4
    task = task_of((1, 8, 64, 64), "float32", "max", 3, 2, pad, False, level)
    kernel = kernel_of(task)
    text = kernel.get_source().split("ret i32 0")[0]
    # three rows of the image, then three windows, two loads each, for each vector of a row
    vectors = 32 // lanes
    whole, rest = (vectors, 0) if pad else (31 // lanes, 31 % lanes)
    assert text.count(f"load <{lanes} x float>, ptr") >= 3 * 2 * whole
    assert text.count("shufflevector") >= 3 * whole
    assert "gather" not in kernel.get_source("asm")
    if not rest:
        assert f"insertelement <{lanes} x float>" not in text


def test_windows_of_two_outputs_are_left_to_plain_loops():
    """The place of the largest element of each window: both outputs are of one operation."""

    def combine(a, b):
        first = te.any(a[1] > b[1], te.all(a[1] == b[1], a[0] <= b[0]))
        return te.if_then_else(first, a[0], b[0]), te.if_then_else(first, a[1], b[1])

    def identity(*dtypes):
        return te.const(1 << 30, dtypes[0]), te.min_value(dtypes[1])

    largest = te.comm_reducer(combine, identity, "largest")
    data = te.placeholder((3, 5, 41), "float32", name="X")
    r = te.reduce_axis((0, 3), "r")
    place, value = te.compute(
        (3, 5, 20), lambda a, b, j: largest((r, data[a, b, j * 2 + r]), axis=r), name="am"
    )
    task = whet.create_task(outputs=[place, value], args=[data, place, value], target="llvm")
    x = np.random.default_rng().standard_normal((3, 5, 41)).astype("float32")
    seen = np.lib.stride_tricks.sliding_window_view(x, 3, -1)[:, :, ::2]
    places, values = np.full((3, 5, 20), -1, "int32"), np.full((3, 5, 20), np.nan, "float32")
    kernel_of(task, task.config_space.default)(x, places, values)
    assert (places == seen.argmax(-1)).all() and (values == seen.max(-1)).all()


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize(
    ("image", "k", "stride", "pad", "dilation"),
    [
        ((9, 11), (3, 3), 2, 1, 1),
        ((14, 17), (5, 2), 1, 0, 1),
        ((8, 13), (3, 3), 1, 1, 2),
        ((12, 9), (2, 3), 4, 0, 1),
    ],
)
def test_windows_beside_each_other_share_their_columns(image, k, stride, pad, dilation, columns):
    """Channels last, in all kinds of tiles: sums and maxima in float64, zeros outside counted."""
    rng = np.random.default_rng()
    kind, dtype = str(rng.choice(["max", "avg"])), str(rng.choice(["float32", "float64"]))
    x = rng.standard_normal((2, *image, int(rng.integers(3, 40)))).astype(dtype)
    data = te.placeholder(x.shape, dtype, name="X")
    out = topi.nn.pool2d(data, k, (stride,) * 2, (dilation,) * 2, (pad,) * 2, kind, layout="NHWC")
    task = whet.create_task(outputs=[out], target="llvm -num_threads=2")
    edge = -np.inf if kind == "max" else 0.0
    padded = np.pad(x.astype("d"), [(0, 0), (pad,) * 2, (pad,) * 2, (0, 0)], constant_values=edge)
    reach = [(n - 1) * dilation + 1 for n in k]
    seen = np.lib.stride_tricks.sliding_window_view(padded, reach, (1, 2))
    seen = seen[:, ::stride, ::stride, :, ::dilation, ::dilation]
    wanted = seen.max((-1, -2)) if kind == "max" else seen.mean((-1, -2))
    space = task.config_space
    (name,) = (n for n in space.knobs if n.endswith("columns"))
    drawn = [space.default] + [
        c for c in (space.sample(rng) for _ in range(8)) if c[name].val == columns
    ][:2]
    for config in drawn:
        result = np.full(wanted.shape, 77, dtype)
        kernel_of(task, config)(x, result)
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5, err_msg=str(config))
    overlap = reach[1] > stride
    assert space.default[name].val == overlap
