"""tune() on spaces and samplers that misbehave: no valid point, one, raising constraints, NaN."""

from __future__ import annotations

import math

import pytest
from autotune_pools import Leaving, Recorder
from autotune_synthetic import gemm_cost, small_cost

from whet.autotune import Task, create_task, tune
from whet.compiler.errors import MeasureError, SpaceError
from whet.db import TuningLog
from whet.search_spaces import get_config, template


@template("test/nothing_fits")
def nothing_fits(n):
    cfg = get_config()
    cfg.add_flop(1000)
    cfg.define_knob("a", list(range(n)))
    cfg.multi_filter(lambda view: view["a"].val < 0)
    return None, []


@template("test/one_fits")
def one_fits(n):
    cfg = get_config()
    cfg.add_flop(1000)
    cfg.define_knob("a", list(range(n)))
    cfg.multi_filter(lambda view: view["a"].val == n - 1)
    return None, []


@template("test/falls_over")
def falls_over(n):
    """Too large a range to be enumerated when the space is made."""
    cfg = get_config()
    cfg.add_flop(1000)
    for name in "abcdefgh":
        cfg.define_knob(name, list(range(n)))

    def sums(view):
        total = sum(view[name].val for name in "abcdefgh")
        if total > 4 * n:
            raise RuntimeError(f"cannot say for {total}")
        return True

    cfg.multi_filter(sums)
    return None, []


def tuned(task, cost, log, trials=30, **options):
    pool = Recorder(lambda inp: cost(inp.config))
    options = {"sampler": "random", "progress": False} | options
    return tune(task, trials, log=log, workers=pool, **options), pool


def task_of(made, *args, target):
    return Task(made.workload(*args), target, made)


def test_a_space_without_a_valid_point(small, tmp_path):
    with pytest.raises(SpaceError, match="test/nothing_fits"):
        tuned(task_of(nothing_fits, 5, target=small.target), lambda c: 1.0, tmp_path / "a.db")


def test_a_space_of_one_point_has_nothing_better(small, tmp_path):
    task = task_of(one_fits, 5, target=small.target)
    found, pool = tuned(task, lambda c: 1e-3, tmp_path / "a.db")
    assert len(pool.submitted) == 1 and found.state == "exhausted"
    assert found.best is found.default and not found.better and found.speedup == 1.0
    assert found.best.config.choice("a") == 4


def test_a_constraint_that_raises_in_the_middle_keeps_what_was_measured(small, tmp_path):
    task = task_of(falls_over, 50, target=small.target)
    with pytest.raises(SpaceError, match=r"(?s)cannot say for \d+"):
        tuned(task, lambda c: 1e-3, tmp_path / "a.db")
    with TuningLog(tmp_path / "a.db") as log:
        assert all(run.state == "failed" for run in log.runs())


@pytest.mark.parametrize("trials", [30, 500])
def test_a_sampler_that_leaves_the_space(small, tmp_path, trials):
    sampler = Leaving(small.config_space)
    with pytest.raises((SpaceError, ValueError)):
        tuned(small, small_cost, tmp_path / "a.db", trials, sampler=sampler)
    with TuningLog(tmp_path / "a.db") as log:
        assert len(log.trials()) == 5  # what was in flight was waited for
        assert log.runs()[0].state == "failed"
    found, _ = tuned(small, small_cost, tmp_path / "a.db")
    assert len(found.trials) == 30


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0])
@pytest.mark.parametrize("sampler", ["random", "xgb"])
def test_costs_that_are_no_times_are_failures(small, tmp_path, bad, sampler):
    def cost(config):
        return bad if config.choice("a") == "x" else small_cost(config)

    found, _ = tuned(small, cost, tmp_path / "a.db", sampler=sampler)
    assert found.outcomes()["run_error"] >= 3 and found.best.cost >= 1e-3
    text = next(t.result.error for t in found.trials if not t.result.ok)
    assert text.startswith("costs are seconds, finite and above 0; these were reported: ")
    with pytest.raises(MeasureError, match="costs are seconds"):
        tuned(small, lambda config: bad, tmp_path / "b.db", sampler=sampler)


@pytest.mark.parametrize("sampler", ["random", "grid", "tpe", "genetic", "xgb"])
def test_costs_that_are_all_equal(small, tmp_path, sampler):
    found, _ = tuned(small, lambda config: 1e-3, tmp_path / "a.db", 40, sampler=sampler)
    assert len(found.trials) == 40 and not found.better
    assert found.best is found.default


def test_a_record_that_is_not_in_the_space_is_passed_over(small, tmp_path):
    import sqlite3

    log = tmp_path / "a.db"
    tuned(small, small_cost, log, 20)
    with sqlite3.connect(log) as raw:
        change = "UPDATE trial SET config = replace(config, '\"z\"', '\"q\"')"
        altered = raw.execute(f"{change} WHERE run_id = 1 AND config LIKE '%\"z\"%'").rowcount
        raw.execute(change)
    raw.close()
    found, pool = tuned(small, small_cost, log, 30)
    assert 0 < altered < 20 and len(pool.submitted) >= 10
    assert len(found.trials) == 20 - altered + len(pool.submitted)
    assert all(t.config in small.config_space for t in found.trials)


def test_a_study_of_a_long_search_keeps_its_attributes(gemm, tmp_path):
    found, _ = tuned(gemm, gemm_cost, tmp_path / "a.db", 60)
    assert found.study.best_value == pytest.approx(found.best.cost)
    assert [t.user_attrs["number"] for t in found.study.trials] == list(range(60))
    assert create_task("test/small", (64,)).config_space.size == 42
