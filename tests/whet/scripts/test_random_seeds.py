"""Runs of pytest draw a new seed each, say it, and replay by it; known faults fail as expected."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

CONFTEST = Path(__file__).resolve().parents[2] / "conftest.py"
FAULT = """
[[fault]]
case = "{case}"
what = "a red sum is wrong"
since = "2026-11-22"
form = "red .* sum"
error = "^AssertionError: off by"
"""
DRAWN = """
from hypothesis import given, strategies as st

def test_programs(seeds):
    with open("drawn", "a") as file:
        print("seeds", *seeds(12), file=file)
    assert len(seeds(12)) == 1, "a program is wrong"

values = []

@given(st.integers(0, 2**64))
def test_hypothesis(value):
    values.append(value)
    assert len(values) < 100, "a value is wrong"

def test_values():
    with open("drawn", "a") as file:
        print("values", *values[:99], file=file)
    assert 0, "nothing was drawn here"
"""


@pytest.fixture
def run(tmp_path):
    """``run(text, *options)``: a run of pytest on a file, as (exit code, what it says)."""
    tests = tmp_path / "tests"
    tests.mkdir()
    shutil.copy(CONFTEST, tests)
    (tests / "known_faults.toml").write_text("")

    def pytest_on(text, *options, **environment):
        (tests / "test_it.py").write_text(text)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "tests/test_it.py", *options, "--rootdir=."],
            cwd=tmp_path, env={**os.environ, **environment}, capture_output=True, text=True,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    return pytest_on


def drawn(tmp_path):
    """The draws of the last run's tests, each its own."""
    lines = (tmp_path / "drawn").read_text().splitlines()
    (tmp_path / "drawn").unlink()
    return [sorted(x for x in lines if x.startswith(kind)) for kind in ("seeds", "values")]


def test_a_run_says_its_seed_and_replays_by_it(run, tmp_path):
    code, said = run(DRAWN, CI="true")  # where hypothesis would draw the same each time
    (seed,) = re.findall(r"random tests: --seed (\d+)", said)
    (first,), (values,) = drawn(tmp_path)
    assert first.split() == ["seeds", "0", "1", *(str(int(seed) + k) for k in range(10))]
    assert code == 1 and f"random tests were drawn with --seed {seed}" in said
    commands = re.findall("pytest '(.*)' --seed (.*)", said)
    assert commands == [(f"tests/test_it.py::test_{k}", seed) for k in ("programs", "hypothesis")]
    code, said = run(DRAWN, "--seed", seed, "--draws", "1")
    assert drawn(tmp_path) == [[f"seeds {seed}"], [values]]
    assert re.findall(r"pytest '(.*)' --seed (\d+) --draws 1\n", said) == commands[1:]


def test_workers_of_one_run_have_one_seed(run, tmp_path):
    one = DRAWN.partition("values")[0].replace("== 1", "== 12")
    both = one + one.replace("test_programs", "test_again")
    code, said = run(both, "-n", "2", "--dist", "load")
    (seed,) = re.findall(r"random tests: --seed (\d+)", said)
    (first, second), _ = drawn(tmp_path)
    assert code == 0 and first == second and first.split()[3] == seed


KNOWN = """
import pytest

def test_named():
    assert 0

def test_mended():
    pass

@pytest.mark.parametrize("program, error, known", [
    ("a red small sum", AssertionError("off by 3"), True),
    ("a red small sum", ValueError("off by 3"), False),
    ("a green sum", AssertionError("off by 3"), False),
])
def test_kinds(is_known, program, error, known):
    assert is_known(program, error) == known
"""


def test_a_known_fault_is_expected_until_it_is_mended(run, tmp_path):
    names = ("tests/test_it.py::test_named", "tests/test_it.py::test_mended")
    faults = "".join(FAULT.format(case=name) for name in names)
    (tmp_path / "tests" / "known_faults.toml").write_text(faults)
    code, said = run(KNOWN)
    assert code == 1 and "1 failed, 3 passed, 1 xfailed" in said
    assert "[XPASS(strict)] a red sum is wrong" in said


def test_each_known_fault_has_a_named_case():
    for fault in tomllib.loads(CONFTEST.with_name("known_faults.toml").read_text()).get(
        "fault", []
    ):
        assert set(fault) == {"case", "what", "since", "form", "error"}
        path, _, name = fault["case"].partition("::")
        text = (CONFTEST.parents[1] / path).read_text()
        assert f"def {name.partition('[')[0]}(" in text, fault["case"]
