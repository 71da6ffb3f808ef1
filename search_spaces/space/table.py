"""The table that ``print(space)`` shows."""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import TYPE_CHECKING

from whet.search_spaces.values.counted import counted

if TYPE_CHECKING:
    from whet.search_spaces.space.config_space import ConfigSpace


def table(space: ConfigSpace) -> str:
    """One line per knob (kind, choices, default), each text of a constraint, and the total."""
    title = f"space of {space.template}" if space.template else "space"
    if space.level != "full":
        title = f"{space.level} {title}"
    rows = [("knob", "kind", "choices", "default")]
    default = space.default.as_dict()
    for knob in space.knobs.values():
        choice = default[knob.name]
        shown = f"({', '.join(map(str, choice))})" if isinstance(choice, tuple) else str(choice)
        rows.append((knob.name, knob.kind, str(len(knob)), shown))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [
        f"  {name:<{widths[0]}}  {kind:<{widths[1]}}  {count:>{widths[2]}}  {default}"
        for name, kind, count, default in rows
    ]
    for constraint, count in Counter(c.text for c in space.constraints).items():
        lines.append(f"  where {constraint}" + (f", {count} times" if count > 1 else ""))
    head = f"{title}: {counted(len(space.knobs), 'knob')}, {_total(space)}"
    names = list(space.knobs)
    for component in space.valid_points.components():
        if component.way == "walk":
            biased = ", ".join(names[v] for v in component.variables)
            lines.append(
                f"  samples of {biased} are biased: valid choices are so rare that they are "
                "reached by random walks from known ones"
            )
    return "\n".join([head, *lines])


def _total(space: ConfigSpace) -> str:
    if not space.constraints:
        return counted(space.size, "config")
    error = space.size_error
    number = f"{space.size:,}"
    if error == inf:
        number = f"perhaps {space.size:.2g}"
    elif error:
        number = f"about {space.size:.3g} (± {100 * error:.1f} %)"
    return f"{number} valid configs of {space.range_length:,}"
