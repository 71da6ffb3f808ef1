"""`scripts/test`: where pycuda cannot be built, and what goes on beside other steps."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "test"


def program(path: Path, code: int, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\nexit {code}\n")
    path.chmod(0o755)


@pytest.fixture
def checkout(tmp_path):
    """One in which all is well, but for Python, and for what builds pycuda."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(SCRIPT, tmp_path / "scripts" / "test")
    (tmp_path / "scripts" / "environment.sh").write_text("environment() { :; }\n")
    program(tmp_path / "scripts" / "build_pycuda", 1)
    for name, code in (("python", 1), ("ruff", 0), ("mypy", 0)):
        program(tmp_path / ".venv-test" / "bin" / name, code)
    return tmp_path


def said(checkout, code=1, **environment):
    known = {k: v for k, v in os.environ.items() if k != "CI"}
    done = subprocess.run(
        [str(checkout / "scripts" / "test")], env={**known, **environment},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_without_pycuda_tests_are_skipped_here_and_refused_in_ci(checkout):
    here = said(checkout)
    assert "pycuda could not be built: its tests are skipped" in here and "== pytest" in here
    there = said(checkout, CI="true")
    assert "FAILED: pycuda could not be built" in there and "== pytest" not in there


PYTHON = """
echo "$@" >>asked
case "$*" in
  *"import pycuda"*) exit 1 ;;
  *sphinx*)
    [ ! -e docs/_build ] && [ ! -e docs/generated ] || exit 1
    sleep 0.3 && echo "page.md: a warning" && exit $DOCS ;;
esac
"""


@pytest.mark.parametrize("docs", [0, 1])
def test_what_goes_on_beside_other_steps_is_waited_for(checkout, docs):
    program(checkout / "scripts" / "build_pycuda", 0, "sleep 0.3; echo /made/pycuda.whl; echo >&2")
    program(checkout / ".venv-test" / "bin" / "python", 0, PYTHON)
    for left in ("_build/html/searchindex.js", "generated/lessons/half.rst"):
        program(checkout / "docs" / left, 0)  # by a build that was killed
    text = said(checkout, docs, DOCS=str(docs))
    asked = (checkout / "asked").read_text().splitlines()
    first = {word: k for k, line in enumerate(asked) for word in line.split()}
    assert first["/made/pycuda.whl"] < first["pytest"]
    said_to_pytest = asked[first["pytest"]]
    assert "faulthandler_timeout=600" in said_to_pytest and "--max-worker" in said_to_pytest
    assert ("page.md: a warning" in text) == ("FAILED: docs" in text) == (docs == 1)
