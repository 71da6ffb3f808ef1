"""tune(): the log, resuming, the finalists, and what ends a search."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from autotune_synthetic import gemm_cost, result, small_cost
from watching_pools import Forbidden, Interrupting, Recorder, Shuffling, tuned

from whet.autotune import best_from_log, create_task, tune
from whet.compiler.errors import MeasureError
from whet.compiler.runtime.arrays.device import cpu
from whet.db import TuningLog
from whet.db.values.decision import FINALISTS_RUN
from whet.measure import MeasureResult


def test_every_trial_is_in_the_log_and_the_default_is_the_first(gemm, tmp_path):
    pool = Recorder(gemm_cost)
    found = tune(gemm, 40, log=tmp_path / "a.db", workers=pool, progress=False)
    log = TuningLog(tmp_path / "a.db", write=False)
    searched, finals = log.runs()
    trials = log.trials(run_id=searched.id)
    assert [t.number for t in trials] == list(range(40))
    assert trials[0].config == gemm.config_space.default == pool.submitted[0]
    assert [t.config for t in trials] == [t.config for t in found.trials]
    assert searched.sampler == "xgb" and searched.state == "finished" and searched.seed == 0
    assert searched.versions["optuna"] and searched.options["check"] is True
    assert finals.sampler == FINALISTS_RUN and finals.state == "finished"
    assert trials[3].flop == 2 * 768 * 1152 * 512


def test_the_best_wins_over_the_default(gemm, gemm_pool, tmp_path):
    found = tuned(gemm, gemm_pool, tmp_path / "a.db", 60)
    costs = [gemm_cost(t.config) for t in found.trials]
    assert found.best.cost == pytest.approx(min(costs))
    assert found.default.number == 0
    assert found.speedup == pytest.approx(costs[0] / min(costs))
    assert found.speedup > 5
    assert len(found.best.result.costs) > 3  # measured again
    assert found.study.best_value == pytest.approx(min(costs))
    text = str(found)
    assert "60 trials, finished" in text and f"{found.speedup:.2f}x over the default" in text


def test_the_finalists_are_the_default_and_the_best_of_different_programs(small, tmp_path):
    def cost(config):
        return result(small_cost(config), program=str(config.choice("c")))

    pool = Recorder(cost)
    found = tuned(small, pool, tmp_path / "a.db", 42)
    [chosen] = pool.remeasured
    assert chosen[0] == small.config_space.default and len(chosen) == 5
    assert len({config.choice("c") for config in chosen}) == 5
    assert chosen[1] == min((t.config for t in found.trials), key=small_cost)


def test_a_lucky_measurement_does_not_beat_the_default(small, tmp_path):
    class Noisy(Recorder):
        def remeasure(self, inputs, rounds):
            slow = [r for r in super().remeasure(inputs, rounds)]
            return [replace(slow[0], costs=(1e-6,) * 3), *slow[1:]]

    found = tuned(small, Noisy(lambda c: small_cost(c)), tmp_path / "a.db", 20)
    assert found.best is found.default
    assert found.best.config == small.config_space.default
    assert found.speedup == 1.0
    again = tuned(small, Forbidden(), tmp_path / "a.db", 20)
    assert again.best.config == small.config_space.default and again.speedup == 1.0
    assert best_from_log(small, tmp_path / "a.db").config == small.config_space.default
    with TuningLog(tmp_path / "a.db") as log:
        assert log.best(small.workload, small.target).config == small.config_space.default
        (task,) = log.summary()
    assert (task.trials, task.succeeded) == (20, 20)


def test_a_finished_run_needs_no_pool(gemm, gemm_pool, tmp_path):
    first = tuned(gemm, gemm_pool, tmp_path / "a.db", 30)
    again = tuned(gemm, Forbidden(), tmp_path / "a.db", 30)
    assert (again.best.config, again.best.cost) == (first.best.config, first.best.cost)
    assert again.speedup == first.speedup
    assert [t.config for t in again.trials] == [t.config for t in first.trials]
    assert len(TuningLog(tmp_path / "a.db").runs()) == 2
    fewer = tuned(gemm, Forbidden(), tmp_path / "a.db", 10)
    assert fewer.best.config == first.best.config


@pytest.mark.parametrize("sampler", ["random", "grid", "tpe", "xgb"])
def test_a_larger_number_goes_on_as_if_it_had_never_stopped(gemm, tmp_path, sampler):
    whole = tuned(gemm, Recorder(gemm_cost), tmp_path / "a.db", 50, sampler=sampler, seed=5)
    tuned(gemm, Recorder(gemm_cost), tmp_path / "b.db", 31, sampler=sampler, seed=5)
    pool = Recorder(gemm_cost)
    both = tuned(gemm, pool, tmp_path / "b.db", 50, sampler=sampler, seed=5)
    assert len(pool.submitted) == 19
    assert [t.config for t in both.trials] == [t.config for t in whole.trials]
    assert [t.number for t in both.trials] == list(range(50))


def test_ctrl_c_keeps_what_was_measured_prints_the_summary_and_goes_on(gemm, tmp_path, capsys):
    with pytest.raises(KeyboardInterrupt):
        tuned(gemm, Interrupting(gemm_cost, 20), tmp_path / "a.db", 50)
    said = capsys.readouterr().err
    assert "16 trials, interrupted" in said and "best" in said
    log = TuningLog(tmp_path / "a.db")
    assert log.runs()[-1].state == "interrupted" and len(log.trials()) == 16
    pool = Recorder(gemm_cost)
    found = tuned(gemm, pool, tmp_path / "a.db", 50)
    assert len(pool.submitted) == 34
    whole = tuned(gemm, Recorder(gemm_cost), tmp_path / "b.db", 50)
    assert [t.config for t in found.trials] == [t.config for t in whole.trials]


def test_interrupted_in_the_middle_of_out_of_order_results_nothing_is_measured_twice(
    gemm, tmp_path
):
    class Stopped(Shuffling):
        def collect(self, timeout=None):
            if len(self.submitted) >= 20:
                raise KeyboardInterrupt
            return super().collect(timeout)

    first = Stopped(gemm_cost)
    with pytest.raises(KeyboardInterrupt):
        tuned(gemm, first, tmp_path / "a.db", 50)
    recorded = TuningLog(tmp_path / "a.db").trials()
    pool = Recorder(gemm_cost)
    found = tuned(gemm, pool, tmp_path / "a.db", 50)
    assert [t.number for t in found.trials] == list(range(50))
    assert len({t.config.key for t in found.trials}) == 50
    assert not {c.key for c in pool.submitted} & {t.config.key for t in recorded}
    assert len(pool.submitted) + len(recorded) == 50


@pytest.mark.parametrize("sampler", ["random", "tpe", "xgb"])
def test_proposals_do_not_depend_on_who_finishes_first(gemm, tmp_path, sampler):
    orders = [
        Recorder(gemm_cost),
        Shuffling(gemm_cost),
        Shuffling(gemm_cost, 2),
        Recorder(gemm_cost, 1),
    ]
    found = [
        tuned(gemm, pool, tmp_path / f"{i}.db", 44, sampler=sampler)
        for i, pool in enumerate(orders)
    ]
    for other in found[1:]:
        assert [t.config for t in other.trials] == [t.config for t in found[0].trials]


def test_each_trial_is_in_the_log_before_the_next_is_proposed(gemm, tmp_path):
    log = TuningLog(tmp_path / "a.db")
    seen = []

    class Watching(Recorder):
        def submit(self, inp):
            seen.append((len(self.submitted), len(log.trials())))
            return super().submit(inp)

    tuned(gemm, Watching(gemm_cost, 1), log, 12, sampler="random")
    assert seen == [(n, n) for n in range(12)]


def test_a_space_smaller_than_the_budget_ends_early(small, small_pool, tmp_path, capsys):
    found = tune(small, 500, log=tmp_path / "a.db", workers=small_pool)
    assert len(found.trials) == 42 and found.state == "exhausted"
    assert (
        "the space has only 42 configs; the search ends after 42 trials" in capsys.readouterr().err
    )
    assert found.best.config == min(small.config_space, key=small_cost)
    assert len(tuned(small, Forbidden(), tmp_path / "a.db", 500).trials) == 42


def test_failures_are_results(gemm, tmp_path):
    def cost(config):
        return result(math.inf) if config.choice("order") == "kij" else gemm_cost(config)

    found = tuned(gemm, Recorder(cost), tmp_path / "a.db", 60)
    assert found.outcomes()["build_error"] >= 3
    assert found.outcomes()["build_error"] + found.outcomes()["ok"] == 60
    failed = TuningLog(tmp_path / "a.db").trials(status="build_error")
    assert failed[0].result.error == "Boom: no registers left"
    assert "build_error" in str(found)


def test_when_the_default_fails_the_rest_is_still_searched(small, tmp_path):
    default = small.config_space.default

    def cost(config):
        return result(math.inf) if config == default else small_cost(config)

    found = tuned(small, Recorder(cost), tmp_path / "a.db", 30)
    assert found.best.result.ok and not found.default.result.ok
    assert math.isnan(found.speedup) and "default  failed: build_error" in str(found)


def test_when_nothing_works_the_commonest_failure_is_quoted(gemm, tmp_path):
    def cost(config):
        kind = "run_crash" if config.choice("order") == "kij" else "build_error"
        return MeasureResult(kind, error=f"while compiling\n{kind}: no registers left", stage="run")

    pool = Recorder(cost)
    with pytest.raises(
        MeasureError, match=r"all 50 candidates failed, .* with build_error"
    ) as error:
        tuned(gemm, pool, tmp_path / "a.db", 200)
    assert "build_error: no registers left" in str(error.value)
    assert len(pool.submitted) < 60
    assert TuningLog(tmp_path / "a.db").runs()[-1].state == "failed"
    with pytest.raises(MeasureError, match="all 20 candidates failed"):
        tuned(gemm, Recorder(cost), tmp_path / "b.db", 20)


def test_lost_workers_end_the_search_and_their_trials_are_tried_again(gemm, tmp_path):
    count = 0

    def cost(config):
        nonlocal count
        count += 1
        return gemm_cost(config) if count <= 12 else MeasureResult("infra_error", error="node died")

    with pytest.raises(
        MeasureError, match=r"(?s)10 candidates in a row came back without an answer.*node died"
    ):
        tuned(gemm, Recorder(cost), tmp_path / "a.db", 40)
    found = tuned(gemm, Recorder(gemm_cost), tmp_path / "a.db", 40)
    whole = tuned(gemm, Recorder(gemm_cost), tmp_path / "b.db", 40)
    assert [t.config for t in found.trials] == [t.config for t in whole.trials]
    assert found.outcomes() == {"ok": 40}


def test_another_space_target_or_device_starts_anew(gemm, gemm_pool, tmp_path):
    log = tmp_path / "a.db"
    tuned(gemm, gemm_pool, log, 10)
    other = create_task(gemm.template, gemm.args, target="llvm -num-threads=1 -vector-bytes=16")
    pool = Recorder(gemm_cost)
    assert len(tuned(other, pool, log, 10).trials) == len(pool.submitted) == 10
    pool = Recorder(gemm_cost)
    tuned(gemm, pool, log, 10, device="cpu-elsewhere")
    assert len(pool.submitted) == 10
    tuned(gemm, Forbidden(), log, 10, device=cpu(0))  # this machine: all is in the log


def test_a_search_after_the_finalists_counts(small, tmp_path):
    log = tmp_path / "a.db"
    first = tuned(small, Recorder(small_cost), log, 5, sampler="grid")
    with pytest.raises(KeyboardInterrupt):
        tuned(small, Interrupting(small_cost, 30), log, 42, sampler="grid")
    found = best_from_log(small, log)
    with TuningLog(log) as opened:
        of_log = opened.best(small.workload, small.target)
    assert (of_log.config, of_log.cost) == (found.config, found.cost)
    assert found.cost < first.best.cost
    assert small_cost(found.config) == min(small_cost(t.config) for t in TuningLog(log).trials())
