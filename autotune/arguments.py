"""The arguments of tune(): their names, defaults, documentation and checks, each once."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeAlias

from whet.autotune.loading import refuse_search
from whet.autotune.samplers import check_sampler, has_opinion
from whet.autotune.search.early_stop import Limits
from whet.autotune.tasks.task import Task
from whet.compiler.errors import ArgumentError
from whet.measure.pool.open import check_workers
from whet.measure.values import MeasureOptions
from whet.search_spaces.values.counted import counted

if TYPE_CHECKING:
    import optuna

    from whet.autotune.results.trial import Trial
    from whet.compiler.runtime.arrays.device import Device as RuntimeDevice
    from whet.db import TuningLog
    from whet.measure import Pool
    from whet.measure.device.names import Device

Callback: TypeAlias = "Callable[[Task, Trial], object]"


class UnknownArgument(ArgumentError, TypeError):
    """A keyword argument that a function does not have."""


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def _is_positive(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and value > 0


_CHECKS: dict[str, tuple[Callable[[Any], bool], str, str]] = {
    "trials": (
        lambda v: _is_whole(v, 1),
        "the number of trials must be an integer of at least 1",
        "it is the total in the log: trials=1 measures the default config only",
    ),
    "seed": (
        lambda v: _is_whole(v, 0),
        "a seed is an integer of at least 0",
        "the same seed and costs give the same search: seed=0",
    ),
    "transfer": (
        lambda v: isinstance(v, bool),
        "a {} was given",
        "True: learn from the log's other tasks; False: start from nothing",
    ),
    "options": (
        lambda v: v is None or isinstance(v, MeasureOptions),
        "a {} was given",
        "give whet.MeasureOptions(run_timeout=..., repeat=..., ...)",
    ),
    "timeout": (
        lambda v: v is None or _is_positive(v),
        "a timeout is a number of seconds above 0",
        "None: the search ends after its trials",
    ),
    "target_cost": (
        lambda v: v is None or _is_positive(v),
        "a cost is a number of seconds per call above 0",
        "0.5 ms is target_cost=5e-4; None: search as long as there are trials",
    ),
    "early_stop": (
        lambda v: isinstance(v, bool) or _is_whole(v, 1),
        "it is True, False or an integer of at least 1",
        "True: end when the expected gain is below the noise; 50: after 50 trials in vain",
    ),
    "callbacks": (
        lambda v: isinstance(v, Sequence) and all(map(callable, v)),
        "callbacks are a list of functions of (task, trial)",
        "callbacks=[lambda task, trial: print(trial)]",
    ),
}
"""By argument: what it must be, why another value is refused, the way out."""


def _takes_two(function: Callable[..., Any]) -> bool:
    """False if a function certainly cannot be called with two arguments."""
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # it does not say, as some that are written in C
        pass
    return True


_WORDS = {
    "n_trial": "trials",
    "n_trials": "trials",
    "num_trials": "trials",
    "max_trials": "trials",
    "max_trials_global": "trials",
    "n_jobs": "workers",
    "num_workers": "workers",
    "n_parallel": "workers",
    "tuner": "sampler",
    "strategy": "sampler",
    "log_file": "log",
    "storage": "log",
    "database": "log",
    "measure_option": "options",
    "callback": "callbacks",
    "early_stopping": "early_stop",
    "show_progress_bar": "progress",
    "verbose": "progress",
}
"""Other tuners' words for arguments of whet.tune."""


