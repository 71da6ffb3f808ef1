"""Weights packed ahead in a search: tuned, logged, built from the log, exported; its features."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from autotune_kernels import panels

import whet
from whet import te
from whet.autotune import create_task, tune
from whet.autotune.features import LoopFeatures
from whet.autotune.features.loops.nests import Nests
from whet.measure import MeasureOptions, ReplayPool
from whet.search_spaces import Config

HERE = str(Path(__file__).parents[1])
QUICK = MeasureOptions(
    build_timeout=60.0, run_timeout=60.0, repeat=2, min_repeat_ms=0.5, max_measure_s=0.02
)
SIZE = (12, 10, 21)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    log = tmp_path_factory.mktemp("ahead") / "a.db"
    task = create_task(panels, SIZE, "llvm")
    return task, tune(task, 6, log, seed=0, sampler="grid", progress=False, options=QUICK), log


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """A log whose every config packs ahead."""
    log = tmp_path_factory.mktemp("packed") / "a.db"
    task = create_task(panels, (*SIZE, (True,)), "llvm")
    tune(task, 2, log, seed=0, workers=ReplayPool(lambda inp: 1e-6), progress=False)
    return task, log


def points(task):
    space = task.config_space
    return np.array([space.encode(space.get(i)) for i in range(len(space))], np.int64)


def test_every_layout_gives_the_numbers_of_the_default(tuned):
    task, found, _ = tuned
    assert len(task.config_space) == 6 and found.outcomes() == {"ok": 6}
    assert all(t.result.environment["checked"] for t in found.trials)
    assert len({t.result.program_hash for t in found.trials}) == 6
    assert task.flop == 2 * 12 * 10 * 21


def test_what_a_log_builds_packs_its_weights(packed, tmp_path):
    task, log = packed
    f = whet.build(task, log=log)
    a, b = np.random.rand(12, 10).astype("float32"), np.random.rand(10, 21).astype("float32")
    f.export_library(tmp_path / "f.so")
    for g in (f, whet.runtime.load_module(tmp_path / "f.so")):
        c = np.full((12, 21), np.nan, "float32")
        g(a, g.pack_weights(b), c)
        np.testing.assert_allclose(c, a @ b, rtol=1e-4)


def test_another_process_builds_it_without_the_search(packed):
    task, log = packed
    code = f"""
import sys
sys.path.insert(0, {HERE!r})
from autotune_kernels import panels
import numpy as np, whet
f = whet.build(whet.create_task(panels, {task.args}, "llvm"), log={str(log)!r})
b, c = np.ones((10, 21), "float32"), np.empty((12, 21), "float32")
f(np.ones((12, 10), "float32"), f.pack_weights(b), c)
assert (c == 10).all()
assert not [m for m in ("optuna", "xgboost", "ray") if m in sys.modules]
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_features_see_the_kernel_alone(tuned):
    task, _, _ = tuned
    rows = LoopFeatures(task).of_points(points(task))
    assert not np.isnan(rows).any()
    for config in (Config((("nr", 8), ("ahead", packed)), "") for packed in (False, True)):
        schedule, _ = task.instantiate(config)
        names = [nest.stage.op.name for nest in Nests(schedule).all]
        assert names == (["C"] if config.choice("ahead") else ["P", "C"])
    at = {tuple(sorted(dict(task.config_space.get(i).choices).items())): i for i in range(6)}
    for nr in (4, 8, 16):
        packed, plain = (rows[at[(("ahead", x), ("nr", nr))]] for x in (True, False))
        assert (packed != plain).any()


def test_features_of_an_input_and_of_what_is_packed_are_the_same():
    def nests(packs):
        w, x = te.placeholder((16, 8), name="W"), te.placeholder((16,), name="X")
        p = te.placeholder((8, 16), name="P")
        if packs:
            p = te.compute((8, 16), lambda j, i: te.exp(w[i, j]), name="P")
        y = te.compute((8, 16), lambda j, i: p[j, i] * x[i], name="Y")
        s = te.create_schedule(y.op)
        if packs:
            s[p].compute_ahead()
        return Nests(s)

    one, other = nests(True), nests(False)
    assert [len(nests.reads(n.stage)) for nests in (one, other) for n in nests.all] == [2, 2]
    assert [x.extent for x in one.all[0].loops] == [x.extent for x in other.all[0].loops]
