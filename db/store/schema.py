"""The version of a log's tables: checked at every opening, made or upgraded by Alembic."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from whet.compiler.errors import LogError
from whet.compiler.installed import DISTRIBUTION
from whet.db.quick.place import SCHEMA, VERSION_TABLE, Place
from whet.db.store import engine as db_engine
from whet.db.store.backup import back_up

MIGRATIONS = Path(__file__).parent / "migrations"
TABLES = frozenset({"workload", "target", "device", "task", "run", "trial", "session", "claim"})
ADVISORY_LOCK = 0x77686574  # "whet": PostgreSQL's name for the right to change our tables


def version_of(connection: sa.Connection, shown: str = "it") -> str | None:
    """The revision of the tables in this database, or None where there are none of ours.

    Args:
        connection: a transaction.
        shown: the log's location, for errors.

    Raises:
        LogError: the database is another program's.
    """
    tables = set(sa.inspect(connection).get_table_names())
    if VERSION_TABLE in tables:
        query = sa.text(f"SELECT version_num FROM {VERSION_TABLE}")
        version = connection.execute(query).scalar()
        if version is not None:
            return str(version)
    others = tables - {VERSION_TABLE}
    # A server's database may be shared with other programs; an SQLite file is one program's.
    if others and (connection.dialect.name == "sqlite" or others & TABLES):
        raise LogError(
            f"open log {shown}",
            f"the database is another program's (its tables: {', '.join(sorted(others)[:6])})",
            "give a database or a file of its own",
        )
    return None


def make_ready(
    place: Place,
    engine: sa.Engine,
    read_only: str,
    progress: Callable[[str], Any] | None = None,
) -> None:
    """Check the tables' version; create or upgrade them where that may be done.

    Args:
        place: where the log is.
        engine: an open engine on it.
        read_only: why it can only be read, or "".
        progress: is given a line on a long upgrade now and then.

    Raises:
        LogError: made by a newer version; not ours; older or empty and read-only; there is no room
            for the copy that is made before an upgrade.
    """
    with db_engine.reading(engine) as connection:
        version = version_of(connection, place.shown)
    if version == SCHEMA:
        return
    request = f"open log {place.shown}"
    if version is not None and not (version.isdigit() and int(version) < int(SCHEMA)):
        raise LogError(
            request,
            f"it was made by a newer version of Whet (its tables are version {version};"
            f" this one knows up to {SCHEMA})",
            f"upgrade: pip install --upgrade {DISTRIBUTION}; or give another file",
        )
    if read_only:
        why, way_out = "there is no log in it yet", "give a log that was tuned with"
        if version is not None:
            why, way_out = f"its tables are of version {version}", f"whet upgrade {place.shown}"
        raise LogError(request, f"{why}, and {read_only}", way_out)
    upgrade(place, progress=progress)


def upgrade(
    place: Place,
    to: str = SCHEMA,
    migrations: Path = MIGRATIONS,
    progress: Callable[[str], Any] | None = None,
) -> None:
    """Create the tables, or bring them up to a revision: all of it or nothing.

    Several processes may do so at once: one migrates, the others wait and find it done. An SQLite
    file that holds a log is copied first (:mod:`whet.db.store.backup`).

    Args:
        place: where the log is.
        to: the revision.
        migrations: the folder of the revisions.
        progress: is given a line now and then.

    Raises:
        LogError: there is no room for the copy; rows would point nowhere.
    """
    # Imported here: a log that is up to date opens without Alembic.
    from alembic import command
    from alembic.config import Config

    copy: Path | None = None
    config = Config()
    config.attributes["progress"] = progress
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    # SQLite can alter little: batch mode rebuilds a table, and dropping the old one must be let.
    engine, _ = db_engine.open_engine(place, write=True, foreign_keys=False)
    try:
        with engine.begin() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK})"))
            config.attributes["connection"] = connection
            # Under the lock of this transaction: another process may just have done it all.
            version = version_of(connection, place.shown)
            if place.path is not None and version is not None and version < to:
                copy = back_up(place.path, version, progress=progress)
            command.upgrade(config, to)
            if connection.dialect.name == "sqlite":
                broken = connection.exec_driver_sql("PRAGMA foreign_key_check").first()
                if broken is not None:
                    why = f"a row of {broken[0]} would point nowhere"
                    raise LogError(f"upgrade log {place.shown}", why, "nothing was changed")
    except BaseException:
        if copy is not None:  # the log is what it was
            copy.unlink(missing_ok=True)
        raise
    finally:
        engine.dispose()
