"""A whole search on real kernels: built, run, checked, logged, resumed, and built from the log."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from autotune_kernels import matmul, never, sometimes, twins

import whet
from whet.autotune import best_from_log, build_from_log, create_task, tune
from whet.cli import main
from whet.compiler.errors import MeasureError
from whet.db import TuningLog
from whet.measure import MeasureOptions

HERE = str(Path(__file__).parents[1])
QUICK = MeasureOptions(
    build_timeout=60.0, run_timeout=60.0, repeat=3, min_repeat_ms=1.0, max_measure_s=0.05
)
SIZE = (67, 64, 96)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A finished search: the task, its result, its log."""
    log = tmp_path_factory.mktemp("real") / "a.db"
    task = create_task(matmul, SIZE, "llvm")
    return task, tune(task, 16, log, seed=1, progress=False, options=QUICK), log


def inputs():
    rng = np.random.default_rng(0)
    n, k, m = SIZE
    a = rng.uniform(-1, 1, (n, k)).astype(np.float32)
    b = rng.uniform(-1, 1, (k, m)).astype(np.float32)
    return a, b, np.full((n, m), np.nan, np.float32)


def test_the_winner_is_right(tuned):
    task, found, log = tuned
    assert task.flop == 2 * 67 * 64 * 96
    assert found.outcomes() == {"ok": 16}
    assert found.best.gflops > 0 and found.better == (found.best is not found.default)
    a, b, c = inputs()
    kernel = build_from_log(task, log)
    kernel(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


def test_every_trial_says_how_it_was_measured(tuned):
    _, _, log = tuned
    for trial in TuningLog(log).trials():
        assert trial.result.program_hash and trial.result.environment
        assert trial.result.timings["total_s"] > 0


def test_every_way_to_build_from_a_log_takes_the_same_config(tuned):
    task, found, log = tuned
    best = best_from_log(task, log).config
    assert best == found.best.config
    with TuningLog(log) as opened:
        assert opened.best(task.workload, task.target).config == best
        assert opened.best_config(task.workload, task.target, task.config_space) == best
        assert [t.best.config for t in opened.summary()] == [best]
    with whet.apply_best(log), whet.Target("llvm"):
        s, args = matmul(*SIZE)
        by_template = whet.build(s, args, name="kernel")
    s, args = task.instantiate(best)
    of_best = whet.build(s, args, task.target, name="kernel")
    assert by_template.get_source("ll") == of_best.get_source("ll")
    s, args = matmul(*SIZE)  # outside of apply_best: the default config
    if best != task.config_space.default:
        default = whet.build(s, args, task.target, name="kernel")
        assert default.get_source("ll") != of_best.get_source("ll")
    a, b, c = inputs()
    for kernel in (by_template, whet.build(task, log=str(log))):
        c[:] = np.nan
        kernel(a, b, c)
        np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


def test_a_program_that_was_measured_is_not_measured_again(tmp_path):
    task = create_task(twins, (48,), "llvm")
    tune(task, 9, tmp_path / "a.db", "random", progress=False, options=QUICK)
    found = tune(task, 16, tmp_path / "a.db", "random", progress=False, options=QUICK)
    first, _, second, _ = TuningLog(tmp_path / "a.db").runs()
    trials = TuningLog(tmp_path / "a.db").trials
    assert len({t.result.program_hash for t in trials()}) == 2
    assert len({t.result.costs for t in trials(run_id=first.id)}) == 2
    known = {t.result.costs for t in trials() if t.run_id < second.id}
    assert {t.result.costs for t in trials(run_id=second.id)} <= known
    assert len(found.trials) == 16


def test_a_template_that_raises_for_some_configs(tmp_path):
    task = create_task(sometimes, (32,), "llvm")
    found = tune(task, 100, tmp_path / "a.db", "grid", progress=False, options=QUICK)
    assert found.outcomes() == {"ok": 6, "lower_error": 6}
    failed = TuningLog(tmp_path / "a.db").trials(status="lower_error")
    assert "ScheduleError" in failed[0].result.error


def test_a_space_in_which_no_config_works(tmp_path):
    task = create_task(never, (32,), "llvm")
    with pytest.raises(
        MeasureError, match=r"all 3 candidates failed, 3 of them with run_crash"
    ) as e:
        tune(task, 100, tmp_path / "a.db", "grid", progress=False, options=QUICK)
    assert "SIGSEGV" in str(e.value)
    with TuningLog(tmp_path / "a.db") as log:
        assert [t.result.status for t in log.trials()] == ["run_crash"] * 3
        assert [run.state for run in log.runs()] == ["finished"]


def test_the_command_line_tunes_and_shows(tmp_path, capsys):
    log = str(tmp_path / "a.db")
    kernels = f"{HERE}/autotune_kernels.py"
    words = ["tune", f"{kernels}:matmul", "--args", "32", "32", "32", "--trials", "3"]
    assert main([*words, "--log", log, "--sampler", "random"]) == 0
    out, err = capsys.readouterr()
    assert "3 trials, finished" in out and "  speed-up " in out  # "none" on a busy machine
    assert "measuring the best" in err
    for what, said in (("loops", "for "), ("ll", "define "), ("asm", ".text")):
        assert main(["show", log, "--what", what]) == 0
        assert said in capsys.readouterr().out
