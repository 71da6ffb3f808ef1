"""Each statement of a log fails once: what was acknowledged and what is recorded agree."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import sqlalchemy as sa
from db_records import AVX2, HERE, MATMUL, SPACE, config, failed, ok, start
from sql_faults import PASSING, STAYING, Fault, sql_fault

from whet.compiler.errors import LogError
from whet.db import Mine, Recorded, TaskKey, TrialEntry, TuningLog
from whet.db import session as sessions
from whet.db.store import patience
from whet.db.store.models import Base
from whet.db.values.decision import FINALISTS_RUN

KEY = TaskKey(MATMUL, AVX2, HERE, SPACE)


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    """No pauses between attempts, and no beats between statements."""
    monkeypatch.setattr(patience, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(sessions, "BEAT_S", 3600.0)


SHARE = 8
"""Statements that fail on a server, of each kind, where nobody asks for all: it takes a minute."""


@pytest.fixture
def some(request, location, seeds):
    """The members of a list to try: all of a file's, or some of a server's by the run's seed."""
    draw = random.Random(seeds(1)[0])
    few = "://" in location and not request.config.getoption("--faults")
    return lambda every: draw.sample(every, min(SHARE, len(every))) if few else list(every)


@dataclass
class Told:
    """What a script was told: trials that it gave, and those that were acknowledged.

    Attributes:
        given, acknowledged: trials by run and number, counted.
        withdrawn: ids of trials whose withdrawal was acknowledged.
    """

    given: Counter = field(default_factory=Counter)
    acknowledged: Counter = field(default_factory=Counter)
    withdrawn: set[int] = field(default_factory=set)

    def add(self, write: Callable[[list[TrialEntry]], Any], entries: list[TrialEntry]) -> None:
        places = [(entry.run_id, entry.number) for entry in entries]
        self.given.update(places)
        write(entries)
        self.acknowledged.update(places)


def entry(run: int, number: int, cost: float | None = 1.0) -> TrialEntry:
    result = failed() if cost is None else ok(cost, program=f"p{number}")
    return TrialEntry(run, number, config(number), result)


def script(log: TuningLog, told: Told) -> Iterator[None]:
    """All that is written to a log, one after the other; each ``yield`` is a time between two."""
    run = start(log)
    yield
    with log.open_session({"who": "script"}) as session:
        for number in range(3):
            assert session.reserve(run, number, config(number), 10) == Mine()
            yield
        told.add(session.add_trials, [entry(run, 0, 3.0), entry(run, 1, None)])
        yield
        assert isinstance(session.reserve(run, 9, config(0)), Recorded)
        session.release(run, [config(2)])
        yield
    told.add(log.add_trials, [entry(run, 3, 2.0), entry(run, 4, 1.0), entry(run, 4, 1.0)])
    yield
    log.finish_run(run)
    finals = log.start_run(MATMUL, AVX2, HERE, SPACE, FINALISTS_RUN)
    told.add(log.add_trials, [entry(finals, 0, 3.0), entry(finals, 4, 1.5)])
    log.finish_run(finals)
    yield
    best = log.best(MATMUL, AVX2, HERE)
    assert (best.run_id, best.number) == (finals, 4)
    log.withdraw([best.id], "it does not hold")
    told.withdrawn.add(best.id)
    yield


def reads(log: TuningLog, path: Any) -> Iterator[None]:
    """All questions to a log that the script has written."""
    assert [trial.number for trial in log.trials(run_id=1)] == [0, 1, 3, 4]
    yield
    assert (len(log), len(log.runs()), log.workloads()) == (6, 2, [MATMUL])
    yield
    assert [counts.trials for _, counts in log.tasks()] == [4]
    assert log.counts(KEY).succeeded == 3 and len(log.summary()) == 1
    yield
    assert len(log.news(KEY)[0]) == 4
    assert log.known_program("p0", HERE).cost == 3.0
    yield
    assert log.export_json(path) == 6
    yield


def chosen(statements: list[str]) -> list[int]:
    """The first of each statement, and every commit."""
    first = {text: at for at, text in reversed(list(enumerate(statements)))}
    commits = {at for at, text in enumerate(statements) if text == "COMMIT"}
    return sorted({*first.values(), *commits})


def recorded(log: TuningLog) -> Counter:
    query = sa.text("SELECT run_id, number FROM trial")
    return Counter(log.read("look", lambda c: [tuple(row) for row in c.execute(query)]))


