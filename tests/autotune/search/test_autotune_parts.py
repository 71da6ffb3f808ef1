"""The parts of a search: places of records, the winner, the cost model, what an import loads."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from autotune_synthetic import gemm_cost, gemm_space, result, small_space, small_template

from whet.autotune import create_task
from whet.autotune.results.trial import Trial
from whet.autotune.samplers.model.cost_model import CostModel, labels
from whet.autotune.search.finalists import FEWEST, MOST, Rounding, numbered
from whet.autotune.search.loop import window_of
from whet.autotune.search.study import slots
from whet.compiler.errors import ArgumentError, SpaceError, TargetError
from whet.measure import MeasureResult
from whet.search_spaces import Config


def trial(number, config, cost=1.0):
    made = cost if isinstance(cost, MeasureResult) else result(cost)
    return Trial(number, config, made)


def test_records_keep_their_places():
    space = small_space()
    default, a, b, c = space.default, space[1], space[2], space[3]
    assert default not in (a, b, c)
    placed = slots([trial(0, default), trial(1, a), trial(3, b)], default)
    assert {n: t.config for n, t in placed.items()} == {0: default, 1: a, 3: b}


def test_two_searches_on_one_log_share_the_places():
    space = small_space()
    default, a, b, c = space.default, space[1], space[2], space[3]
    lost = trial(2, space[4], MeasureResult("infra_error"))
    records = [trial(0, a), trial(1, b), lost, trial(0, default), trial(1, c), trial(2, b)]
    placed = slots(records, default)
    assert {n: t.config for n, t in placed.items()} == {0: default, 1: b, 2: a, 3: c}
    assert all(number == t.number for number, t in placed.items())


def test_finalists_that_fall_behind_are_dropped_and_the_close_ones_go_on():
    plan, costs = Rounding(4, 10.0), [[], [], [], []]
    truth = [2.0e-3, 1.0e-3, 1.01e-3, 1.5e-3]
    rng = np.random.default_rng(2)
    turns = []
    while turn := plan(costs):
        turns.append(turn)
        for i in turn:
            costs[i].append(truth[i] * float(np.exp(0.01 * rng.standard_normal())))
    assert turns[:3] == [[0, 1, 2, 3]] * 3 and turns[3] == [0, 1, 2]
    assert len(costs[0]) == FEWEST and len(costs[3]) == 3
    assert len(costs[1]) > FEWEST and len(turns) <= MOST


def test_a_slow_default_costs_few_rounds_and_a_failure_none():
    plan, costs = Rounding(3, 1.0), [[], [], []]
    while turn := plan(costs):
        for i in turn:
            costs[i] += [[5.0], [1e-3], []][i]
    assert [len(own) for own in costs] == [3, 6, 0]
    assert list(Rounding(0, 1.0)([])) == []


def test_finalists_of_two_searches_have_numbers_of_their_own():
    space = small_space()
    chosen = [trial(0, space.default), trial(3, space[3]), trial(3, space[4])]
    assert [t.number for t in numbered(chosen)] == [0, 3, 4]


def test_few_window_sizes_whatever_the_capacity():
    assert [window_of(n) for n in (1, 3, 4, 5, 8, 9, 100)] == [4, 4, 4, 8, 8, 16, 16]


def test_the_model_ranks_configs_it_has_not_seen():
    space = gemm_space()
    rng = np.random.default_rng(0)
    configs = [space.sample(rng) for _ in range(600)]
    costs = np.array([gemm_cost(config) for config in configs])
    features = space.features(configs)
    model = CostModel.fit(features[:300], labels(costs[:300]))
    again = CostModel.fit(features[:300], labels(costs[:300]))
    scores = model.predict(features[300:])
    assert np.array_equal(scores, again.predict(features[300:]))
    ranks = [np.argsort(np.argsort(x)) for x in (scores, -costs[300:])]
    assert np.corrcoef(*ranks)[0, 1] > 0.7


def test_labels_are_logarithmic_and_failures_are_the_worst():
    assert labels([2.0, 1.0, math.inf, 4.0]) == pytest.approx(np.log([0.5, 1.0, 0.125, 0.25]))


def test_a_task_is_a_workload_on_a_canonical_target():
    task = create_task("test/small", args=[64], target="llvm")
    assert task.workload == small_template.workload(64) and task.args == (64,)
    assert "vector_bytes" in task.target.attrs and task.target.key in task.key
    assert task.flop == 1000 and task.config_space.size == 42
    with task.target:
        assert create_task(small_template, (64,)).key == task.key
    assert str(task.workload) in str(task)


def test_tasks_that_cannot_be_made():
    with pytest.raises(SpaceError, match="test/smal"):
        create_task("test/smal", (64,))
    with pytest.raises(SpaceError, match="arguments were given"):
        create_task("test/small", (64, 65))
    with pytest.raises(ArgumentError, match=r"(?s)args is 64, no tuple.*\(64,\)"):
        create_task("test/small", 64)
    with pytest.raises(TargetError, match="llvm"):
        create_task("test/small", (64,), target="llwm")


def test_importing_the_room_loads_nothing_heavy():
    code = """
import sys, whet.autotune, whet.cli
from whet.autotune import build_from_log, create_task, tune
heavy = {"optuna", "xgboost", "ray", "sqlalchemy", "rich", "llvmlite", "cloudpickle"}
print(sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_config_prints_in_its_trial():
    line = str(trial(7, Config((("tile", (4, 8)), ("vec", True))), 2e-3))
    assert line.startswith("trial 7: 2 ms") and line.endswith("tile=(4,8) vec=True")
