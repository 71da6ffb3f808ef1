"""Building from a log: a tuned kernel in a process that has no search, no model and no workers."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from whet.autotune.apply import estimated
from whet.autotune.results.recorded import opened
from whet.autotune.results.trial import Trial
from whet.compiler.errors import LogError
from whet.db.choose import Choice, Source, check_fallback, choose

if TYPE_CHECKING:
    from whet.autotune.tasks.task import Task
    from whet.compiler.runtime.module import Module
    from whet.db import TuningLog
    from whet.measure.device.names import AnyDevice


def best_from_log(
    task: Task,
    log: TuningLog | str | os.PathLike[str],
    device: AnyDevice | None = None,
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
        record = chosen(task, tuning_log, device).record
    assert record is not None  # of what is not a default config
    return Trial.of(record)


def chosen(
    task: Task, log: TuningLog, device: AnyDevice | None = None, fallback: str = "none"
) -> Choice:
    """The config that a log has for a task, by the rule of :func:`whet.apply_best`.

    Args:
        task: what is built.
        log: an open log.
        device: whose records are exact; None: this machine's.
        fallback: as for :func:`whet.apply_best`.

    Raises:
        ArgumentError: there is no such fallback.
        LogError: the log cannot be read, or no record applies.
    """
    source = Source((log,), device, check_fallback(fallback, "build"), estimated)
    space = replace(task, level="full").config_space  # a quick search may have found less
    tune = f"whet.tune(task, log={log.location!r})"
    choice = choose([source], task.workload, task.target, space, tune=tune)
    if choice.config is None:
        request = f"build {task.workload} from log {log.location}"
        raise LogError(request, choice.tuned_by.why, choice.way_out)
    return choice


def build_from_log(
    task: Task,
    log: TuningLog | str | os.PathLike[str],
    device: AnyDevice | None = None,
    name: str = "",
    fallback: str = "none",
) -> Module:
    """Build a task's kernel with the best config that a log has for it.

    Args:
        task: what to build.
        log: a log, its path or its URL.
        device: whose records count; None: this machine's.
        name: the kernel's; empty: the template's.
        fallback: as for :func:`whet.apply_best`.

    Raises:
        ArgumentError: there is no such fallback.
        LogError: as :func:`best_from_log`.
    """
    from whet.compiler import driver

    check_fallback(fallback, "build")
    with opened(log, write=False) as tuning_log:
        choice = chosen(task, tuning_log, device, fallback)
    schedule, args = task.instantiate(choice.config)
    schedule.tuned_by = choice.tuned_by
    return driver.build(schedule, args, target=task.target, name=name or kernel_name(task))


def kernel_name(task: Task) -> str:
    """The kernel's name: the template's, as an identifier; the graph's for a derived one."""
    from whet.search_spaces.values.shown import name_of

    return "".join(c if c.isalnum() else "_" for c in name_of(task.workload))
