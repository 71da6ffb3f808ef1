"""Drivers with the real pool, killed and interrupted at random moments: a campaign in small."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CAMPAIGN = Path(__file__).parents[2] / "benchmarks" / "scale" / "kills.py"


def campaign(seed, location="", **counts):
    """Run a campaign; what it said. It ends with 1 where a check of a kill does not hold."""
    words = [f"--{name}={count}" for name, count in counts.items()]
    words += [f"--log={location}"] if location else []
    done = subprocess.run(
        [sys.executable, CAMPAIGN, f"--seed={seed}", "--trials=30", *words],
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, f"--seed {seed}\n{done.stdout}\n{done.stderr}"
    assert "all checks held" in done.stdout
    assert "lost: 0, doubled: 0, measured again: 0" in done.stdout
    return done.stdout


def test_killed_drivers_lose_and_leave_nothing(seeds, leaks):
    (seed, *_) = seeds(1)
    said = campaign(seed, sigkill=1, sigint=1, sigterm=1)
    assert "1 SIGKILL, 1 SIGINT, 1 SIGTERM of drivers on SQLite" in said
    leaks.check()


@pytest.mark.faults
def test_many_killed_drivers_lose_and_leave_nothing(seeds, location):
    (seed, *_) = seeds(1)
    campaign(seed, location, sigkill=12, sigint=4, sigterm=4)
