"""The command line: exit codes, messages without tracebacks, and what the commands print."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

import click
import pytest

import whet
from whet.autotune import create_task, tune
from whet.cli import main
from whet.commands.checkup import CHECKS, checkup
from whet.commands.words import load_task, spread, value
from whet.measure import MeasureResult, ReplayPool

KERNELS = """
import whet.autotune
from whet.search_spaces import get_config, template

@template("test_cli/{name}")
def kernel(n, word="w"):
    cfg = get_config()
    cfg.define_split("tile", n, num_outputs=2)
    cfg.add_flop(2 * n)
    return None, []

task = whet.autotune.create_task(kernel, (64,), target="llvm")

def make():
    return task

number = 7
"""


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """A file with a template, a task, and a function that makes one."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    name = f"cli_kernels_{abs(hash(str(tmp_path))) % 10**8}"
    path = tmp_path / f"{name}.py"
    path.write_text(KERNELS.replace("{name}", name))
    yield path
    sys.modules.pop(name, None)


@pytest.fixture
def log(kernels, tmp_path):
    """A log with a finished search of that file's task; the widest tile fails."""

    def cost(inp):
        inner = inp.config.choice("tile")[1]
        if inner == 64:
            return MeasureResult("build_error", error="Boom: too wide", stage="build")
        return 1e-3 / inner

    tune(load_task(f"{kernels}:task", (), None), 20, tmp_path / "a.db", "grid",
         workers=ReplayPool(cost), progress=False)  # fmt: skip
    return str(tmp_path / "a.db")


def test_wrong_usage_exits_with_2(capsys, tmp_path):
    for words, said in (
        (["nothing"], "No such command"),
        (["tune"], "either FILE_OR_MODULE:TASK or --op"),
        (["tune", "--op", "matmul", "a.py:task"], "either FILE_OR_MODULE:TASK or --op"),
        (["tune", "--op", "matmul", "--trials", "many"], "not a valid integer"),
        (["tune", "--op", "matmul", "--sampler", "annealing"], "xgb"),
        (["tune", "kernels.py"], "is not FILE_OR_MODULE:TASK"),
        (["tune", f"{tmp_path}/none.py:task"], "there is no file"),
        (["tune", "no_such_module:task"], "there is no module 'no_such_module'"),
    ):
        assert main(words) == 2, words
        assert said in capsys.readouterr().err


def test_an_explained_error_exits_with_1_and_no_traceback(capsys, kernels, tmp_path):
    log = str(tmp_path / "a.db")
    for words, said in (
        (["tune", "--op", "no_such_template", "--args", "1"], "no_such_template"),
        (["tune", f"{kernels}:task", "--trials", "0", "--log", log], "at least 1"),
        (["tune", f"{kernels}:kernel", "--args", "8", "--target", "llm"], "llvm"),
        (["tune", f"{kernels}:kernel", "--args", "8", "w", "3"], "too many"),
        (["tune", f"{kernels}:task", "--workers", "mars", "--log", log], "workers='mars'"),
        (["best", f"{tmp_path}/none.db"], "no such file"),
        (["best", str(kernels)], "not a database"),
    ):
        assert main(words) == 1, words
        text = capsys.readouterr().err
        assert said in text and "Traceback" not in text


def test_a_log_of_another_machine_or_a_newer_version_is_left_as_it_is(capsys, kernels, tmp_path):
    log = str(tmp_path / "a.db")
    task = load_task(f"{kernels}:task", (), None)
    pool = ReplayPool(lambda inp: 1e-3)
    tune(task, 3, log, "grid", pool, device="cpu-elsewhere", progress=False)
    assert main(["show", log, "--what", "config"]) == 1
    said = capsys.readouterr().err
    assert "other machines only (cpu-elsewhere" in said and "Traceback" not in said
    assert main(["best", log]) == 0 and "cpu-elsewhere" in capsys.readouterr().out
    with sqlite3.connect(log) as raw:
        raw.execute("UPDATE whet_version SET version_num = '9999'")
    raw.close()
    before = Path(log).read_bytes()
    for words in (["best", log], ["show", log], ["tune", f"{kernels}:task", "--log", log]):
        assert main(words) == 1, words
        said = capsys.readouterr().err
        assert "made by a newer version of Whet" in said and "pip install --upgrade" in said
    assert Path(log).read_bytes() == before


def test_an_error_of_a_template_says_while_what_it_came(capsys, kernels):
    text = kernels.read_text().replace("cfg.add_flop(2 * n)", "whet.autotune.tune(n)")
    kernels.write_text(text)
    assert main(["tune", f"{kernels}:kernel", "--args", "8"]) == 1
    said = capsys.readouterr().err
    assert "a int is not a task" in said
    assert f"while the space of test_cli/{kernels.stem}(64) was collected" in said


def test_ctrl_c_exits_with_130(kernels, tmp_path):
    kernels.write_text(kernels.read_text() + "\ndef stop():\n    raise KeyboardInterrupt\n")
    assert main(["tune", f"{kernels}:stop"]) == 130


def test_args_take_all_values_up_to_the_next_option():
    assert spread(["--op", "x", "--args", "1", "-2", "f", "--log", "l"]) == [
        "--op", "x", "--args=1", "--args=-2", "--args=f", "--log", "l",
    ]  # fmt: skip
    assert spread(["--args", "1", "-h"]) == ["--args=1", "-h"]
    words = ["1024", "2.5", "float32", "(1, 1)", "None", "True"]
    assert list(map(value, words)) == [1024, 2.5, "float32", (1, 1), None, True]


