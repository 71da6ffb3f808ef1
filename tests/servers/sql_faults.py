"""Faults between SQLAlchemy and a driver: the n-th statement or commit of an engine fails once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

PASSING, STAYING = "passing", "staying"
"""Kinds of errors: one that may not come again, and one that no second attempt can mend."""


@dataclass
class Fault:
    """One fault, and what was executed.

    Attributes:
        at: the number of the statement that fails, from 0 on; None: none does.
        done: the statement is executed, and its answer lost; else it is not executed.
        kind: of its error.
        statements: all that were executed, commits among them.
        failed: the one that failed; "": none did yet.
    """

    at: int | None = None
    done: bool = False
    kind: str = PASSING
    statements: list[str] = field(default_factory=list)
    failed: str = ""

    def strikes(self, statement: str) -> bool:
        """Count a statement; True if it is the one."""
        self.statements.append(statement)
        strikes = not self.failed and len(self.statements) - 1 == self.at
        if strikes:
            self.failed = statement
        return strikes

    def error(self, dialect: str) -> Exception:
        """The driver's error."""
        if dialect == "sqlite":
            said = "database is locked" if self.kind == PASSING else "no such table: injected"
            return sqlite3.OperationalError(said)
        import psycopg

        if self.kind == PASSING:
            return psycopg.errors.AdminShutdown("terminating connection: injected")
        return psycopg.errors.UndefinedTable("no such table: injected")


def _break(fault: Fault, raw: Any, dialect: str) -> None:
    """A server that shuts down ends the connection with it."""
    if dialect == "postgresql" and fault.kind == PASSING:
        raw.close()


@contextmanager
def sql_fault(engine: sa.Engine, fault: Fault) -> Iterator[Fault]:
    """Let a fault strike an engine.

    Args:
        engine: of a log.
        fault: what fails.
    """
    dialect = engine.dialect.name

    def execute(cursor: Any, statement: str, parameters: Any, context: Any = None) -> bool:
        if not fault.strikes(statement):
            return False
        if fault.done:
            cursor.execute(statement, parameters)
        _break(fault, cursor.connection, dialect)
        raise fault.error(dialect)

    def execute_many(cursor: Any, statement: str, parameters: Any, context: Any) -> bool:
        if not fault.strikes(statement):
            return False
        if fault.done:
            cursor.executemany(statement, parameters)
        _break(fault, cursor.connection, dialect)
        raise fault.error(dialect)

    def execute_plain(cursor: Any, statement: str, context: Any) -> bool:
        return execute(cursor, statement, ())

    def commit(connection: sa.Connection) -> None:
        if not fault.strikes("COMMIT"):
            return
        raw = connection.connection.dbapi_connection
        assert raw is not None
        if fault.done:
            raw.commit()
        _break(fault, raw, dialect)
        error = fault.error(dialect)
        lost = dialect == "postgresql" and fault.kind == PASSING
        raise exc.OperationalError("COMMIT", {}, error, connection_invalidated=lost)

    hooks = {
        "do_execute": execute,
        "do_executemany": execute_many,
        "do_execute_no_params": execute_plain,
    }
    for name, hook in hooks.items():
        sa.event.listen(engine, name, hook)
    sa.event.listen(engine, "commit", commit)
    try:
        yield fault
    finally:
        for name, hook in hooks.items():
            sa.event.remove(engine, name, hook)
        sa.event.remove(engine, "commit", commit)
