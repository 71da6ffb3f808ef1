"""`whet bench`: what it prints, what it draws, and its errors."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

import pytest

from whet.autotune import create_task, tune
from whet.cli import main
from whet.commands.usage import check_arguments, usage_of
from whet.commands.words import value
from whet.measure import ReplayPool
from whet.search_spaces.values.builtin import BUILTIN

CONV = tuple("1388433")
"""N, CI, H, W, CO, KH, KW."""


def test_wrong_usage_is_explained(capsys, tmp_path):
    for words, code, said in (
        (["bench"], 2, "Missing argument 'OP | MODEL.onnx'"),
        (["bench", "matmull", "8", "8", "8"], 1, "did you mean 'matmul'?"),
        (["bench", "matmul", "8", "8"], 1, "it takes matmul(N, K, M, transpose_a=False"),
        (["bench", "sum"], 1, 'e.g. whet bench sum "(1024, 1024)"'),
        (["bench", "sum", "4", "0", "float32", "7"], 1, "too many positional arguments (4 argum"),
        (["bench", "matmul", "8", "-8", "8"], 1, "K is -8; it must be an int, at least 0"),
        (["bench", "softmax", "(3, 4)", "7"], 1, "there is no axis 7 in 2 dimensions"),
        (["bench", "conv2d_nchw", *CONV, "1", "-1"], 1, "padding is -1"),
        (["bench", "conv2d_nchw", *CONV, *"1112"], 1, "2 groups do not divide 3 input"),
        (["bench", "matmul", "0", "8", "8"], 1, "tensor 0 has the shape (0, 8): 0 elements"),
        (["bench", "dense", *"488", "float32", "(bias,relu)"], 1, "in quotes: \"('bias','relu')\""),
        (["bench", "matmul", "8", "8", "8", "--plot", ""], 1, "that is no name of a file"),
        (["bench", "matmul", "8", "8", "8", "--plot", str(tmp_path)], 1, "it is a folder"),
        (["bench", "matmul", "8", "8", "8", "--log", "/no/a.db"], 1, "there is no directory /no"),
        (["bench", "matmul", "8", "8", "8", "--log", f"{tmp_path}/x.svg"], 1, "no such file"),
        (["bench", "matmul", "8", "8", "8", "--log", ""], 1, "that is no name of a file"),
        (["bench", "matmul", "8", "8", "8", "--threads", "0"], 2, "--threads"),
        (["bench", "matmul", "8", "8", "8", "--threads", "4096"], 1, "this process may run on"),
        (["bench", "own/scaled", "8"], 1, "by --module kernels.py"),
        (["bench", "own/scaled", "8", "--module", "none.py"], 2, "there is no file none.py"),
        (["bench", "matmul", "8", "8", "8", "--plot", "a.gif"], 1, "name it .svg or .png"),
        (["bench", "matmul", "8", "8", "8", "--target", "llm"], 1, "llvm"),
    ):
        assert main(words) == code, words
        text = capsys.readouterr().err
        assert said in text and "Traceback" not in text, text


def test_a_template_of_ones_own_is_known_by_its_module(capsys, tmp_path):
    kernels = tmp_path / "kernels.py"
    kernels.write_text(
        "import whet\nfrom whet import te\n"
        "@whet.template('own/doubled')\n"
        "def doubled(n: int):\n"
        "    A = te.placeholder((n,), name='A')\n"
        "    B = te.compute((n,), lambda i: A[i] * 2, name='B')\n"
        "    return te.create_schedule(B.op), [A, B]\n"
    )
    assert main(["bench", "own/doubled", "8", "9", "--module", str(kernels)]) == 1
    assert "it takes own/doubled(n)" in capsys.readouterr().err


def test_nothing_is_built_of_what_cannot_be_compared(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("whet.commands.bench._kernels", lambda *args: 1 / 0)
    assert main(["bench", "softmax", "(0, 5)"]) == 1
    assert "0 elements take no time" in capsys.readouterr().err


@pytest.mark.parametrize("op", list(BUILTIN))
def test_an_example_of_every_template_is_a_task(op):
    *usage, example = usage_of(op).splitlines()
    assert len(usage) == 2 and usage[0].startswith(f"it takes {op}(") and "Any" not in usage[0]
    whet, bench, name, *words = shlex.split(example.removeprefix("e.g. "))
    assert (whet, bench, name) == ("whet", "bench", op)
    values = tuple(map(value, words))
    check_arguments(op, values)
    assert create_task(op, values, "llvm -num_threads=1").bytes > 0


def test_words_of_a_command_line_are_values():
    assert [value(w) for w in ("true", "false", "True", "7", "(1, 2)", "bias")] == [
        True, False, True, 7, (1, 2), "bias",
    ]  # fmt: skip
    spelled = {str(create_task("dense", (4, 8, 8, "float32", value(w)), "llvm").workload)
               for w in ("bias", "'bias'", "('bias',)")}  # fmt: skip
    assert len(spelled) == 1


def test_a_table_and_a_drawing(tmp_path):
    log = str(tmp_path / "whet.db")
    task = create_task("matmul", (24, 16, 40), "llvm -num_threads=1")
    tune(task, 3, log, "random", ReplayPool(lambda inp: 1e-3), progress=False)
    words = ["bench", "matmul", "24", "16", "40", "--threads", "1", "--rounds", "2", "--log", log]
    done = subprocess.run(
        [sys.executable, "-m", "whet.cli", *words, "--no-compile", "--plot", "roof.svg"],
        cwd=tmp_path, env=os.environ, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    names = [line.split("  ")[0] for line in done.stdout.splitlines()]
    assert {"limit", "default", "tuned", "numpy"} <= set(names), done.stdout
    assert "on one core: 3.072e-05 GFLOP" in done.stdout and names[-1] == "roof.svg"
    assert "Roofline of matmul(24, 16, 40" in (tmp_path / "roof.svg").read_text()


@pytest.mark.parametrize("there", [False, True])
def test_what_was_not_tuned_is_said(there, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.getloadavg", lambda: (9999.0, 0.0, 0.0))
    log = "whet.db"
    if there:
        task = create_task("matmul", (24, 16, 40), "llvm")
        tune(task, 2, log, "random", ReplayPool(lambda inp: 1e-3), progress=False)
    words = ["bench", "cumsum", "(2, 3)", "-1", "--rounds", "1", "--no-compile"]
    assert main(words + ["--log", log] * there) == 0  # one that is named has to be there
    shown = capsys.readouterr()
    assert "not tuned: " in shown.err and "--trials 200 tunes it now" in shown.err
    assert "default" in shown.out and "tuned " not in shown.out
    assert "note: the machine was busy (load 9999.0 on " in shown.out
    assert "not compared: numpy" in shown.out  # it was imported before its threads could be set
