"""`whet log stats`: numbers of a log."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import click

from whet.commands.log.saying import Saying

if TYPE_CHECKING:
    from collections import Counter

    from whet.db.exchange import LogStats


@click.command("stats")
@click.argument("log", default="whet.db")
@click.option("--json", "as_json", is_flag=True, help="As one JSON object.")
def command(log: str, as_json: bool) -> None:
    """Count what LOG (default: whet.db) holds."""
    from whet.db import TuningLog
    from whet.db.exchange import log_stats

    with TuningLog(log, write=False) as opened, Saying(f"counting in {opened.location}"):
        stats = log_stats(opened)
    if as_json:
        click.echo(json.dumps(vars(stats)))
        return
    for name, said in _lines(stats):
        click.echo(f"{name:<14}{said}")


def _lines(stats: LogStats) -> list[tuple[str, str]]:
    from whet.search_spaces.values.counted import counted

    size = "" if stats.size is None else f", {stats.size / 1e6:,.2f} MB"
    workloads, targets, machines = (
        counted(stats.workloads, "workload"),
        counted(stats.targets, "target"),
        counted(stats.devices, "machine"),
    )
    lines = [
        ("log", f"{stats.location}{size}, tables of version {stats.version}"),
        ("tasks", f"{stats.tasks:,}: {workloads}, {targets}, {machines}"),
        ("searches", _of(stats.searches)),
        ("trials", _of(stats.statuses)),
        ("configs", f"{stats.configs:,} tried, {stats.succeeded:,} worked"),
        ("last measured", f"{counted(stats.finals, 'result')} of searches' finalists"),
    ]
    if stats.withdrawn:
        lines.append(("withdrawn", f"{counted(stats.withdrawn, 'trial')} no longer hold"))
    if stats.sessions:
        lines.append(("running", f"{counted(stats.sessions, 'search', 'searches')} now"))
    if stats.first is not None and stats.last is not None:
        lines.append(("from, to", f"{_day(stats.first)}, {_day(stats.last)}"))
    return lines


def _of(counter: Counter[str]) -> str:
    """A total, and its parts, the most frequent first."""
    parts = ", ".join(f"{number:,} {name}" for name, number in counter.most_common())
    return f"{counter.total():,}{': ' if parts else ''}{parts}"


def _day(seconds: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):  # a log may hold any number
        return f"{seconds:g} s"
