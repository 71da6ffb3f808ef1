"""`scripts/test`: the processor it is for, what it installs, what goes on beside other steps."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "test"


def program(path: Path, code: int, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\nexit {code}\n")
    path.chmod(0o755)


COMMANDS = ("bash", "cat", "dirname", "env", "grep", "mktemp", "rm", "sh", "sleep", "tail", "uname")
CROSS = ("aarch64-linux-gnu-gcc", "qemu-aarch64")
SERVER = ("pg_ctl",)


@pytest.fixture
def checkout(tmp_path):
    """One in which all is well, but for Python, and for what builds pycuda.

    Its programs are in ``bin``: nothing is installed on the machine.
    """
    for name in (*CROSS, *SERVER, "apt-get"):
        program(tmp_path / "bin" / name, 0)
    program(tmp_path / "bin" / "id", 0, "echo 0")
    for name in COMMANDS:
        (tmp_path / "bin" / name).symlink_to(shutil.which(name))
    (tmp_path / "scripts").mkdir()
    shutil.copy(SCRIPT, tmp_path / "scripts" / "test")
    (tmp_path / "scripts" / "environment.sh").write_text("environment() { :; }\n")
    program(tmp_path / "scripts" / "build_pycuda", 1)
    for name, code in (("python", 1), ("ruff", 0), ("mypy", 0)):
        program(tmp_path / ".venv-test" / "bin" / name, code)
    return tmp_path


def said(checkout, code=1, asked=(), **environment):
    known = {k: v for k, v in os.environ.items() if k not in ("CI", "WHET_CPU")}
    known["PATH"] = str(checkout / "bin")
    known["POSTGRESQL_HOME"] = str(checkout / "postgresql")
    done = subprocess.run(
        [str(checkout / "scripts" / "test"), *asked], env={**known, **environment},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_without_pycuda_tests_are_skipped_here_and_refused_in_ci(checkout):
    here = said(checkout)
    assert "no pycuda: it could not be built: its tests are skipped" in here and "== pytest" in here
    there = said(checkout, CI="true")
    assert "FAILED: no pycuda: it could not be built" in there and "== pytest" not in there


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


LEVELS = """
echo "$WHET_CPU: $@" >>asked
case "$*" in *host.levels*) echo x86-64-v2 x86-64-v3 native ;; esac
"""


def processor_of(checkout, *asked, code=0, **environment):
    """The level that pytest runs with, and what was said."""
    program(checkout / ".venv-test" / "bin" / "python", 0, LEVELS)
    (checkout / "asked").unlink(missing_ok=True)
    text = said(checkout, code, asked, **environment)
    lines = (checkout / "asked").read_text().splitlines()
    return next((x.split(": ")[0] for x in lines if "-m pytest" in x), None), text


def test_a_level_is_what_all_tests_run_with(checkout):
    level, text = processor_of(checkout, "tests/db", "--cpu", "x86-64-v3", "-k", "best")
    assert level == "x86-64-v3"
    assert "again: scripts/test --cpu x86-64-v3 tests/db -k best\n" in text
    assert "pytest tests/db -k best\n" in (checkout / "asked").read_text()
    level, text = processor_of(checkout, "--cpu=x86-64-v2")
    assert level == "x86-64-v2" and "== docs" in text  # that is everything
    level, text = processor_of(checkout)
    assert level == "" and "processor" not in text
    level, text = processor_of(checkout, "--cpu", "x86-64-v4", code=2)
    assert level is None
    assert "FAILED: --cpu x86-64-v4: this machine runs x86-64-v2 x86-64-v3 native" in text
    assert "FAILED: --cpu names a level" in said(checkout, 2, ["--cpu"])


def test_ci_draws_a_level_and_says_so(checkout):
    drawn = set()
    for _ in range(15):  # that all are one level: once in five million runs
        level, text = processor_of(checkout, CI="true")
        assert f"processor: {level}, of x86-64-v2 x86-64-v3 native" in text
        assert f"again: scripts/test --cpu {level}\n" in text
        drawn.add(level)
    assert len(drawn) > 1
    assert processor_of(checkout, CI="true", WHET_CPU="native")[0] == "native"


APT = """
echo "$@" >>apt
case "$*" in *install*)
  [ -n "$OFFLINE" ] && echo "no network" && exit 1
  for name in aarch64-linux-gnu-gcc qemu-aarch64 pg_ctl; do cp apt-get "$BIN/$name"; done ;;
esac
"""


PACKAGES = "qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross"


@pytest.mark.parametrize(
    ("has", "packages"),
    [((), f"{PACKAGES} postgresql"), (CROSS[:1] + SERVER, PACKAGES), (CROSS, "postgresql")],
)
def test_what_debian_has_is_installed(checkout, has, packages):
    for name in {*CROSS, *SERVER} - set(has):
        (checkout / "bin" / name).unlink()
    (checkout / "bin" / "cp").symlink_to(shutil.which("cp"))
    program(checkout / "apt-get", 0)
    program(checkout / "bin" / "apt-get", 0, APT)
    text = processor_of(checkout, BIN=str(checkout / "bin"))[1]
    assert f"installing Debian's {packages}:" in text
    assert "tests are skipped" not in text
    update, install = (checkout / "apt").read_text().splitlines()
    assert update.endswith("update") and install.endswith(packages) and "install --yes" in install


def test_a_server_out_of_the_path_serves(checkout):
    (checkout / "bin" / "pg_ctl").unlink()
    program(checkout / "postgresql" / "15" / "bin" / "pg_ctl", 0)
    assert "PostgreSQL" not in processor_of(checkout)[1]


@pytest.mark.parametrize(
    ("programs", "words"),
    [
        (CROSS, "no compiler and no qemu for aarch64"),
        (SERVER, "no PostgreSQL server (Debian: apt install postgresql)"),
    ],
)
def test_without_it_tests_are_skipped_here_and_refused_in_ci(checkout, programs, words):
    for name in programs:
        (checkout / "bin" / name).unlink()
    program(checkout / "bin" / "apt-get", 0, APT)
    level, text = processor_of(checkout, OFFLINE="1")
    assert level is not None and f"{words}: its tests are skipped" in text
    level, text = processor_of(checkout, OFFLINE="1", CI="true", code=1)
    assert level is None and "no network" in text
    assert f"FAILED: {words}" in text
    (checkout / "bin" / "apt-get").unlink()
    assert processor_of(checkout)[0] is not None


def test_an_active_environment_is_not_what_a_new_one_is_made_with(tmp_path):
    """It may be the one that is made anew: it is deleted first."""
    made = subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")])
    assert made.returncode == 0
    line = f"source {SCRIPT.parent}/environment.sh; interpreter"
    path = f"{tmp_path / 'env' / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, env={**os.environ, "PATH": path}
    )
    assert Path(done.stdout.strip()).exists() and str(tmp_path) not in done.stdout
