"""The table that ``print(space)`` shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whet.search_spaces.space import ConfigSpace


def table(space: ConfigSpace) -> str:
    """One line per knob (kind, number of choices, default), then the total."""
    title = f"space of {space.template}" if space.template else "space"
    rows = [("knob", "kind", "choices", "default")]
    for knob in space.knobs.values():
        choice = knob.choices[knob.default]
        shown = f"({', '.join(map(str, choice))})" if isinstance(choice, tuple) else str(choice)
        rows.append((knob.name, knob.kind, str(len(knob)), shown))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [
        f"  {name:<{widths[0]}}  {kind:<{widths[1]}}  {count:>{widths[2]}}  {default}"
        for name, kind, count, default in rows
    ]
    total = f"{space.size:,} configs"
    return "\n".join([f"{title}: {len(space.knobs)} knobs, {total}", *lines])
