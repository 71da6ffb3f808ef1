"""The parts of a task's report that draw: the search, knobs, failures, the model, time, noise."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from whet.autotune.report import charts
from whet.autotune.report.charts import Room
from whet.autotune.report.markup import Markup, tag
from whet.autotune.report.model import FEWEST, Predictions, cross_validate
from whet.autotune.report.scales import seconds
from whet.autotune.report.times import MEANS, times
from whet.autotune.report.words import figure, folded, soft, table
from whet.autotune.results.failures import Kind, excerpt, failures
from whet.autotune.results.knob_values import Dimension, encode, words
from whet.autotune.results.result import pruned_words
from whet.measure.stage.timing import spread
from whet.measure.values import PRUNED
from whet.search_spaces.values.counted import counted, duration

if TYPE_CHECKING:
    from whet.autotune.results.recorded import TaskTrials

FEWEST_REPEATS = 3
"""Repeats below which a spread says nothing."""
TYPICAL = (np.mean, np.median, partial(np.percentile, q=95), np.max)
"""A stage's seconds in one number each."""


def search(data: TaskTrials, room: Room) -> list[Markup]:
    """The best so far, against trials and against time."""
    if not data.ok:
        return [tag("h3", "The search"), tag("p", "No trial worked: see the failures below.")]
    caption = (
        "Dots: trials; orange: the best so far; crosses on the floor: failures; dashed: the "
        "default config. " + drawn(len(data.searched), room)
    )
    return [
        tag("h3", "The search"),
        tag(
            "div",
            figure(charts.best_so_far(data, False, room)),
            figure(charts.best_so_far(data, True, room)),
        ),
        soft(caption),
    ]


def drawn(trials: int, room: Room) -> str:
    """A sentence on the trials that a plot leaves out."""
    step = room.step(trials)
    return f"One in {step} of {trials:,} trials is drawn." if step > 1 else ""


