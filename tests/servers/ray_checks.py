"""What must hold after a search on :mod:`ray_machines`, however it ended."""

from __future__ import annotations

import fcntl
from pathlib import Path

from ray_machines import Machine, RayMachines, command, until
from ray_search import Search, recorded

LOCKS = (".lock", ".queue")
WORK_S = 240.0
"""Seconds until a machine builds or measures: a few, but on a machine with much else to do."""


def check_log(*searches: Search) -> None:
    """Each trial that was reported is recorded once, and no config twice.

    Args:
        searches: those on one log, one after another.
    """
    every = [pair for run in recorded(searches[0].log).values() for pair in run]
    configs = [config for _, config in every]
    assert len(configs) == len(set(configs)), "a config is recorded twice"
    reported: list[tuple[int, str]] = []
    for one in searches:
        failed = {
            number for _, number, _, status in one.lines("reported") if status == "infra_error"
        }
        reported += [pair for pair in one.reported.items() if pair[0] not in failed]
    assert len(reported) == len(set(config for _, config in reported)), "measured twice"
    assert set(reported) <= set(every), "a trial that was reported is not in the log"


def at_work(cluster: RayMachines) -> dict[str, list[int]]:
    """The actors and workers of searches, by machines."""
    words = "ray::BuildStage", "ray::RunStage", "faulthandler"
    found = {
        machine.name: [pid for word in words for pid in machine.pids(word)]
        for machine in cluster.machines.values()
    }
    return {name: pids for name, pids in found.items() if pids}


def left_in(folder: Path) -> list[str]:
    """Files and folders in a machine's temporary folder that are no locks."""
    return [path.name for path in folder.iterdir() if path.suffix not in LOCKS]


def check_locks(folder: Path) -> None:
    """Nobody holds the locks in a machine's temporary folder."""
    for path in (one for one in folder.iterdir() if one.suffix in LOCKS):
        with path.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def actor_of(pid: int) -> int:
    """The Ray actor above a worker's process."""
    while "ray::" not in command(pid):
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid


def wait_for_work(search: Search, machine: Machine, act: str) -> int:
    """Wait until a machine is in the middle of an act; the worker's process."""

    found: list[int] = []

    def so() -> bool:
        if search.process.poll() is not None:
            search.whole()
        found[:] = machine.at_work(act)
        return bool(found)

    until(so, WORK_S, lambda: search.said)
    return found[0]
