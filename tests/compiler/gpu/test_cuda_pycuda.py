"""The real pycuda, in a process of its own whose libcuda is the stand-in."""

import ast
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not find_spec("pycuda"), reason="pycuda is not installed")

HERE = Path(__file__).parent
CHECKS = sorted(HERE.glob("pycuda*_checks.py"))
NAMES = [
    n.name
    for file in CHECKS
    for n in ast.parse(file.read_text()).body
    if getattr(n, "name", "")[:5] == "test_"
]


@pytest.fixture(scope="module")
def outcomes():
    """For each check its outcomes, and what the process said."""
    from whet.compiler.emulator.standin import folder

    options = ["-n0", "-rA", "-q", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, *CHECKS]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder())}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, cwd=HERE.parents[2]
    )
    text = done.stdout + done.stderr
    found: dict[str, set[str]] = {}
    for outcome, name in re.findall(r"^(PASSED|FAILED|ERROR|SKIPPED) \S+::(\w+)", text, re.M):
        found.setdefault(name, set()).add(outcome)
    return found, text, done.returncode


@pytest.mark.parametrize("name", NAMES)
def test_with_pycuda(outcomes, name):
    found, text, _ = outcomes
    assert found.get(name) == {"PASSED"}, text[-6000:]


def test_the_process_ends_well(outcomes):
    _, text, returncode = outcomes
    assert returncode == 0, text[-3000:]
    assert "PyCUDA WARNING" not in text and "PyCUDA ERROR" not in text
