"""tune(): find the fastest config of a task, record every trial, go on where a run stopped."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, Protocol, overload

from whet.autotune.arguments import TuneArguments, check_unknown
from whet.autotune.results.recorded import opened
from whet.autotune.results.result import TuneResult, TuneResults
from whet.autotune.session import Session
from whet.autotune.tasks.task import Task
from whet.measure.device.selection import select_devices
from whet.measure.pool.open import describe_remote_cpu, describe_remote_gpu

P = ParamSpec("P")


class Tune(Protocol[P]):
    """The type of :func:`tune`: one task has one result, several have several."""

    @overload
    def __call__(self, task: Task, *args: P.args, **kwargs: P.kwargs) -> TuneResult: ...

    @overload
    def __call__(self, task: Sequence[Task], *args: P.args, **kwargs: P.kwargs) -> TuneResults: ...


def _taking(
    arguments: Callable[Concatenate[Any, P], TuneArguments],
) -> Callable[[Callable[[TuneArguments], TuneResult | TuneResults]], Tune[P]]:
    """A function of arguments as one that takes and documents each of their fields."""

    def decorate(search: Callable[[TuneArguments], TuneResult | TuneResults]) -> Tune[P]:
        signature = inspect.signature(arguments)
        fields = (inspect.getdoc(arguments) or "").partition("Attributes:\n")[2]

        def function(*args: Any, **kwargs: Any) -> TuneResult | TuneResults:
            check_unknown(kwargs)
            signature.bind(*args, **kwargs)  # its TypeError speaks of no class
            return search(arguments(*args, **kwargs))

        face: Any = wraps(search)(function)
        face.__doc__ = (inspect.getdoc(search) or "").replace(
            "{arguments}", fields.partition("\n\n")[0]
        )
        face.__signature__ = signature.replace(
            return_annotation=inspect.signature(search).return_annotation
        )
        return face

    return decorate


@_taking(TuneArguments)
def tune(arguments: TuneArguments) -> TuneResult | TuneResults:
    """Search a task's space for the fastest program, and record every trial.

    Args:
    {arguments}

    Returns:
        The winner, measured once more, interleaved with the default config and the other
        finalists. It is the default config itself where nothing is faster beyond the noise. For a
        list of tasks, a :class:`TuneResults` of one result a task, in the order given; one that
        failed says why. For several kinds of devices, a :class:`TuneResults`, too, of one result
        for each task on each kind: the first task on all kinds, in the order given, then the next;
        ``result.device`` is the kind, ``result.task.target`` its target.

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
    tasks = arguments.tasks
    with ExitStack() as stack:
        places = select_devices(
            arguments.device,
            str(tasks[0].workload),
            [task.target for task in tasks],
            arguments.workers,
            partial(describe_remote_gpu, stack=stack),
            partial(describe_remote_cpu, stack=stack),
        )
        say = partial(print, file=sys.stderr, flush=True) if arguments.progress else None
        log = stack.enter_context(opened(arguments.log, write=True, waiting=say))
        session = Session(arguments, log, places)
        if session.complete:
            outcomes = session.results_from_log()
        else:
            log.check_writable(f"tune {arguments.name}: add trials")
            outcomes = session.run(arguments.workers)
    if not arguments.many and len(places) == 1:
        return outcomes[0]
    results: dict[Any, list[TuneResult]] = {}
    for entry, outcome in zip(session.entries, outcomes, strict=True):
        for asked in entry.asked:
            results.setdefault(asked, []).append(outcome)
    return TuneResults(one for task in tasks for one in results[arguments.identity(task)])
