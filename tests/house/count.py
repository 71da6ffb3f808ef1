"""The size of a tree: syntax-tree nodes without docstrings, lines of sources, bytes of data."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from house.tree import APART, CODE, DATA, PRODUCT, Tree, nodes, room_of, top_of

SCOPES = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass
class Size:
    """The size of a room or of several.

    Attributes:
        nodes: syntax-tree nodes of Python files, docstrings left out.
        text: characters of string constants, docstrings left out: code can hide there.
        lines: of .h, .cuh, .c, .ll and .toml files.
        data: bytes of .md, .json, .txt, .yaml and other data files.
        files: Python files.
    """

    nodes: int = 0
    text: int = 0
    lines: int = 0
    data: int = 0
    files: int = 0

    def __iadd__(self, other: Size) -> Size:
        for name in vars(self):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self


@dataclass
class Count:
    """The sizes of a tree.

    Attributes:
        rooms: folder -> its size, without the folders in it.
        product: of all that a wheel holds, and of the .toml files at the top.
        apart: of each folder that is not in a wheel, with the folders in it.
    """

    rooms: dict[str, Size] = field(default_factory=dict)
    product: Size = field(default_factory=Size)
    apart: dict[str, Size] = field(default_factory=dict)

    def together(self) -> Size:
        """The product and all that lies apart from it."""
        total = Size()
        for size in (self.product, *self.apart.values()):
            total += size
        return total


def count(tree: Tree) -> Count:
    """Count a tree's rooms."""
    counted = Count(apart={top: Size() for top in APART})
    for path, text in tree.texts.items():
        size, top = size_of(tree, path, text), top_of(path)
        counted.rooms.setdefault(room_of(path), Size()).__iadd__(size)
        if top in PRODUCT or (top == "." and path.endswith(".toml")):
            counted.product += size
        elif top in APART:
            counted.apart[top] += size
    return counted


def size_of(tree: Tree, path: str, text: str) -> Size:
    """The size of one file."""
    if path in tree.parsed:
        nodes, characters = nodes_of(tree.parsed[path])
        return Size(nodes, characters, files=1)
    suffix = PurePosixPath(path).suffix
    if suffix in CODE:
        return Size(lines=text.count("\n"))
    return Size(data=len(text.encode())) if suffix in DATA else Size()


def nodes_of(module: ast.Module) -> tuple[int, int]:
    """Nodes and characters of string constants of a module without its docstrings.

    >>> nodes_of(ast.parse('\"\"\"Text.\"\"\"\\nx = "ab"'))
    (5, 2)
    """
    left_out: set[int] = set()
    number = characters = 0
    for node in nodes(module):
        if isinstance(node, SCOPES) and node.body and is_docstring(node.body[0]):
            left_out |= {id(node.body[0]), id(node.body[0].value)}  # type: ignore[attr-defined]
        if id(node) in left_out:
            continue
        number += 1
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            characters += len(node.value)
    return number, characters


def is_docstring(statement: ast.stmt) -> bool:
    """True for a statement that is a string."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
