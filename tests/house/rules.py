"""The rules of the house: functions from a tree to its violations, and the table of them."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from house.classes import halves
from house.imports import cycles, graph, imports
from house.tree import APART, CODE, PRODUCT, Tree, room_of, top_of

FILE_LINES = 400
FUNCTION_LINES = 60
CLASS_METHODS = 40
ROOM_FILES = 16
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
HERE = Path(__file__).parent


def read(name: str) -> dict[str, Any]:
    """A table that lies beside this file."""
    return tomllib.loads((HERE / name).read_text())


ROOMS: tuple[str, ...] = tuple(read("rooms.toml")["order"])
"""Every folder of the product, from the lowest: each imports only those before it."""
HOMES: dict[str, list[str]] = read("rooms.toml")["homes"]
"""Where a heavy library may be imported: beginnings of paths."""
AT_ONCE: dict[str, list[str]] = read("rooms.toml")["at_once"]
"""Where it may be imported with the file, because nobody imports the file before it is needed."""


@dataclass(frozen=True)
class Violation:
    """One place that breaks a rule.

    Attributes:
        key: names the place, and stays the same while lines move.
        value: how badly: lines, methods, files, imports; 1 where there is no degree.
        text: for people.
    """

    key: str
    value: int
    text: str


def definitions(tree: Tree) -> Iterator[tuple[str, Definition]]:
    """Every class and function of a tree, each with its file."""
    for path, module in tree.parsed.items():
        waiting: list[ast.AST] = [module]
        while waiting:  # an expression holds no definition
            for node in ast.iter_child_nodes(waiting.pop()):
                if isinstance(node, Definition):
                    yield path, node
                if not isinstance(node, ast.expr):
                    waiting.append(node)


def long_files(tree: Tree) -> Iterator[Violation]:
    """No file has more than 400 lines."""
    for path in tree.parsed:
        lines = tree.texts[path].count("\n")
        if lines > FILE_LINES:
            yield Violation(path, lines, f"{path}: {lines} lines, at most {FILE_LINES}")


def long_functions(tree: Tree) -> Iterator[Violation]:
    """No function has more than 60 lines, its docstring included."""
    for path, node in definitions(tree):
        lines = (node.end_lineno or 0) - node.lineno + 1
        if not isinstance(node, ast.ClassDef) and lines > FUNCTION_LINES:
            text = f"{path}:{node.lineno}: {node.name}: {lines} lines, at most {FUNCTION_LINES}"
            yield Violation(f"{path}:{node.name}", lines, text)


def large_classes(tree: Tree) -> Iterator[Violation]:
    """No class has more than 40 methods."""
    for path, node in definitions(tree):
        methods = sum(isinstance(x, FUNCTIONS) for x in node.body)
        if isinstance(node, ast.ClassDef) and methods > CLASS_METHODS:
            text = f"{path}:{node.lineno}: {node.name}: {methods} methods, at most {CLASS_METHODS}"
            yield Violation(f"{path}:{node.name}", methods, text)


def large_rooms(tree: Tree) -> Iterator[Violation]:
    """No folder has more than 16 sources, its ``__init__.py`` and headers included."""
    sources = (path for path in tree.texts if path in tree.parsed or path.endswith(CODE))
    files = Counter(room_of(path) for path in sources if top_of(path) in PRODUCT + APART)
    for room, number in files.items():
        if number > ROOM_FILES:
            yield Violation(room, number, f"{room}: {number} files, at most {ROOM_FILES}")


def divided_classes(tree: Tree) -> Iterator[Violation]:
    """A class stands in one file: no base of one subclass elsewhere that needs its attributes."""
    for half, whole in halves(tree):
        text = f"{half.key} is a half of {whole.key}; make it an object that the other holds"
        yield Violation(half.key, 1, text)


def module_cycles(tree: Tree) -> Iterator[Violation]:
    """No module imports itself by way of others, imports inside functions included."""
    for cycle in cycles(graph(tree)):
        for module in cycle:
            path = tree.modules[module]
            others = ", ".join(m for m in cycle if m != module)
            yield Violation(path, 1, f"{path} is in a cycle with {others}")


def room_order(tree: Tree) -> Iterator[Violation]:
    """A room imports only rooms before it in `rooms.toml`, inside functions, too."""
    upwards: Counter[tuple[str, str]] = Counter()
    where: dict[tuple[str, str], str] = {}
    place = {room: k for k, room in enumerate(ROOMS)}
    for path in tree.product():
        room = room_of(path)
        for one in imports(tree.parsed[path]):
            target = one.target(tree.modules)
            to = room_of(tree.modules[target]) if target else room
            if path == f"{room}/__init__.py" and to.startswith(f"{room}/"):
                continue  # a package's face shows what its own rooms hold
            up = place.get(to, -1) > place.get(room, len(place))
            if one.typing:  # keeps the order of the product's folders alone
                up = PRODUCT.index(top_of(f"{to}/")) > PRODUCT.index(top_of(f"{room}/"))
            if up:
                upwards[room, to] += 1
                where.setdefault((room, to), f"{path}:{one.line}")
    for (room, to), number in upwards.items():
        text = f"{room} imports {to}, which stands above it ({number} times; {where[room, to]})"
        yield Violation(f"{room} -> {to}", number, text)


def listed_rooms(tree: Tree) -> Iterator[Violation]:
    """`rooms.toml` lists every folder of the product once, and no other."""
    rooms = {room_of(path) for path in tree.product()}
    for room in sorted(rooms.symmetric_difference(ROOMS)):
        missing = "is not in the order" if room in rooms else "is in the order, but no folder"
        yield Violation(room, 1, f"rooms.toml: {room} {missing}")
    for room, times in Counter(ROOMS).items():
        if times > 1:
            yield Violation(room, times, f"rooms.toml: {room} is there {times} times")


def import_forms(tree: Tree) -> Iterator[Violation]:
    """Imports are absolute, name users' modules, and take heavy libraries in their homes."""
    for path in tree.product():
        for one in imports(tree.parsed[path]):
            trouble = _form(path, one.module, one.at_once)
            if trouble:
                text = f"{path}:{one.line}: {one.module}: {trouble}"
                yield Violation(f"{path}: {one.module}", 1, text)


