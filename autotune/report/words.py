"""Tables, lists of facts and figures, and how a report says times, dates and machines."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from whet.autotune.report.markup import Child, Markup, tag


def table(
    head: Sequence[str], rows: Iterable[Sequence[Child]], numbers: Collection[int] = ()
) -> Markup:
    """A table.

    Args:
        head: the columns' names.
        rows: the cells.
        numbers: the columns that are aligned to the right.
    """

    def side(i: int) -> str | None:
        return "right" if i in numbers else None

    first = tag("tr", [tag("th", name, class_=side(i), scope="col") for i, name in enumerate(head)])
    body = [tag("tr", [tag("td", c, class_=side(i)) for i, c in enumerate(row)]) for row in rows]
    content = tag("table", tag("thead", first), tag("tbody", body))
    return tag("div", content, class_="wide")


def facts(pairs: Iterable[tuple[str, Child]]) -> Markup:
    """Names with what they are."""
    return tag("dl", [[tag("dt", name), tag("dd", said)] for name, said in pairs])


def figure(drawing: Markup, caption: Child = None) -> Markup:
    """A drawing with a line below it."""
    return tag("figure", drawing, tag("figcaption", caption) if caption else None)


def soft(text: Child) -> Markup:
    """A paragraph in the colour of captions."""
    return tag("p", text, class_="soft")


def folded(summary: Child, *content: Child) -> Markup:
    """Content that is shown when its summary is clicked."""
    return tag("details", tag("summary", summary), content)


def data_text(value: Any) -> Markup:
    """Plain data as readable JSON."""
    return tag("pre", json.dumps(value, indent=2, sort_keys=True, default=str, ensure_ascii=False))


def date(stamp: float | None) -> str:
    """A moment in UTC: ``2026-11-21 09:30:05 UTC``; "" where it is not known."""
    if not stamp:
        return ""
    try:
        return datetime.fromtimestamp(stamp, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):  # a log that was edited
        return str(stamp)


def target_text(target: dict[str, Any]) -> str:
    """A target in a few words: its kind and its processor."""
    kind = str(target.get("kind", "?"))
    cpu = target.get("mcpu")
    return f"{kind} -mcpu={cpu}" if cpu else kind
