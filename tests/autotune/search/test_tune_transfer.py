"""Transfer: what a new search takes from a log's other tasks, and what it leaves."""

from __future__ import annotations

import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from autotune_kernels import matmul
from autotune_pools import Recorder
from autotune_synthetic import gemm_cost, gemm_template, small_cost

from whet.autotune import create_task, features, tune
from whet.autotune.search.transfer import ROWS, SEEDS, read_prior, say_stale
from whet.compiler.target import Target
from whet.db import TuningLog
from whet.db.store import vectors
from whet.measure import MeasureResult
from whet.search_spaces import Template, get_config, template


@template("test/tiles")
def tiles(n, m, dtype="float32"):
    """A tile of 16 x 32 is best for every shape."""
    cfg = get_config()
    cfg.add_flop(2 * n * m)
    cfg.define_split("i", n, num_outputs=2)
    cfg.define_split("j", m, num_outputs=2)
    cfg.define_knob("word", ["a", "b", "c"])
    return None, []


def tiles_cost(inp):
    i, j = inp.config.choice("i")[1], inp.config.choice("j")[1]
    off = abs(np.log2(i / 16)) + abs(np.log2(j / 32)) + (inp.config.choice("word") != "b")
    return float(1e-3 * (1 + off))


def make(*args, of=tiles):
    return create_task(of, args=args, target="llvm")


def tuned(task, log, trials=40, cost=tiles_cost, **options):
    options = {"sampler": "random", "progress": False} | options
    pool = Recorder(cost)
    return tune(task, trials, log=log, workers=pool, **options), pool


