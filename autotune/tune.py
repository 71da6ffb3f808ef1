"""tune(): find the fastest config of a task, record every trial, go on where a run stopped."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from whet.autotune.finalists import finalists, measure_again, winner
from whet.autotune.loop import nothing_works, run_search
from whet.autotune.progress import Progress
from whet.autotune.recorded import Recorded, opened, read_recorded
from whet.autotune.result import EXHAUSTED, FINISHED, INTERRUPTED, Trial, TuneResult
from whet.autotune.samplers import check_sampler, make_sampler
from whet.autotune.study import Search, slots
from whet.autotune.task import Task
from whet.compiler.errors import ArgumentError, WhetError
from whet.db.decision import FINALISTS_RUN
from whet.measure.pool import check_workers

if TYPE_CHECKING:
    import optuna

    from whet.compiler.runtime.device import Device as RuntimeDevice
    from whet.db import TuningLog
    from whet.db.identity import Device
    from whet.measure import MeasureInput, MeasureOptions, MeasureResult, Pool
    from whet.search_spaces import Config


def tune(
    task: Task,
    trials: int = 500,
    log: TuningLog | str | os.PathLike[str] = "whet.db",
    sampler: str | optuna.samplers.BaseSampler = "xgb",
    workers: int | str | Pool | None = None,
    device: Device | RuntimeDevice | None = None,
    seed: int = 0,
    progress: bool = True,
    options: MeasureOptions | None = None,
) -> TuneResult:
    """Search a task's space for the fastest program, and record every trial.

    Args:
        task: from :func:`create_task`.
        trials: how many trials the log shall hold in the end for this workload, target, device
            and space. A finished search returns at once; a larger number goes on.
        log: a file, a database's URL or an open log; a trial is in it before the next is proposed.
        sampler: ``"xgb"``, ``"tpe"``, ``"random"``, ``"grid"``, or an Optuna sampler.
        workers: None or a number of builders on this machine, ``"ray"``, ``"ray://host:port"``, or
            a pool.
        device: fingerprint of the machine that measures, for the log; None or ``whet.cpu(0)``:
            this one's.
        seed: same seed and same costs: same proposals, whoever finishes first, and also when the
            search was stopped and resumed in between (an Optuna sampler of your own excepted).
        progress: show a progress line on standard error.
        options: budgets, repeats and checks of a measurement.

    Returns:
        The winner, measured once more, interleaved with the default config and the other
        finalists. It is the default config itself where nothing was faster.

    Raises:
        ArgumentError: an argument makes no sense.
        LogError: the log cannot be opened or written.
        MeasureError: every candidate failed, or the workers cannot be had.
        KeyboardInterrupt: Ctrl-C; what was measured is in the log, and the summary is printed.
    """
    sampler_name = _check_arguments(task, trials, sampler, seed, options)
    check_workers(workers)
    machine = _check_device(device)
    with opened(log, write=True) as tuning_log:
        session = _Session(task, trials, tuning_log, machine, progress)
        if session.complete:
            return session.result_from_log()
        tuning_log.check_writable(f"tune {task.workload}: add trials")
        session.sampler_name, session.seed = sampler_name, seed
        return session.run(sampler, workers, options)


class _Session:
    """One call of tune: what is known, what is found, where it goes."""

    def __init__(
        self, task: Task, trials: int, log: TuningLog, device: Device | None, progress: bool
    ) -> None:
        self.task = task
        self.space = task.config_space
        self.default = self.space.default
        self.log = log
        self.device = device
        self.progress = progress
        self._template = task.template.ref()
        self.sampler_name = ""
        self.seed = 0
        self.recorded: Recorded = read_recorded(
            log, task.workload, task.target, self.space.fingerprint, device
        )
        self.placed = slots(self.recorded.searched, self.default)
        self.exhausting = self.space.size < trials
        self.total = min(trials, self.space.size)
        self.found = {t.config.key: t for t in self.placed.values()}
        self.peak = 0.0
        self.run_id: int | None = None

    @property
    def complete(self) -> bool:
        """Whether the log holds all that is asked for."""
        return len(self.placed) >= self.total and self.recorded.settled

    @property
    def trials(self) -> list[Trial]:
        return sorted(self.found.values(), key=lambda t: t.number)

    def result_from_log(self) -> TuneResult:
        """The result of a search that was finished by an earlier run."""
        best, base = self.recorded.best, self.recorded.default
        state = EXHAUSTED if self.exhausting else FINISHED
        self._say_exhausted(Progress(str(self.task.workload), self.total, enabled=self.progress))
        return TuneResult(self.task, best, base, self.trials, self.log.location, state)

    def run(self, sampler: Any, workers: Any, options: MeasureOptions | None) -> TuneResult:
        """Search, then measure the finalists; keep the log's run up to date whatever happens."""
        from whet.measure import MeasureOptions, open_pool

        options = options or MeasureOptions()
        state = "failed"
        try:
            with ExitStack() as stack:
                self.peak = _peak(self.task) if self.progress else 0.0
                bar = Progress(str(self.task.workload), self.total, self.peak, self.progress)
                stack.enter_context(bar)
                self._say_exhausted(bar)
                bar.resumed(self.trials)
                bar.enter("starting the workers")
                pool = open_pool(
                    workers,
                    options=options,
                    reference=self._input(self.default),
                    known=lambda program: self.log.known_program(program, self.device),
                )
                if pool is not workers:  # a pool that was passed in stays its owner's
                    stack.enter_context(pool)
                pool.best_cost = min((t.cost for t in self.trials if t.result.ok), default=None)
                if len(self.placed) < self.total:
                    self._search(sampler, pool, bar, options)
                    self._finish_run("finished")
                return self._measure_finalists(pool, bar, options)
        except KeyboardInterrupt:
            state = INTERRUPTED
            print(self._interrupted(), file=sys.stderr, flush=True)
            raise
        finally:
            self._finish_run(state)

    def _finish_run(self, state: str) -> None:
        if self.run_id is not None:
            self.log.finish_run(self.run_id, state)
            self.run_id = None

    def _search(self, sampler: Any, pool: Pool, bar: Progress, options: MeasureOptions) -> None:
        search = Search(self.space, make_sampler(sampler, self.space, self.seed))
        self.run_id = self._start_run(self.sampler_name, options)
        run_id = self.run_id

        def finished(number: int, config: Config, result: MeasureResult) -> None:
            trial = Trial(number, config, result, self.flop)
            self.log.add_trial(run_id, number, config, result, self.flop)
            self.found[config.key] = trial
            bar.trial(trial)

        def moved(number: int, trial: Trial) -> None:
            self.found[trial.config.key] = replace(trial, number=number)

        placed = dict(self.placed)
        run_search(search, pool, self.total, placed, self._input, finished, moved, bar.tick)

    def _measure_finalists(self, pool: Pool, bar: Progress, options: MeasureOptions) -> TuneResult:
        chosen = finalists(self.found.values())
        if not chosen:
            raise nothing_works([t.result for t in self.trials])
        bar.enter(f"measuring the best {len(chosen)} once more, interleaved")
        measured = measure_again(chosen, pool, self._input)
        best, base = winner(measured)
        if best is None:
            raise nothing_works([t.result for t in measured])
        run_id = self._start_run(FINALISTS_RUN, options)
        for trial in measured:
            self.log.add_trial(run_id, trial.number, trial.config, trial.result, self.flop)
        self.log.finish_run(run_id, "finished")
        state = EXHAUSTED if self.exhausting else FINISHED
        base = base or self.found.get(self.default.key)
        return TuneResult(
            self.task, best, base, self.trials, self.log.location, state, peak=self.peak
        )

    def _interrupted(self) -> TuneResult:
        """What is in the log: the interruption may have come between writing and remembering."""
        space, task = self.space, self.task
        known = read_recorded(self.log, task.workload, task.target, space.fingerprint, self.device)
        placed = slots(known.searched, self.default)
        trials, log = list(placed.values()), self.log.location
        best, base = winner(trials)
        return TuneResult(
            task, best, base, trials, log, INTERRUPTED, compared=False, peak=self.peak
        )

    @property
    def flop(self) -> int:
        return self.task.flop

    def _input(self, config: Config) -> MeasureInput:
        from whet.measure import MeasureInput

        task = self.task
        return MeasureInput(task.workload, task.target.to_json(), config, self._template)

    def _start_run(self, sampler: str, options: MeasureOptions) -> int:
        return self.log.start_run(
            self.task.workload,
            self.task.target,
            self.device,
            self.space.fingerprint,
            sampler,
            self.seed,
            options.to_json(),
            versions(),
        )

    def _say_exhausted(self, bar: Progress) -> None:
        if self.exhausting:
            bar.say(
                f"{self.task.workload}: the space has only {self.space.size} configs; "
                f"the search ends after {self.total} trials"
            )


