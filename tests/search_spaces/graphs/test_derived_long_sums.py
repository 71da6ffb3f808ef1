"""Long sums are taken in blocks: their error does not grow with the number of terms."""

from __future__ import annotations

import numpy as np
import pytest

import whet


def built(task, config):
    schedule, args = task.instantiate(config)
    return whet.build(schedule, args, target=task.target)


def error_of(task):
    """How wrong the sum of equal numbers is, as a part of it: all roundings go one way."""
    shape, axes = task.args[0], task.args[1]
    x = np.full(shape, 0.1, np.float32)
    right = x.sum(axes, dtype=np.float64)
    out = np.full(right.shape, np.nan, np.float32)
    whet.build(task)(x, out)
    return float(np.abs(out / right - 1).max())


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((1, 400_000), (1,)),
        ((400_003,), (0,)),
        ((2, 1031, 193), (1, 2)),  # one run of both axes
        ((300, 2, 7001), (0, 2)),  # rows that lie apart
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_long_sum(shape, axes, threads):
    target = f"llvm -num_threads={threads}"
    assert error_of(whet.create_task("sum", args=(shape, axes), target=target)) < 1e-5


def test_whatever_the_lanes():
    task = whet.create_task("mean", args=((3, 100_003), (1,)), target="llvm -num_threads=1")
    space = task.config_space
    rng = np.random.default_rng(0)
    for config in [space.sample(rng) for _ in range(6)]:
        x = rng.random((3, 100_003), dtype=np.float32)
        out = np.full(3, np.nan, np.float32)
        built(task, config)(x, out)
        np.testing.assert_allclose(out, x.mean(1, dtype=np.float64), rtol=1e-3)


def test_rows_in_blocks():
    shape = (2, 70_001)
    x = np.random.default_rng(0).random(shape, dtype=np.float32)
    task = whet.create_task("softmax", args=(shape,), target="llvm -num_threads=1")
    out = np.full(shape, np.nan, np.float32)
    whet.build(task)(x, out)
    e = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=3e-6)
