"""A search that is killed: what was acknowledged is in the log, and the next run goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from autotune_synthetic import gemm_cost

from whet.autotune import tune
from whet.db import TuningLog
from whet.measure import ReplayPool

SCRIPT = """
import sys, time
sys.path.insert(0, {here!r})
from autotune_synthetic import gemm_cost, gemm_template
from whet.autotune import create_task, tune
from whet.measure import ReplayPool

{before}
class Slow(ReplayPool):
    observed = 0

    def collect(self, timeout=None):
        time.sleep(0.02)
        while self.observed > 300:  # it shall not be done before it is killed
            time.sleep(0.02)
        self.observed += 1
        return super().collect(timeout)

task = create_task(gemm_template, (768, 1152, 512), "llvm")
pool = Slow(lambda inp: gemm_cost(inp.config))
try:
    tune(task, 400, {log!r}, "random", pool, progress={progress})
except KeyboardInterrupt:
    sys.exit(130)
"""


def start(log, progress=False, before=""):
    here = str(Path(__file__).parents[1])
    code = SCRIPT.format(here=here, log=str(log), progress=progress, before=before)
    return subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)


def wait_for_trials(log, count):
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        if Path(log).exists() and len(TuningLog(log).trials()) >= count:
            return
        time.sleep(0.05)
    raise AssertionError("the search does not come on")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_the_log_survives_and_the_search_goes_on(gemm, tmp_path, how):
    log = tmp_path / "a.db"
    process = start(log)
    try:
        wait_for_trials(log, 20)
        os.kill(process.pid, how)
        said = process.communicate(timeout=300)[1]
    finally:
        process.kill()
    recorded = TuningLog(log).trials()
    assert [t.number for t in recorded] == list(range(len(recorded)))  # no holes
    assert TuningLog(log).runs()[0].state == ("running" if how == signal.SIGKILL else "interrupted")
    if how != signal.SIGKILL:
        assert process.returncode == 128 + how
        assert f"{len(recorded)} trials, interrupted" in said
        assert "from which the same call goes on" in said
    measured = []

    def cost(inp):
        measured.append(inp.config.key)
        return gemm_cost(inp.config)

    total = len(recorded) + 10
    found = tune(gemm, total, log, "random", ReplayPool(cost), progress=False)
    assert len(found.trials) == total
    assert len({t.config.key for t in found.trials}) == total
    again = set(measured[:-5]) & {t.config.key for t in recorded}  # the last five: finalists
    assert not again


def test_a_handler_of_the_users_for_sigterm_stays(tmp_path):
    log = tmp_path / "a.db"
    handler = """
import os, signal
signal.signal(signal.SIGTERM, lambda number, frame: os._exit(7))
"""
    process = start(log, before=handler)
    try:
        wait_for_trials(log, 1)
        process.terminate()
        said = process.communicate(timeout=300)[1]
    finally:
        process.kill()
    assert process.returncode == 7 and "interrupted" not in said


def test_sigterm_is_as_it_was_after_a_search_and_in_other_threads(small, tmp_path):
    seen = []

    def cost(inp):
        seen.append(signal.getsignal(signal.SIGTERM))
        return 1.0

    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        tune(small, 3, tmp_path / "a.db", "random", ReplayPool(cost), progress=False)
        assert callable(seen[0]) and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        seen.clear()
        work = threading.Thread(
            target=tune, args=(small, 3, tmp_path / "b.db", "random", ReplayPool(cost)),
            kwargs={"progress": False},
        )  # fmt: skip
        work.start()
        work.join()
        assert seen and set(seen) == {signal.SIG_DFL}
    finally:
        signal.signal(signal.SIGTERM, before)