def state(log: TuningLog) -> Any:
    """All that a log holds, but for what is different each time."""
    # A run's number is left out by a server, where its insertion was taken back.
    order = {run.id: place for place, run in enumerate(log.runs())}
    trials = [(order[t.run_id], t.number, t.config, t.result, t.withdrawn) for t in log.trials()]
    runs = [(run.sampler, run.state) for run in log.runs()]
    told = "SELECT told FROM trial ORDER BY run_id, number"
    states = "SELECT state FROM session"
    both = [log.read("look", lambda c, q=q: c.exec_driver_sql(q).all()) for q in (told, states)]
    return trials, runs, log.counts(KEY), both


def check_sums(log: TuningLog) -> None:
    """The counters are those of the trials, and no claim is of a recorded config."""
    points, _ = log.news(KEY)
    counts = log.counts(KEY)
    assert counts.trials == len({point.config for point in points})
    assert counts.succeeded == len({point.config for point in points if point.status == "ok"})
    query = sa.text(
        "SELECT COUNT(*) FROM claim JOIN trial ON trial.config_digest = claim.config_digest"
    )
    assert log.read("look", lambda c: c.execute(query).scalar()) == 0


def emptied(location: str) -> None:
    """Take everything from a log, the numbers of its rows with it."""
    with TuningLog(location) as log:

        def empty(connection):
            for table in reversed(Base.metadata.sorted_tables):
                connection.execute(sa.delete(table))
                if connection.dialect.name == "postgresql":
                    connection.exec_driver_sql(f"ALTER SEQUENCE {table.name}_id_seq RESTART")

        log.write("empty it", empty)


def quick(log: TuningLog) -> TuningLog:
    """The same log, which does not wait for its disk."""
    if log.place.path is not None:
        listen = sa.event.listen
        listen(log.engine, "connect", lambda raw, record: raw.execute("PRAGMA synchronous=OFF"))
        log.close()
    return log


def statements(location: str) -> tuple[list[str], Any]:
    """What a script executes where nothing fails, and what it leaves."""
    emptied(location)
    with quick(TuningLog(location)) as log:
        with sql_fault(log.engine, Fault()) as fault:
            for _ in script(log, Told()):
                pass
        check_sums(log)
        return fault.statements, state(log)


def cases(every: list[str]) -> list[tuple[int, bool]]:
    """Statements that fail, and whether they were done: of those that were, a commit stays."""
    assert every.count("COMMIT") > 10 and any(s.startswith("INSERT INTO trial") for s in every)
    numbers = chosen(every)
    return [
        *((at, False) for at in numbers),
        *((at, True) for at in numbers if every[at] == "COMMIT"),
    ]


def test_a_fault_that_passes_is_not_noticed(location, some):
    every, wanted = statements(location)
    for at, done in some(cases(every)):
        emptied(location)
        told = Told()
        with quick(TuningLog(location)) as log:
            with sql_fault(log.engine, Fault(at, done)) as fault:
                for _ in script(log, told):
                    pass
            assert fault.failed, at
            assert state(log) == wanted, (at, done, fault.failed)
            check_sums(log)
            assert set(recorded(log)) == set(told.acknowledged) == set(told.given)


def of_first_look(every: list[str]) -> range:
    """A session's first look at the others, which is left out where it cannot be had."""
    at = next(i for i, text in enumerate(every) if "WHERE session.state" in text)
    return range(at - 1, at + 2)


def test_a_fault_that_stays_ends_the_script_with_what_was_acknowledged(location, some):
    every, _ = statements(location)
    wanted = some(cases(every))
    for at, done in wanted:
        emptied(location)
        told, fault, ended = Told(), Fault(at, done, STAYING), False
        with quick(TuningLog(location)) as log, sql_fault(log.engine, fault):
            try:
                for _ in script(log, told):
                    pass
            except LogError as error:
                ended = True
                assert "injected" in str(error), (at, fault.failed)
        assert ended or at in of_first_look(every), (at, done, fault.failed)
        with TuningLog(location) as log:
            there = recorded(log)
            assert set(told.acknowledged) <= set(there) <= set(told.given), (at, fault.failed)
            assert set(there.values()) <= {1}
            assert told.withdrawn <= {trial.id for trial in log.trials() if trial.withdrawn}
            check_sums(log)


def test_a_question_is_asked_again(location, tmp_path, some):
    statements(location)
    path = tmp_path / "out.json"
    with quick(TuningLog(location)) as log:
        with sql_fault(log.engine, Fault()) as fault:
            for _ in reads(log, path):
                pass
        before = state(log)
        for at in some(chosen(fault.statements)):
            with sql_fault(log.engine, Fault(at)) as struck:
                for _ in reads(log, path):
                    if struck.failed:
                        break
            assert struck.failed == fault.statements[at]
        assert state(log) == before


def test_both_kinds_of_faults_are_what_they_are_called():
    for kind in (PASSING, STAYING):
        error = sa.exc.OperationalError("x", {}, Fault(0, False, kind).error("sqlite"))
        assert patience.passes(error) == (kind == PASSING)
