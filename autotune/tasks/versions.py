"""Facts for the record of a search: versions of what takes part, and what the core can do."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from whet.compiler.errors import WhetError
from whet.compiler.installed import installed_versions

if TYPE_CHECKING:
    from whet.autotune.tasks.task import Task


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """Versions of what takes part in a search, for the log."""
    return installed_versions(
        ("whet", "numpy", "llvmlite", "optuna", "xgboost-cpu", "xgboost", "ray")
    )


def peak_of(task: Task) -> float:
    """FLOP/s that one core can do at a task's dtype; 0 where that says nothing about the task."""
    if task.target.kind != "llvm" or not task.flop:
        return 0.0
    return _peak(task.dtype)


@lru_cache(maxsize=8)
def _peak(dtype: str) -> float:
    from whet.compiler.target.machine import host

    try:
        # another process beside this one halves a measurement; it never doubles one
        return max(host.fma_peak(dtype, seconds=0.1) for _ in range(3))
    except WhetError:  # there is no FMA peak of integers
        return 0.0
