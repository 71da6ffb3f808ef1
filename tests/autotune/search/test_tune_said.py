"""Messages of tune(): records passed over, bad last measurements, samplers, summaries."""

from __future__ import annotations

import math
import sqlite3
import subprocess
import sys
from dataclasses import replace

import optuna
import pytest
from autotune_pools import Recorder
from autotune_synthetic import small_cost, small_template

from whet.autotune import create_task, tune
from whet.autotune.results.result import TuneResult
from whet.autotune.results.trial import Trial
from whet.compiler.errors import ArgumentError, MeasureError, SpaceError, TargetError
from whet.db import IgnoredRecordsWarning, TuningLog
from whet.measure import MeasureResult, ReplayPool
from whet.search_spaces import Template, get_config, template


def tuned(task, log, trials=20, cost=small_cost, **options):
    options = {"sampler": "random", "progress": False} | options
    options.setdefault("workers", Recorder(lambda inp: cost(inp.config)))
    return tune(task, trials, log=log, **options)


# --- records that are passed over


@pytest.mark.parametrize("transfer", [True, False])
@pytest.mark.parametrize("progress", [True, False])
def test_trials_of_another_version_are_counted(small, tmp_path, progress, transfer):
    tuned(small, tmp_path / "a.db", 30)
    newer = replace(small, template=Template(small.name, small_template.func, version=2))
    with pytest.warns(IgnoredRecordsWarning, match=": 30 trials of another version of this") as w:
        tuned(newer, tmp_path / "a.db", 5, progress=progress, transfer=transfer)
    assert w[0].filename == __file__  # the line that asked, not one of ours


@pytest.mark.parametrize("change", ["config = '{oops'", "costs = '[null]'", "status = 'wat'"])
def test_a_search_goes_on_beside_broken_rows(small, tmp_path, change):
    log = tmp_path / "a.db"
    tuned(small, log, 20)
    raw = sqlite3.connect(log)
    with raw:
        raw.execute(f"UPDATE trial SET {change} WHERE number < 5 AND run_id = 1")
    raw.close()
    pool = Recorder(lambda inp: small_cost(inp.config))
    with pytest.warns(IgnoredRecordsWarning, match="5 broken trials are passed over"):
        found = tuned(small, log, 30, workers=pool)
    assert len(found.trials) == 30 and len(pool.submitted) >= 10


# --- the last measurement


class Remeasuring(Recorder):
    """Answers the last measurement, all of it or one finalist, with a cost of its own."""

    def __init__(self, bad, only=None):
        super().__init__(lambda inp: small_cost(inp.config))
        self.bad, self.only = bad, only

    def remeasure(self, inputs, rounds):
        costs = [[] for _ in inputs]
        while turn := list(rounds(costs)):
            for i in turn:
                good = small_cost(inputs[i].config)
                costs[i].append(self.bad if self.only in (None, i) else good)
        return [MeasureResult("ok", tuple(own)) for own in costs]


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0])
def test_costs_that_are_no_times_in_the_last_measurement(small, tmp_path, bad):
    found = tuned(small, tmp_path / "a.db", workers=Remeasuring(bad, only=1))
    assert found.best.result.ok and found.state == "finished"
    with TuningLog(tmp_path / "a.db") as log:
        finals = log.trials(run_id=2)
    failed = [t for t in finals if not t.result.ok]
    assert len(failed) == 1 and "these were reported" in failed[0].result.error
    with pytest.raises(MeasureError, match="costs are seconds, finite and above 0"):
        tuned(small, tmp_path / "b.db", workers=Remeasuring(bad))


# --- samplers


class Falling(optuna.samplers.RandomSampler):
    def sample_independent(self, *args):
        raise ZeroDivisionError("in my sampler")


def test_what_a_sampler_of_ones_own_raises_is_noted(small, tmp_path):
    with pytest.raises(ZeroDivisionError, match="in my sampler") as error:
        tuned(small, tmp_path / "a.db", sampler=Falling(seed=0))
    assert error.value.__notes__ == ["raised by the sampler Falling, asked for trial 1"]


def test_a_class_is_no_sampler(small, tmp_path):
    with pytest.raises(ArgumentError, match=r"make an instance: TPESampler\(\)"):
        tuned(small, tmp_path / "a.db", sampler=optuna.samplers.TPESampler)


