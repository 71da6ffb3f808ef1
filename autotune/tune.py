"""tune(): find the fastest config of a task, record every trial, go on where a run stopped."""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, overload

from whet.autotune.arguments import (
    check_callbacks,
    check_limits,
    check_numbers,
    check_share,
    check_tasks,
    check_unknown,
    check_weights,
)
from whet.autotune.loading import refuse_search
from whet.autotune.results.recorded import opened
from whet.autotune.results.result import TuneResult, TuneResults
from whet.autotune.samplers import check_sampler
from whet.autotune.session import Session
from whet.autotune.tasks.task import Task
from whet.compiler.errors import ArgumentError
from whet.measure.device.selection import select_device
from whet.measure.pool.open import check_workers, describe_remote_gpu

if TYPE_CHECKING:
    import optuna

    from whet.autotune.session import Callback
    from whet.compiler.runtime.arrays.device import Device as RuntimeDevice
    from whet.db import TuningLog
    from whet.measure import MeasureOptions, Pool
    from whet.measure.device.names import Device


@overload
def tune(
    task: Task,
    trials: int = ...,
    log: TuningLog | str | os.PathLike[str] = ...,
    sampler: str | optuna.samplers.BaseSampler = ...,
    workers: int | str | Pool | None = ...,
    device: Device | RuntimeDevice | str | Sequence[RuntimeDevice | str] | None = ...,
    seed: int = ...,
    progress: bool = ...,
    options: MeasureOptions | None = ...,
    *,
    timeout: float | None = ...,
    target_cost: float | None = ...,
    early_stop: bool | int = ...,
    transfer: bool = ...,
    weights: None = ...,
    callbacks: Sequence[Callback] = ...,
) -> TuneResult: ...


@overload
def tune(
    task: Sequence[Task],
    trials: int = ...,
    log: TuningLog | str | os.PathLike[str] = ...,
    sampler: str | optuna.samplers.BaseSampler = ...,
    workers: int | str | Pool | None = ...,
    device: Device | RuntimeDevice | str | Sequence[RuntimeDevice | str] | None = ...,
    seed: int = ...,
    progress: bool = ...,
    options: MeasureOptions | None = ...,
    *,
    timeout: float | None = ...,
    target_cost: float | None = ...,
    early_stop: bool | int = ...,
    transfer: bool = ...,
    weights: Sequence[float] | None = ...,
    callbacks: Sequence[Callback] = ...,
) -> TuneResults: ...


