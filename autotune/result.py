"""What a search found: the winner, the default it is compared with, and every trial."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import optuna

    from whet.autotune.task import Task
    from whet.measure.values import MeasureResult
    from whet.search_spaces import Config

FINISHED = "finished"
INTERRUPTED = "interrupted"
EXHAUSTED = "exhausted"


@dataclass(frozen=True)
class Trial:
    """One candidate and what came of it.

    Attributes:
        number: its place in the search; the default config is trial 0.
        config: the candidate.
        result: its measurement, or how it failed.
        flop: arithmetic operations of one call; 0 when unknown.
    """

    number: int
    config: Config
    result: MeasureResult
    flop: int = 0

    @property
    def cost(self) -> float:
        """Seconds per call; infinity for a failed candidate."""
        return self.result.cost

    @property
    def gflops(self) -> float:
        """10^9 arithmetic operations a second; 0 when unknown or failed."""
        return self.flop / self.cost * 1e-9 if self.result.ok and self.cost > 0 else 0.0

    @property
    def is_default(self) -> bool:
        """Whether this is the default config's trial: always number 0."""
        return self.number == 0

    def __str__(self) -> str:
        if not self.result.ok:
            return f"trial {self.number}: {self.result.status}  {self.config}"
        rate = f"  {self.gflops:.1f} GFLOP/s" if self.flop else ""
        return f"trial {self.number}: {duration(self.cost)}{rate}  {self.config}"


@dataclass(frozen=True)
class TuneResult:
    """The outcome of :func:`whet.tune`; ``print`` gives a summary.

    Attributes:
        task: what was tuned.
        best: the winner of the last, interleaved measurement; the default config where nothing
            beat it; None when the search was interrupted before anything worked.
        default: the default config, measured beside the winner; None as above.
        trials: all trials in order, as they were measured during the search.
        log: where they are recorded.
        state: ``"finished"``, ``"exhausted"`` (the space is smaller than the budget) or
            ``"interrupted"``.
        compared: whether best and default were measured again, interleaved with each other.
        peak: FLOP/s that one core can do at most; 0 when not measured.
    """

    task: Task
    best: Trial | None
    default: Trial | None
    trials: list[Trial] = field(repr=False)
    log: str = ""
    state: str = FINISHED
    compared: bool = True
    peak: float = 0.0

    @property
    def speedup(self) -> float:
        """How many times faster the winner is than the default config; NaN when unknown."""
        if self.best is None or self.default is None or not self.default.result.ok:
            return float("nan")
        return self.default.cost / self.best.cost

    @cached_property
    def study(self) -> optuna.Study:
        """The search as an Optuna study, for its plots and analyses (imports Optuna)."""
        from whet.autotune.study import study_of

        return study_of(self.task.config_space, self.trials)

    def outcomes(self) -> dict[str, int]:
        """How many trials ended with each status, the commonest first."""
        return dict(Counter(t.result.status for t in self.trials).most_common())

    def __str__(self) -> str:
        lines = [f"{self.task.workload}: {len(self.trials)} trials, {self.state}"]
        failed = {k: n for k, n in self.outcomes().items() if k != "ok"}
        if failed:
            lines.append("  failed   " + ", ".join(f"{n} {k}" for k, n in failed.items()))
        if self.default is not None:
            lines.append(f"  default  {self._line(self.default)}")
        if self.best is None:
            lines.append("  best     none: nothing worked yet")
        else:
            lines.append(f"  best     {self._line(self.best)}")
            lines.append(f"  config   {self.best.config}")
            if self.speedup == self.speedup:
                how = "" if self.compared else " (as measured during the search)"
                lines.append(f"  speed-up {self.speedup:.2f}x over the default config{how}")
        if self.log:
            lines.append(f"  log      {self.log}")
        return "\n".join(lines)

    def _line(self, trial: Trial) -> str:
        if not trial.result.ok:
            return f"failed: {trial.result.status}"
        text = duration(trial.cost)
        if trial.flop:
            text += f"  {trial.gflops:.1f} GFLOP/s"
            if self.peak:
                text += f"  {trial.gflops * 1e9 / self.peak:.0%} of one core's FMA peak"
        return text + f"  (trial {trial.number})"


def duration(seconds: float) -> str:
    """A time for people: three digits and the unit that suits it."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
