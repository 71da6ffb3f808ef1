"""`whet upgrade`: a log that an older version of Whet made, brought up to this one's tables."""

from __future__ import annotations

import click


@click.command("upgrade")
@click.argument("log", default="whet.db")
def command(log: str) -> None:
    """Bring LOG (default: whet.db) up to this version of Whet.

    All that is in it stays. Searches do so by themselves; an older Whet cannot open it afterwards.
    A file is copied first, as LOG.v<its version>.bak.
    """
    from whet.db import TuningLog
    from whet.db.store import engine, faults, schema

    place = engine.place_of(log)
    # A log that is not there is not made.
    looked_at, _ = engine.open_engine(place, write=False)
    try:
        with faults.errors_named(f"open log {place.shown}", place), engine.reading(looked_at) as c:
            found = schema.version_of(c, place.shown)
    finally:
        looked_at.dispose()
    TuningLog(log, write=found is not None, waiting=lambda line: click.echo(line, err=True)).close()
    if found == schema.SCHEMA:
        click.echo(f"{place.shown} is up to date: its tables are of version {found}")
    else:
        click.echo(f"{place.shown}: tables of version {found} are of version {schema.SCHEMA} now")