def tune(
    task: Task | Sequence[Task],
    trials: int = 500,
    log: TuningLog | str | os.PathLike[str] = "whet.db",
    sampler: str | optuna.samplers.BaseSampler = "xgb",
    workers: int | str | Pool | None = None,
    device: Device | RuntimeDevice | str | Sequence[RuntimeDevice | str] | None = None,
    seed: int = 0,
    progress: bool = True,
    options: MeasureOptions | None = None,
    *,
    timeout: float | None = None,
    target_cost: float | None = None,
    early_stop: bool | int = False,
    transfer: bool = True,
    weights: Sequence[float] | None = None,
    callbacks: Sequence[Callback] = (),
    **unknown: Any,
) -> TuneResult | TuneResults:
    """Search a task's space for the fastest program, and record every trial.

    Args:
        task: from :func:`create_task`; or a list of tasks, which share workers and trials: the next
            ones go where they are expected to save most. Equal tasks are tuned once.
        trials: how many trials the log shall hold in the end for this workload, target, device
            and space; of many tasks, all together. A finished search returns at once; a larger
            number goes on.
        log: a file, a database's URL or an open log; a trial is in it before the next is proposed.
        sampler: a name of :data:`whet.autotune.SAMPLERS`, or an Optuna sampler.
        workers: None or a number of builders on this machine, ``"ray"``, ``"ray://host:port"``, or
            a pool.
        device: what candidates are measured on; None: this machine's device for the target, its
            processor or its first GPU (on Ray, every free GPU of the cluster). ``whet.cuda(1)`` or
            ``"cuda:1"`` is another GPU; ``["cuda:0", "cuda:1"]`` or ``"cuda:0,cuda:1"`` are
            several of one kind, ``"cuda:*"`` all of this machine's: each has a worker and takes
            the next candidate. ``"cuda-emulator"`` needs none: candidates run there for their
            numbers, and costs are predicted by a model, on record as such and as another device's.
            Or the fingerprint of another machine, for its records.
        seed: same seed and same costs: same proposals, whoever finishes first, and also when the
            search was stopped in between, after whatever trial, or had fewer ``trials`` at first
            (an Optuna sampler that you made excepted). Workers count in three sizes: pools with
            up to 4, up to 8 and more candidates in flight make three different searches.
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

    Returns:
        The winner, measured once more, interleaved with the default config and the other
        finalists. It is the default config itself where nothing is faster beyond the noise. For a
        list of tasks, a :class:`TuneResults` of one result a task, in the order given; one that
        failed says why.

    Raises:
        ArgumentError: an argument makes no sense.
        LogError: the log cannot be opened or written.
        MeasureError: every candidate failed, or the workers cannot be had.
        SpaceError: the space has no valid config, or one of its constraints raises.
        TargetError: this machine has no GPU that can run the target's kernels.
        KeyboardInterrupt: Ctrl-C; what was measured is in the log, and the summary is printed on
            standard error.
        SystemExit: the same on SIGTERM, with exit code 143; only in the main thread, and only
            where the process has no handler of its own for it.
    """
    check_unknown(unknown, [p for p in inspect.signature(tune).parameters if p != "unknown"])
    tasks, many = check_tasks(task)
    refuse_search()
    asked = str(tasks[0].workload) if not many else f"[{len(tasks)} tasks]"
    check_numbers(asked, trials, seed, options, transfer)
    trials, seed = int(trials), int(seed)
    sampler_name = _check_sampler(sampler, many)
    limits = check_limits(asked, timeout, target_cost, early_stop)
    given = check_weights(weights, len(tasks), many)
    check_callbacks(asked, callbacks)
    check_workers(workers)
    once = _once(tasks, given)
    check_share(asked, trials, len(once))
    with ExitStack() as stack:
        targets = [one.target for one in tasks]
        remote = partial(describe_remote_gpu, stack=stack)
        place = select_device(device, str(tasks[0].workload), targets, workers, remote)
        tuning_log = stack.enter_context(opened(log, write=True))
        session = Session(
            [one for one, _ in once.values()],
            [weight for _, weight in once.values()],
            trials,
            tuning_log,
            place,
            sampler,
            sampler_name,
            seed,
            limits,
            transfer,
            options,
            progress,
            callbacks,
        )
        if session.complete:
            found = session.results_from_log()
        else:
            tuning_log.check_writable(f"tune {asked}: add trials")
            found = session.run(workers)
    results = dict(zip(once, found, strict=True))
    return TuneResults(results[_identity(one)] for one in tasks) if many else found[0]


def _identity(task: Task) -> tuple[str, str]:
    return task.key, task.level


def _once(tasks: list[Task], weights: list[float]) -> dict[tuple[str, str], tuple[Task, float]]:
    """Each task once, with the weights of its equals added up."""
    once: dict[tuple[str, str], tuple[Task, float]] = {}
    for task, weight in zip(tasks, weights):
        first, before = once.get(_identity(task), (task, 0.0))
        once[_identity(task)] = first, before + weight
    return once


def _check_sampler(sampler: Any, many: bool) -> str:
    """The sampler's name; refuses one that would have to learn several spaces at once."""
    name = check_sampler(sampler)
    if many and not isinstance(sampler, str):
        raise ArgumentError(
            f"tune([...], sampler={name}(...))",
            "one sampler cannot search the spaces of several tasks: what it learns of one would "
            "be wrong of the next",
            "give a sampler's name, which makes one for each task",
        )
    return name
