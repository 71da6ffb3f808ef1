"""`whet best` and its like on logs with two versions of a space, or with broken rows."""

from __future__ import annotations

import json
import sqlite3

import pytest

import whet
from whet.cli import main
from whet.compiler.installed import install_extra
from whet.measure import MeasureResult, ReplayPool
from whet.search_spaces import Config


@pytest.fixture
def log(tmp_path, monkeypatch):
    """A log of a tuned matmul, with a run of an older version of its space."""
    monkeypatch.chdir(tmp_path)
    task = whet.create_task("matmul", args=(8, 8, 8), target="llvm")
    pool = ReplayPool(lambda inp: 1e-6)
    whet.tune(task, 3, "a.db", "random", pool, progress=False)
    with whet.TuningLog("a.db") as log:
        run = log.start_run(task.workload, task.target, None, "0123456789", "random", 0)
        log.add_trial(run, 0, Config((("k", 1),), "0123456789"), MeasureResult("ok", (1.0,)))
        log.finish_run(run)
    return task


def test_two_versions_of_a_space_are_told_apart(log, capsys):
    assert main(["best", "a.db"]) == 0
    lines = capsys.readouterr().out.splitlines()
    now = next(line for line in lines if "which build takes" in line)
    assert log.config_space.fingerprint[:8] in now and "3/3" in now
    assert sum("[space 01234567, stale]" in line for line in lines) == 1


def test_a_version_alone_is_not_marked(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    task = whet.create_task("matmul", args=(8, 8, 8), target="llvm")
    whet.tune(task, 1, "a.db", "random", ReplayPool(lambda inp: 1e-6), progress=False)
    assert main(["best", "a.db"]) == 0
    assert "space" not in capsys.readouterr().out


def test_show_takes_the_config_of_the_target_that_is_named(tmp_path, monkeypatch, capsys):
    """Of a graph, whose template no log holds, it was that of the newest search."""
    monkeypatch.chdir(tmp_path)
    A = whet.te.placeholder((8,), name="A")
    B = whet.te.compute((8,), lambda i: A[i] + 1.0, name="B")
    targets = [f"llvm -num_threads={k}" for k in (1, 2)]
    for seconds, target in enumerate(targets, 1):
        task = whet.create_task(outputs=[B], target=target)
        pool = ReplayPool(lambda inp, seconds=seconds: float(seconds))
        whet.tune(task, 1, "a.db", "random", pool, progress=False)
    show = ["show", "a.db", "--what", "config"]
    for words, seconds in ((["--target", targets[0]], 1), (["--target", targets[1]], 2), ([], 2)):
        assert main([*show, *words]) == 0
        assert f"trial 0: {seconds} s  " in capsys.readouterr().out


@pytest.mark.parametrize(
    "command",
    [["best"], ["show", "--what", "config"], ["report", "-o", "r.html"]],
    ids=lambda command: command[0],
)
def test_commands_pass_broken_rows_over_and_say_so(log, command, capsys):
    raw = sqlite3.connect("a.db")
    with raw:
        raw.execute("UPDATE trial SET config = '{oops' WHERE number = 1")
        raw.execute("UPDATE trial SET timings = '' WHERE run_id = 3")
    raw.close()
    assert main([command[0], "a.db", *command[1:]]) == 0
    said = capsys.readouterr().err
    assert "IgnoredRecordsWarning: log a.db: " in said and "broken trial" in said
    assert ".py:" not in said


def test_build_and_apply_best_take_the_best_that_can_be_read(log):
    raw = sqlite3.connect("a.db")
    with raw:
        raw.execute("UPDATE trial SET config = '[]' WHERE number = 1")
    raw.close()
    with pytest.warns(whet.db.IgnoredRecordsWarning, match="passed over"):
        assert whet.build(log, log="a.db").entry_name == "matmul"
    with pytest.warns(whet.db.IgnoredRecordsWarning), whet.apply_best("a.db"), log.target:
        whet.search_spaces.get_template("matmul")(8, 8, 8)


class Origin:
    """Pip's answer on an installed package."""

    def __init__(self, text):
        self.text = text

    def read_text(self, name):
        assert name == "direct_url.json"
        return self.text


def test_how_to_install_an_extra(tmp_path, monkeypatch):
    def command(origin):
        monkeypatch.setattr("importlib.metadata.distribution", lambda name: Origin(origin))
        return install_extra.__wrapped__("plots")

    assert command(None).startswith('pip install -e "/') and command(None).endswith('[plots]"')
    monkeypatch.setattr("whet.compiler.installed.__file__", str(tmp_path / "whet/compiler/e.py"))
    assert command(None) == 'pip install "whet-autotune[plots]"'
    url = json.dumps({"url": "file:///home/me/whet", "dir_info": {}})
    assert command(url) == 'pip install "whet-autotune[plots] @ file:///home/me/whet"'
