"""apply_best: inside it a template runs under the best config that a log has for this machine."""

from __future__ import annotations

import warnings
from contextlib import ExitStack
from typing import TYPE_CHECKING

from whet.compiler.errors import LogError
from whet.db.log import TuningLog
from whet.db.values.identity import Location, device_key, device_name, distance, target_difference
from whet.db.values.records import TaskSummary
from whet.measure.device.identity import device_of
from whet.measure.device.names import AnyDevice, names_device
from whet.search_spaces import Config, Workload, space_of, using_resolver
from whet.search_spaces.values.counted import counted

if TYPE_CHECKING:
    from whet.compiler.target import Target


DIFFERENT = 8.0
"""The doublings of a size that count like one word that differs, for the nearest record."""


class UntunedWarning(UserWarning):
    """Workloads were built with their default configs, for want of a record that applies."""


def apply_best(log: TuningLog | Location, *, device: AnyDevice | None = None) -> AppliedLog:
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
    """The context manager of :func:`apply_best`, and the resolver that it puts in force."""

    def __init__(self, log: TuningLog | Location, device: AnyDevice | None = None) -> None:
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
                known = self._log.devices()
                if device_key(self._device) not in map(device_key, known):
                    raise LogError(
                        f"apply_best({self._log.location!r}, device={device_key(self._device)!r})",
                        "the log has nothing of that machine",
                        "machines in it: " + (", ".join(map(device_name, known)) or "(none)"),
                    )
            stack.enter_context(using_resolver(self.resolve))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()
        self._log = None
        missed, self._missed = self._missed, {}
        if missed:
            shown = self._given.location if isinstance(self._given, TuningLog) else self._given
            number = "1 workload has" if len(missed) == 1 else f"{len(missed)} workloads have"
            head = f"apply_best({str(shown)!r}): {number} no record that applies; "
            lines = [f"{head}default configs were used", *missed.values()]
            lines.append(f"(tune with log={str(shown)!r} to have them here)")
            warnings.warn("\n  ".join(lines), UntunedWarning, stacklevel=2)

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
            why = _why_none(self._log, workload, target, space.fingerprint, self._device)
            self._missed[key] = f"{workload}: {why}"
        return config


def _why_none(
    log: TuningLog,
    workload: Workload,
    target: Target,
    fingerprint: str,
    device: AnyDevice | None,
) -> str:
    """One line: why the nearest record was not taken, and the way out."""
    wanted_device = device_key(device_of(target, device))
    wanted_target = target.to_json()
    tasks = log.summary()
    mine = [task for task in tasks if task.workload == workload]
    on_target = [task for task in mine if task.target == wanted_target]
    here = [task for task in on_target if device_key(task.device) == wanted_device]
    named = f"{workload.template!r}, args={workload.args!r}, target={target.kind!r}"
    tune = f"tune: whet.tune(whet.create_task({named}))"
    tried = sum(task.trials for task in here if task.fingerprint == fingerprint)
    if tried:
        from whet.db.store.queries import broken_trials

        broken = broken_trials(log, workload, target, wanted_device, fingerprint)
        if broken >= tried:
            return f"all {broken} of its records are broken; restore a copy, or {tune}"
        lost = f", and {broken} more cannot be read" if broken else ""
        return f"none of its {tried - broken} trials worked{lost}; {tune}"
    if here:
        was = ", ".join(sorted({task.fingerprint[:8] for task in here}))
        return (
            f"its space has changed since it was tuned (now {fingerprint[:8]},"
            f" records of {was}); {tune}"
        )
    elsewhere = [t for t in on_target if t.best and t.fingerprint == fingerprint]
    if elsewhere:
        nearest = elsewhere[-1]
        return (
            f"its {nearest.trials} records are of another machine,"
            f" {device_name(nearest.device)}; {tune}; or accept them:"
            f" apply_best(..., device={device_key(nearest.device)!r})"
        )
    if mine:
        other = target_difference(mine[-1].target, wanted_target)
        if other:
            return f"its records are for another target ({other}); {tune}"
        return (
            f"its records are of another machine, {device_name(mine[-1].device)},"
            f" and of another version of its space; {tune}"
        )
    passed = f" ({counted(log.broken, 'broken row')} passed over)" if log.broken else ""
    return f"never tuned{passed}{_nearest(tasks, workload)}; {tune}"


def _nearest(tasks: list[TaskSummary], workload: Workload) -> str:
    """The tuned workload of the same template whose arguments are nearest."""
    same = [t for t in tasks if t.best and t.workload.template == workload.template]
    if not same:
        return ""
    nearest = min(same, key=lambda t: distance(t.workload.args, workload.args, DIFFERENT))
    speed = f" ({nearest.best.gflops:.1f} GFLOP/s)" if nearest.best and nearest.best.gflops else ""
    return f"; the nearest record is of {nearest.workload}{speed}"
