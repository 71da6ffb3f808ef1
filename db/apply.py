"""apply_best: inside it a template runs under the best config that a log has for this machine."""

from __future__ import annotations

import math
import os
import warnings
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import LogError
from whet.db.log import TuningLog
from whet.db.values.identity import device_key, device_name, target_difference
from whet.db.values.records import TaskSummary
from whet.measure.device.identity import device_of
from whet.measure.device.names import Device, names_device
from whet.search_spaces import Config, Workload, space_of, using_resolver
from whet.search_spaces.values.counted import counted

if TYPE_CHECKING:
    from whet.compiler.runtime.arrays.device import Device as RuntimeDevice
    from whet.compiler.target import Target


class UntunedWarning(UserWarning):
    """Workloads were built with their default configs, for want of a record that applies."""


def apply_best(
    log: TuningLog | str | os.PathLike[str], *, device: Device | RuntimeDevice | None = None
) -> AppliedLog:
    """A context in which templates take their best config from a log.

    ``with whet.apply_best("whet.db"), whet.Target("llvm"): s, args = matmul(1024, 1024, 1024)``. A
    workload without a record that applies (same target, same machine, same version of the space)
    gets its default config, and one :class:`UntunedWarning` at the end of the ``with`` says which,
    why, and what to do.

    Args:
        log: a log, or the path or URL of one that exists; it is only read.
        device: whose records to apply; None: this machine's. Name another machine to accept its
            records here: its fingerprint, as the warning and ``log.devices()`` give it. A GPU's
            name, ``"cuda:1"`` or ``"cuda-emulator"``, names that device.

    Raises:
        LogError: there is no such log, or it has nothing of ``device``.
    """
    return AppliedLog(log, device)


class AppliedLog:
    """What :func:`apply_best` returns: the context manager, and the resolver it puts in force."""

    def __init__(
        self, log: TuningLog | str | os.PathLike[str], device: Device | RuntimeDevice | None = None
    ) -> None:
        self._given = log
        self._device = device
        self._log: TuningLog | None = None
        self._stack = ExitStack()
        self._missed: dict[tuple[str, str], str] = {}

    def __enter__(self) -> AppliedLog:
        with ExitStack() as stack:
            if isinstance(self._given, TuningLog):
                self._log = self._given
            else:
                self._log = stack.enter_context(TuningLog(self._given, write=False))
            if isinstance(self._device, str | dict) and not names_device(self._device):
                _check_device(self._log, self._device)
            stack.enter_context(using_resolver(self.resolve))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()
        self._log = None
        missed, self._missed = self._missed, {}
        if missed:
            warnings.warn(self._warning(missed), UntunedWarning, stacklevel=2)

    def resolve(self, workload: Workload) -> Config | None:
        """The best config for a workload under the current target, or None for its default.

        Raises:
            LogError: the log cannot be read.
        """
        from whet.compiler.target import Target

        if self._log is None:
            raise LogError("apply_best(...)", "it is not in force", "use it in a `with`")
        target = (Target.current() or Target("llvm")).canonical()
        space = space_of(workload)
        config = self._log.best_config(workload, target, space, self._device)
        if config is None and (key := (workload.key, str(target))) not in self._missed:
            self._missed[key] = _why_none(
                self._log, workload, target, space.fingerprint, self._device
            )
        return config

    def _warning(self, missed: dict[tuple[str, str], str]) -> str:
        shown = self._given.location if isinstance(self._given, TuningLog) else str(self._given)
        what = "1 workload has" if len(missed) == 1 else f"{len(missed)} workloads have"
        lines = [f"apply_best({shown!r}): {what} no record that applies; default configs were used"]
        lines += missed.values()
        return "\n  ".join([*lines, f"(tune with log={shown!r} to have them here)"])


def _check_device(log: TuningLog, device: Device) -> None:
    known = log.devices()
    if device_key(device) not in map(device_key, known):
        raise LogError(
            f"apply_best({log.location!r}, device={device_key(device)!r})",
            "the log has nothing of that machine",
            "machines in it: " + (", ".join(map(device_name, known)) or "(none)"),
        )


def _why_none(
    log: TuningLog,
    workload: Workload,
    target: Target,
    fingerprint: str,
    device: Device | RuntimeDevice | None,
) -> str:
    """One line: the workload, why the nearest record was not taken, the way out."""
    wanted_device = device_key(device_of(target, device))
    wanted_target = target.to_json()
    tasks = log.summary()
    mine = [task for task in tasks if task.workload == workload]
    on_target = [task for task in mine if task.target == wanted_target]
    here = [task for task in on_target if device_key(task.device) == wanted_device]
    tune = f"tune: {_tune_call(workload, target)}"
    tried = sum(task.trials for task in here if task.fingerprint == fingerprint)
    if tried:
        from whet.db.store.queries import broken_trials

        broken = broken_trials(log, workload, target, wanted_device, fingerprint)
        if broken >= tried:
            return f"{workload}: all {broken} of its records are broken; restore a copy, or {tune}"
        lost = f", and {broken} more cannot be read" if broken else ""
        return f"{workload}: none of its {tried - broken} trials worked{lost}; {tune}"
    if here:
        was = ", ".join(sorted({task.fingerprint[:8] for task in here}))
        return (
            f"{workload}: its space has changed since it was tuned (now {fingerprint[:8]},"
            f" records of {was}); {tune}"
        )
    elsewhere = [t for t in on_target if t.best and t.fingerprint == fingerprint]
    if elsewhere:
        nearest = elsewhere[-1]
        return (
            f"{workload}: its {nearest.trials} records are of another machine,"
            f" {device_name(nearest.device)}; {tune}; or accept them:"
            f" apply_best(..., device={device_key(nearest.device)!r})"
        )
    if mine:
        other = target_difference(mine[-1].target, wanted_target)
        if other:
            return f"{workload}: its records are for another target ({other}); {tune}"
        return (
            f"{workload}: its records are of another machine, {device_name(mine[-1].device)},"
            f" and of another version of its space; {tune}"
        )
    passed = f" ({counted(log.broken, 'broken row')} passed over)" if log.broken else ""
    return f"{workload}: never tuned{passed}{_nearest(tasks, workload)}; {tune}"


def _tune_call(workload: Workload, target: Target) -> str:
    return (
        f"whet.tune(whet.create_task({workload.template!r}, args={workload.args!r},"
        f" target={target.kind!r}))"
    )


def _nearest(tasks: list[TaskSummary], workload: Workload) -> str:
    """The tuned workload of the same template whose arguments are nearest."""
    same = [t for t in tasks if t.best and t.workload.template == workload.template]
    if not same:
        return ""
    nearest = min(same, key=lambda task: _distance(task.workload.args, workload.args))
    speed = f" ({nearest.best.gflops:.1f} GFLOP/s)" if nearest.best and nearest.best.gflops else ""
    return f"; the nearest record is of {nearest.workload}{speed}"


def _distance(a: Any, b: Any) -> float:
    """How far apart arguments are: doublings of sizes; a different word counts like eight."""
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return sum(map(_distance, a, b))
    if isinstance(a, int | float) and isinstance(b, int | float) and min(a, b) >= 0:
        return abs(math.log2((a + 1) / (b + 1)))
    return 0.0 if a == b else 8.0