def knobs(data: TaskTrials, dimensions: list[Dimension], room: Room) -> list[Markup]:
    """Costs against each knob."""
    if not data.ok or not dimensions:
        return []
    shown = [d for d in dimensions if d.shown and len(d.distinct) > 1]
    fixed = [d for d in dimensions if len(d.distinct) == 1]
    share = Room(max(room.dots // 4, 200), room.tooltips)
    plots = []
    for dimension in shown:
        drawing, note = charts.against_knob(dimension, data, share)
        plots.append(figure(drawing, note))
    text = (
        "A column for each choice: trials, a box over the middle half of them, a line at their "
        "median; crosses at the top are failures, orange is the best config. Of a split, sizes "
        "count from the outside; the outermost follows from the others. "
    ) + drawn(len(data.searched), share)
    said = ", ".join(f"{d.name}={words(d.values[0])}" for d in fixed)
    return [
        tag("h3", "Cost against knobs"),
        soft(text),
        tag("div", plots, class_="pair"),
        *([soft(f"Always the same: {said}")] if fixed else []),
    ]


def predictions(data: TaskTrials, dimensions: list[Dimension]) -> Predictions | None:
    """A cost model's predictions of the successes, each from the others."""
    owners, features = encode(dimensions)
    return cross_validate(data.costs, features, owners, data.loops)


def model(data: TaskTrials, predicted: Predictions | None, room: Room) -> list[Markup]:
    """Importance of the knobs, and predicted against measured."""
    head = tag("h3", "What a cost model learns from these trials")
    if predicted is None:
        why = (
            f"Nothing: it needs at least {FEWEST} successes of different cost and a knob that "
            f"differs; there are {counted(len(data.ok), 'success', 'successes')}."
        )
        return [head, tag("p", why)]
    seen = "knobs and loops" if data.loops is not None else "knobs"
    rows = f"{len(predicted.rows):,} successes" + (", a sample" if predicted.sampled else "")
    text = (
        f"Each success is predicted by a model that was fitted to others' {seen} ({rows}): rank "
        f"correlation (Spearman) {predicted.spearman:.2f}; half of the predictions are within a "
        f"factor of {predicted.typical_error:.2f}."
    )
    method = (
        "Permutation importance: the share of the variance of log(cost) that the predictions from "
        "the knobs lose when one knob's choices are shuffled among the trials; near 0, it does not "
        "matter to what was tried."
    )
    return [
        head,
        tag("p", text),
        tag(
            "div",
            figure(charts.importance(predicted), method),
            figure(charts.predicted_against_measured(predicted, data.searched, room)),
            class_="pair",
        ),
    ]


def failed(data: TaskTrials) -> list[Markup]:
    """The failures by kind, with example texts; what was pruned after them."""
    kinds = failures(data.searched)
    every = failures(data.searched, pruned=True)
    pruned = [kind for kind in every if kind.status == PRUNED]
    parts: list[Markup] = [tag("h3", "Failures")]
    if kinds:
        rows = [
            (kind.status, f"{kind.count:,}", f"{kind.count / len(data.searched):.1%}")
            for kind in kinds
        ]
        parts.append(table(("status", "trials", "of all"), rows, {1, 2}))
    else:
        parts.append(tag("p", "None."))
    parts += [_kind(kind) for kind in kinds]
    for kind in pruned:
        why = pruned_words(t.result for t in data.searched)
        said = f"{counted(kind.count, 'candidate')} refused by a static check, never run"
        said += f": {why}." if why else "."
        parts += [tag("h3", "Pruned"), tag("p", said), _kind(kind)]
    return parts


def _kind(kind: Kind) -> Markup:
    examples = [
        folded(
            [f"{kind.status}, {sort.count:,} like this: ", tag("code", sort.says or "(no text)")],
            tag("p", f"trial {sort.example.number}: ", tag("code", str(sort.example.config))),
            tag("pre", excerpt(sort.example.result.error) or "(no text)"),
        )
        for sort in kind.sorts
    ]
    others = soft(f"{kind.status}: {kind.others:,} of other sorts") if kind.others else None
    return tag("div", examples, others)


def time_spent(data: TaskTrials) -> list[Markup]:
    """Where the time went."""
    spent = times(data)
    head = tag("h3", "Where the time went")
    total = spent.total
    if not sum(total.values()):
        return [head, soft("The records hold no timings.")]
    rows = [
        (
            [tag("span", class_=f"key {stage}"), stage],
            MEANS[stage],
            seconds(total[stage]),
            *(seconds(float(typical(values))) for typical in TYPICAL),
        )
        for stage, values in spent.stages.items()
    ]
    columns = ("", "", "in all", "mean", "median", "95 of 100 below", "longest")
    return [
        head,
        figure(charts.where_time_went(spent)),
        table(columns, rows, {2, 3, 4, 5, 6}),
        tag("p", _on_the_wall(spent.wall, total["run"], len(data.searched))),
    ]


def _on_the_wall(wall: float, running: float, trials: int) -> str:
    if not wall:
        return ""
    text = f"By the clock on the wall, the search took {duration(wall)}, {duration(wall / trials)} "
    text += "a trial"
    if running > wall:
        return text + ", with several measurers at once."
    rest = duration(max(wall - running, 1e-9))
    return (
        f"{text}. Kernels ran in {running / wall:.0%} of it; {rest} went to all the rest: "
        "starting workers, proposing, building what the measurer had to wait for."
    )


def noise(data: TaskTrials) -> list[Markup]:
    """How far the repeats of one measurement lie apart."""
    repeated = [t.result.costs for t in data.ok if len(t.result.costs) >= FEWEST_REPEATS]
    once = len(data.ok) - len(repeated)
    few = (
        f"{counted(once, 'trial')} with fewer than {FEWEST_REPEATS} repeats: spread unknown."
        if once
        else ""
    )
    head = tag("h3", "Noise")
    if not repeated:
        return [head, soft(few or "The records hold no repeats.")]
    spreads = [spread(costs) or 0.0 for costs in repeated]
    middle, high = np.percentile(spreads, (50, 90))
    text = (
        f"{counted(len(spreads), 'trial')} with at least {FEWEST_REPEATS} repeats: half of them "
        f"spread by less than {middle:.2%}, nine in ten by less than {high:.2%}. {few}"
    )
    return [head, figure(charts.noise(spreads), text.strip())]
