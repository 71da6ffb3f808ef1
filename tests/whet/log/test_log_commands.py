"""`whet log ...`: each command as a user types it, and wrong input."""

from __future__ import annotations

import io
import json
import os
import sqlite3
import time
from pathlib import Path

import pytest

import whet
from whet.cli import cli, main
from whet.commands.log import COMMANDS
from whet.commands.log.saying import Saying
from whet.measure import MeasureResult, ReplayPool
from whet.search_spaces import Config


@pytest.fixture
def task(tmp_path, monkeypatch):
    """A task with a log `a.db` of 12 trials, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    task = whet.create_task("matmul", args=(16, 16, 16), target="llvm")
    costs = iter(1e-6 * (1 + i % 5) for i in range(1000))
    by_config: dict[str, float] = {}
    pool = ReplayPool(lambda inp: by_config.setdefault(inp.config.key, next(costs)))
    whet.tune(task, 12, "a.db", "random", pool, progress=False)
    return task


def run(capsys, *words: str, code: int = 0) -> str:
    assert main(["log", *words]) == code, capsys.readouterr()
    said = capsys.readouterr()
    return said.out if code == 0 else said.err


def test_every_command_has_help(capsys):
    for name in COMMANDS:
        assert main(["log", name, "--help"]) == 0
        assert "Usage: whet log " + name in capsys.readouterr().out
    assert main(["log", "--help"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in COMMANDS)
    assert cli.get_command(None, "best") is not None  # type: ignore[arg-type]
    assert main(["log", "forget"]) == 2


def test_stats_and_list(task, capsys):
    said = run(capsys, "stats", "a.db")
    assert "12: 12 ok" in said and "1: 1 workload, 1 target, 1 machine" in said
    finals = int(said.split("last measured ")[1].split()[0])
    data = json.loads(run(capsys, "stats", "a.db", "--json"))
    assert data["statuses"] == {"ok": 12} and data["finals"] == finals > 1
    listed = run(capsys, "list", "a.db")
    assert "matmul(16, 16, 16)" in listed and "12/12" in listed
    runs = run(capsys, "list", "a.db", "--runs").splitlines()
    assert len(runs) == 3 and "random" in runs[1] and "finalists" in runs[2]
    assert "1.00x" in run(capsys, "best", "a.db") or "x" in run(capsys, "best", "a.db")
    assert "up to date" in run(capsys, "upgrade", "a.db")


def test_export_import_and_merge(task, capsys):
    said = run(capsys, "export", "a.db")
    assert said.startswith("12 trials and ") and said.endswith("written to a.jsonl\n")
    assert "there already: --force" in run(capsys, "export", "a.db", code=2)
    run(capsys, "export", "a.db", "--force")
    first = run(capsys, "import", "a.jsonl", "--log", "b.db")
    assert first.startswith("a.jsonl: 12 trials and ") and "in 2 runs new in b.db" in first
    assert "a.jsonl: 0 trials in 0 runs" in run(capsys, "import", "a.jsonl", "--log", "b.db")
    assert "12 trials" in run(capsys, "merge", "a.db", "b.db", "-o", "c.db")
    with whet.TuningLog("a.db", write=False) as a, whet.TuningLog("c.db", write=False) as c:
        assert len(a) == len(c)
        assert (
            a.best(task.workload, task.target).config == c.best(task.workload, task.target).config
        )
    with open("a.jsonl", "a") as file:
        file.write("{oops\n")
    assert "line " in run(capsys, "import", "a.jsonl", "--log", "d.db", code=1)
    assert main(["log", "import", "a.jsonl", "--log", "d.db", "--skip-broken"]) == 0
    said = capsys.readouterr()
    assert "12 trials" in said.out and "1 broken line skipped" in said.err


def test_prune_asks_or_is_told(task, capsys, monkeypatch):
    for answer in ("", "n\n"):
        monkeypatch.setattr("sys.stdin", io.StringIO(answer))
        assert main(["log", "prune", "a.db", "--newest", "3"]) == 130
        assert "delete 8 trials of 1 task" in capsys.readouterr().out
    with whet.TuningLog("a.db", write=False) as log:
        size, best = len(log), log.best(task.workload, task.target)
    said = run(capsys, "prune", "a.db", "--newest", "3", "--yes")
    assert "deleted " in said and "a copy of what was: a.db.v" in said and "MB now" in said
    with whet.TuningLog("a.db", write=False) as log:
        assert len(log) < size and log.best(task.workload, task.target) == best
    assert "nothing to delete" in run(capsys, "prune", "a.db", "--newest", "3", "--yes")
    assert main(["log", "prune", "a.db", "--newest", "-1"]) == 2


def test_a_distilled_log_deploys_the_same_kernels(task, capsys):
    said = run(capsys, "distill", "a.db", "-o", "small.db")
    assert "written to small.db" in said
    with whet.TuningLog("a.db", write=False) as a, whet.TuningLog("small.db", write=False) as small:
        assert len(small) < len(a)
        assert [t.best.config for t in small.summary()] == [t.best.config for t in a.summary()]
    kernels = [whet.build(task, log=log).get_source("ll") for log in ("a.db", "small.db")]
    assert kernels[0] == kernels[1]
    found = []
    for log in ("a.db", "small.db"):
        with whet.apply_best(log) as applied, task.target:
            found.append(applied.resolve(task.workload))
    assert found[0] == found[1] is not None
    assert "there already" in run(capsys, "distill", "a.db", "-o", "small.db", code=2)
    assert os.path.getsize("small.db") <= os.path.getsize("a.db")


def test_nothing_is_left_of_a_log_that_could_not_be_distilled(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    whet.TuningLog("empty.db").close()
    assert "nothing in it worked" in run(capsys, "distill", "empty.db", "-o", "x.db", code=1)
    assert not os.path.exists("x.db")


WRONG = {
    "no file": ("none.db", "there is no such file"),
    "a directory": ("folder", "it is a directory"),
    "an export": ("a.jsonl", "it is an export, lines of JSON, and no log"),
    "another program's": ("other.db", "open log other.db: the database is another program's"),
    "text": ("text.db", "it is not a database"),
    "empty": ("empty.txt", "it is an empty file"),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("name", [n for n in COMMANDS if n != "import"])
def test_what_is_no_log_is_said(tmp_path, monkeypatch, capsys, name, case):
    monkeypatch.chdir(tmp_path)
    os.mkdir("folder")
    with open("a.jsonl", "w") as file:
        file.write('{"format": 1}\n')
    with open("text.db", "w") as file:
        file.write("hello\n" * 10)
    open("empty.txt", "w").close()
    raw = sqlite3.connect("other.db")
    raw.execute("CREATE TABLE mine (x)")
    raw.close()
    place, said = WRONG[case]
    more = ["-o", "out"] if name in ("merge", "distill", "export") else []
    error = run(capsys, name, place, *more, code=1)
    assert error.startswith("LogError: ") and said in error and place in error
    assert sorted(os.listdir()) == ["a.jsonl", "empty.txt", "folder", "other.db", "text.db"]


def test_what_is_no_export_is_said(task, capsys):
    for place, said in (
        ("a.db", "a.db is a log, not an export"),
        ("none.jsonl", "there is no such file"),
        (".", "it is a directory"),
    ):
        error = run(capsys, "import", place, "--log", "new.db", code=1)
        assert said in error and place in error
    assert main(["log", "import"]) == 2


def test_show_lists_near_workloads(task, capsys):
    with whet.TuningLog("a.db") as log:
        for size in (64, 1024):
            other = whet.create_task("matmul", args=(size,) * 3, target="llvm")
            space = other.config_space
            own = log.start_run(other.workload, other.target, None, space.fingerprint, "random", 0)
            log.add_trial(own, 0, space.default, MeasureResult("ok", (1e-3,)))
    assert main(["show", "a.db", "--op", "matmul", "--args", "512", "512", "512"]) == 2
    said = capsys.readouterr().err
    assert "no workload fits --op matmul --args 512 512 512; a.db holds, the nearest" in said
    order = [said.index(f"matmul({n}, {n}, {n}") for n in (1024, 64, 16)]
    assert order == sorted(order)
    assert main(["show", "a.db", "--op", "softmax"]) == 2
    assert "no workload fits --op softmax; a.db holds" in capsys.readouterr().err
    assert main(["show", "a.db"]) == 2
    assert "several workloads fit; name one by --op and --args" in capsys.readouterr().err


def test_long_work_says_where_it_is(monkeypatch, capsys):
    monkeypatch.setattr("whet.commands.log.saying.QUIET", 0.01)
    with Saying("reading") as say:
        time.sleep(0.05)
        say("half of it")
        time.sleep(0.05)
    said = capsys.readouterr().err
    assert "] reading" in said and "] half of it" in said
    monkeypatch.setattr("whet.commands.log.saying.QUIET", 60)
    with Saying("reading"):
        pass
    assert capsys.readouterr().err == ""


def test_history_is_listed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    record = {
        "input": ["llvm -mcpu=core-avx2", "conv2d_NCHWc.x86", [["TENSOR", [1, 3], "float32"]], {}],
        "config": {"index": 1, "code_hash": None, "entity": [["tile_ic", "sp", [-1, 3]]]},
        "result": [[0.01], 0, 1.0, 1.6e9],
        "version": 0.2,
        "tvm_version": "0.8",
    }
    with open("tvm.log", "w") as file:
        file.write(json.dumps(record) + "\n")
    said = run(capsys, "import", "tvm.log")
    assert "0 trials of a template's space, 1 kept as history" in said
    assert "conv2d_NCHWc.x86" in run(capsys, "list")
    with whet.TuningLog(write=False) as log:
        (trial,) = log.trials()
        assert isinstance(trial.config, Config) and trial.config.choice("tile_ic") == (-1, 3)


def test_nothing_takes_the_place_of_a_device_or_waits_for_a_pipe(task, capsys, tmp_path):
    os.mkfifo("pipe")
    Path("k.py").write_text(
        "import whet\ntask = whet.create_task('matmul', args=(4, 4, 4), target='llvm')\n"
    )
    for words in (
        ("log", "stats", "pipe"),
        ("log", "best", "/dev/null"),
        ("log", "export", "a.db", "-o", "pipe", "--force"),
        ("log", "export", "a.db", "-o", "/dev/null", "--force"),
        ("log", "import", "pipe", "--log", "new.db"),
        ("log", "merge", "a.db", "-o", "pipe"),
        ("top", "pipe", "--once"),
        ("package", "k.py:task", "--untuned", "-o", "pipe"),
        ("package", "k.py:task", "--log", "pipe", "-o", "k.whet"),
    ):
        assert main(list(words)) == 1, words
        said = capsys.readouterr().err
        assert "it is a device or a pipe" in said and said.count("\n") >= 2, (words, said)
    assert Path("pipe").is_fifo() and Path("/dev/null").is_char_device()
    assert sorted(os.listdir()) == ["a.db", "k.py", "pipe"]


def test_an_import_that_fails_leaves_no_log_behind(task, capsys):
    Path("bad.jsonl").write_text("{\n")
    assert "nothing was imported" in run(capsys, "import", "bad.jsonl", "--log", "new.db", code=1)
    assert not Path("new.db").exists()
    run(capsys, "export", "a.db", "-o", "good.jsonl")
    run(capsys, "import", "good.jsonl", "bad.jsonl", "--log", "new.db", code=1)
    assert "12: 12 ok" in run(capsys, "stats", "new.db")  # the first file was taken
    whet.TuningLog("mine.db").close()
    run(capsys, "import", "bad.jsonl", "--log", "mine.db", code=1)
    assert Path("mine.db").exists()  # which was there before


def test_verify_of_a_template_that_the_log_has_not(task, capsys):
    said = run(capsys, "verify", "a.db", "--op", "matmull", code=1)
    assert "verify 'matmull' in log a.db: it has no best record of this template" in said
    assert "did you mean 'matmul'?" in said.lower() and "it has records of: matmul" in said


def test_files_of_ones_own_that_fail_are_said_in_three_parts(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("syntax.py").write_text("x = 1\ndef f(:\n")
    Path("broken.py").write_text("import whet\nlist_of_one = [1]\nlist_of_one[3]\n")
    Path("latin.py").write_bytes(b"word = '\xff'\n")
    Path("made.py").write_text("def made():\n    raise RuntimeError('mine')\n")
    for where, why in {
        "syntax.py:x": "load syntax.py: it raises SyntaxError: invalid syntax (syntax.py, line 2)",
        "broken.py:x": "load broken.py: it raises IndexError: list index out of range (broken.py,",
        "latin.py:x": "load latin.py: it raises SyntaxError: ",
        "made.py:made": "load made.py:made: it raises RuntimeError: mine (made.py, line 2)",
    }.items():
        assert main(["package", where, "--untuned", "-o", "k.whet"]) == 1
        said = capsys.readouterr().err
        assert why in said and "Traceback" not in said and "\n  mend it; " in said
    assert not Path("k.whet").exists()
