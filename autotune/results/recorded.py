"""A task in a log: its runs, the trials of its searches, its last measurement, its best."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from whet.autotune.results.trial import Trial
from whet.compiler.errors import LogError, SpaceError, nearest
from whet.db.store.vectors import unpack
from whet.db.values.claims import TaskKey
from whet.db.values.decision import FINALISTS_RUN, Verdict, deciding, judge
from whet.db.values.identity import Location, device_key, plain_json

if TYPE_CHECKING:
    from whet.compiler.target import Target
    from whet.db import RunRecord, TuningLog
    from whet.db.values.records import TrialRecord
    from whet.measure.device.names import Device
    from whet.search_spaces import Workload


COUNTED = "counted"
"""Where the options of a last measurement say how many configs of its task were tried by then."""
KNOWN = "known"
"""Where they say how many of these are of the space's level that was searched."""


@dataclass(frozen=True)
class TaskRuns:
    """All runs of one workload, target, device and space.

    Attributes:
        workload: the template's name and arguments.
        target: the canonical target as JSON.
        device: fingerprint or description of the machine that measured.
        fingerprint: the space's.
        runs: searches and last measurements, oldest first.
    """

    workload: Workload
    target: dict[str, Any]
    device: Device
    fingerprint: str
    runs: tuple[RunRecord, ...]


class _Decided:
    """The runs of a task, and the last of them that measured its finalists."""

    task: TaskRuns
    finals: list[TrialRecord]

    @property
    def searches(self) -> list[RunRecord]:
        """The runs that proposed, oldest first."""
        return [run for run in self.task.runs if run.sampler != FINALISTS_RUN]

    @property
    def peak(self) -> float:
        """FLOP/s of one core at most, from the newest run that has it; 0: none has it."""
        for run in reversed(self.searches):
            peak = search_options(run).get("peak")
            if isinstance(peak, int | float) and peak > 0:
                return float(peak)
        return 0.0

    @property
    def verdict(self) -> Verdict[Trial]:
        """The outcome of the last interleaved measurement."""
        return judge([Trial.of(record) for record in self.finals])


@dataclass(frozen=True)
class TaskState(_Decided):
    """One task's runs, and how far it is decided which config is its best.

    Attributes:
        task: the runs.
        finals: the newest finished interleaved measurement of the default and the fastest.
        settled: True if the best and the default were measured together, with nothing tried since.
        known: where it is settled, and the log counts no other configs than then: how many of them
            are of the task's space, by its level, as far as the log says.
    """

    task: TaskRuns
    finals: list[TrialRecord]
    settled: bool
    known: dict[str, int]


@dataclass(frozen=True)
class TaskTrials(_Decided):
    """One task's runs with their trials.

    Attributes:
        task: the runs.
        searched: trials of searches, in order of runs and numbers.
        finals: the newest finished interleaved measurement of the default and the fastest.
        best: the best by the log's rule; None where nothing worked.
    """

    task: TaskRuns
    searched: list[TrialRecord]
    finals: list[TrialRecord]
    best: TrialRecord | None

    @property
    def compared(self) -> bool:
        """True if the best and the default were measured in turns with each other."""
        return self.best in self.finals and any(t.number == 0 and t.result.ok for t in self.finals)

    @property
    def default(self) -> TrialRecord | None:
        """The default config's trial: beside the best where both were measured together."""
        rivals = self.finals if self.best in self.finals else []
        return next((t for t in (*rivals, *self.searched) if t.number == 0), None)

    @cached_property
    def ok(self) -> list[TrialRecord]:
        """The successes of the searches."""
        return [t for t in self.searched if t.result.ok]

    @cached_property
    def costs(self) -> np.ndarray:
        """Seconds per call of each searched trial, infinity for failures; float64 (n,)."""
        return np.asarray([t.cost for t in self.searched], dtype=np.float64)

    @cached_property
    def best_place(self) -> int | None:
        """The place of the best config among the searched trials; None: it is not among them."""
        if self.best is None:
            return None
        wanted = self.best.config.choices
        places = (i for i, t in enumerate(self.searched) if t.config.choices == wanted)
        return next((i for i in places if np.isfinite(self.costs[i])), None)

    @cached_property
    def loops(self) -> np.ndarray | None:
        """Loop features of the searched trials, NaN rows where the log has none; None: nowhere."""
        texts = [t.features for t in self.searched]
        if not any(texts):
            return None
        from whet.autotune.features import NAMES, VERSION

        rows = unpack(texts, VERSION, len(NAMES))
        return rows if np.isfinite(rows).any() else None

    @cached_property
    def elapsed(self) -> list[float]:
        """Seconds of search until each searched trial ended; pauses between runs do not count."""
        begun: dict[int, float] = {}
        passed = 0.0
        ends: dict[int, float] = {}
        for trial in self.searched:
            ends[trial.run_id] = max(ends.get(trial.run_id, 0.0), trial.result.timestamp)
        for run in self.searches:
            begun[run.id] = run.started_at - passed
            passed += max(ends.get(run.id, run.started_at) - run.started_at, 0.0)
        return [max(t.result.timestamp - begun[t.run_id], 0.0) for t in self.searched]


