"""Windows in two passes, or side by side: layouts, dilation, threads, padding of any number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import whet
from whet import te, topi

TARGET = "llvm -num_threads=2"


def windows(
    x: np.ndarray, k: tuple, stride: tuple, dilation: tuple, pad: tuple, edge: float
) -> Any:
    """Windows of the dimensions 2 and 3 of an image, in float64: (N, C, Y, X, RY, RX)."""
    image = np.pad(x.astype("d"), [(0, 0), (0, 0), *((p, p) for p in pad)], constant_values=edge)
    reach = tuple((n - 1) * d + 1 for n, d in zip(k, dilation))
    seen = np.lib.stride_tricks.sliding_window_view(image, reach, (2, 3))
    return seen[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]


def check(task: whet.Task, x: np.ndarray, right: np.ndarray, configs: int = 3) -> None:
    rng = np.random.default_rng()
    space = task.config_space
    for config in [space.default, *map(space.decode, space.valid_points.sample(rng, configs))]:
        s, args = task.instantiate(config)
        out = np.full(right.shape, np.nan, x.dtype)
        whet.build(s, args, task.target)(x, out)
        np.testing.assert_allclose(out, right, rtol=2e-5, atol=2e-5, err_msg=str(config))


def seen_in(right: np.ndarray, layout: str) -> np.ndarray:
    """NCHW as another layout."""
    if layout == "NHWC":
        return np.ascontiguousarray(right.transpose(0, 2, 3, 1))
    if layout == "NCHW4c":
        n, c, h, w = right.shape
        return np.ascontiguousarray(right.reshape(n, c // 4, 4, h, w).transpose(0, 1, 3, 4, 2))
    return right


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "NCHW4c"])
@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize(
    ("image", "k", "stride", "dilation", "pad"),
    [
        ((13, 13), (5, 5), (1, 1), (1, 1), (2, 2)),
        ((23, 41), (3, 3), (2, 2), (1, 1), (1, 1)),
        ((9, 301), (3, 3), (1, 1), (1, 1), (1, 1)),
        ((19, 37), (3, 4), (1, 3), (2, 1), (0, 2)),
        ((5, 8), (5, 3), (1, 1), (1, 2), (2, 1)),
        ((40, 6), (7, 2), (1, 1), (1, 1), (3, 1)),
    ],
)
def test_numbers(
    image: tuple, k: tuple, stride: tuple, dilation: tuple, pad: tuple, kind: str, layout: str
) -> None:
    rng = np.random.default_rng()
    dtype = str(rng.choice(["float32", "float64"]))
    x = rng.standard_normal((2, 20, *image)).astype(dtype)
    seen = windows(x, k, stride, dilation, pad, -np.inf if kind == "max" else 0.0)
    right = seen.max((-1, -2)) if kind == "max" else seen.mean((-1, -2))
    X = te.placeholder(seen_in(x, layout).shape, dtype, name="X")
    R = topi.nn.pool2d(X, k, stride, dilation, pad, kind, layout=layout)
    task = whet.create_task(outputs=[R], target=TARGET)
    check(task, seen_in(x, layout), seen_in(right, layout))


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("fill", [0.0, 7.5])
def test_padding_that_counts(fill: float, last: bool) -> None:
    """Maxima of an image that is padded with a number: it may be the largest of a window."""
    x = np.random.default_rng().standard_normal((2, 7, 15, 21)).astype("f") - 1
    right = windows(x, (3, 5), (1, 1), (1, 1), (1, 2), fill).max((-1, -2))
    shape = (2, 15, 21, 7) if last else x.shape
    X = te.placeholder(shape, name="X")
    sides = (0, 1, 2, 0) if last else (0, 0, 1, 2)
    P = topi.nn.pad(X, sides, sides, fill)
    R = topi.nn.pool2d(P, (3, 5), 1, 1, 0, "max", layout="NHWC" if last else "NCHW")
    task = whet.create_task(outputs=[topi.nn.relu(R)], target=TARGET)
    layout = "NHWC" if last else "NCHW"
    check(task, seen_in(x, layout), np.maximum(seen_in(right, layout), 0))


def test_averages_of_what_is_in_the_image_and_windows_beyond_its_end() -> None:
    x = np.random.default_rng().standard_normal((1, 5, 14, 23)).astype("f")
    inside = windows(np.ones_like(x), (3, 3), (2, 2), (1, 1), (1, 1), 0.0).sum((-1, -2))
    seen = windows(x, (3, 3), (2, 2), (1, 1), (1, 1), 0.0).sum((-1, -2))
    X = te.placeholder(x.shape, name="X")
    R = topi.nn.pool2d(X, 3, 2, 1, 1, "avg", count_include_pad=False)
    check(whet.create_task(outputs=[R], target=TARGET), x, seen / inside)
    longer = np.pad(x, [(0, 0), (0, 0), (0, 1), (0, 1)], constant_values=-np.inf)
    right = windows(longer, (3, 3), (2, 2), (1, 1), (0, 0), -np.inf).max((-1, -2))
    R = topi.nn.pool2d(X, 3, 2, 1, 0, "max", ceil_mode=True)
    check(whet.create_task(outputs=[R], target=TARGET), x, right)


def test_squares_of_what_windows_read_in_te() -> None:
    """A reduction by hand: arithmetic of the one read, and windows without padding."""
    x = np.random.default_rng().standard_normal((1, 3, 12, 50)).astype("f")
    right = (windows(x, (4, 4), (1, 1), (1, 1), (0, 0), 0.0) * 3 - 1).min((-1, -2))
    X = te.placeholder(x.shape, name="X")
    u, v = te.reduce_axis((0, 4), name="u"), te.reduce_axis((0, 4), name="v")
    R = te.compute(
        right.shape, lambda n, c, i, j: te.min(X[n, c, i + u, j + v] * 3.0 - 1.0, axis=[u, v])
    )
    task = whet.create_task(outputs=[R], target=TARGET)
    assert "rows" in task.config_space.knobs
    check(task, x, right)


def test_columns_come_first_where_that_is_less() -> None:
    def lowered(k: int, stride: int) -> str:
        X = te.placeholder((1, 4, 33, 33), name="X")
        R = topi.nn.pool2d(X, k, stride, 1, 1, "max")
        task = whet.create_task(outputs=[R], target="llvm -mcpu=x86-64-v3")
        return str(whet.lower(*task.instantiate()))

    assert "pool_max_down" in lowered(5, 1) and "pool_max_down" in lowered(3, 2)
    assert "pool_max_down" not in lowered(2, 2)


@pytest.mark.parametrize("at", ["u", "v", "j"])
def test_windows_whose_elements_have_weights_of_their_place(at: str) -> None:
    """Neighbours of the read of a window's element move with it, or the rule does not apply."""
    x = te.placeholder((2, 3, 16, 33), name="x")
    u, w = te.reduce_axis((0, 3), name="u"), te.reduce_axis((0, 3), name="v")

    def element(n: Any, c: Any, i: Any, j: Any) -> Any:
        weight = {"u": u, "v": w, "j": j}[at] + 1
        return te.sum(x[n, c, i + u, j + w] * te.cast("float32", weight), axis=[u, w])

    y = te.compute((2, 3, 14, 31), element, name="y")
    v = np.random.default_rng().standard_normal((2, 3, 16, 33)).astype("float32")
    places = {"u": np.arange(3)[:, None], "v": np.arange(3), "j": np.arange(31)[:, None, None]}
    seen = windows(v, (3, 3), (1, 1), (1, 1), (0, 0), 0.0)
    right = (seen * (places[at] + 1.0)).sum((4, 5))
    check(whet.create_task(outputs=[y], target=TARGET), v, right, configs=1)