def _form(path: str, module: str, at_once: bool) -> str:
    top = module.split(".")[0]
    if module.startswith("."):
        return "imports are absolute"
    if top in PRODUCT + APART and top != "whet":
        return f"only `whet.{top}` is there for users"
    if top in HOMES and not path.startswith(tuple(HOMES[top])):
        return f"{top} lives in {', '.join(HOMES[top])}"
    if top in HOMES and at_once and not path.startswith(tuple(AT_ONCE.get(top, ()))):
        return f"{top} is heavy; import it where it is used"
    return ""


def names_of_the_top(tree: Tree) -> Iterator[Violation]:
    """No file below `whet` names `whet.tvm`, which stands on top: neither an import nor a text."""
    for path in tree.product():
        if top_of(path) != "whet" and "whet.tvm" in tree.texts[path]:
            yield Violation(path, 1, f"{path} names whet.tvm, which stands above it")


RULES: Mapping[str, Callable[[Tree], Iterator[Violation]]] = {
    "files": long_files,
    "functions": long_functions,
    "classes": large_classes,
    "rooms": large_rooms,
    "divided_classes": divided_classes,
    "cycles": module_cycles,
    "listed_rooms": listed_rooms,
    "order": room_order,
    "imports": import_forms,
    "top": names_of_the_top,
}


def broken(rule: str, tree: Tree) -> dict[str, Violation]:
    """The violations of a rule by key; of several places with one key the worst."""
    worst: dict[str, Violation] = {}
    for one in RULES[rule](tree):
        if one.key not in worst or one.value > worst[one.key].value:
            worst[one.key] = one
    return worst
