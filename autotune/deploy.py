"""Building from a log: a tuned kernel in a process that has no search, no model and no workers."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from whet.autotune.results.recorded import opened
from whet.autotune.results.trial import Trial
from whet.compiler.errors import LogError

if TYPE_CHECKING:
    from whet.autotune.tasks.task import Task
    from whet.compiler.runtime.arrays.device import Device as RuntimeDevice
    from whet.compiler.runtime.module import Module
    from whet.db import TrialRecord, TuningLog
    from whet.measure.device.names import Device


def best_from_log(
    task: Task,
    log: TuningLog | str | os.PathLike[str],
    device: Device | RuntimeDevice | None = None,
) -> Trial:
    """The best recorded trial of a task.

    Args:
        task: what was tuned.
        log: a log, its path or its URL.
        device: whose records count: a fingerprint, a device or its name; None: this machine's.

    Raises:
        LogError: the log cannot be read, or holds no success for this workload, target, device
            and version of the space; the text names what it does hold.
    """
    with opened(log, write=False) as tuning_log:
        return Trial.of(_best_record(task, tuning_log, device))


def _best_record(task: Task, log: TuningLog, device: Device | RuntimeDevice | None) -> TrialRecord:
    """The record of :func:`best_from_log`, from an open log."""
    space = replace(task, level="full").config_space  # a quick search may have found less
    best = log.best_in(space, task.workload, task.target, device)
    if best is not None:
        return best
    from whet.db.missing import explain

    tune = f"whet.tune(task, log={log.location!r})"
    raise LogError(
        f"build {task.workload} from log {log.location}",
        *explain(log, task.workload, task.target, space.fingerprint, device, tune),
    )


def build_from_log(
    task: Task,
    log: TuningLog | str | os.PathLike[str],
    device: Device | RuntimeDevice | None = None,
    name: str = "",
) -> Module:
    """Build a task's kernel with the best config that a log has for it.

    Args:
        task: what to build.
        log: a log, its path or its URL.
        device: whose records count; None: this machine's.
        name: the kernel's; empty: the template's.

    Raises:
        LogError: as :func:`best_from_log`.
    """
    from whet.compiler import driver
    from whet.compiler.abi.tuned_by import TunedBy
    from whet.db.values.identity import device_key

    with opened(log, write=False) as tuning_log:
        best = _best_record(task, tuning_log, device)
        place = tuning_log.location
    schedule, args = task.instantiate(best.config)
    schedule.tuned_by = TunedBy(
        "exact",
        str(task.workload),
        str(task.target),
        device_key(best.device),
        best.cost,
        (best.run_id, best.number),
        place,
        "the best record of the log that was named",
    )
    return driver.build(schedule, args, target=task.target, name=name or kernel_name(task))


def kernel_name(task: Task) -> str:
    """The kernel's name: the template's, as an identifier; the graph's for a derived one."""
    from whet.search_spaces.values.shown import name_of

    return "".join(c if c.isalnum() else "_" for c in name_of(task.workload))
