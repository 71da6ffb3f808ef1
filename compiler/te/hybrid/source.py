"""The source of a script: its syntax tree, and the places that errors point at."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from whet.compiler.errors import ArgumentError


class ScriptError(ArgumentError):
    """A script says something that its subset of Python has not; names file, line and column."""


@dataclass(slots=True, eq=False)
class Source:
    """The text of one function.

    Attributes:
        name: the function's.
        file: where it stands.
        lines: its lines, as they stand there.
        first_line: the number of the first one in the file, from 1 on.
        indent: by how many columns the lines were moved for the parser.
        tree: the function.
    """

    name: str
    file: str
    lines: list[str]
    first_line: int
    indent: int
    tree: ast.FunctionDef

    def error(self, node: ast.AST | None, why: str, way_out: str = "") -> ScriptError:
        """The error of a place in the source: what is not possible there, and the way out."""
        at = node if node is not None and hasattr(node, "lineno") else self.tree
        row = int(getattr(at, "lineno", 1)) - 1
        line = self.lines[row] if row < len(self.lines) else ""
        column = _column(line, int(getattr(at, "col_offset", 0)) + self.indent)
        place = f"{self.file}:{self.first_line + row}:{column + 1}"
        shown = f"{place}\n  {line.rstrip()}\n  {' ' * column}^"
        state = f"{shown}\n{way_out}" if way_out else shown
        return ScriptError(f"te.hybrid.script({self.name})", why, state)


def _column(line: str, offset: int) -> int:
    """The column in characters; syntax trees count bytes of UTF-8."""
    return len(line.encode()[:offset].decode(errors="ignore"))


def source_of(function: Callable[..., Any]) -> Source:
    """The source of a function.

    Raises:
        ArgumentError: where there is none: functions made at a prompt, by ``exec`` or ``lambda``.
    """
    name = getattr(function, "__name__", repr(function))
    request = f"te.hybrid.script({name})"
    try:
        lines, first = inspect.getsourcelines(function)
        file = inspect.getsourcefile(function) or "<unknown>"
    except (OSError, TypeError):
        raise ArgumentError(
            request, "its source is not at hand, and a script is read from it",
            "write the function in a file or in a notebook's cell",
        ) from None  # fmt: skip
    return parsed("".join(lines), name, file, first)


def parsed(text: str, name: str, file: str, first_line: int = 1) -> Source:
    """The source whose text is known; ``name``: of the function in it.

    Raises:
        ArgumentError: for a text in which no such function is defined.
    """
    lines = text.splitlines()
    plain = textwrap.dedent(text)
    indent = len(lines[0]) - len(plain.splitlines()[0]) if lines else 0
    try:
        tree = ast.parse(plain)
    except SyntaxError:
        tree = ast.Module([], [])
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return Source(name, file, lines, first_line, indent, node)
    raise ArgumentError(
        f"te.hybrid.script({name})",
        f"{file}:{first_line} does not define a function {name}",
        "a script is a function that is defined by `def`",
    )
