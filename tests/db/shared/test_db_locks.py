"""Searches that write at the same moment: who locks what, in which order."""

from __future__ import annotations

import os
import re
import signal
import threading
import time

import pytest
import sqlalchemy as sa
from db_records import AVX2, HERE, SPACE, config, ok, start
from leaks import open_files
from log_places import fresh_schema
from sql_faults import STAYING, Fault, sql_fault

from whet.compiler.errors import LogError
from whet.db import Mine, TaskKey, TrialEntry, TuningLog
from whet.db.exchange.transfer import export_log, import_log
from whet.db.exchange.write import Writer
from whet.db.store import claims, engine
from whet.search_spaces.values import Config, Workload

ROUNDS = 25
WORKLOADS = [Workload("matmul", (8, 8, size, "float32")) for size in range(4)]


@pytest.fixture
def server(postgres):
    with fresh_schema(postgres) as url:
        yield url


def exchange_in_order(url: str, workloads: list[Workload], first: int, said: list[str]) -> None:
    """Record a trial of each task in this order while one of each is claimed, again and again."""
    together = [TaskKey(workload, AVX2, HERE, SPACE) for workload in WORKLOADS]
    with TuningLog(url) as log, log.open_session() as session:
        sa.event.listen(
            log.engine, "handle_error", lambda told: said.append(str(told.original_exception))
        )
        runs = [start(log, workload) for workload in workloads]
        entries: list[TrialEntry] = []
        for number in range(ROUNDS):
            some = Config((("tile", first + number),), SPACE, ("knob",))
            wanted = [(run, number, some) for run in reversed(runs)]
            left_out, answers = session.exchange(entries, wanted, None, together)
            assert left_out == [] and answers == [Mine()] * len(runs)
            entries = [TrialEntry(run, number, some, ok(1.0)) for run in runs]
        assert session.add_trials(entries) == []