def search_options(run: RunRecord) -> dict[str, Any]:
    """The arguments of a run's search, as its record has them; empty where it has none."""
    search = run.options.get("search")
    return search if isinstance(search, dict) else {}


def read_task(log: TuningLog, task: TaskRuns) -> TaskTrials:
    """The trials of a task."""
    records = log.trials(task.workload, task.target, task.device, task.fingerprint)
    return _sorted(log, task, records)


def read_recorded(
    log: TuningLog,
    workload: Workload,
    target: Target | dict,
    fingerprint: str,
    device: Device | None = None,
) -> TaskTrials:
    """The runs and trials of one workload, target, device and space in a log.

    Args:
        log: an open log.
        workload: the template's name and arguments.
        target: a canonical target, or its JSON.
        fingerprint: the space's.
        device: the machine that measured them; None: this one.
    """
    from whet.measure.device.identity import device_of
    from whet.measure.values import target_json

    device = device_of(target, device)
    records = log.trials(workload, target, device, fingerprint)
    used = {record.run_id for record in records}
    runs = tuple(run for run in log.runs() if run.id in used) if used else ()
    task = TaskRuns(workload, target_json(target), device, fingerprint, runs)
    return _sorted(log, task, records)


def _sorted(log: TuningLog, task: TaskRuns, records: Sequence[TrialRecord]) -> TaskTrials:
    """Records by the kind of their runs."""
    sampler = {run.id: run.sampler for run in task.runs}
    # Trials of broken runs, and of runs that were begun since the task was listed, are left out.
    known = [r for r in records if r.run_id in sampler]
    searched = [r for r in known if sampler[r.run_id] != FINALISTS_RUN]
    decide = deciding(task.runs)
    return TaskTrials(
        task,
        searched,
        finals=[r for r in known if r.run_id == decide.finals],
        best=log.best(task.workload, task.target, task.device, task.fingerprint),
    )


def read_state(log: TuningLog, key: TaskKey) -> TaskState:
    """The runs of a task and its last measurement; none of its searches' trials is read."""
    from whet.db.store import points

    runs = tuple(log.read_records("read runs", lambda reader: points.used_runs(reader, key)))
    task = TaskRuns(key.workload, key.target, key.device, key.fingerprint, runs)
    decide = deciding(runs)
    if decide.finals is None:
        return TaskState(task, [], False, {})
    of_task = (key.workload, key.target, key.device, key.fingerprint)
    finals = log.trials(*of_task, run_id=decide.finals)
    newer = log.read("look for trials", lambda c: points.has_trials(c, decide.searches))
    options = next(search_options(run) for run in runs if run.id == decide.finals)
    counted, trials = options.get(COUNTED), log.counts(key).trials
    grown = isinstance(counted, int) and 0 < counted < trials
    settled = bool(finals) and not newer and not grown
    known: dict[str, int] = {}
    match options.get("level"), options.get(KNOWN):
        case str(level), int(of_it) if settled and counted == trials and 0 < of_it <= trials:
            known[level] = of_it
    return TaskState(task, finals, settled, known)


