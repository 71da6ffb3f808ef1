"""Resuming: a search of many tasks proposes the same trials, wherever it was stopped."""

from __future__ import annotations

import pytest
from autotune_pools import Recorder, Stopping
from autotune_synthetic import gemm_cost, gemm_template, small_cost

from whet.autotune import create_task, tune
from whet.autotune.samplers import SAMPLERS

TOTAL = 60


def cost_of(inp):
    return (small_cost if inp.workload.template == "test/small" else gemm_cost)(inp.config)


@pytest.fixture
def tasks(gemm, small, monkeypatch):
    monkeypatch.setitem(SAMPLERS, "attentive", ("autotune_pools", "Attentive"))
    return [small, gemm, create_task(gemm_template, args=(256, 256, 256), target="llvm")]


def tuned(tasks, pool, log, trials=TOTAL, sampler="attentive"):
    return tune(tasks, trials, log=log, workers=pool, sampler=sampler, progress=False)


def proposed(*pools):
    return [(inp.workload.key, inp.config.key) for pool in pools for inp in pool.submitted]


def configs(results):
    return [[trial.config.key for trial in one.trials] for one in results]


# 3: each task has its first trial; 13 and 41: in the middle of a batch and of a turn; 47: a third
# of it is less than a turn of 16; 59: one is left
@pytest.mark.parametrize("capacity", [4, 16])
@pytest.mark.parametrize("stop", [3, 13, 41, 47, 59])
def test_a_larger_budget_goes_on_as_if_it_had_been_asked_for_at_once(
    tasks, tmp_path, stop, capacity
):
    whole, first, rest = (Recorder(cost_of, capacity) for _ in range(3))
    tuned(tasks, whole, tmp_path / "a.db")
    tuned(tasks, first, tmp_path / "b.db", stop)
    tuned(tasks, rest, tmp_path / "b.db")
    assert len(first.submitted) == stop
    assert proposed(first, rest) == proposed(whole)


def test_it_may_be_stopped_again_and_again(tasks, tmp_path):
    pools = [Recorder(cost_of) for _ in range(4)]
    for pool, trials in zip(pools, (7, 30, 45, TOTAL)):
        tuned(tasks, pool, tmp_path / "a.db", trials)
    whole = Recorder(cost_of)
    tuned(tasks, whole, tmp_path / "b.db")
    assert proposed(*pools) == proposed(whole)


# 1 and 2: not each task has a result, and none may learn from the others of its own call
@pytest.mark.parametrize("results", [1, 2, 14, 37, 55])
def test_an_interrupted_search_goes_on_as_if_it_had_not_been(tasks, tmp_path, results):
    expected = tuned(tasks, Recorder(cost_of), tmp_path / "a.db")
    with pytest.raises(KeyboardInterrupt):
        tuned(tasks, Stopping(cost_of, 4, results), tmp_path / "b.db")
    rest = Recorder(cost_of)
    found = tuned(tasks, rest, tmp_path / "b.db")
    assert len(rest.submitted) == TOTAL - results
    assert configs(found) == configs(expected)


def test_the_cost_models_sampler_goes_on_in_the_middle_of_a_turn(tasks, tmp_path):
    whole, first, rest = (Recorder(cost_of) for _ in range(3))
    tuned(tasks, whole, tmp_path / "a.db", sampler="xgb")
    tuned(tasks, first, tmp_path / "b.db", 41, sampler="xgb")
    tuned(tasks, rest, tmp_path / "b.db", sampler="xgb")
    assert proposed(first, rest) == proposed(whole)
