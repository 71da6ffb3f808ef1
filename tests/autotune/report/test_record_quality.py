"""How good a record is, by the same words wherever its cost is shown."""

from __future__ import annotations

import html

import pytest
from autotune_pools import Recorder
from autotune_synthetic import small_cost
from watching_pools import Interrupting

from whet.autotune import tune
from whet.autotune.report import report
from whet.cli import main
from whet.db import TuningLog
from whet.db.values.quality import quality_words
from whet.measure import MeasureResult

QUIET, BUSY = {"load": 0.5, "cpus": 2}, {"load": 5.4, "cpus": 2}


def measured(config, environment, repeats):
    cost = small_cost(config)
    return MeasureResult("ok", (cost, 1.02 * cost, 1.04 * cost)[:repeats], environment=environment)


class Rounds(Recorder):
    """Rounds that differ by a hundredth, of a machine in some state."""

    def __init__(self, environment, repeats=3):
        super().__init__(lambda inp: measured(inp.config, environment, repeats))
        self.environment = environment

    def remeasure(self, inputs, rounds):
        costs = [[] for _ in inputs]
        while turn := list(rounds(costs)):
            for i in turn:
                costs[i].append(small_cost(inputs[i].config) * (1 + len(costs[i]) % 3 / 100))
        return [MeasureResult("ok", tuple(c), environment=self.environment) for c in costs]


@pytest.mark.parametrize("environment", [QUIET, BUSY, {}], ids=["quiet", "busy", "unknown"])
def test_the_best_is_described_by_the_same_words_everywhere(
    small, tmp_path, capsys, monkeypatch, environment
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("whet.autotune.progress.PLAIN_AT_MOST", 0.0)  # a line a trial
    found = tune(small, 12, "a.db", "random", Rounds(environment))
    words = quality_words(found.best.result, True)
    assert words.startswith("compared in turns, ") and "spread " in words
    assert "95 % interval" in words
    assert words in str(found)
    with TuningLog("a.db") as log:
        best = log.best(small.workload, small.target)
    assert str(best.quality) == words and words in str(best)
    progress = capsys.readouterr().err
    searched = min((t for t in found.trials), key=lambda t: t.cost)
    line = f"best {searched.cost * 1e3:.3g} ms"
    assert f", {quality_words(searched.result, False)}" in progress and line in progress
    assert main(["best", "a.db"]) == 0
    assert f"\n  {words}\n" in capsys.readouterr().out
    page = html.unescape(report("a.db"))
    assert words in page and quality_words(searched.result, False) in page
    speed_up = next(line for line in str(found).splitlines() if "speed-up" in line)
    for said in (speed_up, page):
        assert ("uncertain: the machine was busy" in said) == (environment is BUSY)


def test_an_interrupted_search_says_that_nothing_was_compared(small, tmp_path, capsys):
    pool = Interrupting(lambda config: measured(config, BUSY, 1), after=8)
    with pytest.raises(KeyboardInterrupt):
        tune(small, 20, tmp_path / "a.db", "random", pool, progress=False)
    said = capsys.readouterr().err
    words = (
        "not compared in turns, 1 repeat, spread unknown, the machine was busy (load 5.4 on 2 "
        "cores): measured times are upper bounds"
    )
    assert "interrupted" in said and said.count(words) == 2  # the best, and the default
    assert "uncertain: the machine was busy, not compared in turns" in said


def test_a_cost_that_was_never_repeated_has_no_spread(small, tmp_path):
    pool = Recorder(lambda inp: measured(inp.config, QUIET, 1))
    tune(small, 6, tmp_path / "a.db", "random", pool, progress=False)
    page = report(tmp_path / "a.db")
    assert "6 trials with fewer than 3 repeats: spread unknown." in page
    assert "1 repeat, spread unknown" in page
