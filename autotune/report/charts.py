"""The charts of one task: the search as it went, costs against knobs, the model, time, noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from whet.autotune.report.markup import Markup
from whet.autotune.report.plot import Plot
from whet.autotune.report.scales import Categories, Linear, Logarithmic, seconds
from whet.autotune.report.times import STAGES, Times
from whet.autotune.results.knob_values import Dimension, words
from whet.autotune.results.trial import rate_words
from whet.search_spaces.values.counted import counted, duration

if TYPE_CHECKING:
    from whet.autotune.report.model import Predictions
    from whet.autotune.results.recorded import TaskTrials
    from whet.db.values.records import TrialRecord

T = TypeVar("T")

SLOTS = 16
"""Choices of one knob that get a column of their own."""
BINS = 24


@dataclass(frozen=True)
class Room:
    """How much a plot may draw: many tasks share one page.

    Attributes:
        dots: points of one plot.
        tooltips: points of one plot with a tooltip.
    """

    dots: int
    tooltips: int

    @staticmethod
    def of(tasks: int) -> Room:
        """The room of each of so many tasks."""
        return Room(max(8000 // tasks, 250), max(300 // tasks, 15))

    def some(self, points: Sequence[T]) -> Sequence[T]:
        """Of points, those that get a tooltip."""
        return points[:: max(-(-len(points) // self.tooltips), 1)]

    def step(self, points: int) -> int:
        """Of every how many points one is drawn."""
        return max(-(-points // self.dots), 1)


def describe(trial: TrialRecord) -> str:
    """A trial in a tooltip."""
    if not trial.result.ok:
        return f"trial {trial.number}: {trial.result.status}\n{trial.config}"
    cost = ", ".join([duration(trial.cost), *rate_words(trial)])
    return f"trial {trial.number}: {cost}\n{trial.quality}\n{trial.config}"


def costs_scale(data: TaskTrials) -> Logarithmic:
    """The axis of the costs of successes; there is at least one."""
    costs = data.costs[np.isfinite(data.costs)]
    return Logarithmic(float(costs.min()), float(costs.max()), seconds)


def best_so_far(data: TaskTrials, by_time: bool, room: Room) -> Markup:
    """Each trial's cost, and the best until then; failures are crosses on the floor.

    Args:
        data: at least one success.
        by_time: against the time of search; False: against the trials in their order, from 0 on,
            as they are numbered.
        room: how much may be drawn.
    """
    y, costs = costs_scale(data), data.costs.tolist()
    at: Sequence[float] = data.elapsed if by_time else range(len(costs))
    end = max(at)
    x = Linear(0, end, seconds) if by_time else Linear(0, end, whole=True)
    label = "time of search" if by_time else "trials"
    plot = Plot(x, y, label, "cost, seconds per call", f"Cost of each trial against {label}")
    order = sorted(range(len(costs)), key=lambda i: (at[i], i))
    lowest, improved = float("inf"), []
    for i in order:
        if costs[i] < lowest:
            lowest = costs[i]
            improved.append(i)
    shown = order[:: room.step(len(order))]
    height = [c if c < float("inf") else y.low for c in costs]
    plot.dots((at[i], costs[i]) for i in shown if data.searched[i].result.ok)
    plot.dots(((at[i], y.low) for i in shown if not data.searched[i].result.ok), "cross")
    default = data.default.cost if data.default is not None else 0.0
    if y.low <= default <= y.high:
        plot.line([(0.0, default), (end, default)], "line default")
    plot.stairs([*((at[i], costs[i]) for i in improved), (end, lowest)])
    for i in room.some(shown):
        plot.tooltip((at[i], height[i]), describe(data.searched[i]))
    for i in improved:
        plot.tooltip((at[i], costs[i]), describe(data.searched[i]), "marker best")
    return plot.markup()


def against_knob(dimension: Dimension, data: TaskTrials, room: Room) -> tuple[Markup, str]:
    """Costs by what a knob was set to, and a word on what is left out ("" if nothing is).

    Each choice is a column: its trials beside each other, a box over the middle half of them, a
    line at their median; failures are crosses at the top.

    Args:
        dimension: the knob, or the part of one.
        data: at least one success.
        room: how much may be drawn.
    """
    said = [words(v) for v in dimension.distinct]
    cheapest = [data.costs[dimension.slots == i].min() for i in range(len(said))]
    kept, note = sorted(sorted(range(len(said)), key=cheapest.__getitem__)[:SLOTS]), ""
    if len(said) > SLOTS:
        note = f"the {SLOTS} of {len(said)} choices whose best trials are fastest"
    plot = Plot(
        Categories([said[i] for i in kept]), costs_scale(data), dimension.name, "cost",
        f"Cost against {dimension.name}", width=460, height=250,
    )  # fmt: skip
    step = room.step(len(data.searched))
    for place, i in enumerate(kept):
        _column(plot, place, said[i], data.costs[dimension.slots == i], step)
    if data.best_place is not None:
        place = kept.index(int(dimension.slots[data.best_place]))
        best = data.searched[data.best_place]
        plot.tooltip((place, best.cost), "the best\n" + describe(best), "marker best")
    return plot.markup(), note


def _column(plot: Plot, place: int, said: str, costs: np.ndarray, step: int) -> None:
    ok = costs[np.isfinite(costs)]
    # Beside each other by the golden ratio: even, and the same every time.
    aside = [((i * 0.618034) % 1 - 0.5) * 0.6 for i in range(len(costs))]
    shown = list(zip(aside, costs.tolist()))[::step]
    plot.dots((place + a, cost) for a, cost in shown if cost < float("inf"))
    top = plot.y.high  # type: ignore[union-attr]
    plot.dots(((place + a, top) for a, cost in shown if cost == float("inf")), "cross")
    text = f"{said}: {counted(len(costs), 'trial')}, {len(costs) - len(ok)} failed"
    if not len(ok):
        plot.bar((place - 0.4, top), (place + 0.4, top), text, "box")
        return
    low, middle, high = map(float, np.percentile(ok, (25, 50, 75)))
    text += f"\nbest {duration(float(ok.min()))}, median {duration(middle)}"
    plot.bar((place - 0.4, low), (place + 0.4, high), text, "box")
    plot.line([(place - 0.4, middle), (place + 0.4, middle)], "line median")


def importance(predictions: Predictions) -> Markup:
    """How much each knob matters to the predictions."""
    shares = list(predictions.importance.items())[:24][::-1]
    plot = Plot(
        Linear(0, max(max(v for _, v in shares), 0.05)), Categories([k for k, _ in shares]),
        "importance: share of the variance of log(cost)", "", "Importance of each knob",
        width=460, height=60 + 24 * len(shares),
    )  # fmt: skip
    for i, (knob, share) in enumerate(shares):
        plot.bar((0, i - 0.33), (share, i + 0.33), f"{knob}: {share:.3f}")
    return plot.markup()


def predicted_against_measured(
    predictions: Predictions, trials: Sequence[TrialRecord], room: Room
) -> Markup:
    """Each trial's predicted and measured cost; on the diagonal they are equal."""
    measured, predicted = predictions.measured.tolist(), predictions.predicted.tolist()
    low, high = min(measured + predicted), max(measured + predicted)
    x = Logarithmic(low, high, seconds)
    plot = Plot(
        x, x, "measured cost", "predicted cost", "Predicted against measured cost",
        width=460, height=400,
    )  # fmt: skip
    plot.line([(low, low), (high, high)], "line default")
    points = list(zip(measured, predicted, predictions.rows.tolist()))
    plot.dots((a, b) for a, b, _ in points[:: room.step(len(points))])
    for a, b, row in room.some(points):
        plot.tooltip((a, b), f"predicted {duration(b)}\n{describe(trials[row])}")
    return plot.markup()


