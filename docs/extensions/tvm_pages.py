"""The table of TVM's pages: docs/tvm_pages.toml as the text of docs/tvm_pages.md.

``python docs/extensions/tvm_pages.py`` writes the page anew.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1]
TABLE, PAGE = DOCS / "tvm_pages.toml", DOCS / "tvm_pages.md"
TESTS = tuple(f"tests/whet/docs/test_docs_gallery{part}.py" for part in ("", "_stages", "_tuning"))
STATUSES = ("runs", "stands", "never")


def sections() -> dict[str, dict]:
    """The table as it is read."""
    return tomllib.loads(TABLE.read_text())


def text() -> str:
    """The page: its head as it is, and the table behind it."""
    lines = [PAGE.read_text().split("\n## ")[0].rstrip(), ""]
    for section in sections().values():
        lines += [f"## {section['title']}", "", "| page | | here |", "| --- | --- | --- |"]
        for row in section["rows"]:
            tests = ", ".join(f"`{test}`" for test in row.get("test", "").split())
            here = "; ".join(part for part in (tests, row.get("note", "")) if part)
            lines.append(f"| {row['page'].replace('*', '…')} | {row['status']} | {here} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(text())
