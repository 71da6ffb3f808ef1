"""A search as an Optuna study that people can read: for its plots, its analyses, its dashboard.

The study that a sampler learns from has one index a knob, which says nothing on a plot. Here a
parameter is what was chosen: a split's sizes (outer to inner, but for the outermost, which follows
from the others) and other numbers as numbers, on a logarithmic axis where they span an order of
magnitude; everything else as words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from whet.autotune.results.failures import last_line
from whet.autotune.results.knob_values import Dimension, dimensions, words
from whet.autotune.results.recorded import find_tasks, opened, read_task
from whet.autotune.results.trial import Trial
from whet.compiler.errors import LogError

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

    from whet.db import TuningLog
    from whet.db.values.identity import Location
    from whet.search_spaces import Workload

WIDE = 8
"""From this ratio of the largest to the smallest number on, an axis is logarithmic."""


def study_of(trials: Iterable[Trial], name: str | None = None) -> optuna.Study:
    """A finished study of trials of one space, in memory.

    Args:
        trials: in order. Failures are FAIL (those that a check refused: PRUNED), without a value.
        name: the study's; None: one that Optuna makes up.

    Returns:
        A study to minimise seconds per call. Each trial's user attributes have its ``number`` in
        the search, ``config``, ``status``, ``gflops`` where known and the last line of its
        ``error``. A knob that was never changed is no parameter.
    """
    import optuna

    every = list(trials)
    shown = [d for d in dimensions([t.config for t in every]) if d.shown and len(d.distinct) > 1]
    axes = [(d.name, *_axis(d)) for d in shown]
    with _quiet():
        study = optuna.create_study(direction="minimize", study_name=name)
        study.add_trials([_frozen(trial, i, axes) for i, trial in enumerate(every)])
    return study


def study_from_log(
    log: TuningLog | Location,
    op: str | None = None,
    args: Sequence[Any] | None = None,
    workload: Workload | None = None,
) -> optuna.Study:
    """:func:`study_of` of what a log holds of one task.

    Args:
        log: a log, its path or its URL.
        op: the template; None: the log has one task only.
        args: what its arguments begin with; None: anything.
        workload: both of these as one value.

    Raises:
        LogError: the log cannot be read, or holds no such task, or several.
    """
    with opened(log, write=False) as tuning_log:
        tasks = find_tasks(tuning_log, op, args, workload)
        if len(tasks) > 1:
            held = "\n".join(f"  {t.workload} on {t.target.get('mcpu', '')}" for t in tasks)
            raise LogError(
                f"study of log {tuning_log.location}",
                f"{len(tasks)} tasks of it fit, and a study is of one",
                f"name one by op= and args=, or by workload=:\n{held}",
            )
        records = read_task(tuning_log, tasks[0]).searched
        return study_of(map(Trial.of, records), str(tasks[0].workload))


def _axis(dimension: Dimension) -> tuple[BaseDistribution, list[Any]]:
    """A parameter's distribution, and its value in each trial."""
    from optuna.distributions import (
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    if not dimension.numeric:
        said = [words(value) for value in dimension.values]
        return CategoricalDistribution(tuple(dict.fromkeys(map(words, dimension.distinct)))), said
    values: list[Any] = list(dimension.values)
    low, high = min(values), max(values)
    wide = low > 0 and high / low >= WIDE
    if all(isinstance(v, int) for v in values):
        return IntDistribution(low, high, log=wide), values
    return FloatDistribution(float(low), float(high), log=wide), [float(v) for v in values]


def _frozen(
    trial: Trial, place: int, axes: Sequence[tuple[str, BaseDistribution, list[Any]]]
) -> FrozenTrial:
    from optuna.trial import TrialState, create_trial

    result = trial.result
    attributes: dict[str, Any] = {
        "number": trial.number, "config": str(trial.config), "status": result.status
    }  # fmt: skip
    if trial.gflops:
        attributes["gflops"] = trial.gflops
    if result.error:
        attributes["error"] = last_line(result.error)
    failed = TrialState.PRUNED if result.status == "pruned" else TrialState.FAIL
    frozen = create_trial(
        state=TrialState.COMPLETE if result.ok else failed,
        value=result.cost if result.ok else None,
        params={name: values[place] for name, _, values in axes},
        distributions={name: axis for name, axis, _ in axes},
        user_attrs=attributes,
    )
    if result.timestamp:
        seconds = result.timings.get("total_s") or 0.0
        frozen.datetime_start = _moment(result.timestamp - seconds)
        frozen.datetime_complete = _moment(result.timestamp)
    return frozen


def _moment(stamp: float) -> datetime:
    """A moment as Optuna keeps it: UTC, and not saying so."""
    return datetime.fromtimestamp(stamp, UTC).replace(tzinfo=None)


@contextmanager
def _quiet() -> Iterator[None]:
    """Optuna says nothing of a study that is made only to be looked at."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
