"""The parts of a search: places of records, the winner, the cost model, what an import loads."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys

import numpy as np
import pytest
from autotune_synthetic import gemm_cost, gemm_space, result, small_space, small_template

from whet.autotune import create_task
from whet.autotune.results.logged_trials import LoggedTrials
from whet.autotune.results.recorded_columns import read_columns
from whet.autotune.results.trial import Trial
from whet.autotune.samplers.model.cost_model import CostModel, labels
from whet.autotune.search.early_stop import FAILED_ONCE, Ending, Limits
from whet.autotune.search.finalists import FEWEST, MOST, Rounding, numbered
from whet.autotune.search.order import window_of
from whet.compiler.errors import ArgumentError, LogError, SpaceError, TargetError
from whet.db import TuningLog
from whet.db.values.claims import TaskKey
from whet.measure import MeasureResult
from whet.search_spaces import Config, Workload


def trial(number, config, cost=1.0):
    made = cost if isinstance(cost, MeasureResult) else result(cost)
    return Trial(number, config, made)


def placed(path, space, *runs):
    """The trials of runs in a log, as a search finds them."""
    key = TaskKey(Workload("test/small", (64,)), {"kind": "llvm"}, "cpu-here", space.fingerprint)
    with TuningLog(path) as log:
        what = (key.workload, key.target, key.device, key.fingerprint)
        ids = [log.start_run(*what) for _ in runs]
        entries = [(i, *t) for i, trials in zip(ids, runs) for t in trials]
        for i, number, config, cost in entries[::-1]:  # whoever was recorded first
            status = "ok" if cost else "infra_error"
            log.add_trial(i, number, config, MeasureResult(status, (cost,) if cost else ()))
        mark = max(t.id for t in log.trials())
        found = read_columns(log, key, space, mark)
        assert len(LoggedTrials(log, key, space, mark)) == len(found)
    trials = LoggedTrials(log, key, space, mark)
    assert [t.number for t in trials] == found.numbers.tolist()
    assert [space.encode(t.config) for t in trials] == list(map(tuple, found.points.tolist()))
    assert [t.cost for t in trials] == found.costs.tolist()
    return {t.number: t.config for t in trials}


def test_records_keep_their_places(tmp_path):
    space = small_space()
    default, a, b, c = space.default, space[1], space[2], space[3]
    assert default not in (a, b, c)
    one = [(0, default, 1.0), (1, a, 1.0), (3, b, 1.0)]
    assert placed(tmp_path / "a.db", space, one) == {0: default, 1: a, 3: b}


def test_two_searches_on_one_log_share_the_places(tmp_path):
    space = small_space()
    default, a, b, c = space.default, space[1], space[2], space[3]
    first = [(0, a, 1.0), (1, b, 1.0), (2, space[4], None)]
    second = [(0, default, 1.0), (1, c, 1.0), (2, b, 2.0)]
    found = placed(tmp_path / "a.db", space, first, second)
    assert found == {0: default, 1: b, 2: a, 3: c}


def test_trials_are_read_when_they_are_looked_at(tmp_path):
    space = small_space()
    key = TaskKey(Workload("test/small", (64,)), {"kind": "llvm"}, "cpu-here", space.fingerprint)
    configs = [space.default, *(space.at(i) for i in (3, 8, 11, 20, 30))]
    with TuningLog(tmp_path / "a.db") as log:
        run = log.start_run(key.workload, key.target, key.device, key.fingerprint)
        for number, config in enumerate(configs):
            made = result(1.0 + number) if number != 2 else MeasureResult("run_error", error="no")
            log.add_trial(run, number, config, made, 10.0)
        trials = LoggedTrials(log, key, space, 5)  # the sixth came later
    assert len(trials) == 5 and trials[1].config == configs[1] and trials[-1].cost == 5.0
    assert trials[1:4] == list(trials)[1:4] and [t.number for t in trials[::-2]] == [4, 2, 0]
    assert trials == list(trials) and list(trials) == trials and trials != trials[:4]
    assert trials[3] in trials and trials.index(trials[3]) == 3 and trials != "abc"
    assert [t.number for t in sorted(trials, key=lambda t: t.cost)] == [0, 1, 3, 4, 2]
    assert trials.outcomes() == {"ok": 4, "run_error": 1} and trials[2].result.error == "no"
    assert trials[0].flop == 10 and "5 trials" in repr(trials) and len(repr(trials)) < 200
    with pytest.raises(IndexError):
        trials[5]
    again = pickle.loads(pickle.dumps(LoggedTrials(log, key, space, 5)))
    with TuningLog(tmp_path / "a.db") as log:
        log.write("take a trial out", lambda c: c.exec_driver_sql("DELETE FROM trial WHERE id=2"))
    assert list(trials) == trials and trials[1].result.ok  # read before
    assert [t.number for t in again] == [0, 2, 3, 4]
    kept = LoggedTrials(log, key, space, 5).keep(log)
    (tmp_path / "a.db").unlink()
    assert [t.number for t in kept] == [0, 2, 3, 4]
    with pytest.raises(LogError, match=r"a\.db"):
        len(LoggedTrials(log, key, space, 5))


def test_a_search_that_goes_on_stops_where_it_would_have_stopped():
    rng = np.random.default_rng(5)
    for draw in range(200):
        costs = rng.choice([1.0, 2.0, 3.0, math.inf], size=rng.integers(0, 12))
        target = float(rng.choice([0.5, 1.0, 2.0])) if draw % 2 else None
        limits = Limits(None, target, int(rng.integers(1, 6)) if draw % 3 else False)
        ending, other = (Ending(limits, lambda: None) for _ in range(2))
        said = [ending.observe(result(c) if c < math.inf else FAILED_ONCE) for c in costs]
        first = next(filter(None, said), "")
        assert other.resume(costs) == first
        if not first:
            more = [result(3.0)] * 7
            assert [ending.observe(r) for r in more] == [other.observe(r) for r in more]


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


@pytest.mark.parametrize(("turn_s", "rounds"), [(0.11, 18), (0.4, FEWEST)])
def test_a_turn_of_the_last_measurement_takes_what_the_clock_says(turn_s, rounds):
    """Five equally fast ones: nobody is dropped, and ten seconds are ten seconds."""
    now = [0.0]
    plan, costs, turns = Rounding(5, 10.0, lambda: now[0]), [[] for _ in range(5)], 0
    while turn := plan(costs):
        turns += 1
        for i in turn:
            costs[i].append(1e-4)
            now[0] += turn_s
    assert turns == rounds


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
    assert [window_of(n) for n in (1, 3, 4, 5, 8, 9, 100)] == [4, 4, 4, 8, 8, 16, 128]
    assert window_of(256) == 256 and window_of(10**6) == 16_384
    # Builders alone do not make it larger, and it is never larger than the pool is.
    assert [window_of(n, 1) for n in (4, 11, 34, 130)] == [4, 16, 16, 16]
    assert [window_of(n, 8) for n in (24, 25, 56, 500)] == [32, 32, 32, 32]
    assert [window_of(4 + 3 * 64, 64), window_of(64 + 3 * 64, 64)] == [256, 256]


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
