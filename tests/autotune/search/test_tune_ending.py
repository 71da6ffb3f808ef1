"""tune() before its number of trials: target, patience, expected gain, timeout; and what it says"""

from __future__ import annotations

import numpy as np
import pytest
from autotune_pools import Expecting, Recorder
from autotune_synthetic import gemm_cost, result, small_cost

from whet.autotune import best_from_log, tune
from whet.autotune.search.early_stop import Ending, Limits
from whet.autotune.search.loop import GRACE
from whet.compiler.errors import ArgumentError
from whet.db import TuningLog
from whet.measure import MeasureResult


def tuned(task, cost, log, trials=200, **options):
    pool = Recorder(lambda inp: cost(inp.config))
    options = {"sampler": "random"} | options
    return tune(task, trials, log=log, workers=pool, progress=False, **options), pool


def state_of(log, sampler="random"):
    with TuningLog(log, write=False) as opened:
        return [run.state for run in opened.runs() if run.sampler == sampler]


def test_a_target_cost_ends_the_search_and_is_kept_in_the_log(small, tmp_path):
    log = tmp_path / "a.db"
    found, pool = tuned(small, small_cost, log, target_cost=2e-3)
    assert found.state == "stopped" and found.stopped.startswith("target cost: ")
    assert len(pool.submitted) < 42 and found.best.cost <= 2e-3
    assert state_of(log) == [f"stopped: {found.stopped}"]
    assert f"stopped: {found.stopped}" in str(found)
    again, pool = tuned(small, small_cost, log, target_cost=2e-3)
    assert pool.submitted == [] and again.stopped.startswith("target cost: ")
    assert [t.config for t in again.trials] == [t.config for t in found.trials]
    further, pool = tuned(small, small_cost, log)
    assert further.state == "exhausted" and len(further.trials) == 42
    assert len(pool.submitted) == 42 - len(found.trials)


def test_trials_without_improvement_end_it_where_they_would_have_at_first(gemm, tmp_path):
    found, pool = tuned(gemm, gemm_cost, tmp_path / "a.db", early_stop=12)
    assert found.stopped == "no improvement in 12 trials" and len(pool.submitted) < 200
    costs = [t.cost for t in found.trials]
    vain = len(costs) - 1 - costs.index(min(costs))
    assert 12 <= vain <= 12 + 4  # those in flight were measured, too
    again, pool = tuned(gemm, gemm_cost, tmp_path / "a.db", early_stop=12)
    assert pool.submitted == [] and again.stopped == found.stopped
    # stopped by hand earlier on, it ends at the same trial
    tuned(gemm, gemm_cost, tmp_path / "b.db", 7)
    resumed, _ = tuned(gemm, gemm_cost, tmp_path / "b.db", early_stop=12)
    assert [t.config for t in resumed.trials] == [t.config for t in found.trials]
    _, pool = tuned(gemm, gemm_cost, tmp_path / "a.db", early_stop=40)
    assert len(pool.submitted) >= 20


def test_an_expected_gain_below_the_noise_ends_it(gemm, tmp_path):
    def noisy(config):
        cost = gemm_cost(config)
        return MeasureResult("ok", (0.9 * cost, cost, 1.1 * cost, 1.02 * cost))

    sampler = Expecting(gemm.config_space, lambda told: 0.5 if told < 50 else 0.01)
    found, pool = tuned(gemm, noisy, tmp_path / "a.db", sampler=sampler, early_stop=True)
    assert found.stopped.startswith(
        "expected gain 1.00% is below the noise of a measurement, 2.98%"
    )
    assert 64 <= len(pool.submitted) <= 68  # two looks in a row, at 56 and 64
    precise, pool = tuned(gemm, gemm_cost, tmp_path / "b.db", 80, sampler=sampler, early_stop=True)
    assert precise.stopped == "" and len(pool.submitted) == 80


def test_a_sampler_that_expects_nothing_cannot_stop_early(gemm, tmp_path):
    with pytest.raises(
        ArgumentError, match=r"(?s)sampler='random', early_stop=True.*early_stop=50"
    ):
        tuned(gemm, gemm_cost, tmp_path / "a.db", early_stop=True)


class Clock:
    """In the place of the modules' ``time``: it goes on when it is told to."""

    def __init__(self, monkeypatch):
        self.now = 1000.0
        for module in ("search.loop", "session", "search.phase_times"):
            monkeypatch.setattr(f"whet.autotune.{module}.time", self)

    def monotonic(self):
        return self.now

    perf_counter = monotonic


def test_a_timeout_keeps_what_was_measured_and_the_next_call_goes_on(gemm, tmp_path, monkeypatch):
    clock = Clock(monkeypatch)

    class Slow(Recorder):
        def collect(self, timeout=None):
            clock.now += 0.05
            return super().collect(timeout)

    pool = Slow(lambda inp: gemm_cost(inp.config))
    found = tune(gemm, 500, tmp_path / "a.db", "random", pool, progress=False, timeout=0.8)
    assert clock.now - 1000.0 < 0.8
    assert found.stopped == "timeout of 0.8 s" and 0 < len(found.trials) < 100
    assert found.best is not None
    assert found.seconds["waiting"] == pytest.approx(clock.now - 1000.0)
    more, pool = tuned(gemm, gemm_cost, tmp_path / "a.db", 100, timeout=60)
    assert more.stopped == "" and len(more.trials) == 100
    assert len(pool.submitted) == 100 - len(found.trials)
    whole, _ = tuned(gemm, gemm_cost, tmp_path / "b.db", 100)
    assert [t.config for t in more.trials] == [t.config for t in whole.trials]


