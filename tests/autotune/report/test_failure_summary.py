"""A search's summary and `whet best --errors` say what failed, where, and with which config."""

from __future__ import annotations

import subprocess
import sys

import pytest

from whet.autotune.results.failures import Raised, summary_lines
from whet.autotune.results.trial import Trial
from whet.measure import MeasureResult
from whet.search_spaces import Config

TEMPLATE = """
import whet
from whet import te


@whet.template("test/broken_tile")
def broken(n):
    cfg = whet.get_config()
    cfg.define_knob("tile", [4, 0, -1])
    cfg.define_knob("shape", [0, 1])
    a = te.placeholder((n,), name="a")
    b = te.compute((1 if cfg["shape"].val else n,), lambda i: a[i] * 2, name="b")
    s = te.create_schedule(b.op)
    s[b].split(b.op.axis[0], factor=cfg["tile"].val)
    return s, [a, b]

"""
TUNE = """
task = whet.create_task(broken, (64,), target="llvm -mcpu=x86-64-v2")
quick = whet.MeasureOptions(min_repeat_ms=0.5, max_measure_s=0.02)
print(whet.tune(task, 20, "a.db", "grid", progress=False, options=quick))
"""
# A notebook's cell is in no file that a worker, or a traceback, could read.
CELL = """
exec(compile(open("cell.txt").read(), "<cell 3>", "exec"), globals())
"""


@pytest.mark.parametrize("kind", ["script", "cell", "file"])
def test_the_summary_shows_the_first_failure_of_each_kind(tmp_path, kind):
    (tmp_path / "cell.txt").write_text(TEMPLATE)
    (tmp_path / "templates.py").write_text(TEMPLATE)
    begin = {
        "script": TEMPLATE,
        "cell": CELL,
        "file": "import whet\nfrom templates import broken\n",
    }
    (tmp_path / "script.py").write_text(begin[kind] + TUNE)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout
    assert "failed   4 lower_error, 1 wrong_answer" in said
    assert "lower_error, ScheduleError: 4 trials, the first of them trial " in said
    assert "config tile=0 shape=" in said
    assert "ScheduleError: split(b, axis=i, factor=0): factor must be at least 1" in said
    file = {"script": "script.py", "cell": "<cell 3>", "file": "templates.py"}[kind]
    assert f'{file}", line 14, in broken' in said
    code = ': s[b].split(b.op.axis[0], factor=cfg["tile"].val)'
    assert (code in said) == (kind != "cell")
    assert (
        "argument 1 (b) is float32 of shape (1,) with this config, float32 of shape (64,)" in said
    )
    assert "broadcast" not in said
    assert "whet best a.db --errors" in said


def failure(number: int, status: str, error: str) -> Trial:
    config = Config((("tile", number),), "space", ("other",))
    return Trial(number, config, MeasureResult(status, error=error))


def test_kinds_differ_by_status_and_exception():
    raised = 'Traceback (most recent call last):\n  File "/me/t.py", line 3, in f\n    g()\n'
    trials = [
        Trial(0, Config((), "space", ()), MeasureResult("ok", (1.0,))),
        failure(1, "lower_error", raised + "pkg.Boom: 1 is odd\n"),
        failure(2, "lower_error", raised + "KeyError: 'x'\n"),
        failure(3, "lower_error", raised + "pkg.Boom: 3 is odd\n"),
        failure(4, "pruned", "too many threads"),
    ]
    assert summary_lines(trials) == [
        "lower_error, Boom: 2 trials, the first of them trial 1",
        "  config tile=1",
        '  File "/me/t.py", line 3, in f: g()',
        "  Boom: 1 is odd",
        "lower_error, KeyError: trial 2",
        "  config tile=2",
        '  File "/me/t.py", line 3, in f: g()',
        "  KeyError: 'x'",
    ]
    many = [failure(k, "lower_error", f"{raised}Error{k}: no\n") for k in range(6)]
    assert summary_lines(many)[-1] == "and 2 other kinds"
    assert summary_lines([failure(1, "run_error", "")]) == ["run_error: trial 1", "  config tile=1"]


def test_of_a_crash_the_output_and_the_users_line_are_shown():
    error = (
        "the worker died of SIGSEGV (Segmentation fault) after 0.12 s\n"
        "--- the worker's output ---\nhere it comes\nFatal Python error: Segmentation fault\n\n"
        "Current thread 0x00007fb3cbe31b80 (most recent call first):\n"
        '  File "/usr/lib/python3.11/ctypes/__init__.py", line 519 in string_at\n'
        '  File "/me/t.py", line 15 in fails\n'
        '  File "/opt/whet/search_spaces/template.py", line 170 in run\n'
        '  File "<string>", line 1 in <module>\n'
    )
    raised = Raised.of(error)
    assert (raised.type, raised.where) == ("", 'File "/me/t.py", line 15 in fails')
    assert raised.text == ["the worker died of SIGSEGV (Segmentation fault) after 0.12 s"]
    assert raised.output == ["here it comes"]


def test_a_message_of_several_lines_is_kept():
    error = (
        'Traceback (most recent call last):\n  File "/me/t.py", line 3, in f\n'
        '  File "/opt/whet/compiler/te/sizes.py", line 32, in as_size\n    raise ScheduleError()\n'
        "whet.compiler.errors.ScheduleError: split: no\n  loops: i(64)\nwhile template f ran\n"
    )
    raised = Raised.of(error)
    assert (raised.type, raised.where) == ("ScheduleError", 'File "/me/t.py", line 3, in f')
    assert raised.text == ["ScheduleError: split: no", "  loops: i(64)", "while template f ran"]
