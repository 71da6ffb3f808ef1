"""AutoTVM's candidates and results, and how they are Whet's."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from whet.measure.values import MeasureResult as Measured

if TYPE_CHECKING:
    from whet.autotune.tasks.task import Task
    from whet.compiler.target import Target
    from whet.search_spaces import Config


class MeasureErrorNo(IntEnum):
    """How a trial ended."""

    NO_ERROR = 0
    INSTANTIATION_ERROR = 1
    COMPILE_HOST = 2
    COMPILE_DEVICE = 3
    RUNTIME_DEVICE = 4
    WRONG_ANSWER = 5
    BUILD_TIMEOUT = 6
    RUN_TIMEOUT = 7
    UNKNOWN_ERROR = 8


_STATUS = {
    MeasureErrorNo.INSTANTIATION_ERROR: ("lower_error", "build"),
    MeasureErrorNo.COMPILE_HOST: ("build_error", "build"),
    MeasureErrorNo.COMPILE_DEVICE: ("build_error", "build"),
    MeasureErrorNo.RUNTIME_DEVICE: ("run_error", "run"),
    MeasureErrorNo.WRONG_ANSWER: ("wrong_answer", "check"),
    MeasureErrorNo.BUILD_TIMEOUT: ("build_timeout", "build"),
    MeasureErrorNo.RUN_TIMEOUT: ("run_timeout", "run"),
    MeasureErrorNo.UNKNOWN_ERROR: ("run_error", "run"),
}
_NUMBER = {status: number for number, (status, _) in reversed(_STATUS.items())} | {
    "pruned": MeasureErrorNo.INSTANTIATION_ERROR,
    "build_crash": MeasureErrorNo.COMPILE_HOST,
    "run_crash": MeasureErrorNo.RUNTIME_DEVICE,
    "run_error": MeasureErrorNo.RUNTIME_DEVICE,
    "out_of_memory": MeasureErrorNo.RUNTIME_DEVICE,
    "infra_error": MeasureErrorNo.UNKNOWN_ERROR,
}


class MeasureInput(NamedTuple):
    """One candidate: what to compile for, the task, the config."""

    target: Target
    task: Task
    config: Config


class MeasureResult(NamedTuple):
    """The result of one candidate.

    Attributes:
        costs: seconds per call, one entry a repeat; of a failure, its error.
        error_no: a :class:`MeasureErrorNo`.
        all_cost: seconds from the first step to the result.
        timestamp: seconds since the epoch at the end.
    """

    costs: tuple[Any, ...]
    error_no: int
    all_cost: float
    timestamp: float


class BuildResult(NamedTuple):
    """A candidate that was built: where its library is, and what it takes.

    Attributes:
        filename: of the library.
        arg_info: shape and dtype of each argument.
        error: None, or what went wrong.
        time_cost: seconds that the build took.
    """

    filename: str
    arg_info: Sequence[tuple[tuple[int, ...], str]]
    error: Exception | None
    time_cost: float


def theirs(result: Measured) -> MeasureResult:
    """A result in AutoTVM's form."""
    spent = result.timings.get("total_s", 0.0)
    if result.ok:
        return MeasureResult(result.costs, MeasureErrorNo.NO_ERROR, spent, result.timestamp)
    return MeasureResult((result.error,), _NUMBER[result.status], spent, result.timestamp)


def ours(result: MeasureResult) -> Measured:
    """A result of AutoTVM's form as the log keeps it."""
    timings, when = {"total_s": float(result.all_cost)}, float(result.timestamp)
    if result.error_no == MeasureErrorNo.NO_ERROR:
        costs = tuple(map(float, result.costs))
        return Measured("ok", costs, timings=timings, timestamp=when)
    status, stage = _STATUS[MeasureErrorNo(result.error_no)]
    said = "; ".join(map(str, result.costs)) or MeasureErrorNo(result.error_no).name
    return Measured(status, (), said, stage, "", timings, timestamp=when)
