"""Sphinx extension: the checklist as a page, and a page of proofs for each file of tests.

The directive ``checklist`` stands for the whole table. A row's tests link to their source, which
is shown in ``generated/proofs``, so that the pages can be read without the repository.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import checklist_table as table
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.logging import getLogger

LOG = getLogger(__name__)


def proof_name(test: str) -> str:
    """The label of a test's source."""
    return "proof-" + re.sub(r"\W+", "-", test)


def proof_page(file: str) -> str:
    """The page of a file of tests."""
    return re.sub(r"\W+", "-", file.removeprefix("tests/").removesuffix(".py"))


def counts(rows: list[table.Row]) -> str:
    """``12 done, 3 next``, in the order of the statuses."""
    found = Counter(r.status for r in rows)
    return ", ".join(f"{found[s]} {s}" for s in table.STATUSES if found[s])


class Checklist(SphinxDirective):
    """The whole table, section by section."""

    def run(self) -> list[nodes.Node]:
        """The nodes that stand for the directive."""
        self.env.note_dependency(str(table.TABLE))
        sections = table.read()
        everything = [r for section in sections for r in section.rows]
        lines = [f"{len(everything)} rows: {counts(everything)}.", ""]
        for section in sections:
            head = f"{section.key}: {section.title}" if section.key[0] == "1" else section.title
            lines += [head, "-" * len(head), "", f"{counts(list(section.rows))}.", ""]
            lines += [".. list-table::", "   :header-rows: 1", "   :class: checklist"]
            lines += ["   :widths: 30 34 8 28", ""]
            lines += [
                "   * - TVM's name",
                "     - what it does",
                "     - status",
                "     - test or reason",
            ]
            for row in section.rows:
                lines += [line for line in self._row(row)]
            lines.append("")
        return self.parse_text_to_nodes(StringList(lines, "checklist"), allow_section_headings=True)

    def _row(self, row: table.Row) -> list[str]:
        for problem in table.problems(row):
            LOG.warning("checklist.toml: %s: %s", row.api, problem)
        proofs = [
            f":ref:`{test.split('::')[0].rpartition('/')[2]}:{table.line_of(test)} "
            f"<{proof_name(test)}>`"
            for test in row.tests
        ]
        why = ", ".join([*proofs, *([_literal(row.note)] if row.note else [])])
        return [
            f"   * - {_literal(row.api)}",
            f"     - {_literal(row.means)}",
            f"     - {row.status}",
            f"     - {why}",
        ]


def _literal(text: str) -> str:
    escaped = re.sub(r"([*_|\\])", r"\\\1", text)
    return re.sub(r"`([^`]+)`", lambda m: "``" + re.sub(r"\\(.)", r"\1", m[1]) + "``", escaped)


def write_proofs(app: Sphinx) -> None:
    """One page for each file of tests that the table names, with the source of those tests."""
    folder = Path(app.srcdir) / "generated" / "proofs"
    folder.mkdir(parents=True, exist_ok=True)
    tests = {t for s in table.read() for r in s.rows for t in r.tests if table.line_of(t)}
    files: dict[str, list[str]] = {}
    for test in sorted(tests, key=lambda t: (t.split("::")[0], table.line_of(t))):
        files.setdefault(test.split("::")[0], []).append(test)
    pages = {proof_page(file): _proofs(file, found) for file, found in files.items()}
    for old in folder.glob("*.rst"):
        if old.stem not in pages:
            old.unlink()
    for name, text in pages.items():
        page = folder / f"{name}.rst"
        if not page.exists() or page.read_text() != text:
            page.write_text(text)


def _proofs(file: str, tests: list[str]) -> str:
    lines = [":orphan:", "", file, "=" * len(file), ""]
    for test in tests:
        name = test.split("::", 1)[1].replace("::", ".")
        lines += [f".. _{proof_name(test)}:", "", name, "-" * len(name), ""]
        lines += [
            f".. literalinclude:: ../../../{file}",
            f"   :pyobject: {name}",
            "   :lineno-match:",
            "",
        ]
    return "\n".join(lines)


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("builder-inited", write_proofs)
    app.add_directive("checklist", Checklist)
    return {"parallel_read_safe": True}
