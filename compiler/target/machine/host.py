"""Facts of the CPU that this process runs on: features, vector width, caches, cores."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from pathlib import Path

from whet.compiler import settings
from whet.compiler.errors import TargetError
from whet.compiler.target.machine.features import (
    X86_LEVELS,
    X86_NEEDS,
    closed,
    level,
    x86_vector_bytes,
)
from whet.compiler.target.machine.llvm_facts import llvm_facts

# Those that ``WHET_CPU`` names, the narrowest first; no 64-bit processor in use has less.
_LEVELS = X86_LEVELS[-2::-1]

# LLVM's name of a feature -> its name in /proc/cpuinfo, for those that the kernel can withhold.
_CPUINFO_NAMES = {
    "amx-tile": "amx_tile",
    **{name: name for name in ("avx", "avx2", "fma", "f16c")},
    **{name: name for name in ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd")},
}


def _machine() -> str:
    if hasattr(os, "uname"):
        return os.uname().machine
    import platform  # which takes a while to load

    return platform.machine()


def architecture() -> str:
    """``"x86_64"``, ``"aarch64"``, …: the machine as the first part of an LLVM triple."""
    name = _machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)


def triple() -> str:
    """LLVM's default target triple on this machine."""
    return llvm_facts().triple


def features() -> frozenset[str]:
    """LLVM's names of the CPU features that generated code may use here.

    They are what the CPU reports, less what the operating system does not list: a feature that
    either source denies would end a kernel with an illegal instruction. ``WHET_CPU`` leaves those
    of a level.

    Raises:
        TargetError: ``WHET_CPU`` is no level, or one that this machine cannot run.
    """
    return _features(settings.cpu_level())


@functools.cache
def _features(of_level: str) -> frozenset[str]:
    have = _reported()
    own = closed(have & X86_NEEDS.keys()) if architecture() == "x86_64" else have
    if not of_level:
        return own
    needed = dict(_LEVELS).get(of_level)
    if needed is None or of_level not in levels():
        known = needed is not None and architecture() == "x86_64"
        lacks = ", ".join(sorted(needed - own)) if needed else ""
        raise TargetError(
            f"WHET_CPU={of_level}",
            f"this processor lacks {lacks}" if known else f"{architecture()} has no such level",
            f"this machine runs {', '.join(levels())}",
        )
    return needed


def all_features() -> frozenset[str]:
    """:func:`features`, and what no target here is made of unless a user names it: aes, sse2."""
    return features() | (_reported() - X86_NEEDS.keys())


def levels() -> tuple[str, ...]:
    """The values of ``WHET_CPU`` on this machine, the narrowest first, ``"native"`` last."""
    runs = [n for n, needed in _LEVELS if architecture() == "x86_64" and needed <= _features("")]
    return (*runs, "native")


@functools.cache
def _reported() -> frozenset[str]:
    have = llvm_facts().features
    if architecture() != "x86_64":
        return have
    listed = set(cpuinfo("flags").split())
    if listed:
        have = have - {f for f, name in _CPUINFO_NAMES.items() if name not in listed}
    return have


def mcpu() -> str:
    """The LLVM processor to compile for: a level that the features cover, not the CPU's name."""
    return level(features()) if architecture() == "x86_64" else "generic"


def vector_bytes() -> int:
    """Width of this CPU's widest vector register in bytes."""
    return x86_vector_bytes(features()) if architecture() == "x86_64" else 16


def affinity() -> tuple[int, ...]:
    """The logical CPUs that the calling thread may run on."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def physical_cores() -> int:
    """How many physical cores the affinity mask reaches (two siblings count once)."""
    cores = set()
    for cpu in affinity():
        path = f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
        cores.add(_read(path) or str(cpu))
    return max(1, len(cores))


def cpu_quota() -> float | None:
    """CPUs that the control group grants this process, or None where there is no limit."""
    quota, _, period = _read("/sys/fs/cgroup/cpu.max").partition(" ")
    if quota.isdigit() and period.isdigit() and int(period) > 0:
        return int(quota) / int(period)
    return None


def num_threads() -> int:
    """Threads of a parallel loop: ``WHET_NUM_THREADS``, else usable physical cores."""
    request = settings.num_threads()
    if request is not None:
        return request
    quota = cpu_quota()
    cores = physical_cores()
    return cores if quota is None else max(1, min(cores, int(quota + 0.5)))


@functools.cache
def cpu_model() -> str:
    """The CPU's name as it calls itself."""
    name = cpuinfo("model name")
    if name:
        return name
    import platform

    return platform.processor() or platform.machine()


@functools.cache
def caches() -> dict[str, int]:
    """Bytes of one instance of each data cache, e.g. ``{"L1": 32768, "L2": 1048576}``."""
    found: dict[str, int] = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        if _read(folder / "type") == "Instruction":
            continue
        size = _read(folder / "size")
        unit = {"K": 1024, "M": 1024**2, "G": 1024**3}.get(size[-1:], 1)
        digits = size.rstrip("KMG")
        if digits.isdigit():
            found["L" + _read(folder / "level")] = int(digits) * unit
    return found


def describe() -> dict:
    """The facts of this CPU as JSON-able data."""
    return {
        "cpu": cpu_model(),
        "arch": architecture(),
        "llvm_name": llvm_facts().cpu,
        "features": sorted(features()),
        "vector_bytes": vector_bytes(),
        "caches": caches(),
        "logical_cpus": os.cpu_count() or 1,
        "affinity": list(affinity()),
        "physical_cores": physical_cores(),
        "cpu_quota": cpu_quota(),
        "num_threads": num_threads(),
        "fingerprint": fingerprint(),
    }


def fingerprint() -> str:
    """A stable short name of this device: records of one device are not those of another.

    Made of the CPU's model, its features, its caches and the number of logical CPUs; not of what
    may change from run to run (affinity, number of threads, frequency).
    """
    return _fingerprint(features())


@functools.cache
def _fingerprint(have: frozenset[str]) -> str:
    facts = {
        "cpu": cpu_model(),
        "arch": architecture(),
        "features": sorted(have),
        "caches": caches(),
        "logical_cpus": os.cpu_count() or 1,
    }
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    return "cpu-" + digest[:12]


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""  # the kernel does not say: callers have a default


@functools.cache
def cpuinfo(field: str) -> str:
    """A field of the first processor in /proc/cpuinfo, ``""`` where there is none."""
    for line in _read("/proc/cpuinfo").splitlines():
        name, colon, value = line.partition(":")
        if colon and name.strip() == field:
            return value.strip()
    return ""
