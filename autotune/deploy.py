"""Building from a log: a tuned kernel in a process that has no search, no model and no workers."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from whet.autotune.recorded import opened, read_recorded
from whet.compiler.errors import LogError, SpaceError

if TYPE_CHECKING:
    from whet.autotune.result import Trial
    from whet.autotune.task import Task
    from whet.compiler.runtime.module import Module
    from whet.db import TuningLog
    from whet.db.identity import Device


def best_from_log(
    task: Task, log: TuningLog | str | os.PathLike[str], device: Device | None = None
) -> Trial:
    """The best recorded trial of a task.

    Args:
        task: what was tuned.
        log: a log, its path or its URL.
        device: whose records count; None: this machine's.

    Raises:
        LogError: the log cannot be read, or holds no success for this workload, target, device
            and version of the space; the text names what it does hold.
    """
    with opened(log, write=False) as tuning_log:
        fingerprint = task.config_space.fingerprint
        recorded = read_recorded(tuning_log, task.workload, task.target, fingerprint, device)
        best = recorded.best()
        if best is not None:
            return _checked(task, best, tuning_log.location)
        raise LogError(
            f"build {task.workload} from log {tuning_log.location}",
            *_why_nothing(tuning_log, task, len(recorded.searched)),
        )


def build_from_log(
    task: Task, log: TuningLog | str | os.PathLike[str], device: Device | None = None
) -> Module:
    """Build a task's kernel with the best config that a log has for it.

    Args:
        task: what to build.
        log: a log, its path or its URL.
        device: whose records count; None: this machine's.

    Raises:
        LogError: as :func:`best_from_log`.
    """
    config = best_from_log(task, log, device).config
    from whet.compiler import driver

    schedule, args = task.instantiate(config)
    return driver.build(schedule, args, target=task.target, name=kernel_name(task))


def kernel_name(task: Task) -> str:
    """The kernel's name: the template's, as an identifier."""
    return "".join(c if c.isalnum() else "_" for c in task.name)


def _checked(task: Task, trial: Trial, location: str) -> Trial:
    """The trial with its config as the space makes it: a record is data, and may be altered."""
    try:
        config = task.config_space.from_choices(trial.config.as_dict())
    except SpaceError as error:
        raise LogError(
            f"take the best config of {task.workload} from log {location}",
            f"trial {trial.number} is not in the space ({error})",
            "the record was altered: tune again into a fresh log",
        ) from error
    return replace(trial, config=config)


def _why_nothing(log: TuningLog, task: Task, tried: int) -> tuple[str, str]:
    """Why a log has no config for a task, and the way out."""
    from whet.db.identity import device_key, device_name, this_device

    tune = f"whet.tune(task, log={log.location!r})"
    if tried:
        return f"none of its {tried} trials worked", f"see the errors: whet best {log.location}"
    runs = [run for run in log.runs() if run.workload == task.workload]
    if not runs:
        known = ", ".join(dict.fromkeys(str(w) for w in log.workloads())) or "(nothing)"
        return "it was never tuned there", f"tune it: {tune}\nthe log holds: {known}"
    target, device = task.target.to_json(), this_device()
    if not any(run.target == target for run in runs):
        others = "\n".join(dict.fromkeys(f"  {run.target}" for run in runs))
        return (
            "it was tuned for other targets only",
            f"tune it for this one: {tune}\nthis one: {target}\nthe log's:\n{others}",
        )
    if not any(device_key(run.device) == device for run in runs):
        others = ", ".join(dict.fromkeys(device_name(run.device) for run in runs))
        return (
            f"it was tuned on other machines only ({others}; this is {device_name(device)})",
            f"tune it here: {tune}",
        )
    return (
        "it was tuned with another version of its space (other knobs, or another computation)",
        f"tune it again: {tune}",
    )
