"""Deployment: a second process builds from the log, with no search, no model and no workers."""

from __future__ import annotations

import subprocess
import sys

import pytest

import whet
from whet.measure import MeasureResult

ARGS = (48, 40, 56)

BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("optuna", "xgboost", "ray"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocked())
"""

CHECK = """
import numpy as np
a = np.random.default_rng(0).standard_normal((48, 40)).astype("float32")
b = np.random.default_rng(1).standard_normal((40, 56)).astype("float32")
c = np.full((48, 56), np.nan, "float32")
f(a, b, c)
np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-5)
assert not {"optuna", "xgboost", "ray"} & set(sys.modules)
print(f.get_source("ll"))
"""

FROM_THE_TASK = """
import whet
task = whet.create_task("matmul", args=(48, 40, 56), target="llvm")
f = whet.build(task, log=LOG)
"""

BY_APPLY_BEST = """
import whet
from whet.search_spaces.operators.named.matmul import matmul
with whet.apply_best(LOG), whet.Target("llvm"):
    s, args = matmul(48, 40, 56)
    f = whet.build(s, args, name="matmul")
"""


def in_a_fresh_process(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


@pytest.fixture(scope="module")
def task():
    return whet.create_task("matmul", args=ARGS, target="llvm")


def text(task, config=None):
    """The LLVM IR of one config, the default if None."""
    schedule, args = task.instantiate(config)
    return whet.build(schedule, args, task.target, name="matmul").get_source("ll").strip()


@pytest.fixture(scope="module")
def tuned(task, tmp_path_factory):
    """A log in which one config is far ahead of the default, and that config."""
    location = str(tmp_path_factory.mktemp("deploy") / "whet.db")
    space = task.config_space
    other = (c for c in space.neighbours(space.default) if text(task, c) != text(task))
    chosen = next(other)
    with whet.TuningLog(location) as log:
        run = log.start_run(task.workload, task.target, None, space.fingerprint, "grid", 0, {}, {})
        for number, (config, cost) in enumerate([(space.default, 1e-3), (chosen, 1e-6)]):
            log.add_trial(run, number, config, MeasureResult("ok", costs=(cost,)), task.flop)
        log.finish_run(run, "finished")
    return location, chosen


@pytest.mark.parametrize("build", [FROM_THE_TASK, BY_APPLY_BEST], ids=["task", "apply_best"])
def test_a_second_process_builds_the_best_program(task, tuned, build):
    log, chosen = tuned
    done = in_a_fresh_process(BLOCKED + build.replace("LOG", repr(log)) + CHECK)
    assert done.returncode == 0, done.stderr

    assert done.stdout.strip() == text(task, chosen) != text(task)


@pytest.mark.parametrize("name", ["optuna", "xgboost", "ray"])
def test_the_libraries_are_really_blocked(name):
    done = in_a_fresh_process(BLOCKED + f"import {name}")
    assert done.returncode == 1
    assert "is blocked" in done.stderr


def test_a_search_needs_what_is_blocked(tuned):
    log, _ = tuned
    done = in_a_fresh_process(
        BLOCKED
        + "import whet\ntask = whet.create_task('matmul', args=(8, 8, 8), target='llvm')\n"
        + f"whet.tune(task, 2, {log!r}, progress=False)"
    )
    assert done.returncode == 1
    assert "is blocked" in done.stderr
