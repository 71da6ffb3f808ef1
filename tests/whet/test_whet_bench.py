"""`whet bench`: what it prints, what it draws, and its errors."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from whet.autotune import create_task, tune
from whet.cli import main
from whet.measure import ReplayPool

CONV = tuple("1388433")
"""N, CI, H, W, CO, KH, KW."""


def test_wrong_usage_is_explained(capsys, tmp_path):
    for words, code, said in (
        (["bench"], 2, "Missing argument 'OP'"),
        (["bench", "matmull", "8", "8", "8"], 1, "did you mean 'matmul'?"),
        (["bench", "matmul", "8", "8"], 1, "it takes matmul(N"),
        (["bench", "matmul", "8", "-8", "8"], 1, "K is -8; it must be an int, at least 0"),
        (["bench", "softmax", "(3, 4)", "7"], 1, "there is no axis 7 in 2 dimensions"),
        (["bench", "conv2d_nchw", *CONV, "1", "-1"], 1, "padding is -1"),
        (["bench", "conv2d_nchw", *CONV, *"1112"], 1, "2 groups do not divide 3 input"),
        (["bench", "matmul", "8", "8", "8", "--threads", "0"], 2, "--threads"),
        (["bench", "matmul", "8", "8", "8", "--plot", "a.gif"], 1, "name it .svg or .png"),
        (["bench", "matmul", "8", "8", "8", "--target", "llm"], 1, "llvm"),
    ):
        assert main(words) == code, words
        text = capsys.readouterr().err
        assert said in text and "Traceback" not in text, text


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
def test_what_was_not_tuned_is_said(there, capsys, tmp_path):
    log = str(tmp_path / "whet.db")
    if there:
        task = create_task("matmul", (24, 16, 40), "llvm")
        tune(task, 2, log, "random", ReplayPool(lambda inp: 1e-3), progress=False)
    words = ["bench", "cumsum", "(2, 3)", "-1", "--rounds", "1", "--log", log, "--no-compile"]
    assert main(words) == 0
    shown = capsys.readouterr()
    assert "not tuned: " in shown.err and "--trials 200 tunes it now" in shown.err
    assert "default" in shown.out and "tuned " not in shown.out
    assert "not compared: numpy" in shown.out  # it was imported before its threads could be set
