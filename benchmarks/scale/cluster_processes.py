"""Processes and threads of a simulated cluster: their memory, their processor time."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping
from pathlib import Path

HOSTS, BUILDERS, POSTGRESQL = "devices' hosts", "builders", "PostgreSQL"
ROLES = {
    b"ray::ReplayedDevices": HOSTS,
    b"ray::ReplayedBuild": BUILDERS,
    b"ray::IDLE": "actors that start or idle",
    b"ray::": "Ray's agents",
    b"--drive": "drivers",
    b"postgres: ": POSTGRESQL,
}
"""Roles of processes, by words of their command lines; the first that are found count."""
TICK = os.sysconf("SC_CLK_TCK")


def memory_of_actors() -> tuple[float, int, int]:
    """MiB of Whet's actors below this process, shared pages by parts.

    Returns: with it how many processes they are, and how many of these host replayed devices.
    """
    parents, _, roles = _processes()
    sizes, hosts = [], 0
    for pid, role in roles.items():
        if role not in (HOSTS, BUILDERS) or not _is_ours(pid, parents):
            continue
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:  # it has ended
            continue
        found = re.search(r"^Pss:\s+(\d+)", text, re.M)
        sizes.append(int(found[1]) if found else 0)
        hosts += role == HOSTS
    return sum(sizes) / 1024, len(sizes), hosts


def seconds_by_role() -> dict[str, float]:
    """Processor seconds of all processes below this one: drivers, actors by kind, Ray's own.

    Also those of all PostgreSQL servers of this machine, which are nobody's children.
    """
    parents, spent, roles = _processes()
    total: dict[str, float] = {}
    for pid, seconds in spent.items():
        postgresql = roles.get(pid) == POSTGRESQL
        if postgresql or (pid != os.getpid() and _is_ours(pid, parents)):
            role = _role_of(pid, parents, roles)
            total[role] = total.get(role, 0.0) + seconds
    return total


def _processes() -> tuple[dict[int, int], dict[int, float], dict[int, str]]:
    """The parent, the processor seconds and the role of each process that has them."""
    parents: dict[int, int] = {}
    spent: dict[int, float] = {}
    roles: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        pid = int(folder.name)
        parents[pid], spent[pid] = int(fields[1]), sum(map(int, fields[11:13])) / TICK
        for words, role in ROLES.items():
            if words in command:
                roles[pid] = role
                break
    return parents, spent, roles


def _is_ours(pid: int, parents: Mapping[int, int]) -> bool:
    return pid == os.getpid() or (pid in parents and _is_ours(parents[pid], parents))


def _role_of(pid: int, parents: Mapping[int, int], roles: Mapping[int, str]) -> str:
    """A process that has none takes its parent's."""
    role = roles.get(pid)
    return role or (_role_of(parents[pid], parents, roles) if pid in parents else "Ray")


def seconds_by_thread() -> dict[str, float]:
    """Processor seconds of this process by thread, and of its living children.

    Threads of one kind count together: those that serve devices, those that serve builders, those
    of Ray and of other libraries, which have no Python name.
    """
    named = {thread.native_id: thread.name for thread in threading.enumerate()}
    spent: dict[str, float] = {}
    for stat in Path("/proc/self/task").glob("*/stat"):
        name = named.get(int(stat.parent.name), "libraries")
        if served := re.search(r"\((\w+)\)", name):  # "Thread-12 (_serve_runs)"
            name = served[1]
        spent[name] = spent.get(name, 0.0) + _seconds(stat)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue
        if parent == os.getpid():
            spent["children"] = spent.get("children", 0.0) + _seconds(stat)
    return spent


def _seconds(stat: Path) -> float:
    try:
        fields = stat.read_text().rpartition(")")[2].split()
    except OSError:  # it has ended
        return 0.0
    return sum(map(int, fields[11:13])) / TICK
