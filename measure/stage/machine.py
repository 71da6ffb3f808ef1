"""The machine that measures: its core, its memory, a lock for one user, and a description."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import re
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from whet.compiler.errors import MeasureError
from whet.compiler.installed import installed_versions
from whet.measure.stage.lock_file import lock_path, opened
from whet.measure.values import Json

CPU_FOLDER = Path("/sys/devices/system/cpu")


def measuring_core(place: int = 0) -> int:
    """The core that single-threaded kernels are measured on: the last that this process may use.

    Args:
        place: of several measurers, which: each has a core of its own, where there are enough.
    """
    allowed = sorted(os.sched_getaffinity(0), reverse=True)
    return allowed[place % len(allowed)]


def builder_cores(measurers: int = 1, apart: Iterable[int] = ()) -> list[int]:
    """The cores that builders use: all but the measuring ones and their hyper-thread siblings.

    Where nothing is left (one core), builders share the measuring core and take turns with it.

    Args:
        measurers: how many measure at a time on the last cores.
        apart: other cores that measure.
    """
    cores = {measuring_core(place) for place in range(measurers)}.union(apart)
    taken = cores.union(*map(_siblings, cores))
    allowed = os.sched_getaffinity(0)
    return sorted(allowed - taken) or sorted(allowed)


def cores_overlap() -> bool:
    """True if building disturbs the measuring core, so that the two must take turns."""
    core = measuring_core()
    return not {core, *_siblings(core)}.isdisjoint(builder_cores())


def memory_bytes() -> int:
    """Bytes of memory this process may use: the machine's, or its control group's if smaller."""
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        text = _read(Path("/sys/fs/cgroup") / name)
        if text.isdigit():
            size = min(size, int(text))
    return size


@contextlib.contextmanager
def exclusive(device: str, give_up: Callable[[], bool]) -> Iterator[None]:
    """Hold the device alone among this user's processes on this machine.

    Args:
        device: e.g. ``"cpu"``; names the lock file in the temporary folder.
        give_up: asked while waiting; waiting ends when it returns true.

    Raises:
        MeasureError: ``give_up`` said so, or the lock file cannot be opened.
    """
    path, queue = lock_paths(device)
    with contextlib.ExitStack() as held:
        # Who waits stands first in the queue, which a run that has just let go must join again.
        # Without it, a run with candidates always waiting takes the device back at once, for hours.
        with _locked(queue, device, give_up):
            held.enter_context(_locked(path, device, give_up))
        yield


def lock_paths(device: str) -> tuple[Path, Path]:
    """The lock files of a device: the one that the measuring run holds, and the queue for it."""
    return lock_path(f"{device}.lock"), lock_path(f"{device}.queue")


@contextlib.contextmanager
def _locked(path: Path, device: str, give_up: Callable[[], bool]) -> Iterator[None]:
    purpose = f"measurement on {device}"
    with opened(path, purpose) as lock:
        pause = 0.0002
        while not lock.take():
            if give_up():
                raise MeasureError(purpose, "closed while waiting for its turn")
            time.sleep(pause)
            pause = min(2 * pause, 0.01)
        yield


def describe(kinds: Iterable[str]) -> Json:
    """This machine's processor as a log keeps it.

    Args:
        kinds: of targets, ``"llvm"``: their canonical form here, as JSON, is in ``"targets"``.
    """
    from whet.compiler.target import Target
    from whet.compiler.target.machine import host

    targets = {kind: Target(kind).canonical().to_json() for kind in kinds}
    return host.describe() | {"targets": targets}


def environment() -> Json:
    """The conditions of a measurement: CPU, governor, load, cores, versions."""
    return {
        **_fixed_facts(),
        "load": round(os.getloadavg()[0], 2),
        "cores": sorted(os.sched_getaffinity(0)),
    }


@functools.cache
def _fixed_facts() -> Json:
    from whet.compiler.target.machine import host

    governor = _read(CPU_FOLDER / f"cpu{measuring_core()}/cpufreq/scaling_governor")
    return {
        "cpu": host.cpu_model(),
        "cpus": os.cpu_count() or 1,
        "host": platform.node(),
        "governor": governor or "unknown",
        "versions": installed_versions(("whet", "llvmlite", "numpy")),
    }


def _siblings(core: int) -> set[int]:
    text = _read(CPU_FOLDER / f"cpu{core}/topology/thread_siblings_list")
    cores: set[int] = set()
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", text):
        cores.update(range(int(first), int(last or first) + 1))
    return cores


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""  # the kernel does not say: callers have a default
