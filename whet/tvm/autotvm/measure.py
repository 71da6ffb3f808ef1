"""``autotvm.measure``: who builds and who runs candidates, Whet's and users' own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ArgumentError
from whet.tvm.autotvm.values import BuildResult, MeasureErrorNo, MeasureInput, MeasureResult

if TYPE_CHECKING:
    from whet.autotune.tasks.task import Task

__all__ = [
    "BuildResult",
    "Builder",
    "LocalBuilder",
    "LocalRunner",
    "MeasureErrorNo",
    "MeasureInput",
    "MeasureResult",
    "Runner",
    "only",
]


class Builder(ABC):
    """Builds candidates; a subclass writes :meth:`build`.

    Args:
        timeout: seconds for one.
        n_parallel: candidates in one call; None: 1.
        build_kwargs: options that the subclass reads.
    """

    def __init__(
        self,
        timeout: float = 10,
        n_parallel: int | None = None,
        build_kwargs: dict[str, Any] | None = None,
    ) -> None:
        self.timeout = timeout
        self.n_parallel = n_parallel
        self.build_kwargs = build_kwargs or {}
        self.task: Task | None = None

    def set_task(self, task: Task, build_kwargs: dict[str, Any] | None = None) -> None:
        """Called before the first candidate of a task."""
        self.task = task
        self.build_kwargs = build_kwargs or self.build_kwargs

    @abstractmethod
    def build(self, measure_inputs: list[MeasureInput]) -> list[Any]:
        """A :class:`BuildResult` for each candidate, or a :class:`MeasureResult` of its failure.

        What a result names stays until the search ends: finalists are built once and run again
        in several rounds.
        """


class Runner(ABC):
    """Runs candidates; a subclass writes :meth:`run`.

    Args:
        timeout: seconds for one.
        n_parallel: candidates in one call; None: 1.
    """

    device: Any = None

    def __init__(self, timeout: float = 5, n_parallel: int | None = None) -> None:
        self.timeout = timeout
        self.n_parallel = n_parallel
        self.task: Task | None = None

    def set_task(self, task: Task) -> None:
        """Called before the first candidate of a task."""
        self.task = task

    def get_build_kwargs(self) -> dict[str, Any]:
        """Options for the builder."""
        return {}

    @abstractmethod
    def run(
        self, measure_inputs: list[MeasureInput], build_results: list[Any]
    ) -> list[MeasureResult]:
        """The result of each candidate, in order.

        Nobody else sees the numbers that a candidate computes: a runner that wants them right
        compares them itself, and gives ``MeasureErrorNo.WRONG_ANSWER`` where they are not.
        """


@dataclass
class LocalBuilder(Builder):
    """Processes of this machine that build candidates.

    Args:
        timeout: seconds for lowering and compiling one.
        n_parallel: how many build side by side; None: as many as :func:`whet.tune` starts.
        build_func: ``"default"``; the target says how a candidate is compiled.

    Raises:
        ArgumentError: another ``build_func``.
    """

    timeout: float = 10.0
    n_parallel: int | None = None
    build_func: str = "default"

    def __post_init__(self) -> None:
        only(self, "build_func", "default", "the target's kind says how a candidate is compiled")

    def set_task(self, task: Task, build_kwargs: dict[str, Any] | None = None) -> None:
        """Nothing of a task is kept."""

    def build(self, measure_inputs: list[MeasureInput]) -> list[Any]:
        """Build candidates in this process, for a runner of one's own; see :class:`Builder`."""
        from whet.tvm.autotvm.local import build

        return build(measure_inputs)


@dataclass
class LocalRunner(Runner):
    """How candidates are run and timed on this machine; None: as :class:`whet.MeasureOptions`.

    Args:
        timeout: seconds for loading, running and timing one candidate.
        number: calls in one repeat; None chooses it.
        repeat: the largest number of repeats.
        min_repeat_ms: milliseconds that one repeat should at least take; 0 is as None.
        cooldown_interval: 0; a candidate is timed when it is its turn.
        enable_cpu_cache_flush: False; kernels are timed warm.
        device: whose costs count, as ``device=`` of :func:`whet.tune`, beyond AutoTVM's arguments:
            ``"cuda:1"``, ``"cuda-emulator"``; None: this machine's for the target.

    Raises:
        ArgumentError: another value of the two before the last.
    """

    timeout: float = 10.0
    number: int | None = None
    repeat: int | None = None
    min_repeat_ms: float | None = None
    cooldown_interval: float = 0.0
    enable_cpu_cache_flush: bool = False
    device: Any = None

    def __post_init__(self) -> None:
        only(self, "cooldown_interval", 0.0, "candidates take turns with the default config")
        only(self, "enable_cpu_cache_flush", False, "kernels are timed with warm caches")

    def set_task(self, task: Task) -> None:
        """Nothing of a task is kept."""

    def run(
        self, measure_inputs: list[MeasureInput], build_results: list[Any]
    ) -> list[MeasureResult]:
        """Run libraries in this process, for a builder of one's own; see :class:`Runner`."""
        from whet.tvm.autotvm.local import run

        return run(measure_inputs, build_results, self)


def only(item: Any, name: str, legal: Any, why: str) -> None:
    """Refuse an argument of AutoTVM's whose other values mean nothing here.

    Raises:
        ArgumentError: the attribute ``name`` of ``item`` is not ``legal``.
    """
    if getattr(item, name) != legal:
        raise ArgumentError(
            f"{type(item).__name__}({name}={getattr(item, name)!r})",
            f"only {legal!r} can be given: {why}",
            f"leave {name} out",
        )
