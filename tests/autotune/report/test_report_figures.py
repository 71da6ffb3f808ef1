"""Figures of a report: knobs and their features, the model's figures, failures, times."""

from __future__ import annotations

import math

import numpy as np
import pytest
from report_logs import BEGAN, configs, failed, gemm_result, gemm_task, ok, write_search

from whet.autotune.report.model import ROWS, cross_validate
from whet.autotune.report.times import stages, times
from whet.autotune.results.failures import excerpt, failures, last_line
from whet.autotune.results.knob_values import dimensions, encode
from whet.autotune.results.recorded import find_tasks, read_task
from whet.autotune.samplers.model.cost_model import spearman
from whet.db import TuningLog
from whet.measure import MeasureResult
from whet.search_spaces import Config


def test_splits_come_in_parts_and_words_as_they_are():
    kinds = ("split", "reorder", "annotate", "knob", "knob", "knob")
    rows = [
        ((4, 2, 8), (0, 2, 1), ("vec", "none"), "a", 3, (1, 16)),
        ((1, 64, 1), (2, 1, 0), ("none", "none"), True, 12, (4, 8)),
    ]
    made = [Config(tuple(zip("srawnt", row)), "f", kinds) for row in rows]
    found = dimensions(made)
    assert [(d.name, d.shown, d.numeric) for d in found] == [
        ("s[0]", False, True), ("s[1]", True, True), ("s[2]", True, True), ("r", True, False),
        ("a[0]", True, False), ("a[1]", True, False), ("w", True, False), ("n", True, True),
        ("t[0]", True, True), ("t[1]", True, True),
    ]  # fmt: skip
    assert found[2].distinct == [1, 8] and found[6].distinct == [True, "a"]
    owners, table = encode(found)
    assert owners == list("sss" + "rrr" + "aa" + "a" + "ww" + "n" + "tt")
    assert table.dtype == np.float32 and table.shape == (2, len(owners))
    assert table[0, :3] == pytest.approx(np.log2([5, 3, 9]))
    assert table[:, 3:6].tolist() == [[0, 2, 1], [2, 1, 0]]  # where each axis stands
    assert table[:, 6:8].sum(axis=1).tolist() == [1, 1]
    assert dimensions([]) == [] and encode([])[1].shape == (0, 0)


def test_only_the_commonest_of_many_words_get_a_column():
    made = [Config((("w", f"word{i % 100}"),), "f", ("knob",)) for i in range(150)]
    _, table = encode(dimensions(made))
    assert table.shape == (150, 64)
    assert table[:50].sum() == 50 and table[50:100].sum() == 14  # twice, and once


def data_of(n: int, noise: float = 0.0) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Costs that depend on knob a strongly, on b weakly, on c not at all."""
    rng = np.random.default_rng(1)
    knobs = rng.integers(0, 5, (n, 3)).astype(np.float32)
    logs = 1.0 * knobs[:, 0] + 0.3 * knobs[:, 1] + noise * rng.normal(size=n)
    return np.exp(logs) * 1e-3, knobs, ["a", "b", "c"]


def test_the_model_finds_the_knob_that_matters():
    found = cross_validate(*data_of(300))
    assert found.spearman > 0.95 and found.typical_error < 1.2 and not found.sampled
    assert list(found.importance)[:2] == ["a", "b"]
    assert found.importance["a"] > 1.0 and 0.02 < found.importance["b"] < 0.4
    assert found.importance["c"] < 0.01
    assert (found.measured == data_of(300)[0]).all()


def test_predictions_are_of_trials_that_the_model_has_not_seen():
    rng = np.random.default_rng(0)
    costs = np.exp(rng.normal(size=400))
    knobs = rng.normal(size=(400, 3)).astype(np.float32)  # a model could learn them by heart
    found = cross_validate(costs, knobs, ["a", "b", "c"])
    assert abs(found.spearman) < 0.2
    loops = np.log(costs).reshape(-1, 1).astype(np.float32)
    assert cross_validate(costs, knobs, ["a", "b", "c"], loops).spearman > 0.9


def test_failures_and_surplus_trials_are_left_out():
    costs, knobs, owners = data_of(ROWS + 500, 0.1)
    costs[::4] = math.inf
    found = cross_validate(costs, knobs, owners)
    worked = int(np.isfinite(costs).sum())
    assert len(found.rows) == min(worked, ROWS) and found.sampled == (worked > ROWS)
    assert np.isfinite(costs[found.rows]).all() and (np.diff(found.rows) > 0).all()
    assert (found.measured == costs[found.rows]).all()
    again = cross_validate(costs, knobs, owners)
    assert (again.predicted == found.predicted).all() and again.importance == found.importance


def test_too_little_to_learn_from():
    costs, knobs, owners = data_of(19)
    assert cross_validate(costs, knobs, owners) is None
    costs, knobs, owners = data_of(60)
    assert cross_validate(np.full(60, 1e-3), knobs, owners) is None
    assert cross_validate(costs, knobs[:, :0], []) is None
    costs[10:] = math.inf
    assert cross_validate(costs, knobs, owners) is None


def test_rank_correlation():
    assert spearman(np.array([1.0, 2, 3]), np.array([10.0, 20, 90])) == pytest.approx(1)
    assert spearman(np.array([1.0, 2, 3]), np.array([9.0, 5, 1])) == pytest.approx(-1)
    # by hand: ranks (1, 2.5, 2.5, 4) and (1, 2, 3, 4)
    assert spearman(np.array([1.0, 5, 5, 9]), np.array([1.0, 2, 3, 4])) == pytest.approx(
        4.5 / math.sqrt(4.5 * 5)
    )
    assert math.isnan(spearman(np.ones(3), np.arange(3.0)))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A search that was stopped and went on later, with a last measurement."""
    path, task = tmp_path_factory.mktemp("figures") / "a.db", gemm_task()
    tried = configs(task, 30)
    write_search(path, task, tried[:20], finals=False)
    with TuningLog(path) as log:
        run = log.start_run(task.workload, task.target, log.devices()[0],
                            task.config_space.fingerprint, "tpe", 1)  # fmt: skip
        for i in range(20, 30):
            result = gemm_result(tried[i], i)
            later = MeasureResult(**(result.__dict__ | {"timestamp": BEGAN + 1000 + i}))
            log.add_trial(run, i, tried[i], later)
    import sqlite3

    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE run SET started_at = ? WHERE id = 2", (BEGAN + 1000,))
    raw.close()
    with TuningLog(path, write=False) as log:
        return read_task(log, find_tasks(log)[0])