@dataclass(frozen=True)
class TuneArguments:
    """The arguments of one call of :func:`whet.tune`, checked.

    Attributes:
        task: from :func:`create_task`; or a list of tasks, which share workers and trials: the next
            ones go where they are expected to save most. Equal tasks are tuned once.
        trials: how many trials the log shall hold in the end for this workload, target, device
            and space; of many tasks, all together. A finished search returns at once; a larger
            number goes on.
        log: a file, a database's URL or an open log; a trial is in it before the next is proposed.
            Several calls at once, on one machine or many, share it: no config is measured twice,
            ``trials`` is the total of all of them, each learns from the others' results, and all
            return the same best.
        sampler: a name of :data:`whet.autotune.SAMPLERS`, or an Optuna sampler.
        workers: None or a number of builders on this machine, ``"ray"``, ``"ray://host:port"``, or
            a pool.
        device: what candidates are measured on; None: this machine's device for the target, its
            processor or its first GPU (on Ray, every free GPU of the cluster, or every processor
            that it announces; a fingerprint names one kind of several). ``whet.cuda(1)`` or
            ``"cuda:1"`` is another GPU; ``["cuda:0", "cuda:1"]`` or ``"cuda:0,cuda:1"`` are
            several of one kind, ``"cuda:*"`` all of this machine's: each has a worker and takes
            the next candidate. ``"cuda-emulator"`` needs none: candidates run there for their
            numbers, and costs are predicted by a model, on record as such and as another device's.
            Or the fingerprint of another machine, for its records. Several kinds at once, each with
            targets, records and a winner of its own, are a list: ``["cpu", "cuda"]``, or
            fingerprints of a cluster's; ``trials`` is then the total of all tasks on all kinds.
        seed: same seed and same costs: same proposals, whoever finishes first, and also when the
            search was stopped in between, after whatever trial, or had fewer ``trials`` at first
            (an Optuna sampler that you made excepted). Workers count in few sizes: pools with up to
            4, up to 8 and more candidates in flight, and with more than 4, 8, 16, ... devices, make
            different searches. A trial that takes several times as long as others is told when it
            comes; the log holds the order. Of searches that share a log while they run, who came
            later has another seed.
        progress: show a progress line on standard error.
        options: budgets, repeats and checks of a measurement.
        timeout: seconds after which this call proposes no more, measures the finalists and
            returns; None: no limit.
        target_cost: seconds per call; a search ends when a trial is as fast. Of many tasks, each.
        early_stop: True ends a search when the sampler expects to gain less than the measurements'
            noise; a number ends it after so many trials without improvement.
        transfer: learn from the log's other tasks: the best configs of near shapes come first, and
            a sampler with a cost model begins with their trials. False: begin with nothing.
        weights: of many tasks, how much each one's cost counts, e.g. how often it is called.
        callbacks: functions of ``(task, trial)``, called in this process for each new
            :class:`whet.autotune.Trial` once it is in the log, as trials come in. What one raises
            ends the search.

    Raises:
        ArgumentError: an argument makes no sense.
    """

    task: Task | Sequence[Task]
    trials: int = 500
    log: TuningLog | str | os.PathLike[str] = "whet.db"
    sampler: str | optuna.samplers.BaseSampler = "xgb"
    workers: int | str | Pool | None = None
    device: Device | RuntimeDevice | str | Sequence[RuntimeDevice | str] | None = None
    seed: int = 0
    progress: bool = True
    options: MeasureOptions | None = None
    _: KW_ONLY
    timeout: float | None = None
    target_cost: float | None = None
    early_stop: bool | int = False
    transfer: bool = True
    weights: Sequence[float] | None = None
    callbacks: Sequence[Callback] = ()

    def __post_init__(self) -> None:
        self._check_tasks()
        refuse_search()  # in a file that is loaded for its tasks, other arguments do not matter
        for name, (is_right, why, way_out) in _CHECKS.items():
            value = getattr(self, name)
            if not is_right(value):
                raise ArgumentError(
                    f"tune({self.name}, {name}={value!r})",
                    why.format(type(value).__name__),
                    way_out,
                )
        if self.many and not isinstance(self.sampler, str):
            raise ArgumentError(
                f"tune([...], sampler={self.sampler_name}(...))",
                "one sampler cannot search the spaces of several tasks: what it learns of one "
                "would be wrong of the next",
                "give a sampler's name, which makes one for each task",
            )
        check_sampler(self.sampler)
        self._check_callbacks()
        self._check_opinion()
        self._check_weights()
        check_workers(self.workers)
        if self.trials < len(self.shares):
            tasks = len(self.shares)
            raise ArgumentError(
                f"tune({self.name}, trials={self.trials})",
                f"{counted(self.trials, 'trial')} cannot be shared by {counted(tasks, 'task')}",
                f"give at least {tasks}: the first trial of each is its default config",
            )

    @property
    def many(self) -> bool:
        """True if the tasks were given as a sequence."""
        return isinstance(self.task, Sequence) and not isinstance(self.task, str | bytes)

    @cached_property
    def tasks(self) -> list[Task]:
        """The tasks in the order given."""
        task: Any = self.task
        return list(task) if self.many else [task]

    @property
    def name(self) -> str:
        """The tasks, for an error's text."""
        return f"[{len(self.tasks)} tasks]" if self.many else str(self.tasks[0].workload)

    @property
    def sampler_name(self) -> str:
        """The sampler's name in the log."""
        return check_sampler(self.sampler)

    @property
    def limits(self) -> Limits:
        """The reasons to end early."""
        seconds, cost = (None if v is None else float(v) for v in (self.timeout, self.target_cost))
        return Limits(seconds, cost, self.early_stop)

    @cached_property
    def shares(self) -> dict[tuple[str, str], tuple[Task, float]]:
        """Each task once, by its :meth:`identity`, with the weights of its equals added up."""
        shares: dict[tuple[str, str], tuple[Task, float]] = {}
        for task, weight in zip(self.tasks, self.weights or [1.0] * len(self.tasks)):
            first, before = shares.get(self.identity(task), (task, 0.0))
            shares[self.identity(task)] = first, before + float(weight)
        return shares

    @staticmethod
    def identity(task: Task) -> tuple[str, str]:
        """A key that is equal for equal tasks."""
        return task.key, task.level

    def _check_tasks(self) -> None:
        why, way_out = "there is no task in it", "give a task, or a list of at least one"
        strangers = [one for one in self.tasks if not isinstance(one, Task)]
        if strangers:
            why = f"a {type(strangers[0]).__name__} is not a task"
            way_out = 'make one: whet.create_task("matmul", args=(1024, 1024, 1024))'
        if strangers or not self.tasks:
            raise ArgumentError(f"tune({self.task!r})", why, way_out)

    def _check_callbacks(self) -> None:
        """Refuse functions that cannot be called with a task and a trial."""
        for one in self.callbacks:
            if not _takes_two(one):
                name = getattr(one, "__name__", type(one).__name__)
                raise ArgumentError(
                    f"tune({self.name}, callbacks=[{name}])",
                    f"it is called with (task, trial), and takes {inspect.signature(one)}",
                    "callbacks=[lambda task, trial: print(trial)]",
                )

    def _check_opinion(self) -> None:
        """Refuse to end by the expectation of a sampler that has none."""
        if self.early_stop is True and not has_opinion(self.sampler):
            raise ArgumentError(
                f"tune(sampler={self.sampler_name!r}, early_stop=True)",
                "this sampler does not say what it expects of the next trials",
                'give early_stop=50 (trials without improvement), or sampler="xgb"',
            )

    def _check_weights(self) -> None:
        """Refuse weights that are not one positive number a task, or that one task cannot have."""
        weights, tasks = self.weights, len(self.tasks)
        if weights is None:
            return
        way_out = f"give {tasks} numbers above 0, e.g. how often each kernel is called"
        if not self.many:
            why, way_out = (
                "one task gets all trials whatever its weight",
                "give a list of tasks, or no weights",
            )
        elif isinstance(weights, str) or not isinstance(weights, Sequence):
            why = f"a {type(weights).__name__} is no list of numbers"
        elif len(weights) != tasks or not all(map(_is_positive, weights)):
            why = f"each of the {tasks} tasks has a weight above 0"
        else:
            return
        raise ArgumentError(f"tune(..., weights={weights!r})", why, way_out)


def check_unknown(given: dict[str, Any]) -> None:
    """Refuse keyword arguments that :func:`whet.tune` does not have.

    Raises:
        ArgumentError: there is one; the text names the argument that is probably meant. It is a
            TypeError, too, as for any other function.
    """
    from difflib import get_close_matches

    known = [field.name for field in fields(TuneArguments)]
    for name in given.keys() - known:
        near = _WORDS.get(name) or next(iter(get_close_matches(name, known, n=1)), "")
        raise UnknownArgument(
            f"tune(..., {name}={given[name]!r})",
            f"there is no argument {name!r}" + (f"; did you mean {near}=?" if near else ""),
            f"arguments: {', '.join(known)}",
        )