def _check_arguments(task: Any, trials: Any, sampler: Any, seed: Any, options: Any) -> str:
    """Refuse what makes no sense; returns the sampler's name."""
    if not isinstance(task, Task):
        raise ArgumentError(
            f"tune({task!r})",
            f"a {type(task).__name__} is not a task",
            'make one: whet.create_task("matmul", args=(1024, 1024, 1024))',
        )
    if isinstance(trials, bool) or not isinstance(trials, int) or trials < 1:
        raise ArgumentError(
            f"tune({task.workload}, trials={trials!r})",
            "the number of trials must be an integer of at least 1",
            "it is the total in the log: trials=1 measures the default config only",
        )
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ArgumentError(
            f"tune({task.workload}, seed={seed!r})", "a seed is an integer of at least 0"
        )
    if options is not None:
        from whet.measure import MeasureOptions

        if not isinstance(options, MeasureOptions):
            raise ArgumentError(
                f"tune({task.workload}, options={options!r})",
                f"a {type(options).__name__} was given",
                "give whet.MeasureOptions(run_timeout=..., repeat=..., ...)",
            )
    return check_sampler(sampler)


def _check_device(device: Any) -> Device | None:
    if device is None:
        return None
    from whet.compiler.runtime.device import Device as RuntimeDevice
    from whet.db.identity import device_key, is_device_key

    if isinstance(device, RuntimeDevice) and device.exist:
        return None
    if isinstance(device, str | dict) and is_device_key(device_key(device)):
        return device
    if isinstance(device, str | dict | RuntimeDevice):
        raise ArgumentError(
            f"tune(device={device!r})",
            "there is no such device yet",
            "None (or whet.cpu(0)) is this machine's CPU; another machine is named by what "
            "host.fingerprint() says there, e.g. 'cpu-0123456789ab'",
        )
    raise ArgumentError(
        f"tune(device={device!r})",
        f"a {type(device).__name__} does not name a machine",
        "None is this machine; another is named by what host.fingerprint() says there",
    )


def _peak(task: Task) -> float:
    """FLOP/s that one core can do; 0 where that says nothing about the task."""
    if task.target.kind != "llvm" or not task.flop:
        return 0.0
    from whet.compiler.target import host

    try:
        # another process beside this one halves a measurement; it never doubles one
        return max(host.fma_peak(task.dtype, seconds=0.1) for _ in range(3))
    except WhetError:  # there is no FMA peak of integers
        return 0.0


def versions() -> dict[str, str]:
    """Versions of what takes part in a search, for the log."""
    import importlib.metadata  # 20 ms, which importing this file shall not cost
    import platform

    found = {"python": platform.python_version()}
    for name in ("whet", "numpy", "llvmlite", "optuna", "xgboost-cpu", "xgboost", "ray"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
