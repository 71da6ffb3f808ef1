"""Who imports whom: every import statement of a file, and the module that it names."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import NamedTuple

from house.tree import Tree

Graph = Mapping[str, set[str]]


class Import(NamedTuple):
    """One name of an import statement.

    Attributes:
        module: as written, dots of a relative import included.
        name: what ``from module import name`` takes; None for ``import module``.
        line: of the statement.
        at_once: False inside a function or for type checkers alone.
        typing: True for type checkers alone.
    """

    module: str
    name: str | None
    line: int
    at_once: bool
    typing: bool

    def target(self, modules: Collection[str]) -> str | None:
        """The module of ``modules`` that is imported; None where it is none of them."""
        inner = f"{self.module}.{self.name}"
        if self.name and inner in modules:
            return inner
        return self.module if self.module in modules else None


@cache
def imports(source: ast.Module) -> list[Import]:
    """Every import of a file, those inside functions and for type checkers included."""
    return list(_imports(source, True, False))


def _imports(node: ast.AST, at_once: bool, typing: bool) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield Import(alias.name, None, node.lineno, at_once, typing)
    elif isinstance(node, ast.ImportFrom):
        module = "." * node.level + (node.module or "")
        for alias in node.names:
            yield Import(module, alias.name, node.lineno, at_once, typing)
    elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        for part in node.body:
            yield from _imports(part, False, True)
        for part in node.orelse:
            yield from _imports(part, at_once, typing)
    elif not isinstance(node, ast.expr):
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for child in ast.iter_child_nodes(node):
            yield from _imports(child, at_once and not inside, typing)


def graph(tree: Tree) -> dict[str, set[str]]:
    """Module -> the modules of the product that it imports when it runs."""
    edges: dict[str, set[str]] = {}
    for module, path in tree.modules.items():
        named = {i.target(tree.modules) for i in imports(tree.parsed[path]) if not i.typing}
        edges[module] = {target for target in named if target} - {module}
    return edges


def cycles(edges: Graph) -> list[list[str]]:
    """The sets of more than one node that all reach each other, by Tarjan's algorithm.

    >>> cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}})
    [['b', 'c']]
    """
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    components: list[list[str]] = []

    def enter(node: str) -> tuple[str, Iterator[str]]:
        index[node] = low[node] = len(index)
        stack.append(node)
        return node, iter(sorted(edges.get(node, ())))

    for root in edges:
        path = [] if root in index else [enter(root)]
        while path:
            node, following = path[-1]
            step = next((n for n in following if n not in index or n in stack), None)
            if step is not None and step not in index:
                path.append(enter(step))
            elif step is not None:
                low[node] = min(low[node], index[step])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == index[node]:
                    cut = stack.index(node)
                    components.append(sorted(stack[cut:]))
                    del stack[cut:]
    return sorted(c for c in components if len(c) > 1)


def libraries(files: Iterable[ast.Module]) -> set[str]:
    """The first names of all that is imported absolutely."""
    named = (i.module for file in files for i in imports(file))
    return {module.split(".")[0] for module in named if not module.startswith(".")}
