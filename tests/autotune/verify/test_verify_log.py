"""Best records measured again: what holds stays; what does not is withdrawn, then the next."""

from __future__ import annotations

from itertools import islice

import pytest
from autotune_kernels import sometimes

import whet
from whet.autotune.verify import HOLDS, UNCHECKED, WITHDRAWN, summary_line, verify_log
from whet.cli import main
from whet.compiler.errors import ArgumentError, LogError
from whet.db import TuningLog
from whet.measure import MeasureResult, ReplayPool

FAST, MIDDLE, SLOW = 1e-6, 2e-6, 3e-6


@pytest.fixture
def tuned(tmp_path, monkeypatch):
    """A task with a log of three configs: the default takes 2 us, the best 1 us."""
    monkeypatch.chdir(tmp_path)
    task = whet.create_task("matmul", args=(16, 16, 16), target="llvm")
    space, costs = task.config_space, {}
    winners = [c for c in islice(space, 9) if c != space.default][:2]
    costs[space.default.key] = MIDDLE
    run_costs = {winners[0].key: FAST, winners[1].key: FAST * 1.2}

    def cost(inp):
        return run_costs.get(inp.config.key, costs.get(inp.config.key, SLOW))

    with TuningLog("whet.db") as log:
        run = log.start_run(task.workload, task.target, None, space.fingerprint, "random", 0)
        for number, config in enumerate((space.default, *winners)):
            seconds = cost(type("I", (), {"config": config}))
            result = MeasureResult("ok", (seconds,) * 6, program_hash=f"p{number}")
            log.add_trial(run, number, config, result)
        log.finish_run(run)
    return task, winners, run_costs, cost


def best(task):
    with TuningLog("whet.db", write=False) as log:
        found = log.best(task.workload, task.target)
        return found and found.config


def test_a_record_that_holds_stays(tuned):
    task, winners, _, cost = tuned
    (one,) = verify_log("whet.db", workers=ReplayPool(cost))
    assert one.outcome == HOLDS and one.record.config == winners[0] == best(task)
    assert (one.cost, one.default, one.withdrawn) == (FAST, MIDDLE, ())
    assert "2.00x of the default" in str(one) and summary_line([one]) == "1 holds"
    (other,) = verify_log("whet.db", workers=ReplayPool(lambda inp: 7 * cost(inp)))
    assert other.outcome == HOLDS  # the machine is slower today, and the default, too
    assert f"recorded {1} us" in other.why


def test_what_became_slow_is_withdrawn_and_the_next_is_the_best(tuned):
    task, winners, run_costs, cost = tuned
    run_costs[winners[0].key] = SLOW
    (dry,) = verify_log("whet.db", workers=ReplayPool(cost), withdraw=False)
    assert dry.outcome == WITHDRAWN and best(task) == winners[0]
    (one,) = verify_log("whet.db", workers=ReplayPool(cost))
    assert one.outcome == WITHDRAWN and one.record.config == winners[1] == best(task)
    assert "slower than the default beyond the noise: 0.67x" in one.withdrawn[0]
    assert "the best is now" in one.why and one.cost == pytest.approx(FAST * 1.2)
    (again,) = verify_log("whet.db", workers=ReplayPool(cost))
    assert again.outcome == HOLDS
    with TuningLog("whet.db", write=False) as log:
        assert len(log) == 3  # it stays, with its reason


def test_a_failure_is_withdrawn_and_a_lost_worker_is_not(tuned):
    task, winners, _, cost = tuned

    def lost(inp):
        if inp.config == winners[0]:
            return MeasureResult("infra_error", error="gone", stage="run")
        return cost(inp)

    (one,) = verify_log("whet.db", workers=ReplayPool(lost))
    assert one.outcome == UNCHECKED and "gone" in one.why and best(task) == winners[0]

    def wrong(inp):
        if inp.config in winners:
            return MeasureResult("wrong_answer", error="off by\n7 of 9 differ", stage="check")
        return cost(inp)

    (one,) = verify_log("whet.db", workers=ReplayPool(wrong))
    assert len(one.withdrawn) == 2 and "wrong_answer: 7 of 9 differ" in one.withdrawn[0]
    assert best(task) == task.config_space.default and "the default config" in one.why
    broken = MeasureResult("run_crash", error="SIGSEGV", stage="run")
    (one,) = verify_log("whet.db", workers=ReplayPool(lambda inp: broken))
    assert one.why == "no record is left" and best(task) is None
    assert verify_log("whet.db", workers=ReplayPool(cost)) == []