def test_the_pause_between_two_runs_takes_no_time(data):
    assert len(data.searched) == 30 and [r.sampler for r in data.searches] == ["xgb", "tpe"]
    assert data.elapsed[:2] == pytest.approx([0.5, 1.0])
    assert data.elapsed[19:21] == pytest.approx([10.0, 10.0 + 20])
    assert data.elapsed == sorted(data.elapsed)
    assert times(data).wall == pytest.approx(10 + 29)


def test_the_best_of_the_log_is_found_among_the_trials(data):
    assert data.best_place == int(np.argmin(data.costs))
    assert data.default.number == 0 and data.finals == [] and data.loops is None


def test_what_no_stage_explains_is_waiting():
    assert stages(ok(1e-3)) == pytest.approx((0.01, 0.04, 0.3, 0.1))
    assert stages(failed("build_error", "x")) == pytest.approx((0, 0.1, 0, 0))
    assert stages(MeasureResult("build_error", error="x")) == (0, 0, 0, 0)
    odd = MeasureResult("ok", (1.0,), timings={"run_s": 2.0, "total_s": 1.0})
    assert stages(odd) == (0, 0, 2.0, 0)  # clocks of two machines


def test_failures_are_sorted_by_their_last_lines(data):
    task = data.task.workload
    made = [
        ("run_error", "at 0x7f12 line 3\nbad address 12\n\n"),
        ("run_error", "bad address 977"),
        ("run_error", "other"),
        ("run_timeout", ""),
        *[("build_error", f"kind {'abcdefgh'[i % 6]}") for i in range(12)],
    ]
    from dataclasses import replace

    trials = [
        replace(data.searched[0], number=i, workload=task, result=failed(status, error))
        for i, (status, error) in enumerate(made)
    ]
    kinds = failures([*trials, data.searched[0]])
    assert [(k.status, k.count) for k in kinds] == [
        ("build_error", 12), ("run_error", 3), ("run_timeout", 1),
    ]  # fmt: skip
    assert [(s.says, s.count) for s in kinds[1].sorts] == [("bad address 12", 2), ("other", 1)]
    assert kinds[1].sorts[0].example.number == 0
    assert len(kinds[0].sorts) == 4 and kinds[0].others == 4
    assert kinds[2].sorts[0].says == ""


def test_long_texts_lose_their_middle():
    text = "begin" + "x" * 20_000 + "end"
    short = excerpt(text)
    assert short.startswith("begin") and short.endswith("end") and len(short) < 6100
    assert "14008 characters left out" in short and excerpt("short") == "short"
    assert last_line(f"first\n{text}\n\n") == "begin" + "x" * 292 + "..."
    assert last_line("first\n  short \n") == "short"
