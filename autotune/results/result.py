"""The result of a search: the winner, the default it is compared with, and every trial."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from whet.autotune.results.logged_trials import LoggedTrials
from whet.autotune.results.trial import Trial, rate_words
from whet.autotune.results.unchecked import unchecked_words
from whet.db.values.quality import quality_words
from whet.measure.stage.load import busy_words
from whet.measure.values import OK, PRUNED
from whet.search_spaces.values.counted import counted, duration

if TYPE_CHECKING:
    import optuna
    import pandas

    from whet.autotune.tasks.task import Task
    from whet.measure.values import MeasureResult

FINISHED = "finished"
INTERRUPTED = "interrupted"
EXHAUSTED = "exhausted"
STOPPED = "stopped"
FAILED = "failed"


@dataclass(frozen=True, repr=False)
class TuneResult:
    """The outcome of :func:`whet.tune`; ``print`` gives a summary.

    Attributes:
        task: what was tuned.
        best: the winner of the last, interleaved measurement; the default config where nothing
            is faster for certain; None when the search ended before anything worked.
        default: the default config, measured beside the winner; None as above.
        trials: all trials in order, as they were measured during the search: a sequence, which
            reads them from the log when it is asked for them, where they are more than some
            thousands.
        log: where they are recorded.
        state: ``"finished"``, ``"stopped"`` (before its number of trials, for the reason in
            ``stopped``), ``"exhausted"`` (the space is smaller than the budget),
            ``"failed"`` (one of many tasks; ``stopped`` says why), or ``"interrupted"``, which is
            only ever printed: on Ctrl-C ``tune`` raises ``KeyboardInterrupt``, on SIGTERM
            ``SystemExit``.
        compared: whether best and default were measured again, interleaved with each other.
        peak: FLOP/s that one core can do at most; 0 when not measured.
        speedup_interval: where the true speed-up lies with at least 95 % confidence, from the
            paired rounds of the last measurement; None where there were too few of them.
        better: whether the winner is faster than the default beyond the noise; False: nothing is,
            and ``best`` is the default.
        stopped: why the search ended early; "" where it did not.
        seconds: where the time of this call went: ``wall``; ``idle``, the part of it in which no
            candidate was being built or measured: what searching costs; of the searching process
            ``propose``, ``features``, ``log``, ``waiting`` (for workers), ``start`` and
            ``finalists``; of the workers ``build`` and ``measure``. With many tasks ``wall``,
            ``idle`` and ``waiting`` are shared out by the trials.
        device: the kind of device, where the search had several; else "".
    """

    task: Task
    best: Trial | None
    default: Trial | None
    trials: Sequence[Trial]
    log: str = ""
    state: str = FINISHED
    compared: bool = True
    peak: float = 0.0
    speedup_interval: tuple[float, float] | None = None
    better: bool = True
    stopped: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    device: str = ""

    @property
    def name(self) -> str:
        """The workload, with the kind of device where there were several."""
        return f"{self.task.workload} on {self.device}" if self.device else str(self.task.workload)

    @property
    def speedup(self) -> float:
        """How many times faster the winner is than the default config; NaN when unknown."""
        if self.best is None or self.default is None or not self.default.result.ok:
            return float("nan")
        return self.default.cost / self.best.cost

    @property
    def predicted(self) -> str:
        """The GPU whose model predicted the costs; "" where they were measured."""
        return self.best.result.predicted if self.best is not None else ""

    @property
    def busy(self) -> str:
        """That others used the machine while the best or the default was measured, with the load
        that says so; "" where nothing does."""
        for trial in (self.best, self.default):
            if trial is not None and trial.result.ok:
                rounds = trial.result.costs if self.compared else ()
                if said := busy_words(trial.result.environment, rounds):
                    return said
        return ""

    @cached_property
    def study(self) -> optuna.Study:
        """The search as an Optuna study, for its plots and its dashboard (imports Optuna).

        Its parameters are what was chosen: see :func:`whet.autotune.results.optuna_view.study_of`.
        """
        from whet.autotune.results.optuna_view import study_of

        return study_of(self.trials, str(self.task.workload))

    def trials_dataframe(self) -> pandas.DataFrame:
        """One row a trial, one column a knob.

        See :func:`whet.autotune.results.dataframe.trials_dataframe`.

        Raises:
            ArgumentError: pandas is not installed.
        """
        from whet.autotune.results.dataframe import trials_dataframe

        return trials_dataframe(self.trials)

    def outcomes(self) -> dict[str, int]:
        """How many trials ended with each status, the commonest first."""
        if isinstance(self.trials, LoggedTrials):
            return dict(self.trials.outcomes().most_common())
        return dict(Counter(t.result.status for t in self.trials).most_common())

    def __str__(self) -> str:
        why = f": {self.stopped}" if self.stopped else ""
        lines = [f"{self.name}: {counted(len(self.trials), 'trial')}, {self.state}{why}"]
        outcomes = self.outcomes()
        failed = {k: n for k, n in outcomes.items() if k not in (OK, PRUNED)}
        if failed:
            lines.append("  failed   " + ", ".join(f"{n} {k}" for k, n in failed.items()))
            lines += self._failures()
        if PRUNED in outcomes:
            why = pruned_words(t.result for t in self.trials)
            said = f"  pruned   {outcomes[PRUNED]}, refused by a static check, never run"
            lines.append(f"{said}: {why}" if why else said)
        if self.default is not None:
            lines += self._lines("default", self.default)
        if self.best is None:
            lines.append("  best     none: nothing worked yet")
        else:
            lines += self._lines("best", self.best)
            lines.append(f"  config   {self.best.config}")
            if not math.isnan(self.speedup):
                lines.append(f"  speed-up {self._speedup_text()}")
        if self.predicted:
            if unchecked := unchecked_words(t.result for t in self.trials):
                lines.append(f"  note     {unchecked}")
        elif self.busy and self.compared:
            lines.append(
                "  note     default and best were measured once more, in turns: their times may be "
                "above those of the search"
            )
        if self.log:
            goes_on = ", from which the same call goes on" if self.state == INTERRUPTED else ""
            lines.append(f"  log      {self.log}{goes_on}")
        return "\n".join(lines)

    def _failures(self) -> list[str]:
        from whet.autotune.results.failures import summary_lines

        lines = [f"           {line}" for line in summary_lines(self.trials)]
        if self.log:
            lines.append(
                f"           all texts: whet report {self.log}; whet best {self.log} --errors"
            )
        return lines

    def __repr__(self) -> str:
        said = "nothing worked" if self.best is None else f"best {duration(self.best.cost)}"
        if self.best is not None and not math.isnan(self.speedup):
            said += f", {self.speedup:.2f}x"
        trials = counted(len(self.trials), "trial")
        return f"<TuneResult {self.name}: {trials}, {self.state}, {said}>"

    def _speedup_text(self) -> str:
        if not self.better:
            return "none: no config is faster than the default beyond the noise"
        if self.best is not None and self.best.is_default and self.speedup == 1:
            return "none: the default config is the best so far"
        text = f"{self.speedup:.2f}x over the default config"
        if self.predicted:
            return text + " (predicted)"
        if self.busy:
            text += ", uncertain: the machine was busy"
        if not self.compared:
            return text + ", not compared in turns"
        if self.speedup_interval is None:
            return text
        low, high = self.speedup_interval
        if self.busy:
            return f"{text}; with 95 % confidence the true one is from {low:.2f}x to {high:.2f}x"
        return f"{text}  (95 %: {low:.2f}x to {high:.2f}x)"

    def _lines(self, name: str, trial: Trial) -> list[str]:
        """A trial's cost, and below it how good that cost is."""
        words = quality_words(trial.result, self.compared)
        return [f"  {name:8} {self._line(trial)}", *([f"           {words}"] if words else [])]

    def _line(self, trial: Trial) -> str:
        if not trial.result.ok:
            return f"{'' if trial.result.pruned else 'failed: '}{trial.result.status}"
        words = [duration(trial.cost), *rate_words(trial, self.peak), f"(trial {trial.number})"]
        return "  ".join(words)


class TuneResults(tuple[TuneResult, ...]):
    """The outcomes of :func:`whet.tune` for many tasks, in the order given; ``print`` sums up."""

    def __new__(cls, results: Iterable[TuneResult]) -> TuneResults:
        return super().__new__(cls, results)

    def __str__(self) -> str:
        return "\n".join(map(str, self))


def pruned_words(results: Iterable[MeasureResult]) -> str:
    """How many static checks refused for what, e.g. ``"7 registers, 2 alignment"``; "" where no
    record says."""
    reasons = Counter(r.pruned_for for r in results if r.pruned_for)
    return ", ".join(f"{n} {why}" for why, n in reasons.most_common())
