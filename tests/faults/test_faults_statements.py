"""Each statement of a whole search fails once: what was acknowledged is recorded, and no more."""

from __future__ import annotations

import random

import pytest
import sqlalchemy as sa
from sql_faults import PASSING, STAYING, Fault, sql_fault
from whole_searches import TRIALS, Told, check_resumed, check_told, claims, search, states

from whet.autotune.search import sharing
from whet.compiler.errors import LogError
from whet.db import TuningLog
from whet.db import session as sessions
from whet.db.store import patience
from whet.db.store.models import Base

SHARE = {"sqlite": 8, "postgresql": 4}
"""Faults of one kind that are drawn where nobody asks for all."""


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    """No pauses, no beats between statements, and a look at the log in each round."""
    monkeypatch.setattr(patience, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(sessions, "BEAT_S", 3600.0)
    monkeypatch.setattr(sharing, "LISTEN_S", 0.0)
    monkeypatch.setattr(sharing, "SHARE", 0)


def emptied(location):
    """Take all rows from a log: a new one takes longer."""
    with TuningLog(location) as log:

        def empty(connection):
            for table in reversed(Base.metadata.sorted_tables):
                connection.execute(sa.delete(table))

        log.write("empty it", empty)


def quick(log):
    """The same log, which does not wait for its disk."""
    if log.place.path is not None:
        listen = sa.event.listen
        listen(log.engine, "connect", lambda raw, record: raw.execute("PRAGMA synchronous=OFF"))
        log.close()
    return log


def struck(task, location, fault):
    """A search of which one statement fails; its end: None, or the error."""
    emptied(location)
    told = Told()
    with quick(TuningLog(location)) as log, sql_fault(log.engine, fault):
        try:
            found = search(task, log, told)
        except LogError as error:
            return told, error
    assert len(found.trials) == TRIALS and found.state == "finished"
    return told, None


def cases(task, location, request, seeds):
    """The numbers of the statements that fail: all, or some that the run's seed draws; and all.

    Of a statement that writes, its answer is lost as well as itself.
    """
    fault = Fault()
    struck(task, location, fault)
    writing = ("COMMIT", "INSERT", "UPDATE", "DELETE")
    every = [(at, False) for at in range(len(fault.statements))]
    every += [(at, True) for at, text in enumerate(fault.statements) if text.startswith(writing)]
    assert sum(text == "COMMIT" for text in fault.statements) > TRIALS
    if request.config.getoption("--faults"):
        return every, fault.statements
    kind = "postgresql" if "://" in location else "sqlite"
    commits = [one for one in every if fault.statements[one[0]] == "COMMIT"]
    draw = random.Random(seeds(1)[0])
    drawn = draw.sample(every, SHARE[kind] // 2) + draw.sample(commits, SHARE[kind] // 2)
    return drawn, fault.statements


def test_a_search_does_not_notice_a_fault_that_passes(small, location, request, seeds):
    best = search(small, location, Told()).best.config.key
    for at, done in cases(small, location, request, seeds)[0]:
        fault = Fault(at, done, PASSING)
        told, error = struck(small, location, fault)
        assert error is None and fault.failed, (at, done, fault.failed, error)
        there = check_told(location, told)
        assert set(there) == set(told.acknowledged) == set(told.measured), (at, done)
        assert len(told.measured) == TRIALS
        with TuningLog(location, write=False) as log:
            assert claims(log) == 0 and states(log, "session") == ["finished"]
            assert states(log, "run") == ["finished"] * 2
        again = Told()
        assert search(small, location, again).best.config.key == best
        assert again.measured == []


def of_first_look(statements):
    """The statements of a session's first look at the others: it is left out where it fails."""
    at = next(i for i, text in enumerate(statements) if "WHERE session.state" in text)
    return range(at - 1, at + 2)


def test_a_search_ends_with_a_fault_that_stays_and_goes_on_later(small, location, request, seeds):
    wanted, statements = cases(small, location, request, seeds)
    for at, done in wanted:
        fault = Fault(at, done, STAYING)
        told, error = struck(small, location, fault)
        assert fault.failed, at
        if error is None:
            assert at in of_first_look(statements), (at, done, fault.failed)
        else:
            assert "injected" in str(error), (at, done, fault.failed, error)
        check_resumed(small, location, told)
