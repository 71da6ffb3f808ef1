"""``autotvm.measure_option`` and its builder and runner: AutoTVM's names for MeasureOptions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ArgumentError

if TYPE_CHECKING:
    from whet.measure import MeasureOptions


@dataclass(frozen=True)
class LocalBuilder:
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


@dataclass(frozen=True)
class LocalRunner:
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


@dataclass(frozen=True)
class MeasureOption:
    """The result of :func:`measure_option`: who builds, who runs."""

    builder: LocalBuilder = field(default_factory=LocalBuilder)
    runner: LocalRunner = field(default_factory=LocalRunner)

    @property
    def workers(self) -> int | None:
        """``workers=`` of :func:`whet.tune`."""
        return self.builder.n_parallel

    @property
    def options(self) -> MeasureOptions:
        """``options=`` of :func:`whet.tune`; ArgumentError where a number is out of range."""
        from whet.measure import MeasureOptions

        runner = self.runner
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
    builder: LocalBuilder | str = "local", runner: LocalRunner | str = "local"
) -> MeasureOption:
    """Who builds and who runs a tuner's candidates.

    Args:
        builder: a :class:`LocalBuilder`; ``"local"``: one with its defaults.
        runner: a :class:`LocalRunner`; ``"local"``: one with its defaults.

    Raises:
        ArgumentError: something else.
    """
    made = LocalBuilder() if builder == "local" else builder
    runs = LocalRunner() if runner == "local" else runner
    if not isinstance(made, LocalBuilder) or not isinstance(runs, LocalRunner):
        raise ArgumentError(
            f"measure_option({builder!r}, {runner!r})",
            "a LocalBuilder and a LocalRunner are needed",
            "other machines measure with whet.tune(task, workers='ray://host:port')",
        )
    return MeasureOption(made, runs)


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
