"""``whet.build``: one name for building a schedule and for building a task from its log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from whet.autotune.deploy import build_from_log, kernel_name
from whet.autotune.tasks.task import Task
from whet.compiler import driver
from whet.compiler.errors import ArgumentError
from whet.compiler.runtime.module import Module
from whet.compiler.target import Target
from whet.search_spaces.template.config_scope import resolved_in_force


def build(
    inputs: Any,
    args: Sequence[Any] | None = None,
    target: Target | str | Mapping[str, Any] | None = None,
    target_host: Target | str | None = None,
    runtime: object = None,
    name: str = "default_function",
    binds: Mapping[Any, Any] | None = None,
    *,
    log: Any = None,
    device: Any = None,
    fallback: str = "none",
) -> Module:
    """Build a schedule, loop IR, or a task with its best config.

    Args:
        inputs: a schedule (with ``args``), a PrimFunc, an IRModule, a list of them; a dict from
            targets to lowered modules; or a :class:`Task`.
        args, target, target_host, runtime, name, binds: as for :func:`whet.compiler.driver.build`.
            A task's kernel is called after its template unless it is named.
        log: for a task: the tuning log (a path, a database URL or a TuningLog) that holds its best
            config. Without one the config in force (:func:`whet.apply_best`), or the default one.
        device: with ``log``: whose records count, a fingerprint or a device such as ``"cuda:0"`` or
            ``"cuda-emulator"``; None: this machine's device for the task's target.
        fallback: with ``log``: how far to go where it has no such record, as for
            :func:`whet.apply_best`: ``"none"``, ``"device"`` or ``"shape"``.

    Returns:
        A module that is called with numpy or ``whet.nd`` arrays, outputs included; ``tuned_by``
        says which record its config comes from, and why.

    Raises:
        ArgumentError: for arguments that do not fit together.
        LogError: if the log cannot be read, or ``log`` has no record that applies to the task.
    """
    if log is None or not isinstance(inputs, Task):
        _check_no_choice(device, fallback)
    if not isinstance(inputs, Task):
        if log is not None:
            raise ArgumentError(
                "build(..., log=...)",
                "only a task is built from a log",
                "whet.build(task, log=...), or `with whet.apply_best(log):` around the template",
            )
        return driver.build(inputs, args, target, target_host, runtime, name, binds)
    if args is not None or binds is not None or target is not None or target_host is not None:
        raise ArgumentError(
            f"build({inputs.name}, ...)",
            "a task brings its own arguments and target",
            "whet.build(task, log='whet.db')",
        )
    name = kernel_name(inputs) if name == "default_function" else name
    if log is not None:
        return build_from_log(inputs, log, device, name, fallback)
    with inputs.target:
        resolved = resolved_in_force(inputs.workload)
        schedule, tensors = inputs.instantiate(resolved.config)
        schedule.tuned_by = resolved.tuned_by
        return driver.build(schedule, tensors, inputs.target, name=name)


def _check_no_choice(device: object, fallback: object) -> None:
    """Refuse arguments that choose among the records of a log where there is none."""
    if fallback != "none":
        raise ArgumentError(
            f"build(..., fallback={fallback!r})",
            "a fallback chooses among the records of a log",
            "whet.build(task, log='whet.db', fallback=...), or whet.apply_best(log, fallback=...)",
        )
    if device is not None:
        raise ArgumentError(
            f"build(..., device={device!r})",
            "a device chooses among the records of a log",
            "whet.build(task, log='whet.db', device=...); code is built for its target",
        )
