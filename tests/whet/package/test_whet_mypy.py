"""mypy really checks the rooms: an error planted in each of them is found through the links."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PLANTED = '"""Wrong on purpose."""\n\n\ndef planted(n: int) -> str:\n    return n\n'
WHERE = (
    "whet/front.py",
    "compiler/te/trace/steps.py",
    "search_spaces/knobs/plain.py",
    "measure/worker/wire.py",
    "db/values/identity.py",
    "autotune/tasks/task.py",
)


@pytest.fixture
def bare(tmp_path):
    """The links, the packages and mypy's options as they are, but empty files, and few of them."""
    links = [path for path in (ROOT / "whet").iterdir() if path.is_symlink()]
    for folder in ("whet", *(link.name for link in links)):
        for path in (ROOT / folder).rglob("__init__.py"):
            there = tmp_path / path.relative_to(ROOT)
            there.parent.mkdir(parents=True, exist_ok=True)
            there.touch()
    for link in links:
        (tmp_path / "whet" / link.name).symlink_to(link.readlink())
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    return tmp_path


def test_planted_errors_are_found(bare):
    for file in WHERE:
        (bare / file).write_text(PLANTED)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", "/dev/null"],
        cwd=bare,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    found = {
        line.split(":")[0]
        for line in done.stdout.splitlines()
        if 'Incompatible return value type (got "int", expected "str")' in line
    }
    assert found == {file if file.startswith("whet/") else f"whet/{file}" for file in WHERE}
