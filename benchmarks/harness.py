"""The base of every benchmark: one pinned core, peers interleaved in one run, the machine named.

Set up before numpy is imported: importing this module limits the peers' threads to one.
"""

from __future__ import annotations

import os

from whet.bench.turns import Sample, interleaved, library_threads

library_threads(1)

import argparse
import json
import re
import sys
from datetime import date
from pathlib import Path
from typing import Any

__all__ = ["Sample", "headline", "interleaved", "keep", "machine", "path_of", "pin", "report"]

RESULTS = Path(__file__).parent / "results"


def pin() -> int:
    """Keep this process on its last allowed core; returns that core."""
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core


def machine() -> dict[str, Any]:
    """The machine and the versions, for the head of a result."""
    from whet.compiler.installed import installed_versions
    from whet.compiler.target import Target
    from whet.compiler.target.machine import host

    facts = host.describe()
    packages = ["whet", "numpy", "llvmlite", "torch", "triton", "pycuda"]
    packages += ["onnx", "onnxruntime", "openvino"]
    packages += ["optuna", "xgboost", "sqlalchemy", "psycopg", "ray"]
    return {
        "cpu": host.cpu_model(),
        "vector_bytes": Target("llvm").vector_bytes,
        "caches": facts.get("caches"),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "versions": installed_versions(packages),
        "date": date.today().isoformat(),
    }


def report(
    name: str,
    lines: list[str],
    data: dict[str, Any],
    threads: str = "one thread",
    device: dict[str, Any] | None = None,
) -> None:
    """Print a benchmark's lines under the machine's; with ``--save`` keep them in ``results/``.

    Args:
        name: the benchmark's.
        lines: what it says.
        data: the figures.
        threads: how many were used.
        device: facts of the device that ran it, ``"name"`` among them; None: the CPU did.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/")
    options, _ = parser.parse_known_args(sys.argv[1:])
    print("\n".join([headline(name, threads, device), *("  " + x for x in lines)]), flush=True)
    if options.save:
        keep(path_of(name, device), lines, data, device)


def headline(name: str, threads: str, device: dict[str, Any] | None = None) -> str:
    """The machine, the width of its vectors and the versions in a line.

    Args:
        name: the benchmark's.
        threads: how many are used.
        device: facts of the device that runs it, ``"name"`` among them; None: the CPU does.
    """
    facts = machine()
    on = "" if device is None else f"{device['name']}; "
    return (
        f"{name}: {on}{facts['cpu']}, {8 * facts['vector_bytes']}-bit vectors, {threads}, "
        f"load {facts['load']:.1f}, {facts['date']}; "
        + ", ".join(f"{k} {v}" for k, v in facts["versions"].items())
    )


def path_of(name: str, device: dict[str, Any] | None = None) -> Path:
    """Where ``--save`` keeps a benchmark's figures of this machine.

    Args:
        name: the benchmark's.
        device: facts of the device that ran it; None: the CPU did.
    """
    facts = machine()
    cpu = f"{facts['cpu']} {8 * facts['vector_bytes']}bit"
    slug = re.sub(r"[^a-z0-9]+", "-", (device["name"] if device else cpu).lower())
    return RESULTS / f"{name}.{slug.strip('-')}.json"


def keep(
    path: Path, lines: list[str], data: dict[str, Any], device: dict[str, Any] | None = None
) -> None:
    """Write a benchmark's figures into a file, which has all of them or those of before.

    Args:
        path: the file.
        lines: what the benchmark says.
        data: the figures.
        device: facts of the device that ran it; None: the CPU did.
    """
    facts = machine() | ({} if device is None else {"device": device})
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(json.dumps({"machine": facts, "lines": lines, **data}, indent=1) + "\n")
    beside.replace(path)
