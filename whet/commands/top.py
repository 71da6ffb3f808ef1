"""`whet top`: a log's searches and a cluster's devices as they are now."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

import click

from whet.commands.words import Seconds

if TYPE_CHECKING:
    from rich.console import Group

    from whet.db.live import LiveLog
    from whet.measure.cluster.reader import Cluster

BETWEEN = "2s"
"""Between two looks, where nothing else is said."""
LEAST_S = 0.05
"""Seconds between two looks at least."""
WORD = 44
"""Characters of a workload or a label that are shown."""

WIDTH = 160
"""Characters of a line that no terminal shows."""


@click.command("top")
@click.argument("places", nargs=-1, metavar="[LOG] [ray://HOST:PORT]")
@click.option("--once", is_flag=True, help="Say it once and end, as a script wants it.")
@click.option(
    "--every", type=Seconds(LEAST_S), default=BETWEEN, show_default=True, help="Between looks."
)
def command(places: tuple[str, ...], once: bool, every: float) -> None:
    """Show the searches of LOG (default: whet.db), the devices of a cluster, or both.

    A cluster is named by ray://host:port, or by host:port of its head. Ctrl-C ends it.
    """
    from rich.console import Console

    with contextlib.ExitStack() as opened:
        console = Console()
        if not console.is_terminal:  # a file or a pipe, which has no width
            console.width = max(console.width, WIDTH)
        with console.status("asking"):  # a cluster takes seconds for its first answer
            readers = [_reader(place, opened) for place in places or ("whet.db",)]
            first = _look(readers)
        if once:
            console.print(first)
            return
        from rich.live import Live

        with Live(first, console=console, auto_refresh=False, screen=True) as live:
            live.refresh()
            while True:
                time.sleep(every)
                live.update(_look(readers), refresh=True)


def _reader(place: str, opened: contextlib.ExitStack) -> tuple[str, Any]:
    """A place with what reads it."""
    if place.startswith("ray://") or _is_head(place):
        from whet.measure.cluster.reader import ClusterReader

        return place, opened.enter_context(ClusterReader(place))
    from whet.db import TuningLog
    from whet.db.live import LiveReader

    log = opened.enter_context(TuningLog(place, write=False))
    return log.location, LiveReader(log)


def _is_head(place: str) -> bool:
    """True for ``host:6379``; a log's file has no colon before digits, its URL has a scheme."""
    host, _, port = place.rpartition(":")
    return bool(host) and port.isdigit() and "/" not in place


def _look(readers: list[tuple[str, Any]]) -> Group:
    from rich.console import Group

    from whet.measure.cluster.reader import Cluster

    parts: list[Any] = []
    for place, reader in readers:
        state = reader.read()
        parts += of_cluster(place, state) if isinstance(state, Cluster) else of_log(place, state)
    return Group(*parts)


class _Rows:
    """A table's rows, whose words come from a log or a cluster: they are text, and no markup."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def add_row(self, *words: str) -> None:
        """Add a line."""
        from rich.text import Text

        self.table.add_row(*(Text(_plain(word)) for word in words))


def _plain(text: str) -> str:
    """A text without characters that steer a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _table(*columns: str) -> _Rows:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.lstrip(">"), justify="right" if column[0] == ">" else "left")
    return _Rows(table)


def of_cluster(place: str, cluster: Cluster) -> list[Any]:
    """The parts of a cluster's picture, for rich.

    Args:
        place: its address.
        cluster: its state.
    """
    from rich.text import Text

    from whet.measure.cluster.announce import text_of_cores
    from whet.search_spaces.values.counted import counted

    devices = sum(count for node in cluster.nodes for count, _ in node.devices.values())
    busy = sum(count - free for node in cluster.nodes for count, free in node.devices.values())
    head = f"{place}: {counted(len(cluster.nodes), 'node')}, {counted(devices, 'device')}"
    head += f", {busy} at work; Whet {cluster.head.whet or '?'}, Ray {cluster.head.ray}"
    table = _table("node", "device", "cores", ">at work", ">builders at work", "state")
    for node in cluster.nodes:
        builders = f"{node.cpus[0] - node.cpus[1]}/{node.cpus[0]}"
        host, state = node.host, _state_of(node, cluster)
        lines = sorted(node.devices.items(), key=lambda item: (item[0].kind, item[0].cores))
        for device, (count, free) in lines:
            where = text_of_cores(device.cores) or "GPU"
            where += "" if device.numa is None else f" (NUMA {device.numa})"
            table.add_row(host, device.kind, where, f"{count - free}/{count}", builders, state)
            host = builders = state = ""
        if not lines:
            table.add_row(host, "-", "-", "-", builders, state)
    parts = [Text(_plain(head), style="bold"), table.table, Text("")]
    if cluster.searches:
        searches = _table("search of process", ">measurers", ">builders", "of kind")
        for one in cluster.searches:
            words = (str(one.pid), str(one.measurers), str(one.builders))
            searches.add_row(*words, _short(", ".join(one.search.kinds)))
        parts += [searches.table, Text("")]
    return parts


def _state_of(node: Any, cluster: Cluster) -> str:
    if node.leaving:
        return "leaving"
    if cluster.head.whet and node.versions.whet and node.versions != cluster.head:
        return f"Whet {node.versions.whet} ({node.versions.code})"
    return "ready"


def of_log(place: str, log: LiveLog) -> list[Any]:
    """The parts of a log's picture, for rich.

    Args:
        place: its path or URL.
        log: its state.
    """
    from rich.text import Text

    from whet.db import device_key
    from whet.search_spaces.values.counted import counted, duration

    rate = sum(session.rate for session in log.sessions)
    queue = sum(session.in_flight for session in log.sessions)
    alive = counted(len(log.sessions), "search", "searches")
    head = f"{place}: {alive}, {counted(log.trials, 'trial')}, {rate:.2g}/s, {queue} in flight"
    searches = _table("host", ">pid", ">trials/s", ">in flight", "search")
    for session in sorted(log.sessions, key=lambda s: (s.host, s.pid)):
        words = (session.host, str(session.pid), f"{session.rate:.2g}", str(session.in_flight))
        searches.add_row(*words, _label(session.label))
    tasks = _table("workload", "device", ">trials", ">failed", ">in flight", ">trials/s", ">best")
    for task in log.tasks:
        tasks.add_row(
            _short(str(task.workload)),
            device_key(task.device),
            str(task.trials),
            str(task.failed),
            str(task.in_flight),
            f"{task.rate:.2g}",
            "-" if task.best is None else duration(task.best),
        )
    parts: list[Any] = [Text(_plain(head), style="bold")]
    parts += [searches.table, Text("")] if log.sessions else []
    parts += [tasks.table, Text("")] if log.tasks else []
    if log.failures:
        kinds = ", ".join(f"{count} {status}" for status, count in log.failures.items())
        parts.append(Text(_plain(f"of the newest {counted(log.newest, 'trial')} failed: {kinds}")))
    return parts


def _label(label: Any) -> str:
    """A session's label in a line: the names of its tasks first; keys are for programs."""
    if not isinstance(label, dict):
        return _short(str(label))
    names = label.get("names")
    others = (value for name, value in label.items() if name not in ("tasks", "names"))
    values = [*(names if isinstance(names, list) else [names]), *others]
    return _short(", ".join(str(value) for value in values if value not in (None, "")))


def _short(text: str) -> str:
    return text if len(text) <= WORD else f"{text[: WORD - 3]}..."