def test_a_sampler_whose_package_is_missing(small, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    sampler = optuna.samplers.CmaEsSampler(seed=0)
    with pytest.raises(ArgumentError, match=r"(?s)pip install cmaes, or sampler=\"cmaes\""):
        tuned(small, tmp_path / "a.db", sampler=sampler)
    assert not (tmp_path / "a.db").exists()


# --- pools, constraints, targets


def test_a_replay_pool_without_records(small, tmp_path):
    with pytest.raises(MeasureError, match=r"(?s)nothing is recorded for .*the pool has 0 costs"):
        tuned(small, tmp_path / "a.db", workers=ReplayPool({}))


@pytest.mark.parametrize("cost", ["fast", True])
def test_a_replay_pool_of_what_is_no_cost(small, tmp_path, cost):
    with pytest.raises(MeasureError, match=r"(?s)was recorded for it.*seconds per call"):
        tuned(small, tmp_path / "a.db", cost=lambda config: cost)


@template("test/misspelt")
def misspelt(n):
    cfg = get_config()
    cfg.define_knob("tile_i", list(range(n)))
    cfg.multi_filter(lambda c: c["tile_1"].val > 0)
    return None, []


def test_a_constraint_with_a_misspelt_knob(tmp_path):
    with pytest.raises(SpaceError) as error:
        tuned(create_task(misspelt, args=(5,), target="llvm"), tmp_path / "a.db")
    text = str(error.value)
    assert "view['tile_1']: the space has no such knob\n  did you mean 'tile_i'?" in text
    assert "it raised" not in text and "test for the cases" not in text


def test_cuda_is_refused_before_anything_is_built(tmp_path):
    task = create_task(small_template, args=(64,), target="cuda")
    with pytest.raises(TargetError, match="device='cuda-emulator' checks the numbers on the CPU"):
        tuned(task, tmp_path / "a.db", workers=None)
    assert not (tmp_path / "a.db").exists()
    assert tuned(task, tmp_path / "a.db").best is not None  # a pool knows for itself


# --- summaries


def result_of(task, load, rounds=(1e-3,), cpus=2):
    result = MeasureResult("ok", tuple(rounds), environment={"load": load, "cpus": cpus})
    trial = Trial(0, task.config_space.default, result)
    return TuneResult(task, trial, trial, [trial])


def test_a_busy_machine_is_said(small):
    assert "busy (load 5.4 on 2 cores): measured times are upper" in str(result_of(small, 5.4))
    assert result_of(small, 2.5).busy == ""  # a search that has just ended leaves as much
    shaken = [1e-3, 1.1e-3, 1.4e-3, 1e-3, 1.3e-3, 1.2e-3]
    assert "load 2.5" in result_of(small, 2.5, shaken).busy
    assert result_of(small, 1.5, shaken).busy == ""
    assert result_of(small, 5.4, cpus=64).busy == ""
    assert "busy" not in str(result_of(small, None)) + str(result_of(small, 9.0, cpus=None))


def test_the_default_as_the_best_so_far_is_no_speed_up(small):
    text = str(replace(result_of(small, 5.4), compared=False, state="interrupted", log="a.db"))
    assert "  speed-up none: the default config is the best so far" in text and "x over" not in text
    assert text.endswith("  log      a.db, from which the same call goes on")


def test_a_speed_up_of_a_busy_machine_is_uncertain(small):
    def said(load, **more):
        quick = result_of(small, load)
        slow = replace(quick.best, result=MeasureResult("ok", (2.84e-3,)))
        found = replace(quick, default=slow, speedup_interval=(1.22, 21.08), **more)
        return next(line for line in str(found).splitlines() if "speed-up" in line)

    assert said(0.5) == "  speed-up 2.84x over the default config  (95 %: 1.22x to 21.08x)"
    assert said(5.4) == (
        "  speed-up 2.84x over the default config, uncertain: the machine was busy; "
        "with 95 % confidence the true one is from 1.22x to 21.08x"
    )
    assert said(5.4, compared=False).endswith("busy, not compared in turns")
    again = "default and best were measured once more, in turns"
    assert again in str(result_of(small, 5.4)) and again not in str(result_of(small, 0.5))


def test_one_trial_is_one_trial(small, tmp_path, capsys):
    found = tuned(small, tmp_path / "a.db", 1)
    assert ": 1 trial, finished" in str(found)
    assert repr(found).startswith("<TuneResult test/small(64): 1 trial, finished, best 2.7 ms")
    assert "\n" not in repr(found) and len(repr(found)) < 100
    tuned(small, tmp_path / "a.db", 2, progress=True)
    assert "1 of 2 trials is in the log already" in capsys.readouterr().err


def test_the_peak_is_in_the_summary_without_progress(tmp_path):
    task = create_task("matmul", args=(16, 16, 16), target="llvm")
    for _ in range(2):  # measured, then from the log
        found = tuned(task, tmp_path / "a.db", 1, lambda config: 1e-6)
        assert "of one core's FMA peak" in str(found)


INTERRUPTED = """
from autotune_synthetic import small_template
from whet.autotune import create_task, tune
from whet.measure import ReplayPool

def cost(inp):
    raise KeyboardInterrupt

task = create_task(small_template, args=(64,), target="llvm")
tune(task, 20, log="a.db", sampler="random", workers=ReplayPool(cost), progress=False)
"""


def test_ctrl_c_prints_the_summary_and_few_lines_of_ours(tmp_path):
    from pathlib import Path

    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n{INTERRUPTED}"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert "0 trials, interrupted" in done.stderr and "KeyboardInterrupt" in done.stderr
    assert "autotune/search/loop.py" not in done.stderr and len(done.stderr.splitlines()) < 15
    with TuningLog(tmp_path / "a.db") as log:
        assert log.trials() == []
