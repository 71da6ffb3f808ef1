"""Tiled reductions of derived spaces: every choice, every lane, other targets: numpy's numbers."""

from __future__ import annotations

import numpy as np
from derived_checks import check, inputs_of, task_of
from derived_graphs import CASES, conv2d


def test_each_choice_of_each_knob_of_a_convolution_gives_numpys_numbers():
    case = CASES["conv2d_batch"]()
    task = task_of(case)
    rng = np.random.default_rng(5)
    inputs = inputs_of(case, rng)
    wanted = case.reference(*[x.astype("float64") for x in inputs])
    space, seen = task.config_space, set()
    for point in space.sample_points(rng, 400):
        new = {(k, int(p)) for k, p in enumerate(point[1:], 1)} - seen
        if len(new) >= 3 or (new and len(seen) > 24):
            seen |= new
            check(task, space.decode(tuple(point)), inputs, wanted)
    orders = [k for k, name in enumerate(space.knobs) if name.startswith("pack_")]
    assert all({(k, p) for p in range(3)} <= seen for k in orders), "a way to copy was not tried"


def test_lanes_along_each_axis_that_has_them():
    case = conv2d(1, 24, 7, 7, 17, 1, dtype="int32")
    task = task_of(case)
    rng = np.random.default_rng(6)
    inputs = inputs_of(case, rng)
    wanted = case.reference(*[x.astype("float64") for x in inputs])
    space = task.config_space
    configs = [space.decode(tuple(p)) for p in space.sample_points(rng, 200)]
    first = {config.choice("tile")[0]: config for config in reversed(configs)}
    assert set(first) == {"f", "x"}
    for config in first.values():
        check(task, config, inputs, wanted)


def test_a_target_without_vectors_and_one_with_more_registers():
    case = CASES["matmul_epilogue"]()
    rng = np.random.default_rng(7)
    inputs = inputs_of(case, rng)
    wanted = case.reference(*[x.astype("float64") for x in inputs])
    task = task_of(case, "c")
    points = task.config_space.sample_points(rng, 2)
    for config in (
        task.config_space.default,
        *(task.config_space.decode(tuple(p)) for p in points),
    ):
        check(task, config, inputs, wanted)
    wide = task_of(case, "llvm -mcpu=x86-64 -mattr=+avx512f,+fma")
    narrow = task_of(case, "llvm -mcpu=x86-64 -mattr=+avx2,+fma")
    tiles = [
        max(t[0] * t[1] for t in task.config_space.knobs["tile"].choices) for task in (wide, narrow)
    ]
    assert tiles[0] > 2 * tiles[1]