def test_what_only_the_workers_cannot_lower_is_not_withdrawn(tuned, monkeypatch):
    task, winners, _, cost = tuned
    text = "ModuleNotFoundError: No module named 'helper'"

    def failing(inp):
        return cost(inp) if inp.config not in winners else MeasureResult("lower_error", error=text)

    (one,) = verify_log("whet.db", workers=ReplayPool(failing))
    assert one.outcome == UNCHECKED and best(task) == winners[0]
    assert "this process can: lower_error: ModuleNotFoundError" in one.why

    def no(task, config=None):
        raise ValueError("no such tile")

    monkeypatch.setattr(type(task), "instantiate", no)
    (one,) = verify_log("whet.db", workers=ReplayPool(failing))
    assert len(one.withdrawn) == 2 and best(task) == task.config_space.default


def test_others_records_are_left_as_they_are(tuned, tmp_path):
    task, *_, cost = tuned
    with TuningLog("whet.db") as log:
        space = task.config_space

        def add(workload, fingerprint, device=None):
            config = type(space.default)(space.default.choices, fingerprint)
            run = log.start_run(workload, task.target, device, fingerprint, "random", 0)
            log.add_trial(run, 0, config, MeasureResult("ok", (1e-9,)))

        add(task.workload, "another version")
        add(task.workload, space.fingerprint, "cpu-0123456789ab")
        add(whet.search_spaces.Workload("not/here", (1,)), "f")
    found = verify_log("whet.db", workers=ReplayPool(cost))
    whys = {one.why for one in found if one.outcome == UNCHECKED}
    assert len(found) == 4 and len(whys) == 3
    for said in (
        "its space has changed since",
        "another machine, cpu-0123",
        "template is not here",
    ):
        assert any(said in why for why in whys), said
    with pytest.raises(LogError, match="no best record of this template"):
        verify_log("whet.db", op="softmax", workers=ReplayPool(cost))


def test_wrong_arguments(tuned):
    with pytest.raises(ArgumentError, match="a number above 0"):
        verify_log("whet.db", seconds=0)
    with pytest.raises(LogError, match="there is no such file"):
        verify_log("none.db")
    with TuningLog("whet.db", write=False) as log, pytest.raises(LogError, match="for reading"):
        verify_log(log)


def test_real_kernels_are_built_checked_and_measured(tmp_path, monkeypatch, capsys):
    """A record whose kernel cannot be lowered is withdrawn; one that works is measured."""
    monkeypatch.chdir(tmp_path)
    task = whet.create_task("test/sometimes", args=(16,), target="llvm")
    space = task.config_space
    cannot = next(c for c in space if c.choice("broken"))
    can = next(c for c in space if not c.choice("broken") and c != space.default)
    assert task.name == sometimes.name
    with TuningLog("whet.db") as log:
        run = log.start_run(task.workload, task.target, None, space.fingerprint, "random", 0)
        for number, (config, cost) in enumerate(((space.default, 2.0), (can, 1.5), (cannot, 1.0))):
            log.add_trial(run, number, config, MeasureResult("ok", (cost,)))
    code = main(["log", "verify", "whet.db", "--seconds", "0.5"])
    said = capsys.readouterr()
    assert code == 1 and "whet.db: 1 withdrawn" in said.out
    assert "lower_error: ScheduleError: " in said.out
    assert "starting the workers" in said.err
    assert best(task) in (can, space.default) and best(task) != cannot
