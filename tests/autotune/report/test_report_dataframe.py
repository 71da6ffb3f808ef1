"""Trials as a pandas DataFrame: what stands in which column, and what is said without pandas."""

from __future__ import annotations

import builtins
import math

import pytest
from report_logs import BEGAN, configs, failed, gemm_task, ok

from whet.autotune.results.dataframe import trials_dataframe
from whet.autotune.results.result import TuneResult
from whet.autotune.results.trial import Trial
from whet.compiler.errors import ArgumentError
from whet.measure import MeasureResult
from whet.search_spaces import Config

pandas = pytest.importorskip("pandas")


def result() -> TuneResult:
    task = gemm_task()
    tried = configs(task, 4)
    trials = [Trial(i, c, ok(1e-3 * (i + 1), i), 2_000_000) for i, c in enumerate(tried)]
    trials[2] = Trial(2, tried[2], failed("build_error", "Traceback\n  no registers\n\n", 2))
    return TuneResult(task, trials[0], trials[0], trials)


def test_a_row_a_trial_and_a_column_a_knob():
    found = result()
    frame = found.trials_dataframe()
    knobs = list(found.task.config_space.knobs)
    assert list(frame.columns) == [
        "number", "status", "cost_s", "gflops", *knobs, "repeats", "spread",
        "lower_s", "build_s", "run_s", "total_s", "timestamp", "error",
    ]  # fmt: skip
    assert list(frame["number"]) == [0, 1, 2, 3]
    assert list(frame["status"]) == ["ok", "ok", "build_error", "ok"]
    assert frame["cost_s"][1] == pytest.approx(2.02e-3) and math.isnan(frame["cost_s"][2])
    assert frame["gflops"][0] == pytest.approx(2e6 / 1.01e-3 * 1e-9)
    for i, trial in enumerate(found.trials):
        assert {k: frame[k][i] for k in knobs} == trial.config.as_dict()
    assert isinstance(frame["tile_i"][0], tuple) and len(frame["tile_i"][0]) == 3
    assert list(frame["repeats"]) == [5, 5, 0, 5]
    assert frame["spread"][0] == pytest.approx(0.01 / 1.01)
    assert frame["run_s"][0] == 0.3 and math.isnan(frame["run_s"][2])
    assert frame["error"][2] == "no registers" and frame["error"][0] == ""
    assert frame["timestamp"][0] == pandas.Timestamp(BEGAN + 0.5, unit="s", tz="UTC")
    best = frame.loc[frame["cost_s"].idxmin()]
    assert best["number"] == 0
    assert frame.groupby("order")["cost_s"].min().min() == pytest.approx(1.01e-3)


def test_a_knob_that_is_named_like_a_column_keeps_both():
    trial = Trial(0, Config((("status", 7), ("cost_s", "x"))), ok(1e-3))
    frame = trials_dataframe([trial])
    assert frame["status"][0] == "ok" and frame["knob:status"][0] == 7
    assert frame["knob:cost_s"][0] == "x" and math.isnan(frame["gflops"][0])


def test_the_spread_of_one_repeat_is_not_known():
    frame = trials_dataframe([Trial(0, Config(), MeasureResult("ok", (1e-3,)))])
    assert frame["repeats"][0] == 1 and math.isnan(frame["spread"][0])


def test_no_trials_are_an_empty_table():
    frame = trials_dataframe([])
    assert len(frame) == 0 and "cost_s" in frame.columns


def test_without_pandas_the_way_out_is_said(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "pandas":
            raise ImportError("No module named 'pandas'")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ArgumentError, match=r"not installed\n.*pip install .*\[plots\]"):
        result().trials_dataframe()
