"""How good a record is: what is known of its cost, in words, and what is not."""

from __future__ import annotations

import sqlite3

import pytest
from db_records import AVX2, HERE, MATMUL, SPACE, config, failed, ok, start

from whet.db import TuningLog
from whet.db.values.quality import quality_of, quality_words
from whet.measure.values import MeasureResult

QUIET = {"load": 0.5, "cpus": 2}
BUSY = {"load": 5.4, "cpus": 2}


def test_one_repeat_has_a_spread_that_nobody_knows():
    found = quality_of(ok(1e-3, environment=QUIET), False)
    assert (found.repeats, found.spread, found.interval, found.busy) == (1, None, None, False)
    assert str(found) == "not compared in turns, 1 repeat, spread unknown, quiet machine"


def test_a_machine_between_quiet_and_busy_says_its_load():
    found = quality_words(ok(1e-3, environment={"load": 3.88, "cpus": 2}), False)
    assert found.endswith("spread unknown, load 3.9 on 2 cores")


def test_repeats_say_their_spread_and_six_an_interval():
    three = quality_words(ok(1e-3, 1.1e-3, 1.2e-3, environment=QUIET), False)
    assert three == "not compared in turns, 3 repeats, spread 9.1 %, quiet machine"
    costs = [1e-3 * (1 + k / 100) for k in range(6)]
    six = quality_words(ok(*costs, environment=QUIET), True)
    assert six == (
        "compared in turns, 6 repeats, spread 2.4 %, 95 % interval 1 ms to 1.05 ms, quiet machine"
    )


@pytest.mark.parametrize(
    "environment",
    [{}, {"load": 1.0}, {"cpus": 2}, {"load": "high", "cpus": 2}, {"load": 1.0, "cpus": True},
     {"load": float("inf"), "cpus": 2}, {"load": 10**400, "cpus": 2}, {"load": [1.0], "cpus": 0}],
)  # fmt: skip
def test_a_load_that_was_not_recorded_is_unknown(environment):
    found = quality_of(ok(1.0, environment=environment), True)
    assert found.busy is None and str(found).endswith(", machine load unknown")


def test_a_busy_machine_is_said_with_its_load():
    found = quality_of(ok(1.0, environment=BUSY), False)
    assert found.busy and str(found).endswith(
        "the machine was busy (load 5.4 on 2 cores): measured times are upper bounds"
    )
    shaken = [1e-3, 1.1e-3, 1.4e-3, 1e-3, 1.3e-3, 1.2e-3]
    some = {"load": 2.5, "cpus": 2}
    assert quality_of(ok(*shaken, environment=some), True).busy  # rounds that differ say more
    assert quality_of(ok(*shaken, environment=some), False).busy is False


def test_failures_have_no_quality_and_predictions_no_noise():
    assert quality_of(failed(), True) is None and quality_words(failed(), True) == ""
    model = {"cost": "model", "model": {"gpu": "NVIDIA A100"}}
    said = quality_words(MeasureResult("ok", (1.0,), environment=model), False)
    assert said == "predicted by a model of NVIDIA A100, not measured"


@pytest.mark.parametrize("default", [ok(2.0), failed()])
def test_a_log_knows_who_was_compared_in_turns_with_the_default(tmp_path, default):
    with TuningLog(tmp_path / "a.db") as log:
        log.add_trial(start(log), 1, config(1), ok(1.0, environment=QUIET))
        finals = log.start_run(MATMUL, AVX2, HERE, SPACE, "finalists")
        log.add_trial(finals, 0, config(0), default)
        log.add_trial(finals, 1, config(1), ok(*[0.5] * 6, environment=QUIET))
        log.finish_run(finals)
        alone, _, together = log.trials()
        best = log.best(MATMUL, AVX2, HERE)
        (task,) = log.summary()
    assert not alone.compared and "not compared in turns, 1 repeat" in str(alone)
    assert together.compared == default.ok == best.compared
    assert best.quality == together.quality and str(best.quality) in str(task)


def test_records_of_earlier_versions_say_unknown(tmp_path):
    path = tmp_path / "a.db"
    with TuningLog(path) as log:
        log.add_trial(start(log), 0, config(0), ok(1.0, environment=QUIET))
    with sqlite3.connect(path) as raw:
        raw.execute("""UPDATE trial SET environment = '{"repeats": 1, "spread": 0.0}'""")
    raw.close()
    with TuningLog(path) as log:
        (trial,) = log.trials()
    words = "not compared in turns, 1 repeat, spread unknown, machine load unknown"
    assert str(trial.quality) == words and words in str(trial)
