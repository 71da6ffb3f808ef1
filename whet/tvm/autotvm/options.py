"""``autotvm.measure_option`` and its builder and runner: AutoTVM's names for MeasureOptions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ArgumentError
from whet.tvm.autotvm.measure import Builder, LocalBuilder, LocalRunner, Runner

if TYPE_CHECKING:
    from whet.autotune.tasks.task import Task
    from whet.measure import MeasureOptions, Pool


@dataclass(frozen=True)
class MeasureOption:
    """The result of :func:`measure_option`: who builds, who runs."""

    builder: Builder = field(default_factory=LocalBuilder)
    runner: Runner = field(default_factory=LocalRunner)

    @property
    def isolated(self) -> bool:
        """Whether both are Whet's own: candidates are built and run in processes apart."""
        return type(self.builder) is LocalBuilder and type(self.runner) is LocalRunner

    def workers(self, task: Task) -> int | Pool | None:
        """``workers=`` of :func:`whet.tune`: a number, or a pool of the user's own two."""
        from whet.tvm.autotvm.batch_pool import BatchPool, MeasureBatch

        if self.isolated:
            return self.builder.n_parallel
        return BatchPool(MeasureBatch(task, self.builder, self.runner))

    @property
    def options(self) -> MeasureOptions:
        """``options=`` of :func:`whet.tune`; ArgumentError where a number is out of range."""
        from whet.measure import MeasureOptions

        runner = self.runner
        if not isinstance(runner, LocalRunner):
            return MeasureOptions(
                build_timeout=self.builder.timeout, run_timeout=runner.timeout, check=False
            )
        given: dict[str, Any] = {
            "number": runner.number,
            "repeat": runner.repeat,
            "min_repeat_ms": runner.min_repeat_ms or None,
        }
        given = {name: value for name, value in given.items() if value is not None}
        if runner.repeat is not None:
            given["min_repeats"] = min(runner.repeat, MeasureOptions.min_repeats)
        return MeasureOptions(
            build_timeout=self.builder.timeout, run_timeout=runner.timeout, **given
        )


def measure_option(
    builder: Builder | str = "local", runner: Runner | str = "local"
) -> MeasureOption:
    """Who builds and who runs a tuner's candidates.

    Args:
        builder: a :class:`LocalBuilder` (``"local"``: one with its defaults), or a subclass of
            ``autotvm.measure.Builder`` of your own, which builds in this process.
        runner: a :class:`LocalRunner` (``"local"``: one with its defaults), or a subclass of
            ``autotvm.measure.Runner`` of your own, which runs in this process.

    Raises:
        ArgumentError: something else.
    """
    made = LocalBuilder() if builder == "local" else builder
    runs = LocalRunner() if runner == "local" else runner
    if not isinstance(made, Builder) or not isinstance(runs, Runner):
        raise ArgumentError(
            f"measure_option({builder!r}, {runner!r})",
            "a builder and a runner are needed: LocalBuilder, LocalRunner, or your own",
            "other machines measure with whet.tune(task, workers='ray://host:port')",
        )
    return MeasureOption(made, runs)
