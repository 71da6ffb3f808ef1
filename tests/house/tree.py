"""A tree of files, of a folder or of a revision: its texts by path, and its parsed modules."""

from __future__ import annotations

import ast
import gc
import io
import os
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

PRODUCT = ("compiler", "search_spaces", "measure", "db", "autotune", "whet")
"""The folders that a wheel holds, each of which imports only folders to its left."""
APART = ("benchmarks", "scripts", "docs", "tests")
"""The folders that no user installs."""
BUILT = ("__pycache__", "_build", "generated", "node_modules")
CODE = (".py", ".h", ".cuh", ".c", ".ll", ".toml")
DATA = (".md", ".json", ".txt", ".yaml", ".yml", ".csv", ".ini", ".sh")


def room_of(path: str) -> str:
    """The folder of a file: ``compiler/te`` of ``compiler/te/bound.py``."""
    return str(PurePosixPath(path).parent)


def top_of(path: str) -> str:
    """The first folder of a file; ``"."`` for a file at the top."""
    head, slash, _ = path.partition("/")
    return head if slash else "."


def module_of(path: str) -> str:
    """The name by which a file of the product is imported."""
    name = path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    return name if name.split(".")[0] == "whet" else f"whet.{name}"


@dataclass(frozen=True)
class Tree:
    """The files of one state of the repository.

    Attributes:
        name: of the state, for people.
        texts: path relative to the repository -> text; no links.
    """

    name: str
    texts: Mapping[str, str]

    @cached_property
    def parsed(self) -> dict[str, ast.Module]:
        """Every Python file's syntax tree, by path; programs of `scripts/` included."""
        gc.disable()  # a million nodes, none of them garbage: half of the time
        try:
            return {p: ast.parse(text) for p, text in self.texts.items() if is_python(p, text)}
        finally:
            gc.enable()

    def product(self) -> list[str]:
        """The paths of the product's Python files."""
        return [path for path in self.parsed if top_of(path) in PRODUCT]

    @cached_property
    def modules(self) -> dict[str, str]:
        """The product's modules: the name by which each is imported -> its path."""
        return {module_of(path): path for path in self.product()}


def nodes(module: ast.AST) -> Iterator[ast.AST]:
    """Every node below one, itself included; three times as fast as ``ast.walk``."""
    waiting = [module]
    while waiting:
        node = waiting.pop()
        yield node
        for value in vars(node).values():
            if isinstance(value, ast.AST):
                waiting.append(value)
            elif isinstance(value, list):
                waiting += [item for item in value if isinstance(item, ast.AST)]


def is_python(path: str, text: str) -> bool:
    """True for a module and for a script whose first line names Python."""
    head = text[:60].split("\n")[0]
    return path.endswith(".py") or ("." not in path and head.startswith("#!") and "python" in head)


def of_folder(root: Path) -> Tree:
    """The files that lie in a folder, whether the repository knows them or not."""
    texts = {}
    for top in (*PRODUCT, *APART, "."):
        for folder, inner, names in os.walk(root / top):
            inner[:] = [d for d in inner if top != "." and d not in BUILT and d[0] != "."]
            for name in names:
                path = Path(folder, name)
                if _kept(name) and not path.is_symlink():
                    texts[path.relative_to(root).as_posix()] = path.read_text()
    return Tree("this tree", dict(sorted(texts.items())))


def of_revision(root: Path, revision: str) -> Tree:
    """The files of a revision, read from the repository without a checkout.

    Raises:
        SystemExit: git knows no such revision.
    """
    command = ["git", "-C", str(root), "archive", revision]
    done = subprocess.run(command, capture_output=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.decode().strip()}")
    texts = {}
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        for entry in archive:
            member = archive.extractfile(entry) if entry.isfile() else None
            if member and _kept(entry.name) and top_of(entry.name) in (*PRODUCT, *APART, "."):
                texts[entry.name] = member.read().decode()
    return Tree(revision, dict(sorted(texts.items())))


def _kept(name: str) -> bool:
    suffix = PurePosixPath(name).suffix
    return suffix in CODE + DATA or not suffix
