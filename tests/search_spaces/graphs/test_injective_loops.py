"""Which loops of an elementwise stage are one: vectors run over the ends of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import whet
from whet import te, topi

TARGET = "llvm -num_threads=2"


def _channels(element: Any) -> tuple[list[Any], Any]:
    X, b = te.placeholder((2, 5, 7, 9), name="X"), te.placeholder((5,), name="b")
    return [X, b], te.compute(X.shape, lambda n, c, y, x: element(X, b, n, c, y, x), name="R")


def _by_stages(result: Any) -> tuple[list[Any], Any]:
    X, b = te.placeholder((2, 5, 7, 9), name="X"), te.placeholder((5,), name="b")
    return [X, b], result(X, b)


CASES = {
    "bias": (
        lambda: _channels(lambda X, b, n, c, y, x: te.max(X[n, c, y, x] + b[c], 0.0)),
        lambda x, b: np.maximum(x + b[:, None, None], 0),
        63,
    ),
    "bias of stages": (
        lambda: _by_stages(lambda X, b: topi.nn.relu(topi.add(X, topi.reshape(b, (1, 5, 1, 1))))),
        lambda x, b: np.maximum(x + b[:, None, None], 0),
        63,
    ),
    "mask": (
        lambda: _channels(
            lambda X, b, n, c, y, x: te.if_then_else(x <= y, X[n, c, y, x] * b[c], -1.0)
        ),
        lambda x, b: np.where(np.tri(7, 9, dtype=bool), x * b[:, None, None], -1),
        9,
    ),
    "rows beside each other": (
        lambda: _channels(lambda X, b, n, c, y, x: X[n, c, y, x] + X[n, 0, y, x] * b[c]),
        lambda x, b: x + x[:, :1] * b[:, None, None],
        63,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_loops_that_are_one(name: str) -> None:
    make, right, extent = CASES[name]
    inputs, R = make()
    task = whet.create_task(outputs=[R], args=[*inputs, R], target=TARGET)
    space = task.config_space
    rng = np.random.default_rng(0)
    x, b = rng.standard_normal((2, 5, 7, 9)).astype("f"), rng.standard_normal(5).astype("f")
    for config in [space.default, *map(space.decode, space.valid_points.sample(rng, 5))]:
        s, args = task.instantiate(config)
        out = np.full(x.shape, np.nan, "f")
        whet.build(s, args, task.target)(x, b, out)
        np.testing.assert_allclose(out, right(x.astype("d"), b), atol=1e-5, err_msg=str(config))
    wide = whet.create_task(outputs=[R], args=[*inputs, R], target="llvm -mcpu=x86-64-v3")
    widest = max(wide.config_space.knobs["vector"].choices)
    assert widest <= extent and (extent == 9 or widest > 9)


def test_a_mask_over_a_whole_matrix_keeps_its_rows() -> None:
    X = te.placeholder((33, 70), name="X")
    R = te.compute(X.shape, lambda i, j: te.if_then_else(j <= i, X[i, j], -1e9), name="R")
    task = whet.create_task(outputs=[R], args=[X, R], target=TARGET)
    s, args = task.instantiate()
    with task.target:
        assert "//" not in str(whet.lower(s, args))
    x, out = np.random.default_rng(1).standard_normal((33, 70), "f"), np.empty((33, 70), "f")
    whet.build(s, args, task.target)(x, out)
    np.testing.assert_array_equal(out, np.where(np.tri(33, 70, dtype=bool), x, np.float32(-1e9)))


def test_normalised_channels() -> None:
    """The affine part of a batch norm: planes in one run."""
    X, g, b = (
        te.placeholder(s, name=n) for s, n in (((1, 6, 11, 5), "X"), ((6,), "g"), ((6,), "b"))
    )
    R = topi.nn.relu(topi.nn.scale_shift_nchw(X, g, b))
    task = whet.create_task(outputs=[R], args=[X, g, b, R], target=TARGET)
    rng = np.random.default_rng(2)
    x, u, v = (rng.standard_normal(s).astype("f") for s in ((1, 6, 11, 5), (6,), (6,)))
    s, args = task.instantiate()
    out = np.full(x.shape, np.nan, "f")
    whet.build(s, args, task.target)(x, u, v, out)
    right = np.maximum(x.astype("d") * u[:, None, None] + v[:, None, None], 0)
    np.testing.assert_allclose(out, right, atol=1e-5)


@pytest.mark.parametrize("shape", [(97, 61), (64, 48), (7, 3)])
def test_what_reads_a_transposed_stage_across_is_transposed_in_blocks(
    shape: tuple[int, int],
) -> None:
    X, b = te.placeholder(shape, name="X"), te.placeholder(shape[:1], name="b")
    R = topi.nn.relu(topi.add(topi.transpose(X), b))
    task = whet.create_task(outputs=[R], args=[X, b, R], target=TARGET)
    assert "tile" in task.config_space.knobs
    rng = np.random.default_rng(3)
    x, v = rng.standard_normal(shape).astype("f"), rng.standard_normal(shape[0]).astype("f")
    space = task.config_space
    for config in [space.default, *map(space.decode, space.valid_points.sample(rng, 5))]:
        s, args = task.instantiate(config)
        out = np.full(shape[::-1], np.nan, "f")
        whet.build(s, args, task.target)(x, v, out)
        right = np.maximum(x.T.astype("d") + v, 0)
        np.testing.assert_allclose(out, right, atol=1e-5, err_msg=str(config))


def test_a_reshape_behind_arithmetic_keeps_one_loop() -> None:
    X = te.placeholder((7, 3), name="X")
    R = topi.nn.relu(topi.reshape(topi.multiply(X, 2.0), (3, 7)))
    task = whet.create_task(outputs=[R], args=[X, R], target=TARGET)
    s, args = task.instantiate()
    out, x = np.full((3, 7), np.nan, "f"), np.arange(-10, 11, dtype="f").reshape(7, 3)
    with task.target:
        assert "21" in str(whet.lower(s, args)) and "//" not in str(whet.lower(s, args))
    whet.build(s, args, task.target)(x, out)
    np.testing.assert_array_equal(out, np.maximum(x * 2, 0).reshape(3, 7))


@pytest.mark.parametrize("width", [9, 57, 130])
@pytest.mark.parametrize(("steps", "before"), [(2, 0), (2, 1), (3, 1), (4, 2), (5, 0)])
@pytest.mark.parametrize("target", [TARGET, "llvm -mcpu=x86-64 -num_threads=2", "c"])
def test_phases_are_interleaved(width: int, steps: int, before: int, target: str) -> None:
    """A transposed convolution's sums in their places, whatever the remainder at the ends."""
    n, dtype = (width + before) // steps + 1, "float64" if steps == 3 else "float32"
    X = te.placeholder((steps, 3, n), dtype, name="X")
    R = te.compute(
        (3, width),
        lambda o, x: X[(x + before) % steps, o, (x + before) // steps] * 2.0,
        name="R",
    )
    task = whet.create_task(outputs=[R], args=[X, R], target=target)
    space = task.config_space
    assert ("phases" in space.knobs) == (steps <= 4)
    rng = np.random.default_rng()
    x = rng.standard_normal((steps, 3, n)).astype(dtype)
    place = np.arange(width) + before
    right = x[place % steps, :, place // steps].T * 2
    for config in [space.default, *map(space.decode, space.valid_points.sample(rng, 4))]:
        s, args = task.instantiate(config)
        out = np.full((3, width), np.nan, dtype)
        whet.build(s, args, task.target)(x, out)
        np.testing.assert_allclose(out, right, rtol=1e-6, err_msg=str(config))


@pytest.mark.parametrize("mode", [None, "asymmetric", "half_pixel"])
def test_an_image_twice_as_large_is_vectors(mode: str | None) -> None:
    X = te.placeholder((2, 5, 31), name="X")
    if mode is None:
        R = te.compute((2, 10, 62), lambda c, y, x: X[c, y // 2, x // 2], name="R")
    else:  # with clamps that never hold
        how = {"method": "nearest_neighbor", "coordinate_transformation_mode": mode}
        image = topi.image.resize2d(topi.expand_dims(X, 0), None, (10, 62), **how)
        R = topi.squeeze(image, [0])
    task = whet.create_task(outputs=[R], args=[X, R], target=TARGET)
    rng = np.random.default_rng()
    x, space = rng.standard_normal((2, 5, 31)).astype("f"), task.config_space
    for config in [space.default, *map(space.decode, space.valid_points.sample(rng, 4))]:
        s, args = task.instantiate(config)
        out = np.full((2, 10, 62), np.nan, "f")
        whet.build(s, args, task.target)(x, out)
        np.testing.assert_array_equal(out, x.repeat(2, 1).repeat(2, 2), err_msg=str(config))
    wide = whet.create_task(outputs=[R], args=[X, R], target="llvm -mcpu=x86-64-v3")
    with wide.target:
        assert "shuffle" in str(whet.lower(*wide.instantiate()))