def prior_of(task, path, **options):
    said = []
    with TuningLog(path) as log:
        found = read_prior(log, task, None, say=said.append, **options)
    return found, said


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Four shapes and another operator."""
    path = tmp_path_factory.mktemp("logs") / "a.db"
    for shape in ((64, 64), (128, 64), (1024, 2048)):
        tuned(make(*shape), path, 140)
    tuned(make(64, 64, "float16"), path, 20)
    tuned(make(128, 128, 128, of=gemm_template), path, 20, lambda inp: gemm_cost(inp.config))
    return path


@pytest.fixture
def log(source, tmp_path):
    """A copy of it to write to."""
    return Path(shutil.copy(source, tmp_path / "a.db"))


def test_the_best_of_near_shapes_come_first(log):
    task = make(256, 64)
    found, said = prior_of(task, log)
    first = found.seeds[0]
    assert (first.choice("i"), first.choice("j"), first.choice("word")) == ((16, 16), (2, 32), "b")
    assert 1 <= len(found.seeds) <= SEEDS and len({c.key for c in found.seeds}) == len(found.seeds)
    assert all(c in task.config_space and c != task.config_space.default for c in found.seeds)
    assert said == []


def test_rows_say_how_good_and_how_near_they_are(log):
    task = make(64, 128)
    found, _ = prior_of(task, log)
    m = len(found.scores)
    assert 200 < m <= ROWS
    assert found.features.shape == (m, 0) and found.knobs.shape[0] == m
    assert found.knobs.shape[1] == len(task.config_space.feature_names)
    assert found.scores.max() == 0.0 and (found.scores <= 0).all()
    assert found.scores.dtype == found.weights.dtype == found.knobs.dtype == np.float32
    assert (found.weights > 0).all() and (found.weights <= 1).all()
    fits = np.isfinite(found.knobs).all(axis=1)
    assert fits.any() and not fits.all()  # gemm has other knobs
    assert np.isnan(found.knobs[~fits]).all()
    best = task.config_space.features([task.config_space.nearest({"i": (4, 16), "j": (2, 32)})])
    column = task.config_space.feature_names.index("i.size1")
    assert (found.knobs[found.scores == 0.0][:1, column] == best[:, column]).all()
    assert len(np.unique(found.weights)) >= 3 and found.weights[0] == found.weights.max()


def test_failures_are_worse_than_the_worst(tmp_path):
    def cost(inp):
        if inp.config.choice("word") == "c":
            return MeasureResult("build_error", error="no", stage="build")
        return tiles_cost(inp)

    tuned(make(64, 64), tmp_path / "a.db", 100, cost)
    found, _ = prior_of(make(64, 128), tmp_path / "a.db")
    worst = found.scores.min()
    assert np.count_nonzero(found.scores == worst) >= 5
    assert worst == pytest.approx(np.sort(np.unique(found.scores))[1] - np.log(2), abs=1e-5)


def test_another_machine_is_trusted_less_and_another_kind_of_target_not_at_all(tmp_path):
    path = tmp_path / "a.db"
    tuned(make(64, 64), path, 30, device="cpu-elsewhere")
    tuned(make(32, 32), path, 30)
    task = make(64, 64)
    found, _ = prior_of(task, path)
    by_weight = sorted(set(found.weights.tolist()))
    assert by_weight == pytest.approx([0.3, np.exp(-2 * np.log2(65 / 33) / 6)], rel=1e-3)
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE target SET data = replace(data, '\"llvm\"', '\"cuda\"')")
    raw.close()
    assert prior_of(task, path) == (None, [])


def test_a_search_begins_with_them_unless_it_may_not(log, tmp_path):
    task = make(256, 64)
    seeds = prior_of(task, log)[0].seeds
    _, pool = tuned(task, log, 20, sampler="xgb")
    tried = [inp.config for inp in pool.submitted]
    assert tried[0] == task.config_space.default
    assert {c.key for c in tried[1 : 1 + len(seeds)]} == {c.key for c in seeds}
    alone = make(512, 64)
    _, cold = tuned(alone, log, 20, sampler="xgb", transfer=False)
    _, fresh = tuned(alone, tmp_path / "b.db", 20, sampler="xgb")
    assert [i.config for i in cold.submitted] == [i.config for i in fresh.submitted]
    with TuningLog(log) as opened:
        run = next(r for r in opened.runs() if r.workload == alone.workload)
    assert run.options["search"]["transfer"] is False


def test_a_resumed_search_starts_from_what_it_started_from(log, tmp_path):
    other = tmp_path / "b.db"
    shutil.copy(log, other)
    task = make(256, 64)
    _, whole = tuned(task, log, 40, sampler="xgb")
    _, first = tuned(task, other, 25, sampler="xgb")
    tuned(make(256, 32), other, 20)  # nearer than all that was there
    _, rest = tuned(task, other, 40, sampler="xgb")
    both = [*first.submitted, *rest.submitted]
    assert [i.config for i in both] == [i.config for i in whole.submitted]


def test_another_version_and_broken_rows_are_left_out_with_a_word(tmp_path):
    path = tmp_path / "a.db"
    task = make(64, 64)
    tuned(task, path, 30)
    newer = replace(task, template=Template(task.name, tiles.func, version=2))
    found, said = prior_of(newer, path)
    assert found is None
    assert said == [
        f"{task.workload}: records that were ignored: 30 trials of another version of this space"
    ]
    tuned(make(32, 64), path, 30)
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE trial SET config = 'rubbish' WHERE number < 5")
        raw.execute("UPDATE trial SET config = replace(config, '\"word\"', '\"words\"')")
        raw.execute("UPDATE trial SET features = '1:7:broken' WHERE number = 9")
    raw.close()
    found, said = prior_of(make(64, 128), path, columns=(1, 7))
    # Other shapes may have other knobs: what remains of their trials are the loops.
    assert len(said) == 1 and said[0].endswith(" trials that cannot be read"), said
    assert found.seeds == () and np.isnan(found.knobs).all() and np.isnan(found.features).all()
    result, _ = tuned(make(64, 128), path, 20, sampler="xgb")
    assert len(result.trials) == 20


def test_trials_for_a_target_with_another_space_are_left_out_with_what_differs(tmp_path):
    @template("test/threaded")
    def threaded(n):
        most = Target.current().attrs["num_threads"]
        cfg = get_config()
        cfg.add_flop(n)
        cfg.define_knob("threads", [1, most] if most > 1 else [1])
        return None, []

    path = tmp_path / "a.db"
    one, two = (create_task(threaded, args=(64,), target=f"llvm -num-threads={n}") for n in (1, 2))
    tuned(one, path, 1, lambda inp: 1e-3)
    _, said = prior_of(two, path)
    with TuningLog(path) as log:
        say_stale(log, two, None, said.append)
    why = "1 trial for another target, with another space (num_threads=1 instead of 2)"
    assert said == [f"{two.workload}: records that were ignored: {why}"] * 2


def test_loop_features_are_kept_and_found_by_other_operators(tmp_path):
    path = tmp_path / "a.db"
    tuned(make(24, 16, 32, of=matmul), path, 25, lambda inp: 1e-3 + 1e-6 * len(str(inp.config)))
    task = create_task(matmul, args=(24, 16, 32), target="llvm")
    with TuningLog(path) as opened:
        trials = [t for t in opened.trials() if t.features]
    assert len(trials) == 30  # and the finalists
    space, columns = task.config_space, (features.VERSION, len(features.NAMES))
    kept = vectors.unpack([t.features for t in trials], *columns)
    points = np.array([space.encode(t.config) for t in trials], dtype=np.int64)
    computed = features.LoopFeatures(task).of_points(points)
    np.testing.assert_allclose(kept, computed, rtol=1e-3, equal_nan=True)
    found, _ = prior_of(make(64, 64), path, columns=columns)
    assert np.isfinite(found.features).any(axis=1).all() and np.isnan(found.knobs).all()
    assert found.weights == pytest.approx(0.25)


def test_quick_and_full_searches_share_their_records(tmp_path, small):
    path = tmp_path / "a.db"
    quick = replace(small, level="quick")
    if quick.config_space.size == small.config_space.size:
        pytest.skip("this space has no smaller level")

    def cost(inp):
        return small_cost(inp.config)

    whole, _ = tuned(small, path, 42, cost)
    found, pool = tuned(quick, path, 500, cost)
    assert pool.submitted == [] or len(found.trials) == quick.config_space.size
    assert all(t.config in quick.config_space for t in found.trials)
    assert found.best.cost == pytest.approx(whole.best.cost)
    assert found.study.best_value >= whole.best.cost
