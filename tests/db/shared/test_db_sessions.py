"""Searches that share a log: claims, what ends them, and what each learns of the others."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from db_records import AVX2, HERE, MATMUL, SPACE, config, failed, ok, start
from reserve_from_list import CONFIGS, candidate

from whet.compiler.errors import LogError
from whet.db import Full, Mine, Recorded, Taken, TaskKey, TrialEntry, TuningLog
from whet.db import session as db_session
from whet.db.session import BEAT_S, LEASE_S, Watch
from whet.db.store.processes import Process
from whet.search_spaces.values import Workload

KEY = TaskKey(MATMUL, AVX2, HERE, SPACE)
RACER = Path(__file__).parent.parent / "reserve_from_list.py"


@pytest.fixture
def log(location):
    with TuningLog(location) as log:
        yield log


@pytest.fixture
def elsewhere(monkeypatch):
    """Sessions as on another machine: nobody sees whether their processes live."""
    this = Process.this()
    monkeypatch.setattr(Process, "this", staticmethod(lambda: replace(this, boot="")))


def states(log):
    query = "SELECT state FROM session ORDER BY id"
    return log.read("look", lambda c: list(c.exec_driver_sql(query).scalars()))


def test_a_config_is_claimed_once_and_recorded_once(log):
    with log.open_session({"who": "a"}) as a, log.open_session({"who": "b"}) as b:
        mine, theirs = start(log), start(log)
        assert a.reserve(mine, 0, config(0), 9) == Mine()
        assert a.reserve(mine, 0, config(0), 9) == Mine()  # its answer may have been lost
        taken = a.reserve(mine, 1, config(0))
        assert isinstance(taken, Taken) and taken.own and taken.uid == a.uid
        taken = b.reserve(theirs, 0, config(0))
        assert isinstance(taken, Taken) and not taken.own and taken.uid == a.uid
        assert (log.counts(KEY).trials, log.counts(KEY).claims) == (0, 1)
        assert a.add_trials([TrialEntry(mine, 0, config(0), ok(1.0))]) == []
        assert (log.counts(KEY).trials, log.counts(KEY).claims) == (1, 0)
        for session, run in ((a, mine), (b, theirs)):
            found = session.reserve(run, 5, config(0), total=0)
            assert isinstance(found, Recorded)
            assert (found.trial.run_id, found.trial.number, found.trial.cost) == (mine, 0, 1.0)


def test_told_is_kept_with_the_trial_and_the_claim_ends(log):
    with log.open_session() as session:
        run = start(log)
        for number in range(2):
            session.reserve(run, number, config(number))
        assert log.counts(KEY).claims == 2
        told = [(), (0, "t17")]
        session.add_trials(
            [TrialEntry(run, n, config(n), ok(1.0), told=said) for n, said in enumerate(told)]
        )
        log.add_trials([TrialEntry(run, 2, config(2), failed(), told=("t3",))])
        log.add_trial(run, 3, config(3), ok(2.0))
        assert log.counts(KEY).claims == 0
    assert [point.told for point in log.news(KEY)[0]] == [(), (0, "t17"), ("t3",), None]


def test_the_total_is_of_all_searches_together(log):
    with log.open_session() as a, log.open_session() as b:
        mine, theirs = start(log), start(log)
        assert a.reserve(mine, 0, config(0), total=2) == Mine()
        assert b.reserve(theirs, 0, config(1), total=2) == Mine()
        assert a.reserve(mine, 1, config(2), total=2) == Full(0, 2)
        b.add_trials([TrialEntry(theirs, 0, config(1), failed())])
        assert a.reserve(mine, 1, config(2), total=2) == Full(1, 1)
        # A worker that was lost measured nothing: there is room for another config.
        a.add_trials([TrialEntry(mine, 0, config(0), failed("infra_error"))])
        assert log.counts(KEY).trials == 1
        assert a.reserve(mine, 1, config(0), total=2) == Mine()  # or for the same
        assert a.reserve(mine, 2, config(2), total=3) == Mine()
        assert b.reserve(theirs, 1, config(3), total=3) == Full(1, 2)


def test_claims_are_given_up(log):
    with log.open_session() as a, log.open_session() as b:
        mine, theirs = start(log), start(log)
        for number in range(3):
            a.reserve(mine, number, config(number))
        b.release(theirs, [config(0)])  # not b's
        a.release(mine, [config(1), config(5)])
        assert b.reserve(theirs, 0, config(1)) == Mine()
        assert isinstance(b.reserve(theirs, 1, config(0)), Taken)
        a.close("interrupted")
        a.close()
        assert b.reserve(theirs, 1, config(0)) == Mine()
    assert states(log) == ["interrupted", "finished"]
    assert log.counts(KEY).claims == 0


def test_a_task_is_a_task_of_its_own(log):
    other = Workload("matmul", (8, 8, 8, "float32"))
    with log.open_session() as session:
        for run in (start(log), start(log, other), start(log, device="cpu-other")):
            assert session.reserve(run, 0, config(0), total=1) == Mine()
        with pytest.raises(LogError, match="start a run for each version"):
            session.reserve(start(log), 0, config(0, "another"))
        with pytest.raises(LogError, match="no such run"):
            session.reserve(999, 0, config(0))


def test_the_last_measurement_neither_counts_nor_is_recorded(log):
    finals = log.start_run(MATMUL, AVX2, HERE, SPACE, "finalists")
    log.add_trial(finals, 0, config(0), ok(1.0))
    with log.open_session() as session:
        run = start(log)
        assert session.reserve(run, 0, config(0), total=1) == Mine()
        log.add_trial(finals, 1, config(0), ok(1.0))
        assert log.counts(KEY).claims == 1  # whoever measures it again among finalists
    assert log.counts(KEY).trials == 0 and log.news(KEY) == ([], 0)


def rows(*beats, pid=1, boot=""):
    return [
        SimpleNamespace(id=i, uid="u", beat=b, host="h", boot=boot, pid=pid, pid_started="1")
        for i, b in enumerate(beats)
    ]


def test_a_session_is_dead_after_its_lease_on_the_observers_clock():
    now = [1000.0]
    watch = Watch(Process.this(), lambda: now[0])
    for beat in range(int(LEASE_S / BEAT_S)):
        assert watch.dead(rows(beat, 7)) == []
        now[0] += BEAT_S
    assert [row.id for row in watch.dead(rows(99, 7))] == [1]
    assert watch.dead(rows(100, 8)) == []  # it was only late


def test_a_time_without_the_database_kills_nobody():
    now = [0.0]
    watch = Watch(Process.this(), lambda: now[0])
    for _ in range(3):
        assert watch.dead(rows(5)) == []
        now[0] += BEAT_S
    now[0] += 600  # nobody could beat, and nobody could look
    assert watch.dead(rows(5)) == []
    now[0] += BEAT_S
    assert watch.dead(rows(6)) == []


def test_a_process_that_has_ended_is_seen_at_once():
    this = Process.this()
    if not this.boot:
        pytest.skip("processes are told apart on Linux only")
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    started = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
    process = Process(this.host, this.boot, child.pid, started)
    assert not process.is_gone(this) and not this.is_gone(this)
    assert replace(process, started="1").is_gone(this)  # its number is another's now
    assert not replace(process, boot="another").is_gone(this)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert process.is_gone(this)  # nobody has waited for it
    child.wait()
    assert process.is_gone(this)
    assert not replace(process, boot="another").is_gone(this)


def test_a_session_that_stands_still_is_ended_and_comes_back(log, elsewhere, monkeypatch):
    monkeypatch.setattr(db_session, "LEASE_S", 0.6)
    a = log.open_session()
    monkeypatch.setattr(db_session, "BEAT_S", 0.05)
    b = log.open_session()
    mine, theirs = start(log), start(log)
    assert a.reserve(mine, 0, config(0)) == Mine()
    assert isinstance(b.reserve(theirs, 0, config(0)), Taken)
    until = time.monotonic() + 60
    while states(log)[0] == "running" and time.monotonic() < until:
        time.sleep(0.05)
    assert states(log) == ["lost", "running"] and log.counts(KEY).claims == 0
    assert b.reserve(theirs, 0, config(0)) == Mine()
    # It was only slow: its result is the first, and the other's is left out.
    a._heart.beat()
    assert states(log)[0] == "running"
    assert a.add_trials([TrialEntry(mine, 0, config(0), ok(1.0))]) == []
    late = TrialEntry(theirs, 0, config(0), ok(2.0))
    assert b.add_trials([late]) == [late]
    assert [trial.cost for trial in log.trials()] == [1.0]
    assert (log.counts(KEY).trials, log.counts(KEY).claims) == (1, 0)
    b.close()
    a.close()


def test_a_session_that_could_not_be_closed_is_ended_by_the_next_of_its_process(log, elsewhere):
    mine = start(log)
    first = log.open_session()
    assert first.reserve(mine, 0, config(0)) == Mine()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log, "write", lambda *more: (_ for _ in ()).throw(LogError("x", "y", "z")))
        with pytest.raises(LogError):
            first.close()
    with log.open_session() as second:
        assert states(log) == ["lost", "running"]
        assert second.reserve(mine, 0, config(0)) == Mine()


def test_a_session_that_nobody_holds_any_more_is_ended_by_the_next(log, elsewhere):
    mine = start(log)
    forgotten = log.open_session()
    assert forgotten.reserve(mine, 0, config(0)) == Mine()
    del forgotten
    gc.collect()
    with log.open_session() as second:
        assert second.reserve(mine, 0, config(0)) == Mine()


def test_news_are_of_the_others_too(log):
    mine, theirs = start(log), start(log)
    assert log.news(KEY) == ([], 0) and log.news(replace(KEY, fingerprint="no")) == ([], 0)
    log.add_trial(mine, 0, config(0), ok(1.0))
    log.add_trial(theirs, 0, config(1), failed())
    points, mark = log.news(KEY)
    assert [(p.run_id, p.number, p.status, p.cost) for p in points] == [
        (mine, 0, "ok", 1.0),
        (theirs, 0, "run_crash", None),
    ]
    assert log.news(KEY, mark) == ([], mark)
    log.add_trial(start(log, Workload("other")), 0, config(0), ok(1.0))
    log.add_trial(theirs, 1, config(2), ok(0.5))
    points, mark = log.news(KEY, mark)
    assert [(p.run_id, p.number) for p in points] == [(theirs, 1)] and mark == points[0].id


def test_broken_points_are_left_out(log):
    run = start(log)
    log.add_trials([TrialEntry(run, n, config(n % 6), ok(1.0)) for n in range(5)])
    broken = ("config = '{'", "status = 'well'", "cost = -1", "told = '[1, {}]'")
    for number, change in enumerate(broken):
        update = f"UPDATE trial SET {change} WHERE number = {number}"
        log.write("break", lambda c, update=update: c.exec_driver_sql(update))
    points = {point.number: point for point in log.news(KEY)[0]}
    assert points.keys() == {0, 3, 4} and points[3].told is None
    with pytest.warns(UserWarning, match="broken"):
        assert [t.number for t in log.trials(run_id=run)] == [3, 4]


def test_points_come_by_the_page(log, monkeypatch):
    run = start(log)
    log.add_trials([TrialEntry(run, n, config(n % 6), ok(1.0)) for n in range(7)])
    monkeypatch.setattr("whet.db.store.points.points_after.__defaults__", (3,))
    read, mark = [], 0
    for _ in range(3):
        points, mark = log.news(KEY, mark)
        read.append([point.number for point in points])
    assert read == [[0, 1, 2], [3, 4, 5], [6]]


def go(racer):
    racer.stdin.write("go\n")
    racer.stdin.flush()


def test_processes_that_reserve_from_one_list_measure_each_config_once(location):
    with TuningLog(location) as log:
        start(log)
    racers = [
        subprocess.Popen(
            [sys.executable, str(RACER), location, str(seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in range(4)
    ]
    assert all(racer.stdout.readline() == "ready\n" for racer in racers)
    for racer in racers:
        go(racer)
    for racer in racers:
        assert all(racer.stdout.readline().startswith("mine ") for _ in range(4))
    racers[0].send_signal(signal.SIGKILL)
    for racer in racers[1:]:
        go(racer)
    said = [racer.communicate(timeout=300)[0].split("\n")[:-1] for racer in racers]
    assert [racer.returncode for racer in racers] == [-signal.SIGKILL, 0, 0, 0]
    assert all(lines[-1] == "done" for lines in said[1:])
    with TuningLog(location) as log:
        points, _ = log.news(KEY)
        recorded = [point.config for point in points]
        assert len(recorded) == len(set(recorded)) == CONFIGS
        counts = log.counts(KEY)
        assert (counts.trials, counts.claims) == (CONFIGS, 0)
        assert len({point.run_id for point in points}) == 3
        log.open_session().close()  # looks at once, where the others were done before a beat
        assert sorted(states(log)) == ["finished"] * 4 + ["lost"]
        assert {t.config for t in log.trials()} == {candidate(i) for i in range(CONFIGS)}
