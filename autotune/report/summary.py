"""The beginning of a task's part of a report: the best, the runs, and the ten fastest."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from whet.autotune.report.markup import Child, Markup, tag
from whet.autotune.report.program import best_program
from whet.autotune.report.words import data_text, date, facts, folded, soft, table, target_text
from whet.autotune.results.trial import rate_words
from whet.db.values.decision import FINALISTS_RUN, judge
from whet.db.values.identity import device_name
from whet.search_spaces.values.counted import counted, duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from whet.autotune.results.recorded import TaskTrials
    from whet.db import RunRecord
    from whet.db.values.records import TrialRecord

TOP = 10
STATES = {"running": "running, or killed"}


def summary(data: TaskTrials) -> list[Markup]:
    """The best, the default, and the search in figures."""
    task, peak = data.task, data.peak
    failed = sum(t.result.failed for t in data.searched)
    pruned = len(data.searched) - len(data.ok) - failed
    apart = f", {pruned:,} pruned" if pruned else ""
    pairs: list[tuple[str, Child]] = [
        ("best", _measured(data.best, peak)),
        ("default config", _measured(data.default, peak)),
        ("speed-up", speed_up(data)),
        ("trials", f"{counted(len(data.searched), 'trial')}, {failed:,} failed{apart}"),
        ("last search", _state(data.searches[-1])),
        ("best config", tag("code", str(data.best.config)) if data.best else "none"),
        ("target", target_text(task.target)),
        ("machine", device_name(task.device)),
        ("space", tag("code", task.fingerprint)),
    ]
    return [
        facts(pairs),
        folded("target and machine, whole", data_text(task.target), data_text(task.device)),
    ]


def _measured(trial: TrialRecord | None, peak: float) -> Child:
    if trial is None:
        return "not measured"
    if not trial.result.ok:
        return f"failed: {trial.result.status}"
    rate = ", ".join(["", *rate_words(trial, peak)])
    first = [tag("strong", duration(trial.cost)), f"{rate} (trial {trial.number})"]
    return [*first, tag("div", str(trial.quality), class_="soft")]


def speed_up(data: TaskTrials) -> str:
    """How much faster the best is than the default config, and how sure that is."""
    best, default = data.best, data.default
    if best is None or default is None or not default.result.ok:
        return "not known"
    text = f"{default.cost / best.cost:.2f}x"
    if best.result.predicted:
        return f"{text}, predicted"
    if any(t.quality is not None and t.quality.busy for t in (best, default)):
        text += ", uncertain: the machine was busy"
    if best not in data.finals:
        return f"{text}, not compared in turns"
    verdict = judge(data.finals)
    if not verdict.better:
        return "none: no config is faster than the default beyond the noise"
    if verdict.interval is None:
        return f"{text}, compared in turns"
    low, high = verdict.interval
    return f"{text}, with 95 % confidence between {low:.2f}x and {high:.2f}x"


def finals(data: TaskTrials) -> list[Markup]:
    """The last measurement, if there was one."""
    if not data.finals or data.finals[0].result.predicted:
        return []  # a model says the same again
    rows = [
        (
            "default" if t.number == 0 else f"trial {t.number}",
            duration(t.cost) if t.result.ok else t.result.status,
            _quality(t),
            tag("code", str(t.config)),
        )
        for t in sorted(data.finals, key=lambda t: (t.cost, t.number))
    ]
    head = ("", "median", "how good it is", "config")
    text = (
        "The fastest and the default config, measured in turns: a repeat a round. Intervals are "
        "from the order of the rounds' figures; fewer than six rounds give none."
    )
    return [
        tag("h3", "The last measurement"),
        soft(text),
        table(head, rows, {1}),
    ]


def _quality(trial: TrialRecord) -> Markup:
    """How good a cost is, as a cell whose lines may break."""
    return tag("div", str(trial.quality or ""), class_="words")


def top(data: TaskTrials) -> list[Markup]:
    """The ten fastest trials of the searches."""
    if not data.ok:
        return []
    fastest = sorted(data.ok, key=lambda t: (t.cost, t.number))[:TOP]
    rows = [
        (
            place,
            t.number,
            duration(t.cost),
            f"{t.gflops:.1f}" if t.flop else "",
            f"{t.cost / fastest[0].cost:.3f}",
            _quality(t),
            tag("code", str(t.config)),
        )
        for place, t in enumerate(fastest, 1)
    ]
    head = ("", "trial", "cost", "GFLOP/s", "of the fastest", "how good it is", "config")
    return [
        tag("h3", "The fastest trials"),
        soft(
            "As a model predicted them."
            if fastest[0].result.predicted
            else "As they were measured during the search."
        ),
        table(head, rows, {0, 1, 2, 3, 4}),
    ]


def runs(data: TaskTrials) -> list[Markup]:
    """The runs, with seed, versions and options."""
    number = Counter(trial.run_id for trial in (*data.searched, *data.finals))
    rows = [_run(run, number[run.id]) for run in data.task.runs]
    head = ("run", "sampler", "seed", "state", "began", "took", "trials")
    return [
        tag("h3", "Runs"),
        table(head, rows, {0, 2, 5, 6}),
        folded("options and versions", _settings(data.task.runs)),
    ]


def _run(run: RunRecord, trials: int) -> Sequence[Child]:
    finals = run.sampler == FINALISTS_RUN
    took = run.finished_at - run.started_at if run.finished_at and not finals else None
    return (
        run.id,
        "(last measurement)" if finals else run.sampler,
        "" if run.seed is None else str(run.seed),
        _state(run),
        date(run.started_at),
        "" if took is None else duration(max(took, 1e-9)),
        f"{trials:,}" if trials else "",
    )


def _state(run: RunRecord) -> str:
    return STATES.get(run.state, run.state)


def _settings(runs: Sequence[RunRecord]) -> list[Markup]:
    """Each setting once, with the runs that had it."""
    said: dict[str, list[int]] = {}
    for run in runs:
        text = data_text({"options": run.options, "versions": run.versions})
        said.setdefault(text, []).append(run.id)
    return [
        tag("div", tag("p", f"run {', '.join(map(str, ids))}"), Markup(text))
        for text, ids in said.items()
    ]


def program(data: TaskTrials) -> list[Markup]:
    """The best config's loops, or why there are none."""
    text, why = best_program(data)
    head = tag("h3", "The best program")
    if not text:
        return [head, soft(f"Not shown: {why}.")]
    return [head, folded("its loops", tag("pre", text))]
