"""Sphinx extension: the compiler's own tables as tables of a page: passes, their options, kinds.

``.. whet-table:: passes`` stands for a table of :data:`TABLES`, made when the page is built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from docstrings import list_table

Rows = Iterator[tuple[str, ...]]


def passes() -> Rows:
    """The passes of ``lower``, in order."""
    from whet.compiler.passes import PASSES

    for p in PASSES:
        yield f"``{p.name}``", str(p.phase), p.why


def build_passes() -> Rows:
    """The passes of ``build``, by the kind of target."""
    from whet.compiler.passes import BUILD_PASSES

    for kind, steps in BUILD_PASSES.items():
        for name, home, *_ in steps:
            yield f"``{kind}``", f"``{name}``", f"``{home.replace('whet.', '', 1)}``"


def absent_passes() -> Rows:
    """TVM's passes that are none here."""
    from whet.tvm.absent import ABSENT

    for name, why in ABSENT["tir.transform"].items():
        yield f"``{name}``", why


def options() -> Rows:
    """The keys of ``PassContext``."""
    from whet.compiler.passes import OPTIONS

    for key, option in OPTIONS.items():
        if not option.fields:
            yield f"``{key}``", f"``{option.default!r}``", option.meaning
            continue
        yield f"``{key}``", "", option.meaning
        for inner, field in option.fields.items():
            yield f"``{key}`` [``{inner!r}``]", f"``{field.default!r}``", field.meaning


def absent_options() -> Rows:
    """TVM's keys that have no meaning here."""
    from whet.compiler.passes.options import NO_MEANING

    for key, why in NO_MEANING.items():
        yield f"``{key}``", why


def kinds() -> Rows:
    """The kinds of targets."""
    from whet.compiler.target.kinds import KINDS

    for kind in KINDS.values():
        names = ", ".join(f"``{name.replace('_', '-')}``" for name in kind.options)
        yield f"``{kind.name}``", kind.device, names


TABLES: dict[str, tuple[tuple[str, ...], Callable[[], Rows]]] = {
    "passes": (("pass", "phase", "why it stands there"), passes),
    "build-passes": (("target", "pass", "where it is"), build_passes),
    "absent-passes": (("TVM's pass", "what does its work, or why there is none"), absent_passes),
    "options": (("key", "default", "meaning"), options),
    "absent-options": (("TVM's key", "why it has no meaning"), absent_options),
    "kinds": (("kind", "device", "options"), kinds),
}
"""The head of each table, and what makes its rows."""


def lines_of(name: str) -> list[str]:
    """A table as reStructuredText."""
    head, rows = TABLES[name]
    return list_table([head, *rows()])


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx."""
    from docutils import nodes
    from docutils.statemachine import StringList
    from sphinx.util.docutils import SphinxDirective

    class WhetTable(SphinxDirective):
        """A table of :data:`TABLES`."""

        required_arguments = 1

        def run(self) -> list[nodes.Node]:
            name = self.arguments[0]
            return self.parse_text_to_nodes(StringList(lines_of(name), f"table {name}"))

    app.add_directive("whet-table", WhetTable)
    return {"parallel_read_safe": True}
