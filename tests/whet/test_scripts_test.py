"""`scripts/test`: what it does where pycuda cannot be built."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "test"


def program(path: Path, code: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\nexit {code}\n")
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


def said(checkout, **environment):
    known = {k: v for k, v in os.environ.items() if k != "CI"}
    done = subprocess.run(
        [str(checkout / "scripts" / "test")], env={**known, **environment},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    return done.stdout + done.stderr


def test_without_pycuda_tests_are_skipped_here_and_refused_in_ci(checkout):
    here = said(checkout)
    assert "pycuda could not be built: its tests are skipped" in here and "== pytest" in here
    there = said(checkout, CI="true")
    assert "FAILED: pycuda could not be built" in there and "== pytest" not in there
