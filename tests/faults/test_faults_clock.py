"""A wall clock that jumps by hours, both ways: no duration is taken from it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from whole_searches import recorded, states

from whet.db import TuningLog
from whet.db import session as sessions
from whet.db.store.processes import Process

HERE = Path(__file__).parent
HOURS = 3600.0


@pytest.fixture
def jumping(tmp_path):
    """The environment of a process whose wall clock jumps."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler: the clock is made to jump by a library")
    library = tmp_path / "jumping_clock.so"
    source = HERE / "jumping_clock.c"
    words = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
    subprocess.run(words, check=True)
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", str(HERE.parents[1]))])
    return {**os.environ, "LD_PRELOAD": str(library), "PYTHONPATH": path}


def test_a_search_whose_clock_jumps_keeps_its_lease_and_its_durations(
    tmp_path, jumping, monkeypatch, leaks
):
    """It runs beside a session of this process, each of which looks whether the other is dead."""
    monkeypatch.setattr(sessions, "BEAT_S", 0.2)
    # As on another machine: only beats tell that it is alive.
    this = Process.this()
    monkeypatch.setattr(Process, "this", staticmethod(lambda: replace(this, boot="")))
    location = str(tmp_path / "whet.db")
    with TuningLog(location) as log, log.open_session({"who": "looks on"}):
        done = subprocess.run(
            [sys.executable, HERE / "tune_by_a_jumping_clock.py", location, "12"],
            env=jumping,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        assert states(log, "session") == ["running", "finished"]
        assert len(recorded(log)) == 12
    facts = json.loads(done.stdout.splitlines()[-1])
    assert facts["largest"] > HOURS, "the clock has not jumped"
    assert facts["state"] == "finished" and facts["trials"] == 12
    for timings in facts["timings"]:
        assert all(0 <= seconds < facts["seconds"] for seconds in timings.values()), timings
    with TuningLog(location, write=False) as log:
        assert states(log, "session") == ["finished"] * 2
        assert states(log, "run") == ["finished"] * 2
    leaks.check()
