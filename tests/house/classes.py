"""Classes that are cut over several files: bases of one class alone that lack what it has."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from house.imports import imports
from house.tree import Tree, module_of, nodes


@dataclass(frozen=True)
class Class:
    """A class of the product.

    Attributes:
        name: its own.
        path: its file.
        bases: its bases' last names, as written.
        defines: its methods, its class attributes, and ``self``'s attributes that it sets.
        uses: ``self``'s attributes that its methods read.
        refuses: True if a method is abstract or raises NotImplementedError.
    """

    name: str
    path: str
    bases: tuple[str, ...]
    defines: frozenset[str]
    uses: frozenset[str]
    refuses: bool

    @property
    def key(self) -> str:
        """Its file and its name."""
        return f"{self.path}:{self.name}"


def halves(tree: Tree) -> list[tuple[Class, Class]]:
    """Each class that is a half of one other, in another file; with that other.

    It is a half if all its subclasses, and theirs, end in one class, and it refuses a method, or
    reads attributes of ``self`` that neither it nor a base of its own defines, but that class or a
    class beside it does. An annotation without a value defines nothing but in a dataclass.
    """
    classes = {c.key: c for path in tree.product() for c in _classes(path, tree.parsed[path])}
    named: dict[str, list[Class]] = {}
    for one in classes.values():
        named.setdefault(one.name, []).append(one)
    bases = {key: _bases(one, tree, named) for key, one in classes.items()}
    below: dict[str, list[Class]] = {}
    for key, above in bases.items():
        for base in above:
            below.setdefault(base.key, []).append(classes[key])
    return [
        (classes[key], ends[0])
        for key in sorted(below)
        if len(ends := [c for k, c in _line(classes[key], below).items() if k not in below]) == 1
        and ends[0].path != classes[key].path
        and (classes[key].refuses or _lacking(classes[key], ends[0], bases))
    ]


def _lacking(half: Class, whole: Class, bases: dict[str, list[Class]]) -> bool:
    own = _line(half, bases)
    defined = {name for one in own.values() for name in one.defines}
    given = {n for k, one in _line(whole, bases).items() if k not in own for n in one.defines}
    return bool((half.uses - defined) & given)


def _line(one: Class, step: dict[str, list[Class]]) -> dict[str, Class]:
    """The class and all that ``step`` leads to."""
    met = {one.key: one}
    waiting = [one]
    while waiting:
        for other in step.get(waiting.pop().key, ()):
            if other.key not in met:
                met[other.key] = other
                waiting.append(other)
    return met


def _bases(one: Class, tree: Tree, named: dict[str, list[Class]]) -> list[Class]:
    """The product's classes that a class names as its bases."""
    chosen = []
    for name in one.bases:
        candidates = named.get(name, [])
        local = [c for c in candidates if c.path == one.path and c is not one]
        if not local and len(candidates) > 1:
            modules = {i.module for i in imports(tree.parsed[one.path]) if i.name == name}
            candidates = [c for c in candidates if module_of(c.path) in modules]
        chosen += (local or candidates)[:1]
    return chosen


def _classes(path: str, module: ast.Module) -> Iterator[Class]:
    for node in nodes(module):
        if isinstance(node, ast.ClassDef):
            names = [ast.unparse(base).partition("[")[0] for base in node.bases]
            if not any(name.endswith(("Protocol", "Exception")) for name in names):
                bases = tuple(name.rpartition(".")[2] for name in names)
                defines, uses = _attributes(node)
                yield Class(node.name, path, bases, defines, uses, _refuses(node))


def _attributes(node: ast.ClassDef) -> tuple[frozenset[str], frozenset[str]]:
    defines: set[str] = set()
    uses: set[str] = set()
    fields = any("dataclass" in ast.unparse(d) for d in node.decorator_list)
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defines.add(statement.name)
        elif isinstance(statement, ast.Assign):
            defines |= {
                n.id for t in statement.targets for n in nodes(t) if isinstance(n, ast.Name)
            }
        elif isinstance(statement, ast.AnnAssign) and (statement.value or fields):
            defines.add(ast.unparse(statement.target))
    for inner in nodes(node):
        if (
            isinstance(inner, ast.Attribute)
            and isinstance(inner.value, ast.Name)
            and inner.value.id == "self"
        ):
            (uses if isinstance(inner.ctx, ast.Load) else defines).add(inner.attr)
    return frozenset(defines), frozenset(uses)


def _refuses(node: ast.ClassDef) -> bool:
    words = {n.id for n in nodes(node) if isinstance(n, ast.Name)}
    return not words.isdisjoint({"NotImplementedError", "abstractmethod"})
