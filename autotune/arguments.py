"""What tune() refuses before it starts anything."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral
from typing import Any

from whet.autotune.search.early_stop import Limits
from whet.autotune.tasks.task import Task
from whet.compiler.errors import ArgumentError
from whet.search_spaces.values.counted import counted


def check_tasks(task: Any) -> tuple[list[Task], bool]:
    """The tasks of a call, and whether they were given as a sequence.

    Raises:
        ArgumentError: not a task, or a sequence without any.
    """
    many = isinstance(task, Sequence) and not isinstance(task, str | bytes)
    tasks = list(task) if many else [task]
    if not tasks:
        raise ArgumentError(
            f"tune({task!r})", "there is no task in it", "give a task, or a list of at least one"
        )
    for one in tasks:
        if not isinstance(one, Task):
            raise ArgumentError(
                f"tune({task!r})",
                f"a {type(one).__name__} is not a task",
                'make one: whet.create_task("matmul", args=(1024, 1024, 1024))',
            )
    return tasks, many


# Other tuners' words for arguments of whet.tune.
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


def check_unknown(given: dict[str, Any], known: Sequence[str]) -> None:
    """Refuse keyword arguments that :func:`whet.tune` does not have.

    Args:
        given: the unknown arguments.
        known: the arguments that it has.

    Raises:
        ArgumentError: there is one; the text names the argument that is probably meant. It is a
            TypeError, too, as for any other function.
    """
    from difflib import get_close_matches

    for name in given:
        near = _WORDS.get(name) or next(iter(get_close_matches(name, known, n=1)), "")
        raise UnknownArgument(
            f"tune(..., {name}={given[name]!r})",
            f"there is no argument {name!r}" + (f"; did you mean {near}=?" if near else ""),
            f"arguments: {', '.join(known)}",
        )


class UnknownArgument(ArgumentError, TypeError):
    """A keyword argument that a function does not have."""


def check_callbacks(asked: str, callbacks: Any) -> None:
    """Refuse callbacks that cannot be called.

    Args:
        asked: what is tuned, for the error's text.
        callbacks: of :func:`whet.tune`.

    Raises:
        ArgumentError: no sequence of functions.
    """
    if not isinstance(callbacks, Sequence) or not all(map(callable, callbacks)):
        raise ArgumentError(
            f"tune({asked}, callbacks={callbacks!r})",
            "callbacks are a list of functions of (task, trial)",
            "callbacks=[lambda task, trial: print(trial)]",
        )


def check_numbers(asked: str, trials: Any, seed: Any, options: Any, transfer: Any) -> None:
    """Refuse numbers and options that make no sense.

    Args:
        asked: what is tuned, for the error's text.
        trials: of :func:`whet.tune`, as are the others.
        seed: any integer from 0 on.
        options: None or ``MeasureOptions``.
        transfer: True or False.

    Raises:
        ArgumentError: one of them.
    """
    if not _is_whole(trials) or trials < 1:
        raise ArgumentError(
            f"tune({asked}, trials={trials!r})",
            "the number of trials must be an integer of at least 1",
            "it is the total in the log: trials=1 measures the default config only",
        )
    if not _is_whole(seed) or seed < 0:
        raise ArgumentError(
            f"tune({asked}, seed={seed!r})",
            "a seed is an integer of at least 0",
            "the same seed and costs give the same search: seed=0",
        )
    if not isinstance(transfer, bool):
        raise ArgumentError(
            f"tune({asked}, transfer={transfer!r})",
            f"a {type(transfer).__name__} was given",
            "True: learn from the log's other tasks; False: start from nothing",
        )
    if options is None:
        return
    from whet.measure import MeasureOptions

    if not isinstance(options, MeasureOptions):
        raise ArgumentError(
            f"tune({asked}, options={options!r})",
            f"a {type(options).__name__} was given",
            "give whet.MeasureOptions(run_timeout=..., repeat=..., ...)",
        )


def check_share(asked: str, trials: int, tasks: int) -> None:
    """Refuse a budget that leaves a task without a trial.

    Args:
        asked: what is tuned, for the error's text.
        trials: of :func:`whet.tune`.
        tasks: different tasks that share them.

    Raises:
        ArgumentError: there are fewer trials than tasks.
    """
    if trials < tasks:
        raise ArgumentError(
            f"tune({asked}, trials={trials})",
            f"{counted(trials, 'trial')} cannot be shared by {counted(tasks, 'task')}",
            f"give at least {tasks}: the first trial of each is its default config",
        )


def check_limits(asked: str, timeout: Any, target_cost: Any, early_stop: Any) -> Limits:
    """The limits of a call.

    Args:
        asked: what is tuned, for the error's text.
        timeout: of :func:`whet.tune`, as are the others.
        target_cost: seconds per call.
        early_stop: True, False or a number of trials.

    Raises:
        ArgumentError: one of them makes no sense.
    """
    if timeout is not None and not _is_positive(timeout):
        raise ArgumentError(
            f"tune({asked}, timeout={timeout!r})",
            "a timeout is a number of seconds above 0",
            "None: the search ends after its trials",
        )
    if target_cost is not None and not _is_positive(target_cost):
        raise ArgumentError(
            f"tune({asked}, target_cost={target_cost!r})",
            "a cost is a number of seconds per call above 0",
            "0.5 ms is target_cost=5e-4; None: search as long as there are trials",
        )
    if not isinstance(early_stop, bool) and not (_is_whole(early_stop) and early_stop >= 1):
        raise ArgumentError(
            f"tune({asked}, early_stop={early_stop!r})",
            "it is True, False or an integer of at least 1",
            "True: end when the expected gain is below the noise; 50: after 50 trials in vain",
        )
    seconds = None if timeout is None else float(timeout)
    target = None if target_cost is None else float(target_cost)
    return Limits(seconds, target, early_stop)


def check_weights(weights: Any, tasks: int, many: bool) -> list[float]:
    """A weight for each task; 1 where none were given.

    Raises:
        ArgumentError: not one positive number a task, or given for a task that is alone.
    """
    if weights is None:
        return [1.0] * tasks
    asked = f"tune(..., weights={weights!r})"
    if not many:
        raise ArgumentError(
            asked,
            "one task gets all trials whatever its weight",
            "give a list of tasks, or no weights",
        )
    if isinstance(weights, str) or not isinstance(weights, Sequence):
        raise ArgumentError(
            asked,
            f"a {type(weights).__name__} is no list of numbers",
            f"give {tasks} numbers above 0, e.g. how often each kernel is called",
        )
    if len(weights) != tasks or not all(map(_is_positive, weights)):
        raise ArgumentError(
            asked,
            f"each of the {tasks} tasks has a weight above 0",
            f"give {tasks} numbers, e.g. how often each kernel is called",
        )
    return [float(weight) for weight in weights]


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)  # numpy's, too


def _is_positive(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and value > 0
