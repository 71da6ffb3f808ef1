"""The wheel: it holds every room under one name, and works from wherever it is imported."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ROOMS = ("compiler", "search_spaces", "measure", "db", "autotune")
SOURCES = (".py", ".h", ".cuh", ".c", ".cpp", ".ll")

USE = """
import sys
import numpy as np
import whet, whet.compiler.te, whet.cli
from whet.te import schedule
from whet.contrib.utils import tempdir

assert schedule is whet.compiler.te.schedule

task = whet.create_task("matmul", args=(8, 8, 8), target="llvm")
a, c = np.eye(8, dtype="float32"), np.zeros((8, 8), "float32")
whet.build(task)(a, a, c)
assert (c == a).all()
with whet.TuningLog(sys.argv[1]) as log:
    assert log.workloads() == []
print(whet.__file__)
print(whet.compiler.te.__file__)
"""


def run(*command: object, cwd: Path, **variables: str) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=os.environ | variables,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def wheel(checkout, tmp_path):
    """The wheel, built by the setuptools of this environment: no network is needed."""
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")
    folder = tmp_path / "wheel"
    run(sys.executable, "-m", "pip", "wheel", ".", *options, "-w", folder, cwd=checkout)
    (built,) = folder.iterdir()
    return built


def test_the_wheel_holds_every_room_and_works(wheel, checkout, tmp_path):
    names = set(zipfile.ZipFile(wheel).namelist())
    for room in ROOMS:
        files = [f for f in (checkout / room).rglob("*.*") if f.suffix in SOURCES]
        missing = {f"whet/{f.relative_to(checkout).as_posix()}" for f in files} - names
        assert not missing, f"in {room}/, but not in the wheel: {sorted(missing)}"
    assert {"whet/__init__.py", "whet/cli.py", "whet/commands/tune.py", "whet/py.typed"} <= names
    assert any(n.startswith("whet/db/store/migrations/versions/v0001") for n in names)
    include = "whet/compiler/runtime/include/whet"
    assert {f"{include}/runtime.h", f"{include}/library.c"} <= names
    tops = {n.split("/")[0] for n in names}
    assert tops == {"whet", next(t for t in tops if t.endswith(".dist-info"))}
    (about,) = (n for n in names if n.endswith(".dist-info/entry_points.txt"))
    entries = zipfile.ZipFile(wheel).read(about).decode()
    assert "whet = whet.cli:main" in entries
    assert "[torch_dynamo_backends]\nwhet = whet.frontends.dynamo.backend:whet_backend" in entries
    assert any(n.endswith("licenses/LICENSE") for n in names)

    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "db.py").write_text("raise ImportError('a file of the user')")

    def imported(cwd: Path, *options: str) -> list[str]:
        log = tmp_path / f"{len(list(tmp_path.iterdir()))}.db"
        told = run(sys.executable, *options, "-c", USE, log, cwd=cwd, PYTHONPATH=str(site))
        return told.split()

    inside = [f"{site}/whet/__init__.py", f"{site}/whet/compiler/te/__init__.py"]
    assert imported(elsewhere) == inside
    assert imported(checkout, "-P") == inside
    # Without -P the current directory comes first, and its rooms are found through the links.
    own = [f"{checkout}/whet/__init__.py", f"{checkout}/whet/compiler/te/__init__.py"]
    assert imported(checkout) == own


def test_the_links_are_relative_and_lead_to_the_rooms():
    for room in ROOMS:
        link = ROOT / "whet" / room
        assert os.readlink(link) == f"../{room}"
        assert (link / "__init__.py").is_file()
