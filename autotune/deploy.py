"""Building from a log: a tuned kernel in a process that has no search, no model and no workers."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from whet.autotune.results.recorded import opened
from whet.autotune.results.trial import Trial
from whet.compiler.errors import LogError
from whet.measure.device.names import NO_GPU
from whet.search_spaces.values.counted import counted

if TYPE_CHECKING:
    from whet.autotune.tasks.task import Task
    from whet.compiler.runtime.arrays.device import Device as RuntimeDevice
    from whet.compiler.runtime.module import Module
    from whet.db import TuningLog
    from whet.db.values.records import RunRecord
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
        space = replace(task, level="full").config_space  # a quick search may have found less
        best = tuning_log.best_in(space, task.workload, task.target, device)
        if best is not None:
            return Trial.of(best)
        raise LogError(
            f"build {task.workload} from log {tuning_log.location}",
            *_why_nothing(tuning_log, task, device),
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
    config = best_from_log(task, log, device).config
    from whet.compiler import driver

    schedule, args = task.instantiate(config)
    return driver.build(schedule, args, target=task.target, name=name or kernel_name(task))


def kernel_name(task: Task) -> str:
    """The kernel's name: the template's, as an identifier; the graph's for a derived one."""
    from whet.search_spaces.values.shown import name_of

    return "".join(c if c.isalnum() else "_" for c in name_of(task.workload))


def _is_of(run: RunRecord, target: dict[str, Any], device: Device, fingerprint: str) -> bool:
    """True if a run searched this version of a task's space for this target and device."""
    from whet.db.values.identity import device_key

    here = device_key(run.device) == device_key(device)
    return run.target == target and run.fingerprint == fingerprint and here


def _why_nothing(
    log: TuningLog, task: Task, device: Device | RuntimeDevice | None
) -> tuple[str, str]:
    """Why a log has no config for a task, and the way out."""
    from whet.db.store.queries import broken_trials
    from whet.db.values.identity import device_key, device_name
    from whet.measure.device.identity import device_of

    whose = device_of(task.target, device)
    tune = f"whet.tune(task, log={log.location!r})"
    tried = log.trials(task.workload, task.target, whose, task.config_space.fingerprint)
    runs = [run for run in log.runs() if run.workload == task.workload]
    target = task.target.to_json()
    fingerprint = task.config_space.fingerprint
    broken = broken_trials(log, task.workload, task.target, whose, fingerprint)
    if tried:
        why = f"none of its {len(tried)} trials worked"
        why += f", and {broken} more cannot be read" if broken else ""
        return why, f"see the errors: whet best {log.location} --errors"
    if broken:
        why = "its only record is" if broken == 1 else f"all {broken} of its records are"
        return f"{why} broken", f"restore a copy of the log, or tune it into another: {tune}"
    if any(_is_of(run, target, whose, fingerprint) for run in runs):
        return "a search of it began, and no trial was recorded", f"tune it: {tune}"
    if not runs:
        known = ", ".join(dict.fromkeys(str(w) for w in log.workloads())) or "(nothing)"
        passed = f" ({counted(log.broken, 'broken row')} passed over)" if log.broken else ""
        return f"it was never tuned there{passed}", f"tune it: {tune}\nthe log holds: {known}"
    if not any(run.target == target for run in runs):
        others = "\n".join(dict.fromkeys(f"  {run.target}" for run in runs))
        return (
            "it was tuned for other targets only",
            f"tune it for this one: {tune}\nthis one: {target}\nthe log's:\n{others}",
        )
    if not any(device_key(run.device) == device_key(whose) for run in runs):
        others = ", ".join(dict.fromkeys(device_name(run.device) for run in runs))
        if whose == NO_GPU:
            return (
                f"it was tuned on other devices only ({others}), and this machine has no GPU",
                "name the device whose records shall count: "
                "whet.build(task, log=..., device='cuda-emulator'), or a fingerprint;\n"
                "on the command line --device cuda-emulator",
            )
        return (
            f"it was tuned on other machines only ({others}; this is {device_name(whose)})",
            f"tune it here: {tune}",
        )
    return (
        "it was tuned with another version of its space (other knobs, or another computation)",
        f"tune it again: {tune}",
    )