def test_a_task_is_named_by_file_and_attribute(kernels):
    task = load_task(f"{kernels}:task", (), None)
    assert load_task(f"{kernels}:make", (), None) is task
    assert load_task(f"{kernels}:kernel", (32, "v"), "llvm").args == (32, "v")
    with pytest.raises(click.UsageError, match=r"no task 'number'.*kernel, task"):
        load_task(f"{kernels}:number", (), None)
    with pytest.raises(click.UsageError, match="for a template"):
        load_task(f"{kernels}:task", (1,), None)
    assert task.template.ref().pickled  # a script: no worker may run it again


def test_a_task_is_named_by_module_and_attribute(kernels, monkeypatch):
    monkeypatch.syspath_prepend(str(kernels.parent))
    task = load_task(f"{kernels.stem}:task", (), None)
    assert task.template.ref().module == kernels.stem


def test_a_file_whose_name_is_taken_is_loaded_too(kernels):
    taken = kernels.with_name("json.py")
    taken.write_text(kernels.read_text().replace("test_cli/", "test_cli/taken_"))
    task = load_task(f"{taken}:task", (), None)
    assert task.template.ref().pickled


def test_best_prints_a_line_a_task(capsys, log):
    assert main(["best", log]) == 0
    said = capsys.readouterr().out
    assert "6/7" in said and "tile=(2,32)" in said and "31.2 us" in said
    default = create_default_cost(log)
    assert f"{default / (1e-3 / 32):.2f}x" in said
    assert main(["best", log, "--errors"]) == 0
    said = capsys.readouterr().out
    assert "Boom: too wide" in said and "the only failure among 7 trials" in said
    assert "the only candidate" not in said


def create_default_cost(log):
    from whet.db import TuningLog

    return next(t for t in TuningLog(log).trials() if t.number == 0).cost


def test_best_of_an_empty_log_says_so(capsys, tmp_path):
    from whet.db import TuningLog

    TuningLog(tmp_path / "a.db").close()
    assert main(["best", str(tmp_path / "a.db")]) == 0
    assert "holds no trials yet" in capsys.readouterr().out


def test_show_finds_the_workload_and_its_config(capsys, kernels, log):
    assert main(["show", log, "--what", "config"]) == 0
    assert "tile=(2,32)" in capsys.readouterr().out
    name = f"test_cli/{kernels.stem}"
    assert main(["show", log, "--op", name, "--args", "64", "--what", "config"]) == 0
    for written in (f"{name}(64)", f"{name}(64, w)"):  # as `whet best` has it, and in full
        assert main(["show", log, "--op", written, "--what", "config"]) == 0, written
    assert main(["show", log, "--op", name, "--args", "65", "--what", "config"]) == 2
    assert f"{name}(64, w)" in capsys.readouterr().err


def test_show_fills_in_the_defaults_of_the_template(capsys, kernels, log):
    pool = ReplayPool(lambda inp: 1e-3)
    for args in ((64, "v"), (32, "w"), (48, "v")):
        task = load_task(f"{kernels}:kernel", args, None)
        tune(task, 2, log, "grid", workers=pool, progress=False)
    name = f"test_cli/{kernels.stem}"
    show = ["show", log, "--what", "config", "--op", name]
    assert main([*show, "--args", "64"]) == 0  # not (64, v), which begins with it
    assert "tile=(2,32)" in capsys.readouterr().out
    assert main(show) == 2
    said = capsys.readouterr().err
    assert "several workloads fit" in said and f"{name}(32, w)" in said
    assert main([*show, "--args", "48"]) == 2  # tune would take (48, w)
    said = capsys.readouterr().err
    assert "no workload fits" in said and f"{name}(48, v)" in said and f"{name}(64" not in said


def test_the_checkup_looks_at_everything():
    findings = checkup()
    assert len(findings) == len(CHECKS) == len({f.name for f in findings})
    names = {f.name for f in findings}
    assert {"CPU", "vectors", "caches", "LLVM", "Ray", "torch"} <= names
    assert {"NVRTC", "CUDA emulator", "pycuda", "CUDA device"} <= names
    assert all(f.found or f.gives for f in findings)


@pytest.mark.parametrize(("load", "more"), [(0.5, False), (9.0, True)])
def test_a_peak_that_others_disturbed_says_so(monkeypatch, load, more):
    from whet.measure.stage import machine

    monkeypatch.setattr(machine, "environment", lambda: {"load": load, "cpus": 2})
    found = {f.name: f for f in checkup()}["FMA peak"]
    assert ("it may be more: the machine was busy (load 9.0 on 2 cores)" in found.text) is more


def test_doctor_prints_the_checkup(capsys):
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert "FMA peak" in said and "bits;" in said and "CUDA device" in said


def test_help_and_version_exit_with_0(capsys):
    assert main(["--help"]) == 0 and main(["tune", "--help"]) == 0 and main(["--version"]) == 0
    said = capsys.readouterr().out
    assert "whet tune --op matmul --args 1024 1024 1024" in said
    assert said.endswith(f"whet, version {whet.__version__}\n")


def test_a_task_can_be_made_for_the_target_of_a_record(kernels):
    task = load_task(f"{kernels}:task", (), None)
    again = create_task(task.template, task.args, task.target.to_json())
    assert again.target == task.target and again.key == task.key
