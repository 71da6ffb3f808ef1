"""Reads docs/checklist.toml and says what is wrong with it; the page and its test share this."""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs" / "checklist.toml"

STATUSES = {
    "done": "it is here; the test proves it",
    "differs": "reached in another way",
    "next": "planned",
    "never": "will not come",
}


@dataclass(frozen=True)
class Row:
    """One thing that TVM's users had."""

    section: str
    api: str
    means: str
    status: str
    tests: tuple[str, ...] = ()
    note: str = ""

    @property
    def names(self) -> list[str]:
        """The dotted names in backquotes."""
        return [n for n in re.findall(r"`([^`]+)`", self.api) if re.fullmatch(r"[\w.]+", n)]


@dataclass(frozen=True)
class Section:
    """Rows that belong together."""

    key: str
    title: str
    rows: tuple[Row, ...]


def read(table: Path = TABLE) -> list[Section]:
    """The sections of the table, in its order."""
    return [
        Section(key, section["title"], tuple(_row(key, fields) for fields in section["rows"]))
        for key, section in tomllib.loads(table.read_text()).items()
    ]


def _row(section: str, fields: dict[str, str]) -> Row:
    unknown = sorted(set(fields) - {"api", "means", "status", "test", "note"})
    if unknown:
        raise ValueError(f"{fields.get('api')}: unknown fields {unknown}")
    tests = tuple(fields.get("test", "").split())
    note = fields.get("note", "")
    return Row(section, fields["api"], fields["means"], fields["status"], tests, note)


def problems(row: Row) -> Iterator[str]:
    """The faults of a row, in words."""
    if row.status not in STATUSES:
        yield f"status {row.status!r} is none of {', '.join(STATUSES)}"
    if not row.means:
        yield "it does not say what it means"
    if row.status == "done" and not row.tests:
        yield "it is done, but no test is named"
    if row.status in ("differs", "next", "never") and not row.note:
        yield f"it is {row.status!r}, but the note does not say why"
    for test in row.tests:
        if line_of(test) is None:
            yield f"there is no test {test}"
    if row.status == "done":
        for name in row.names:
            if not resolves(name):
                yield f"there is no whet.{name}"


def line_of(test: str) -> int | None:
    """The line of ``tests/x.py::test_y`` or ``tests/x.py::TestClass::test_y``, or None."""
    file, *names = test.split("::")
    if not names or not names[-1].startswith("test_") or not (ROOT / file).is_file():
        return None
    return definitions(ROOT / file).get("::".join(names))


@cache
def definitions(file: Path) -> dict[str, int]:
    """The tests of a file, as pytest collects them, with their lines."""
    found: dict[str, int] = {}
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = node.lineno
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            methods = (m for m in node.body if isinstance(m, ast.FunctionDef))
            found |= {f"{node.name}::{m.name}": m.lineno for m in methods}
    return found


def resolves(name: str) -> bool:
    """True if ``whet.`` has this name: as an import, an attribute, or set by a class."""
    value: Any = import_module("whet")
    *path, last = name.split(".")
    for part in path:
        if not hasattr(value, part):
            return False
        value = getattr(value, part)
    return hasattr(value, last) or (inspect.isclass(value) and last in _set_by(value))


def _set_by(cls: type) -> set[str]:
    """The names that a class's code gives to ``self``, or annotates."""
    found: set[str] = set()
    for base in cls.__mro__[:-1]:
        found |= set(getattr(base, "__annotations__", {}))
        found |= set(re.findall(r"self\.(\w+)(?:: [^=\n]+)? = ", inspect.getsource(base)))
    return found
