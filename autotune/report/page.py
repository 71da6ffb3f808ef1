"""A report: one HTML file about a log, complete in itself, the same for the same log."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whet.autotune.report import sections, summary
from whet.autotune.report.charts import Room
from whet.autotune.report.markup import Child, Markup, join, tag
from whet.autotune.report.style import STYLE
from whet.autotune.report.words import soft, table, target_text
from whet.autotune.results.knob_values import dimensions
from whet.autotune.results.recorded import TaskTrials, find_tasks, opened, read_task
from whet.compiler.errors import ArgumentError
from whet.db.values.identity import device_key
from whet.search_spaces.values.counted import counted, duration

if TYPE_CHECKING:
    from whet.db import TuningLog
    from whet.db.values.identity import Location
    from whet.search_spaces import Workload

BEGINNING = "<!DOCTYPE html>"
NOTHING_FROM_ELSEWHERE = "default-src 'none'; style-src 'unsafe-inline'"
"""The page loads nothing; no script of whatever text may run either."""


def report(
    log: TuningLog | Location,
    op: str | None = None,
    args: Sequence[Any] | None = None,
    workload: Workload | None = None,
    generated: str = "",
    say: Callable[[str], None] = lambda text: None,
) -> str:
    """A log as one HTML page that needs no network.

    Args:
        log: a log, its path or its URL.
        op: only tasks of this template; None: all.
        args: only tasks whose arguments begin with these; None: all.
        workload: only this workload; None: all.
        generated: when or by whom it is made, for its head; "": the page is a function of the log.
        say: called with a line before each task that is read.

    Returns:
        HTML that is well-formed XML, too.

    Raises:
        LogError: the log cannot be read, holds no trials, or none of what is asked for.
    """
    with opened(log, write=False) as tuning_log:
        tasks = find_tasks(tuning_log, op, args, workload)
        room = Room.of(len(tasks))
        parts, rows = [], []
        for place, task in enumerate(tasks, 1):
            say(f"{place}/{len(tasks)}  {task.workload}")
            data = read_task(tuning_log, task)
            parts.append(_task(place, data, room))
            rows.append(_row(place, data))
        location = tuning_log.location
    title = f"Tuning report: {location}"
    return _page(title, generated, _index(rows) if len(rows) > 1 else None, join(parts))


def write_report(
    log: TuningLog | Location,
    path: Location,
    **chosen: Any,
) -> Path:
    """Write :func:`report` to a file; a report that is there is replaced at once, or stays.

    Args:
        log: a log, its path or its URL.
        path: the file.
        chosen: as for :func:`report`.

    Raises:
        ArgumentError: the file is there and is no report, or its folder is not.
        LogError: as :func:`report`.
    """
    target = Path(path).expanduser()
    _check_path(target)
    new = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        new.touch()  # a folder that cannot be written is found before the log is read
        new.write_text(report(log, **chosen), encoding="utf-8")
        new.replace(target)
    except OSError as error:
        raise ArgumentError(
            f"write a report to {target}", f"{error.strerror}", "give another file"
        ) from error
    finally:
        with suppress(OSError):
            new.unlink(missing_ok=True)
    return target


def _check_path(path: Path) -> None:
    request = f"write a report to {path}"
    if path.is_dir():
        raise ArgumentError(request, "it is a folder", f"give a file: {path / 'report.html'}")
    if not path.parent.is_dir():
        raise ArgumentError(
            request, f"there is no folder {path.parent}", "make it, or give another"
        )
    if path.exists():
        with path.open("rb") as file:
            begin = file.read(len(BEGINNING))
        if begin and begin != BEGINNING.encode():
            raise ArgumentError(
                request, "the file is there and is no report", "give another file, or remove it"
            )


def _page(title: str, generated: str, index: Markup | None, content: Markup) -> str:
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=NOTHING_FROM_ELSEWHERE),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Markup(STYLE)),
    )
    body = tag(
        "body",
        tag("h1", title),
        soft(generated) if generated else None,
        index,
        tag("main", content),
    )
    return f"{BEGINNING}\n{tag('html', head, body, lang='en')}\n"


def _index(rows: Sequence[Sequence[Child]]) -> Markup:
    head = (
        "task", "trials", "failed", "best", "GFLOP/s", "speed-up", "how good the best is",
        "target and machine",
    )  # fmt: skip
    return tag("nav", table(head, rows, {1, 2, 3, 4, 5}))


def _row(place: int, data: TaskTrials) -> Sequence[Child]:
    task, best, default = data.task, data.best, data.default
    speed_up = best and default and default.result.ok
    return (
        tag("a", str(task.workload), href=f"#task{place}"),
        f"{len(data.searched):,}",
        f"{sum(t.result.failed for t in data.searched):,}",
        f"{duration(best.cost)}{' predicted' * bool(best.result.predicted)}"
        if best
        else "nothing worked",
        f"{best.gflops:.1f}" if best and best.flop else "",
        f"{default.cost / best.cost:.2f}x" if speed_up and best and default else "",
        str(best.quality or "") if best else "",
        f"{target_text(task.target)}, {device_key(task.device)}",
    )


def _task(place: int, data: TaskTrials, room: Room) -> Markup:
    first = "first" if place == 1 else None
    head = tag("h2", str(data.task.workload), id=f"task{place}", class_=first)
    if not data.searched:
        began = counted(len(data.task.runs), "run")
        nothing = tag("p", f"{began} of it began, and no trial is recorded.")
        return tag("section", head, nothing, summary.runs(data))
    knobs = dimensions([t.config for t in data.searched])
    predicted = sections.predictions(data, knobs)
    return tag(
        "section",
        head,
        summary.summary(data),
        sections.search(data, room),
        summary.finals(data),
        summary.top(data),
        sections.knobs(data, knobs, room),
        sections.model(data, predicted, room),
        sections.failed(data),
        sections.time_spent(data),
        sections.noise(data),
        summary.program(data),
        summary.runs(data),
    )
