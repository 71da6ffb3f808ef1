"""Tiled reductions of derived spaces: random configs of many graphs give numpy's numbers."""

from __future__ import annotations

import numpy as np
import pytest
from derived_checks import check, inputs_of, task_of
from derived_graphs import CASES


@pytest.mark.parametrize("name", CASES)
def test_random_configs_give_numpys_numbers(name):
    case = CASES[name]()
    task = task_of(case)
    rng = np.random.default_rng(list(name.encode()))
    inputs = inputs_of(case, rng)
    wanted = case.reference(*[x.astype("float64") for x in inputs])
    space = task.config_space
    points = space.sample_points(rng, 1)
    for config in (space.default, *(space.decode(tuple(p)) for p in points)):
        check(task, config, inputs, wanted)