def test_searches_of_several_tasks_never_wait_in_a_circle(server):
    said: list[str] = []
    with TuningLog(server) as log:
        for workload in WORKLOADS:
            start(log, workload)
        orders = (WORKLOADS, WORKLOADS[::-1])
        threads = [
            threading.Thread(target=exchange_in_order, args=(server, order, 1000 * i, said))
            for i, order in enumerate(orders)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        counts = [log.counts(TaskKey(w, AVX2, HERE, SPACE)) for w in WORKLOADS]
    assert said == []  # a deadlock, which the server ends and the log tries again
    assert [(c.trials, c.claims) for c in counts] == [(2 * ROUNDS, 0)] * len(WORKLOADS)


def is_blocked(log: TuningLog) -> bool:
    """True while somebody waits for a lock."""
    query = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    return log.read("look", lambda c: c.exec_driver_sql(query).scalar_one()) > 0


def test_an_import_and_a_search_that_wait_in_a_circle_both_end_well(server, tmp_path, monkeypatch):
    """The server ends one of them, once: then the import keeps others from locking tasks."""
    said: list[str] = []
    first, second = (TaskKey(workload, AVX2, HERE, SPACE) for workload in WORKLOADS[:2])
    with TuningLog(tmp_path / "other.db") as other:
        for workload in WORKLOADS[1::-1]:  # the second task first
            other.add_trial(start(other, workload), 0, config(0), ok(1.0))
        export_log(other, tmp_path / "other.jsonl")

    def search(number: int) -> None:
        with TuningLog(server) as log, log.open_session() as session:
            sa.event.listen(
                log.engine, "handle_error", lambda e: said.append(str(e.original_exception))
            )
            some = Config((("tile", number),), SPACE, ("knob",))
            answers = session.exchange([], [(runs[0], number, some)], None, [first, second])[1]
            assert answers == [Mine()]

    searches: list[threading.Thread] = []
    flush = Writer.flush

    def slow_flush(writer: Writer) -> None:
        """After the batch of the second task, a search locks the first and wants the second."""
        wrote = bool(writer._batch)
        flush(writer)
        if wrote and writer.taken.trials == 1:
            searches.append(threading.Thread(target=search, args=(len(searches),)))
            searches[-1].start()
            until = time.monotonic() + 60
            while not is_blocked(log):
                assert time.monotonic() < until
                time.sleep(0.02)
            time.sleep(1.5)  # a server looks for circles where somebody has waited for a second

    monkeypatch.setattr("whet.db.exchange.write.BATCH", 1)
    monkeypatch.setattr(Writer, "flush", slow_flush)
    with TuningLog(server) as log, TuningLog(server) as into:
        runs = [start(log, workload) for workload in WORKLOADS[:2]]
        sa.event.listen(
            into.engine, "handle_error", lambda told: said.append(str(told.original_exception))
        )
        taken = import_log(into, tmp_path / "other.jsonl")
        for one in searches:
            one.join(120)
            assert not one.is_alive()
        assert [text.partition("\n")[0] for text in said] == ["deadlock detected"]
        assert taken.trials == 2 and len(searches) == 2
        assert [log.counts(key).trials for key in (first, second)] == [1, 1]
        assert import_log(into, tmp_path / "other.jsonl").trials == 0


def test_a_beat_sees_that_its_session_is_being_ended(server):
    with TuningLog(server) as log, log.open_session() as session, log.engine.connect() as other:
        assert claims.end_session(other, session._id, claims.GONE)
        beat = threading.Thread(target=session._heart.beat)
        beat.start()
        time.sleep(0.3)
        assert beat.is_alive()  # it waits for the other
        other.commit()
        beat.join(60)
        assert session.has_returned() and not session.has_returned()


def test_a_return_in_the_moment_of_the_question_is_not_forgotten(tmp_path):
    class Late(threading.Event):
        def is_set(self) -> bool:
            was = super().is_set()
            self.set()  # by the session's thread, just after it was asked
            return was

    with TuningLog(tmp_path / "a.db") as log, log.open_session() as session:
        session._heart.returned = Late()
        assert not session.has_returned()
        assert session.has_returned()


def test_the_error_of_an_exchange_names_the_result_that_is_not_written(tmp_path):
    with TuningLog(tmp_path / "a.db", patience=0) as log:
        session, run = log.open_session(), start(log)
        log.write("break it", lambda c: c.exec_driver_sql("DROP TABLE trial"))
        entry = TrialEntry(run, 0, config(0), ok(1.0))
        with pytest.raises(LogError, match=re.escape(entry.request)):
            session.exchange([entry], [(run, 1, config(1))])
        with pytest.raises(LogError, match=f"claim trial 1 of run {run}"):
            session.exchange([], [(run, 1, config(1))])


def test_an_error_that_somebody_keeps_locks_no_file(tmp_path):
    """Its frames have the rest of the rows that were being read."""
    with TuningLog(tmp_path / "a.db") as log, TuningLog(tmp_path / "a.db", patience=0) as other:
        log.add_trials([TrialEntry(start(log), i, config(i), ok(1.0)) for i in range(5)])
        assert len(other) == 5
        other.close()
        with (
            sql_fault(log.engine, Fault(2, kind=STAYING)) as fault,
            pytest.raises(LogError, match="read trials") as kept,
        ):
            log.trials()
        assert "FROM workload" in fault.failed  # which is read for the first of the trials
        log.close()
        assert kept.value and open_files(tmp_path) == []
        other.write("go on", lambda c: c.exec_driver_sql("DELETE FROM trial"))


def test_handlers_that_return_hear_of_each_signal():
    heard, kinds = [], (signal.SIGTERM, signal.SIGINT)
    before = {kind: signal.signal(kind, lambda number, _: heard.append(number)) for kind in kinds}
    try:

        def work():
            for kind in (*kinds, signal.SIGINT):
                os.kill(os.getpid(), kind)
            return len(heard)

        assert engine.uninterrupted(work) == 2 and sorted(heard) == sorted((*kinds, signal.SIGINT))
        uninterrupted_again = engine.uninterrupted(lambda: os.kill(os.getpid(), signal.SIGINT))
        assert uninterrupted_again is None and len(heard) == 4
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_for_the_end_of_a_transaction(location, kind):
    """Between two calls of SQLAlchemy's it would leave a connection that locks the log."""
    asked, again = [], []

    class Ended(BaseException):
        pass

    def end(number, frame):
        asked.append(number)
        raise Ended

    before = signal.signal(kind, end)
    try:
        with TuningLog(location) as log, TuningLog(location, patience=0) as other:
            run = start(log)
            log.add_trial(run, 0, config(0), ok(1.0))

            def delete(connection):
                os.kill(os.getpid(), kind)
                connection.exec_driver_sql("DELETE FROM trial")
                again.append(1)

            with pytest.raises(Ended) as kept:
                log.write("empty it", delete)
            assert len(asked) == len(again) == 1 and len(other) == 0  # all of it was done
            assert signal.getsignal(kind) is end
            log.add_trial(run, 0, config(0), ok(1.0))

            def delete_slowly(connection):
                connection.exec_driver_sql("DELETE FROM trial")
                os.kill(os.getpid(), kind)
                os.kill(os.getpid(), kind)
                again.append(2)

            with pytest.raises(Ended) as kept:
                log.write("empty it", delete_slowly)
            assert again == [1] and len(other) == 1  # who asks twice does not wait
            assert signal.getsignal(kind) is end and kept.value
            other.write("go on", lambda c: c.exec_driver_sql("DELETE FROM trial"))
    finally:
        signal.signal(kind, before)
