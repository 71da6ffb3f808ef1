"""`whet report`, the options of `whet tune`, and tasks without a template on the command line."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import click
import pytest

from whet.autotune import tune
from whet.autotune.samplers import SAMPLERS
from whet.cli import main
from whet.commands import report as report_command
from whet.commands import tune as tune_command
from whet.commands.report import default_output
from whet.commands.words import Seconds, load_task
from whet.db import TuningLog
from whet.db.store import engine, schema
from whet.measure import MeasureResult, ReplayPool

KERNELS = """
import whet
from whet import te
from whet.search_spaces import get_config, template

@template("test_report/{name}")
def kernel(n):
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    cfg = get_config()
    cfg.define_split("tile", s[b].op.axis[0], num_outputs=2)
    cfg["tile"].apply(s, b, s[b].op.axis[0])
    return s, [a, b]

task = whet.create_task(kernel, (64,), target="llvm")
other = whet.create_task(kernel, (32,), target="llvm")

def graph():
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] * 2.0, name="B")
    return whet.create_task(outputs=[b], target="llvm")
"""


def cost(inp):
    return 1e-3 / inp.config.choice("tile")[1]


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """A file with a template, two tasks of it, and a task without a template."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    name = f"report_kernels_{abs(hash(str(tmp_path))) % 10**8}"
    path = tmp_path / f"{name}.py"
    path.write_text(KERNELS.replace("{name}", name))
    yield path
    sys.modules.pop(f"whet_file_{name}", None)


@pytest.fixture
def log(kernels):
    """A log with finished searches of the file's two tasks."""
    for name in ("task", "other"):
        tune(load_task(f"{kernels}:{name}", (), None), 6, "a.db", "grid",
             workers=ReplayPool(cost), progress=False)  # fmt: skip
    return "a.db"


def test_a_report_is_written_beside_the_user(capsys, log, tmp_path):
    assert main(["report", log]) == 0
    said = capsys.readouterr()
    page = (tmp_path / "a.html").read_text()
    assert said.out == f"a.html  ({len(page.encode()) / 1e3:,.0f} kB)\n" and said.err == ""
    root = ET.fromstring(page.split("\n", 1)[1])
    assert len(list(root.iter("h2"))) == 2
    assert "for i_outer" in page  # the template is known in this process


def test_a_report_of_one_task_in_a_file_of_its_own(capsys, log, kernels, tmp_path):
    name = f"test_report/{kernels.stem}"
    assert main(["report", log, "-o", "r.html", "--op", name, "--args", "32"]) == 0
    page = (tmp_path / "r.html").read_text()
    assert f"{name}(32)" in page and f"{name}(64)" not in page


def test_reports_that_cannot_be_made(capsys, log, kernels):
    TuningLog("empty.db").close()
    near = f"did you mean 'test_report/{kernels.stem}'"
    for words, said in (
        (["report", "none.db"], "there is no such file"),
        (["report", "empty.db"], "it holds no trials yet\n  tune something first: whet tune"),
        (["report", log, "--op", f"test_report/{kernels.stem}s"], near),
        (["report", log, "-o", log], "is there and is no report\n  give another file"),
        (["report", log, "-o", "no/where.html"], "there is no folder no"),
    ):
        assert main(words) == 1, words
        text = capsys.readouterr().err
        assert said in text and "Traceback" not in text