def test_results_that_take_too_long_after_a_timeout_are_dropped(gemm, tmp_path, monkeypatch):
    clock = Clock(monkeypatch)

    class Stuck(Recorder):
        def collect(self, timeout=None):
            if len(self.submitted) < 10:
                return super().collect(timeout)
            clock.now += 0.05
            return []

    pool = Stuck(lambda inp: gemm_cost(inp.config))
    found = tune(gemm, 500, tmp_path / "a.db", "random", pool, progress=False, timeout=0.5)
    assert found.stopped == "timeout of 0.5 s"
    assert 0 < len(found.trials) < len(pool.submitted)
    assert 0.5 < clock.now - 1000.0 < 0.5 + GRACE
    later = Recorder(pool._costs)
    later._done, later._tickets = pool._done, pool._tickets  # the pool goes on, and answers late
    more = tune(gemm, 40, tmp_path / "a.db", "random", later, progress=False)
    assert len(more.trials) == 40


def test_no_better_than_the_default_is_an_answer_that_build_agrees_with(small, tmp_path):
    default = small.config_space.default

    class Close(Recorder):
        """Finalists that differ by less than the rounds do."""

        def remeasure(self, inputs, rounds):
            rng = np.random.default_rng(5)
            costs = [[] for _ in inputs]
            while turn := list(rounds(costs)):
                for i in turn:
                    cost = 1e-3 if inputs[i].config == default else 0.9995e-3
                    costs[i].append(cost * float(np.exp(0.02 * rng.standard_normal())))
            return [MeasureResult("ok", tuple(own)) for own in costs]

    pool = Close(lambda inp: small_cost(inp.config))
    found = tune(small, 30, tmp_path / "a.db", "random", pool, progress=False)
    assert not found.better and found.best is found.default and found.speedup == 1.0
    low, high = found.speedup_interval
    assert low <= 1 <= high
    assert "none: no config is faster than the default beyond the noise" in str(found)
    assert best_from_log(small, tmp_path / "a.db").config == default
    again = tune(small, 30, tmp_path / "a.db", "random", pool, progress=False)
    assert not again.better and again.speedup_interval == found.speedup_interval


def test_the_winner_carries_its_interval(small, tmp_path):
    found, _ = tuned(small, small_cost, tmp_path / "a.db", 30)
    assert found.better and found.speedup_interval == pytest.approx((found.speedup,) * 2)
    assert f"(95 %: {found.speedup:.2f}x to {found.speedup:.2f}x)" in str(found)
    assert len(found.best.result.costs) == 6  # the others were far behind: no more rounds


def test_options_are_in_the_run_and_time_is_accounted_for(gemm, tmp_path):
    found, _ = tuned(gemm, gemm_cost, tmp_path / "a.db", 20, early_stop=19, seed=4)
    with TuningLog(tmp_path / "a.db") as log:
        run = log.runs()[0]
    search = run.options["search"]
    assert run.seed == 4 and run.versions["optuna"] and run.options["repeat"] == 10
    assert (search["early_stop"], search["trials"], search["level"]) == (19, 20, "full")
    assert search["timeout"] is None and search["target_cost"] is None
    assert isinstance(search["transfer"], float) and (search["tasks"], search["weight"]) == (1, 1.0)
    spent = found.seconds
    assert {"wall", "propose", "log", "waiting", "start", "build", "measure"} <= spent.keys()
    inside = sum(v for k, v in spent.items() if k not in ("wall", "idle", "build", "measure"))
    assert 0 < inside <= spent["wall"]


def test_wrong_limits_are_refused(gemm, tmp_path):
    for wrong in (
        {"timeout": 0},
        {"timeout": "1 min"},
        {"timeout": float("nan")},
        {"target_cost": -1e-3},
        {"target_cost": True},
        {"early_stop": 0},
        {"early_stop": 2.5},
        {"early_stop": "yes"},
        {"transfer": "all"},
        {"transfer": 1},
        {"weights": [1.0]},
    ):
        with pytest.raises(ArgumentError, match=next(iter(wrong))) as error:
            tuned(gemm, gemm_cost, tmp_path / "a.db", **wrong)
        assert len(str(error.value).splitlines()) >= 2
    assert not (tmp_path / "a.db").exists()


def test_the_noise_is_that_of_the_latest_medians():
    ending = Ending(Limits(early_stop=True), lambda: 0.01)
    assert ending.noise == 0.005
    for _ in range(5):
        ending.observe(result(1.0))
    assert ending.noise == 0.005  # equal repeats
    for _ in range(20):
        ending.observe(MeasureResult("ok", (0.9, 1.0, 1.1, 1.2)))
    assert 0.04 < ending.noise < 0.08
