"""A search without a template, from end to end: tuned, logged, resumed, built in a new process."""

import subprocess
import sys

import numpy as np
import pytest

import whet
from whet import te
from whet.compiler import topi
from whet.compiler.errors import ArgumentError, LogError
from whet.measure import MeasureOptions, ReplayPool

TARGET = "llvm -num-threads=1"
QUICK = MeasureOptions(
    build_timeout=60.0, run_timeout=60.0, repeat=3, min_repeat_ms=1.0, max_measure_s=0.05
)
N, M = 61, 130

MAKE = f"""
import whet
from whet import te
from whet.compiler import topi
X = te.placeholder(({N}, {M}), name="X")
task = whet.create_task("softmax", outputs=[topi.nn.softmax(X)], target={TARGET!r})
"""


def softmax(n=N, m=M):
    X = te.placeholder((n, m), name="X")
    return whet.create_task("softmax", outputs=[topi.nn.softmax(X)], target=TARGET)


def expected(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    log = tmp_path_factory.mktemp("derived") / "a.db"
    task = softmax()
    found = whet.tune(task, 12, log, sampler="random", seed=3, progress=False, options=QUICK)
    return task, found, log


def test_every_trial_works_and_the_winner_is_right(tuned):
    task, found, log = tuned
    assert task.name.startswith("graph/softmax/") and task.flop > 4 * N * M
    assert found.outcomes() == {"ok": 12}
    assert found.better == (found.best is not found.default)
    x = np.random.default_rng(0).standard_normal((N, M)).astype("float32")
    y = np.zeros_like(x)
    whet.build(task, log=log)(x, y)
    np.testing.assert_allclose(y, expected(x), rtol=1e-4, atol=1e-6)


def test_a_new_process_builds_from_the_log(tuned):
    _, found, log = tuned
    code = f"""{MAKE}
import numpy as np
x = np.random.default_rng(1).standard_normal(({N}, {M})).astype("float32")
y = np.zeros_like(x)
whet.build(task, log={str(log)!r})(x, y)
e = np.exp(x - x.max(1, keepdims=True))
np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-4, atol=1e-6)
from whet.autotune import best_from_log
print(best_from_log(task, {str(log)!r}).config)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(found.best.config)


def test_the_search_goes_on_where_it_stopped(tmp_path):
    log = tmp_path / "b.db"
    again = dict(log=log, sampler="random", seed=3, progress=False)
    first, then = (
        whet.tune(softmax(), trials, workers=ReplayPool(lambda inp: 1e-6), **again)
        for trials in (3, 6)
    )
    assert [t.config for t in then.trials[:3]] == [t.config for t in first.trials]
    assert len(then.trials) == 6


def test_other_extents_are_not_this_record(tuned):
    _, _, log = tuned
    with pytest.raises(LogError, match="it was never tuned there"):
        whet.build(softmax(N, M + 1), log=log)


def test_apply_best_reaches_the_template(tuned):
    task, found, log = tuned
    with whet.apply_best(log), task.target:
        schedule, args = task.template(*task.args)
    assert str(whet.lower(schedule, args)) == str(whet.lower(*task.instantiate(found.best.config)))


def test_wrong_inputs_are_refused_by_the_kernel(tuned):
    task, _, log = tuned
    kernel = whet.build(task, log=log)
    x = np.zeros((N, M), "float32")
    with pytest.raises(ArgumentError, match=str(M)):
        kernel(x[:, :-1].copy(), x)
    with pytest.raises(ArgumentError, match="float64"):
        kernel(x.astype("float64"), x)
