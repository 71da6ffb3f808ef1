"""The best records of a log, built and measured again: which of them still hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from whet.autotune.results.failures import last_line
from whet.autotune.results.recorded import known_here, opened
from whet.autotune.results.trial import Trial
from whet.autotune.search.finalists import SECONDS, is_behind, measure_again
from whet.compiler.errors import ArgumentError, LogError, WhetError, nearest
from whet.db.values.decision import judge
from whet.db.values.identity import Location, device_key
from whet.measure.device.identity import device_of
from whet.measure.device.selection import Selection, select_device
from whet.measure.pool.open import describe_remote_gpu, open_pool
from whet.measure.values import MeasureInput, MeasureOptions
from whet.search_spaces.values.counted import counted, duration

if TYPE_CHECKING:
    from whet.autotune.tasks.task import Task
    from whet.db import TaskSummary, TuningLog
    from whet.db.values.records import TrialRecord
    from whet.measure import Pool
    from whet.search_spaces import Config

HOLDS, WITHDRAWN, UNCHECKED = "holds", "withdrawn", "not checked"
TRIES = 8
"""Records of one task that are looked at, each after the one before it was withdrawn."""
LOST = "infra_error"
RAISED = re.compile(r"(?:\w+\.)*(\w*(?:Error|Exception): .*)")
"""The line of a traceback that names the error."""

Say = Callable[[str], Any]


@dataclass(frozen=True)
class Verified:
    """The check of a task's best record.

    Attributes:
        task: the task as the log had it.
        outcome: ``"holds"``, ``"withdrawn"`` or ``"not checked"``.
        why: in words.
        record: the best record now; None: nothing is left.
        cost: seconds per call now; infinity where it was not measured.
        default: those of the default config, measured in turns with it.
        withdrawn: why each record was withdrawn, the best first.
    """

    task: TaskSummary
    outcome: str
    why: str
    record: TrialRecord | None = None
    cost: float = float("inf")
    default: float = float("inf")
    withdrawn: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.task.workload}: {self.outcome}: {self.why}"]
        return "\n  withdrawn: ".join([*lines, *self.withdrawn])


def verify_log(
    log: TuningLog | Location,
    *,
    op: str | None = None,
    device: Any = None,
    workers: Any = None,
    options: MeasureOptions | None = None,
    seconds: float = SECONDS,
    withdraw: bool = True,
    say: Say | None = None,
) -> list[Verified]:
    """Build the best records of a log again, measure them in turns with the default, check them.

    A record no longer holds if its kernel is not built, does not run, gives numbers other than the
    space's reference (``ConfigSpace.reference``: the default config, or that of the rule which a
    declared instruction displaced), or is slower than the default beyond the noise of their rounds.
    It is then withdrawn, and the next best is looked at. Nothing is known of records of other
    machines, of templates that are not here or have changed, and where workers cannot open the
    template, or cannot lower what this process can: they are left as they are.

    Args:
        log: a log, its path or its URL.
        op: only tasks of this template; None: of any.
        device: measures, and whose records are checked; None: this machine's, as in ``tune``.
        workers: who builds and measures, as in ``tune``.
        options: how.
        seconds: time for the rounds of one task.
        withdraw: False writes nothing, and only says what it found.
        say: is told what is being done.

    Returns:
        One entry a task that has a best record, in the log's order.

    Raises:
        LogError: the log cannot be read, or not be written.
        ArgumentError: ``seconds`` is no time; ``device`` does not exist.
    """
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not seconds > 0:
        raise ArgumentError(f"verify_log(seconds={seconds!r})", "it must be a number above 0")
    with opened(log, write=False):  # a log that is not there is not made
        pass
    with opened(log, write=withdraw) as held, ExitStack() as stack:
        if withdraw:
            held.check_writable("verify: withdraw records")
        how = _How(device, workers, options or MeasureOptions(), float(seconds), withdraw)
        check = _Check(held, how, stack, say or _silent)
        tasks = [t for t in held.summary() if t.best is not None]
        if op is not None:
            tasks = _of_template(tasks, op, held.location)
        found = []
        for number, task in enumerate(tasks, 1):
            check.say(f"{number} of {counted(len(tasks), 'task')}: {task.workload}")
            found.append(check.verify(task))
        return found


def _of_template(tasks: list[TaskSummary], op: str, location: str) -> list[TaskSummary]:
    """The tasks of a template.

    Raises:
        LogError: there is none.
    """
    found = [t for t in tasks if t.workload.template == op]
    if not found:
        names = list(dict.fromkeys(t.workload.template for t in tasks))
        raise LogError(
            f"verify {op!r} in log {location}",
            "it has no best record of this template",
            f"{nearest(op, names)}it has records of: {', '.join(names) or '(none)'}",
        )
    return found


def _silent(line: str) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class _How:
    """The arguments of :func:`verify_log` that say how it checks."""

    device: Any
    workers: Any
    options: MeasureOptions
    seconds: float
    withdraw: bool


class _Check:
    """Checks tasks of one log, with a pool for each kind of device.

    Args:
        log: open, and writable where records are withdrawn.
        how: it checks.
        stack: closes the pools.
        say: is told what is being done.
    """

    def __init__(self, log: TuningLog, how: _How, stack: ExitStack, say: Say) -> None:
        self._log, self._how, self._stack, self.say = log, how, stack, say
        self._runs = log.runs()
        self._pools: dict[str, Pool] = {}

    def verify(self, summary: TaskSummary) -> Verified:
        """Check a task's best record, and the next one where it does not hold."""
        made = self._made(summary)
        if isinstance(made, str):
            return Verified(summary, UNCHECKED, made, summary.best)
        task, place = made
        withdrawn: list[str] = []
        for _ in range(TRIES):
            best = self._best(summary)
            if best is None:
                return Verified(summary, WITHDRAWN, "no record is left", withdrawn=tuple(withdrawn))
            checked = self._measure(summary, task, place, best)
            if checked.outcome != WITHDRAWN:
                outcome = WITHDRAWN if withdrawn else checked.outcome
                said = f"{best.config}: {checked.why}"
                why = f"the best is now {said}" if withdrawn else checked.why
                return replace(checked, outcome=outcome, why=why, withdrawn=tuple(withdrawn))
            withdrawn.append(f"{best.config}: {checked.why}")
            if not self._how.withdraw:
                return replace(checked, withdrawn=tuple(withdrawn))
            self._log.withdraw([best.id], f"whet log verify: {checked.why}")
            self.say(f"  withdrawn: {checked.why}")
        why = f"{TRIES} records in a row do not hold: tune it again"
        return Verified(summary, WITHDRAWN, why, self._best(summary), withdrawn=tuple(withdrawn))

    def _best(self, summary: TaskSummary) -> TrialRecord | None:
        return self._log.best(summary.workload, summary.target, summary.device, summary.fingerprint)

    def _made(self, summary: TaskSummary) -> tuple[Task, Selection] | str:
        """The task and the device that measures it; or why there is none, in words."""
        from whet.autotune.tasks.task import create_task

        if not known_here(summary.workload, self._runs):
            return "its template is not here: name the file that defines it"
        try:
            task = create_task(summary.workload.template, summary.workload.args, summary.target)
            if task.workload != summary.workload or task.target.to_json() != summary.target:
                return "the template or the target means something else now"
            if task.config_space.fingerprint != summary.fingerprint:
                return "its space has changed since: build does not take it"
            own = device_key(device_of(task.target, self._how.device))
            if own != device_key(summary.device):
                return f"it is of another machine, {device_key(summary.device)}"
            remote = partial(describe_remote_gpu, stack=self._stack)
            name = str(task.workload)
            return task, select_device(
                self._how.device, name, [task.target], self._how.workers, remote
            )
        except LogError:
            raise
        except WhetError as error:
            return f"it cannot be built here: {str(error).splitlines()[0]}"

    def _pool(self, place: Selection) -> Pool:
        if place.device not in self._pools:
            self.say("starting the workers")
            pool = open_pool(self._how.workers, options=self._how.options, device=place.device)
            if pool is not self._how.workers:  # a pool that was passed in stays its owner's
                self._stack.enter_context(pool)
            self._pools[place.device] = pool
        return self._pools[place.device]

    def _measure(
        self, summary: TaskSummary, task: Task, place: Selection, best: TrialRecord
    ) -> Verified:
        """Measure a record in turns with the default config."""
        default = task.config_space.default
        if best.config not in task.config_space:
            return Verified(summary, WITHDRAWN, "its choices are not in the space", best)
        chosen = [Trial(0, default, best.result)]
        if best.config != default:
            chosen.append(Trial(1, best.config, best.result))
        template, target = task.template.ref(), task.target.to_json()

        def measured(config: Config) -> MeasureInput:
            return MeasureInput(task.workload, target, config, template)

        pool = self._pool(place)
        pool.compare_with(measured(task.config_space.reference))
        results = measure_again(chosen, pool, measured, self._how.seconds)
        outcome, why = _verdict(results, best)
        if results[-1].result.status == "lower_error" and _lowers(task, best.config):
            why = f"the workers cannot lower it, and this process can: {why}"
            return Verified(summary, UNCHECKED, why, best)
        return Verified(summary, outcome, why, best, results[-1].cost, results[0].cost)