def test_an_older_log_is_upgraded_by_a_command(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    schema.upgrade(engine.place_of("old.db"), to="0001")
    assert main(["report", "old.db"]) == 1
    assert "its tables are of version 0001" in capsys.readouterr().err
    assert main(["upgrade", "old.db"]) == 0
    said = f"old.db: tables of version 0001 are of version {schema.SCHEMA} now"
    assert said in capsys.readouterr().out
    assert main(["upgrade", "old.db"]) == 0
    assert "old.db is up to date" in capsys.readouterr().out
    assert main(["report", "old.db"]) == 1
    assert "it holds no trials yet" in capsys.readouterr().err


def test_what_is_no_log_is_not_upgraded(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text("no database")
    sqlite3.connect("empty").execute("VACUUM").connection.close()
    for name, said in (
        ("none.db", "there is no such file"),
        ("text", "it is not a database"),
        ("empty", "there is no log in it yet"),
    ):
        assert main(["upgrade", name]) == 1
        assert said in capsys.readouterr().err
    assert not (tmp_path / "none.db").exists()


def test_progress_is_said_when_it_takes_long(capsys, log, monkeypatch):
    monkeypatch.setattr(report_command, "QUIET", -1.0)
    assert main(["report", log]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert [line[:5] for line in lines] == ["1/2  ", "2/2  "]


def test_the_browser_is_opened_when_asked(capsys, log, monkeypatch, tmp_path):
    opened = []
    monkeypatch.setattr(click, "launch", opened.append)
    assert main(["report", log]) == 0 and opened == []
    assert main(["report", log, "--open"]) == 0
    assert opened == [(tmp_path / "a.html").as_uri()]


def test_the_name_of_a_report():
    names = ["whet.db", "runs/x.y.db", "postgresql://me@host:5/tunes?a=b", "postgresql://host/"]
    assert list(map(default_output, names)) == [
        "whet.html", "x.y.html", "tunes.html", "report.html",
    ]  # fmt: skip


def test_a_process_of_its_own_makes_the_same_report(log, kernels, tmp_path):
    assert main(["report", log]) == 0
    done = elsewhere(["report", log, "-o", "b.html", "--module", str(kernels)])
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "b.html").read_text() == (tmp_path / "a.html").read_text()


def test_the_options_of_a_search_reach_it(capsys, kernels, monkeypatch):
    import whet.autotune

    calls = []
    monkeypatch.setattr(whet.autotune, "tune", lambda task, **given: calls.append((task, given)))
    words = ["tune", f"{kernels}:task", f"{kernels}:other", "--timeout", "10min", "--target-cost"]
    words += ["0.5ms", "--early-stop", "50", "--no-transfer", "--weight", "2", "--weight", "1"]
    assert main([*words, "--sampler", "genetic", "--workers", "3", "--quiet"]) == 0
    (tasks, given) = calls.pop()
    assert [t.args for t in tasks] == [(64,), (32,)]
    assert given == {
        "trials": 500, "log": "whet.db", "sampler": "genetic", "seed": 0, "workers": 3,
        "progress": False, "timeout": 600.0, "target_cost": 5e-4, "early_stop": 50,
        "transfer": False, "weights": [2.0, 1.0], "device": None,
    }  # fmt: skip
    words = ["tune", f"{kernels}:kernel", "--args", "16", "--space", "quick", "--early-stop"]
    assert main(words) == 0
    (task, given) = calls.pop()
    assert task.args == (16,) and task.level == "quick"
    assert given["early_stop"] is True and given["transfer"] and given["weights"] is None
    assert given["timeout"] is None and given["target_cost"] is None
    assert main(["tune", "--op", "matmul", "--args", "8", "8", "8", "--space", "quick"]) == 0
    assert calls.pop()[0].level == "quick"


def test_options_that_make_no_sense_exit_with_2(capsys, kernels):
    for words, said in (
        (["tune", f"{kernels}:task", "--timeout", "soon"], "'soon' is not a time; write 90, or"),
        (["tune", f"{kernels}:task", "--target-cost", "1.5.2"], "is not a time"),
        (["tune", f"{kernels}:task", "--space", "half"], "'quick'"),
        (["tune", f"{kernels}:task", "--space", "quick"], "are for a template; task is not one"),
        (["tune", f"{kernels}:task", "--sampler", "best"], "'cmaes'"),
        (["tune", f"{kernels}:other", "--early-stop", f"{kernels}:task"], "a task stands before"),
        (["tune", "--early-stop", "--op", "matmul", "a.py:task"], "either FILE_OR_MODULE:TASK or"),
    ):
        assert main(words) == 2, words
        assert said in capsys.readouterr().err


def test_every_sampler_can_be_named():
    choices = next(p for p in tune_command.command.params if p.name == "sampler").type.choices
    assert set(choices) == set(SAMPLERS)


def test_times_with_units():
    read = Seconds().convert
    said = ["90", "90s", "10min", "2h", "0.5ms", "20us", "3 ns", ".5", "1e-3", "5."]
    assert [read(text, None, None) for text in said] == pytest.approx(
        [90, 90, 600, 7200, 5e-4, 2e-5, 3e-9, 0.5, 1e-3, 5]
    )
    for bad in ("", "s", "-3", "nan", "inf", "1 2", "1m", "0x1", "1e"):
        with pytest.raises(click.BadParameter, match="is not a time"):
            read(bad, None, None)


def test_several_tasks_are_tuned_in_one_run(capsys, kernels, monkeypatch):
    import whet.autotune

    pool = ReplayPool(cost)

    def replayed(task, **given):
        return tune(task, **given | {"workers": pool})

    monkeypatch.setattr(whet.autotune, "tune", replayed)
    words = ["tune", f"{kernels}:task", f"{kernels}:other", "--trials", "12", "--log", "b.db"]
    assert main([*words, "--sampler", "random", "--quiet"]) == 0
    said = capsys.readouterr()
    assert f"test_report/{kernels.stem}(64):" in said.out and "(32):" in said.out
    assert said.err == ""
    with TuningLog("b.db", write=False) as log:
        assert sum(t.trials for t in log.summary()) == 12


def elsewhere(words: list[str]) -> subprocess.CompletedProcess:
    """A command in a process that has made no task yet."""
    code = "import sys; from whet.cli import main; sys.exit(main(sys.argv[1:]))"
    return subprocess.run([sys.executable, "-c", code, *words], text=True, capture_output=True)


def forget_graphs(path: str) -> None:
    """Make a log that of an earlier version, which held no compute graphs."""
    raw = sqlite3.connect(path)
    with raw:
        raw.execute("UPDATE run SET options = '{}'")
    raw.close()


def test_a_task_without_a_template_is_shown_by_the_code_that_makes_it(capsys, kernels):
    task = load_task(f"{kernels}:graph", (), None)
    tune(task, 3, "g.db", "random", workers=ReplayPool(lambda inp: 1e-6), progress=False)
    assert main(["best", "g.db"]) == 0 and "3/3" in capsys.readouterr().out
    shown = elsewhere(["show", "g.db"])
    assert shown.returncode == 0, shown.stderr
    assert "def " in shown.stdout and "for i_outer in " in shown.stdout
    done = elsewhere(["report", "g.db", "-o", "g.html"])
    assert done.returncode == 0 and "for i_outer in " in Path("g.html").read_text()
    forget_graphs("g.db")
    done = elsewhere(["show", "g.db"])
    assert done.returncode == 2
    assert "was derived from a compute graph, which this log does not hold" in done.stderr
    assert "--task FILE_OR_MODULE:TASK" in done.stderr
    done = elsewhere(["show", "g.db", "--what", "config"])  # which needs no program
    assert done.returncode == 0 and "1 us" in done.stdout, done.stderr
    done = elsewhere(["show", "g.db", "--task", f"{kernels}:graph"])
    assert done.returncode == 0 and done.stdout == shown.stdout, done.stderr
    assert main(["show", "g.db", "--task", f"{kernels}:task"]) == 1
    assert "never tuned there" in capsys.readouterr().err


def test_a_config_that_nobody_here_measured(kernels):
    task = load_task(f"{kernels}:graph", (), None)
    pool = ReplayPool(lambda inp: MeasureResult("ok", (1e-6,)))
    tune(task, 2, "g.db", "random", pool, device="cpu-elsewhere", progress=False)
    done = elsewhere(["show", "g.db", "--what", "config"])
    assert done.returncode == 1 and "on other machines only (cpu-elsewhere" in done.stderr
    forget_graphs("g.db")
    done = elsewhere(["show", "g.db", "--what", "config"])
    assert done.returncode == 2
    assert "nothing that was measured on this machine worked" in done.stderr


def test_doctor_names_what_looks_at_searches(capsys):
    from whet.commands.checkup import checkup
    from whet.compiler.installed import install_extra

    found = {f.name: f for f in checkup()}
    for name in ("pandas", "plotly", "optuna-dashboard"):
        assert found[name].found or install_extra("plots") in found[name].gives
