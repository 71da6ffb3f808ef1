"""Resuming: a search of many tasks proposes the same trials, wherever it was stopped."""

from __future__ import annotations

import json

import pytest
from autotune_pools import Recorder, Stopping
from autotune_synthetic import gemm_cost, gemm_template, small_cost, small_template

from whet.autotune import create_task, tune
from whet.autotune.samplers import SAMPLERS
from whet.db import TuningLog

TOTAL = 50
SHAPES = (768, 1152, 512), (256, 256, 256)


def cost_of(inp):
    return (small_cost if inp.workload.template == "test/small" else gemm_cost)(inp.config)


def tuned(pool, log, trials=TOTAL):
    small = create_task(small_template, args=(64,), target="llvm")
    tasks = [small, *(create_task(gemm_template, args=one, target="llvm") for one in SHAPES)]
    return tune(tasks, trials, log=log, workers=pool, sampler="attentive", progress=False)


def proposed(*pools):
    return [(inp.workload.key, inp.config.key) for pool in pools for inp in pool.submitted]


@pytest.fixture(scope="module", autouse=True)
def attentive():
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SAMPLERS, "attentive", ("autotune_pools", "Attentive"))
        yield


@pytest.fixture(scope="module")
def whole(attentive, tmp_path_factory):
    """The proposals of one call, by how many candidates may be in flight."""
    pools = {capacity: Recorder(cost_of, capacity) for capacity in (4, 16)}
    for pool in pools.values():
        tuned(pool, tmp_path_factory.mktemp("whole") / "a.db")
    return {capacity: proposed(pool) for capacity, pool in pools.items()}


# in the middle of a batch and of a turn; 35: a third of it is less than a turn of 16
@pytest.mark.parametrize(
    "stops, capacity", [((13,), 4), ((41,), 4), ((3, 7, 30, 45), 4), ((35,), 16)]
)
def test_a_larger_budget_goes_on_as_if_it_had_been_asked_for_at_once(
    whole, tmp_path, stops, capacity
):
    pools = [Recorder(cost_of, capacity) for _ in range(len(stops) + 1)]
    for pool, trials in zip(pools, (*stops, TOTAL)):
        tuned(pool, tmp_path / "a.db", trials)
    assert sum(len(pool.submitted) for pool in pools[:-1]) == stops[-1]
    assert proposed(*pools) == whole[capacity]


def alone(pool, log, trials=TOTAL):
    task = create_task(gemm_template, args=SHAPES[0], target="llvm")
    return tune(task, trials, log=log, workers=pool, sampler="attentive", progress=False)


@pytest.mark.parametrize("stops", [(13,), (41,), (3, 7, 30, 45)])
def test_a_search_of_one_task_takes_its_past_at_once(attentive, tmp_path, stops):
    once = Recorder(cost_of, 4)
    alone(once, tmp_path / "b.db")
    pools = [Recorder(cost_of, 4) for _ in range(len(stops) + 1)]
    for pool, trials in zip(pools, (*stops, TOTAL)):
        found = alone(pool, tmp_path / "a.db", trials)
        assert len(found.trials) == trials
    assert proposed(*pools) == proposed(once)
    with TuningLog(tmp_path / "a.db") as log:
        told = "SELECT told FROM trial JOIN run ON run.id = run_id WHERE sampler = 'attentive'"
        texts = log.read("look", lambda c: c.exec_driver_sql(told).scalars().all())
    # Each was told once, whichever run it was of.
    assert sorted(n for text in texts for n in json.loads(text)) == list(range(46))


def test_a_trial_that_is_missing_is_asked_for_again(attentive, tmp_path):
    whole, rest = Recorder(cost_of, 4), Recorder(cost_of, 4)
    alone(whole, tmp_path / "a.db")
    with TuningLog(tmp_path / "a.db") as log:
        log.write("lose one", lambda c: c.exec_driver_sql("DELETE FROM trial WHERE number = 20"))
    found = alone(rest, tmp_path / "a.db", TOTAL + 5)
    assert proposed(rest)[0] == proposed(whole)[20] and len(rest.submitted) == 6
    assert [trial.number for trial in found.trials] == list(range(TOTAL + 5))


# 2: the third task has no result yet, and learns nothing from the others of its own call either
@pytest.mark.parametrize("results", [2, 14, 37])
def test_an_interrupted_search_goes_on_as_if_it_had_not_been(whole, tmp_path, results):
    first, rest = Stopping(cost_of, 4, results), Recorder(cost_of)
    with pytest.raises(KeyboardInterrupt):
        tuned(first, tmp_path / "a.db")
    found = tuned(rest, tmp_path / "a.db")
    assert len(rest.submitted) == TOTAL - results
    for one in found:
        of_it = [config for workload, config in whole[4] if workload == one.task.workload.key]
        assert [trial.config.key for trial in one.trials] == of_it