def _lowers(task: Task, config: Config) -> bool:
    """True if a config is lowered here: that workers fail is then no fault of its record."""
    from whet.compiler import driver

    try:
        with task.target:
            driver.lower(*task.instantiate(config))
    except Exception:  # whatever a template raises
        return False
    return True


def _verdict(results: list[Trial], best: TrialRecord) -> tuple[str, str]:
    """The outcome of a record that was measured last, after the default; and why."""
    default, own = results[0], results[-1]
    if own.result.status == LOST:
        return UNCHECKED, _said(own.result.error)
    if not own.result.ok:
        said = _said(own.result.error)
        return WITHDRAWN, f"{own.result.status}: {said}" if said else own.result.status
    times = f"{duration(own.cost)}, recorded {duration(best.cost)}"
    if own is default or not default.result.ok:
        which = "the default config" if own is default else "the default config fails"
        return HOLDS, f"{times}; {which}"
    speedup = default.cost / own.cost
    interval = judge(results).interval
    sure = f", {interval[0]:.2f} to {interval[1]:.2f}" if interval else ""
    compared = f"{speedup:.2f}x of the default{sure}"
    pairs = [list(t.result.costs) for t in (own, default)]
    if all(pairs) and is_behind(*pairs):
        return WITHDRAWN, f"slower than the default beyond the noise: {compared} ({times})"
    return HOLDS, f"{times}; {compared}"


def _said(text: str) -> str:
    """The line of an error's text that names the error, else its last: state and notes follow."""
    named = [match for line in text.splitlines() if (match := RAISED.match(line))]
    return last_line(named[-1][1] if named else text)


def summary_line(found: Iterable[Verified]) -> str:
    """The outcomes of a check, counted."""
    outcomes = [one.outcome for one in found]
    kinds = [(n, k) for k in (HOLDS, WITHDRAWN, UNCHECKED) if (n := outcomes.count(k))]
    return ", ".join(f"{n} {k}" for n, k in kinds) or "no task has a best record"