def where_time_went(spent: Times) -> Markup:
    """One bar: the seconds of all trials by stage."""
    total = spent.total
    plot = Plot(
        Linear(0, sum(total.values()) or 1.0, seconds), Categories([""]), "seconds of all trials",
        "", "Where the time of the trials went", height=96,
    )  # fmt: skip
    begin = 0.0
    for stage in STAGES:
        end = begin + total[stage]
        if end > begin:
            text = f"{stage}: {duration(end - begin)}"
            plot.bar((begin, -0.4), (end, 0.4), text, f"bar {stage}")
        begin = end
    return plot.markup()


def noise(spreads: Sequence[float]) -> Markup:
    """How many trials had repeats that lay how far apart."""
    percent = np.asarray(spreads) * 100
    # The few worst would squeeze the others into one bar; they are counted in the last one.
    end = max(float(np.percentile(percent, 98)), 0.1)
    counts, edges = np.histogram(np.minimum(percent, end), bins=BINS, range=(0.0, end))
    plot = Plot(
        Linear(0, end, lambda v: f"{v:g} %"), Linear(0, int(counts.max()), whole=True, wanted=4),
        "spread of a trial's repeats: interquartile range over median", "trials",
        "Spread of the repeats", height=220,
    )  # fmt: skip
    for count, low, high in zip(counts.tolist(), edges[:-1].tolist(), edges[1:].tolist()):
        if count:
            more = " and more" if high == edges[-1] else ""
            text = f"{low:.2f} to {high:.2f} %{more}: {counted(count, 'trial')}"
            plot.bar((low, 0), (high, count), text)
    return plot.markup()
