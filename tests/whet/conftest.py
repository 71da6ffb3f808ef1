"""A copy of the repository, to be built, broken and thrown away; commands without impatience."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("compiler", "search_spaces", "measure", "db", "autotune", "whet")
FILES = ("pyproject.toml", "README.md", "LICENSE")


@pytest.fixture
def checkout(tmp_path):
    """The parts of the repository that make the package, links as links."""
    there = tmp_path / "checkout"
    there.mkdir()
    for folder in FOLDERS:
        ignored = shutil.ignore_patterns("__pycache__", "*.db")
        shutil.copytree(ROOT / folder, there / folder, symlinks=True, ignore=ignored)
    for file in FILES:
        shutil.copy(ROOT / file, there)
    return there


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """On a busy machine, too, no command says before its answer that it still runs."""
    monkeypatch.setattr("whet.commands.time_limit.PATIENCE_SECONDS", 60.0)
    monkeypatch.setattr("whet.commands.report.QUIET", 600.0)
