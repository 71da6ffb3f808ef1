"""The parts of a task's report that draw: the search, knobs, failures, the model, time, noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from whet.autotune.report import charts
from whet.autotune.report.charts import Room
from whet.autotune.report.markup import Markup, tag
from whet.autotune.report.model import FEWEST, Predictions, cross_validate
from whet.autotune.report.times import MEANS, STAGES, times
from whet.autotune.report.words import figure, folded, table
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
        tag("p", caption, class_="soft"),
    ]


def drawn(trials: int, room: Room) -> str:
    """What a plot of so many trials leaves out."""
    step = room.step(trials)
    return f"One in {step} of {trials:,} trials is drawn." if step > 1 else ""


def knobs(data: TaskTrials, found: list[Dimension], room: Room) -> list[Markup]:
    """Costs against each knob."""
    if not data.ok or not found:
        return []
    shown = [d for d in found if d.shown and len(d.distinct) > 1]
    fixed = [d for d in found if len(d.distinct) == 1]
    share = Room(max(room.dots // 4, 200), room.told)
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
        tag("p", text, class_="soft"),
        tag("div", plots, class_="pair"),
        *([tag("p", f"Always the same: {said}", class_="soft")] if fixed else []),
    ]


def predictions(data: TaskTrials, found: list[Dimension]) -> Predictions | None:
    """What a cost model predicts of the successes, each from the others."""
    owners, features = encode(found)
    return cross_validate(data.costs, features, owners, data.loops)


def model(data: TaskTrials, found: Predictions | None, room: Room) -> list[Markup]:
    """Importance of the knobs, and predicted against measured."""
    head = tag("h3", "What a cost model learns from these trials")
    if found is None:
        why = (
            f"Nothing: it needs at least {FEWEST} successes of different cost and a knob that "
            f"differs; there are {counted(len(data.ok), 'success', 'successes')}."
        )
        return [head, tag("p", why)]
    seen = "knobs and loops" if data.loops is not None else "knobs"
    rows = f"{len(found.rows):,} successes" + (", a sample" if found.sampled else "")
    text = (
        f"Each success is predicted by a model that was fitted to others' {seen} ({rows}): rank "
        f"correlation (Spearman) {found.spearman:.2f}; half of the predictions are within a factor "
        f"of {found.typical_error:.2f}."
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
            figure(charts.importance(found), method),
            figure(charts.predicted_against_measured(found, data.searched, room)),
            class_="pair",
        ),
    ]


def failed(data: TaskTrials) -> list[Markup]:
    """The failures by kind, with example texts; what was pruned after them."""
    kinds = failures(data.searched)
    every = failures(data.searched, pruned=True)
    pruned = [kind for kind in every if kind.status == PRUNED]
    found: list[Markup] = [tag("h3", "Failures")]
    if kinds:
        rows = [
            (kind.status, f"{kind.count:,}", f"{kind.count / len(data.searched):.1%}")
            for kind in kinds
        ]
        found.append(table(("status", "trials", "of all"), rows, frozenset({1, 2})))
    else:
        found.append(tag("p", "None."))
    found += [_kind(kind) for kind in kinds]
    for kind in pruned:
        why = pruned_words(t.result for t in data.searched)
        said = f"{counted(kind.count, 'candidate')} refused by a static check, never run"
        said += f": {why}." if why else "."
        found += [tag("h3", "Pruned"), tag("p", said), _kind(kind)]
    return found


def _kind(kind: Kind) -> Markup:
    examples = [
        folded(
            [f"{kind.status}, {sort.count:,} like this: ", tag("code", sort.says or "(no text)")],
            tag("p", f"trial {sort.example.number}: ", tag("code", str(sort.example.config))),
            tag("pre", excerpt(sort.example.result.error) or "(no text)"),
        )
        for sort in kind.sorts
    ]
    others = (
        tag("p", f"{kind.status}: {kind.others:,} of other sorts", class_="soft")
        if kind.others
        else None
    )
    return tag("div", examples, others)


def time_spent(data: TaskTrials) -> list[Markup]:
    """Where the time went."""
    found = times(data)
    head = tag("h3", "Where the time went")
    total = found.total
    if not sum(total.values()):
        return [head, tag("p", "The records hold no timings.", class_="soft")]
    rows = [
        (
            [tag("span", class_=f"key {stage}"), stage],
            MEANS[stage],
            duration(total[stage]) if total[stage] else "0",
            *(_time(float(value)) for value in _typical(found.stages[stage])),
        )
        for stage in STAGES
    ]
    columns = ("", "", "in all", "mean", "median", "95 of 100 below", "longest")
    return [
        head,
        figure(charts.where_time_went(found)),
        table(columns, rows, frozenset({2, 3, 4, 5, 6})),
        tag("p", _on_the_wall(found.wall, total["run"], len(data.searched))),
    ]


def _typical(values: np.ndarray) -> tuple[float, float, float, float]:
    return values.mean(), np.median(values), np.percentile(values, 95), values.max()


def _time(value: float) -> str:
    return duration(value) if value > 0 else "0"


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
        return [head, tag("p", few or "The records hold no repeats.", class_="soft")]
    spreads = [spread(costs) or 0.0 for costs in repeated]
    middle, high = np.percentile(spreads, (50, 90))
    text = (
        f"{counted(len(spreads), 'trial')} with at least {FEWEST_REPEATS} repeats: half of them "
        f"spread by less than {middle:.2%}, nine in ten by less than {high:.2%}. {few}"
    )
    return [head, figure(charts.noise(spreads), text.strip())]
