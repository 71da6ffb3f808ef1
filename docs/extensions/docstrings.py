"""Sphinx extension: what our docstrings say otherwise than reStructuredText does."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

BARS = re.compile(r"(``.*?``)|\|")


def as_rst(lines: list[str]) -> list[str]:
    """A docstring's lines with its tables as list-tables, and absolute values as they are read.

    Examples (doctests) stay untouched.
    """
    out: list[str] = []
    rows: list[str] = []
    in_example = False
    for line in [*lines, ""]:
        text = line.strip()
        in_example = bool(text) and (in_example or text.startswith(">>>"))
        if not in_example and len(text) > 2 and text[0] == text[-1] == "|":
            rows.append(line)
            continue
        if rows:
            out += _table(rows)
            rows = []
        out.append(line if in_example else BARS.sub(lambda m: m[1] or r"\|", line))
    return out[:-1]


def list_table(rows: Iterable[Sequence[str]]) -> list[str]:
    """Rows of cells as reStructuredText; the first one is the head."""
    out = [".. list-table::", "   :header-rows: 1", ""]
    for row in rows:
        out += [f"   {'  ' if k else '* '}- {cell}" for k, cell in enumerate(row)]
    return [*out, ""]


def _table(rows: list[str]) -> list[str]:
    indent = rows[0][: len(rows[0]) - len(rows[0].lstrip())]
    cells = [[cell.strip() for cell in row.strip()[1:-1].split("|")] for row in rows]
    rule = [row for row in cells if all(set(cell) <= {"-", ":"} for cell in row)]
    return ["", *(indent + line for line in list_table(r for r in cells if r not in rule))]


def _process(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = as_rst(lines)


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", _process, priority=400)  # before napoleon's 500
    return {"parallel_read_safe": True}
