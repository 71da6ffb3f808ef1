"""The lessons run as scripts, and are those that the documentation lists."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LESSONS = ROOT / "docs" / "lessons"

SMALLER = {
    "tuning_a_matmul": {"N = 480": "N = 32", "TRIALS = 40": "TRIALS = 4"},
    "tuning_without_a_template": {
        "N, K, M = 128, 256, 256": "N, K, M = 16, 24, 32",
        "TRIALS = 24": "TRIALS = 4",
    },
    "fast_matmul": {"N = 1024": "N = 64", "TRIALS = 40": "TRIALS = 4"},
}
"""Replacements that make a lesson quick."""

SAID = {
    "vector_add": ("for i_outer in range(", "--- after ", "vector_add__raw", " ns, and between "),
    "schedule_primitives": ("in parallel(4)", "ramp(", "in unrolled(4)", "T[i_inner + 1]"),
    "tuning_a_matmul": ("3 knobs", "4 trials", "speed-up", " ms"),
    "tuning_without_a_template": ("layer", "tile", "4 trials", "2 trials", "speed-up", " us"),
    "fast_matmul": ("naive: ", "register tile: ", "prepacked: ", "parallel: ", "x naive"),
    "tensorize": ("for row in range(8)", "the instruction: c[i] = sum(a[k] * b[i, k]", "exact: "),
    "layouts_and_groups": ("for i in range(6)", "T = allocate([48]", "max(i * -2 + 3, 1)"),
    "hybrid_script": ("for i in parallel(n)", "the histogram is right", "def count(V):"),
    "recurrences": ("for S_idx in range(m - 1)", "'new_c', 'new_h'", "the LSTM is right"),
}
"""Lines that a lesson prints, among others."""


def test_every_lesson_has_its_place():
    sys.path.insert(0, str(ROOT / "docs" / "extensions"))
    from lesson_order import LESSONS as listed

    assert sorted(listed) == sorted(p.name for p in LESSONS.glob("*.py"))
    assert sorted(SAID) == sorted(p.stem for p in LESSONS.glob("*.py"))


@pytest.mark.parametrize("name", SAID)
def test_a_lesson_runs(name, tmp_path):
    code = (LESSONS / f"{name}.py").read_text()
    for old, new in SMALLER.get(name, {}).items():
        assert code.count(old) == 1
        code = code.replace(old, new)
    (tmp_path / "lesson.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "lesson.py"],
        cwd=tmp_path,
        env=os.environ | {"MPLBACKEND": "agg", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for said in SAID[name]:
        assert said in done.stdout, f"{said!r} is not in\n{done.stdout}"


@pytest.mark.parametrize("name", SAID)
def test_a_lesson_begins_with_a_title(name):
    doc = ast.get_docstring(ast.parse((LESSONS / f"{name}.py").read_text()))
    assert doc is not None
    title, rule, *_ = doc.splitlines()
    assert len(rule) >= len(title) and set(rule) == {"="}


def test_every_primitive_is_shown():
    from whet.compiler.te.primitives.checks import ON_SCHEDULE, ON_STAGE

    lessons = ("schedule_primitives", "tensorize", "layouts_and_groups")
    code = "".join((LESSONS / f"{name}.py").read_text() for name in lessons)
    assert not [name for name in ON_SCHEDULE | ON_STAGE if f".{name}(" not in code]


@pytest.mark.parametrize("name", SAID)
def test_the_files_that_a_lesson_names_are_there(name):
    text = (LESSONS / f"{name}.py").read_text()
    for path in re.findall(r"``((?:compiler|docs|whet)/[\w./]+)``", text):
        assert (ROOT / path).exists(), path