def find_tasks(
    log: TuningLog,
    op: str | None = None,
    args: Sequence[Any] | None = None,
    workload: Workload | None = None,
) -> list[TaskRuns]:
    """The tasks of a log, those that were begun first coming first.

    Args:
        log: an open log.
        op: only tasks of this template; None: of any.
        args: only tasks whose arguments begin with these; None: any arguments.
        workload: only this one; None: any.

    Raises:
        LogError: the log holds no runs, or none that fits; names the tasks that it holds.
    """
    groups: dict[str, list[RunRecord]] = {}
    for run in log.runs():
        target = plain_json(run.target, sort_keys=True)
        key = (run.workload.key, target, device_key(run.device), run.fingerprint)
        groups.setdefault(plain_json(key), []).append(run)
    request = f"report on log {log.location}"
    if not groups:
        raise LogError(
            request,
            "it holds no trials yet",
            f"tune something first: whet tune --log {log.location} --op matmul "
            "--args 1024 1024 1024",
        )
    tasks = [
        TaskRuns(runs[0].workload, runs[0].target, runs[0].device, runs[0].fingerprint, tuple(runs))
        for runs in groups.values()
    ]
    fitting = [t for t in tasks if _fits(t.workload, op, args, workload)]
    if not fitting:
        begin = f"({', '.join(map(str, args))}, ...)" if args else ""
        wanted = workload or f"{op or 'any template'}{begin}"
        raise LogError(f"{request}, {wanted} only", *_why_none(tasks, op))
    return fitting


def _fits(
    recorded: Workload, op: str | None, args: Sequence[Any] | None, workload: Workload | None
) -> bool:
    from whet.search_spaces import Workload

    if workload not in (None, recorded) or op not in (None, recorded.template):
        return False
    wanted = tuple(args or ())
    begin = Workload(recorded.template, recorded.args[: len(wanted)])
    return begin == Workload(recorded.template, wanted)


def _why_none(tasks: list[TaskRuns], op: str | None) -> tuple[str, str]:
    """Why nothing fits, and the way out."""
    templates = list(dict.fromkeys(t.workload.template for t in tasks))
    held = "\n".join(f"  {w}" for w in dict.fromkeys(str(t.workload) for t in tasks))
    if op is None or op in templates:
        return "it has no task with these arguments", f"it holds:\n{held}"
    hint = nearest(op, templates, cutoff=0.4)
    return f"it has no task of a template {op!r}", f"{hint}it holds:\n{held}"


def known_here(workload: Workload, runs: Sequence[RunRecord]) -> bool:
    """True if ``create_task`` can make a recorded workload's task in this process.

    A template has to be registered; a derived graph is made from what its runs hold of it.
    """
    from whet.search_spaces.graph.family import PREFIX, from_data
    from whet.search_spaces.template import registered

    template = registered(workload.template)
    if not workload.template.startswith(PREFIX):
        return template is not None
    if template is not None and workload.args in getattr(template.func, "graphs", ()):
        return True
    for run in reversed(runs):
        data = run.options.get("graph") if isinstance(run.options, dict) else None
        if run.workload == workload and data is not None:
            with suppress(SpaceError):  # damaged, or another graph: an older run may have it
                from_data(workload, data)
                return True
    return False


@contextmanager
def opened(
    log: TuningLog | Location, write: bool, waiting: Callable[[str], Any] | None = None
) -> Iterator[TuningLog]:
    """A log as an open :class:`~whet.db.TuningLog`; closed at the end if it was opened here.

    Args:
        log: the log, or where it is.
        write: it will be written.
        waiting: is called with lines while the opening waits for the database.
    """
    from whet.db import TuningLog

    if isinstance(log, TuningLog):
        yield log
        return
    with TuningLog(log, write=write, waiting=waiting) as own:
        own.patience.waiting = None  # a search has a progress bar for them
        yield own
