"""Who may import whom: rooms only rooms to their left, heavy libraries only in their homes."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("compiler", "search_spaces", "measure", "db", "autotune", "whet")
"""Each imports only those to its left."""

HOMES = {
    "llvmlite": ("compiler/codegen/llvm/", "compiler/runtime/", "whet/commands/checkup.py"),
    "pycuda": ("compiler/codegen/cuda/", "compiler/runtime/"),
    "ray": ("measure/pool/ray_",),
    "sqlalchemy": ("db/",),
    "alembic": ("db/",),
    "optuna": ("autotune/",),
    "xgboost": ("autotune/",),
    "scipy": ("autotune/samplers/",),
    "cloudpickle": ("search_spaces/ref.py", "search_spaces/graph/serialize.py"),
    "pandas": ("autotune/results/dataframe.py", "autotune/results/result.py"),
    "pytest": ("whet/tvm/testing.py",),
    "torch": ("whet/bench/peers/torch_", "whet/bench/gpu/", "whet/tvm/contrib/"),
    "triton": ("whet/bench/gpu/triton_",),
    "matplotlib": ("whet/bench/drawing.py",),
    "rich": ("autotune/progress.py", "whet/"),
    "click": ("whet/",),
}
"""Where a heavy library may be imported."""
AT_THE_TOP = {
    "sqlalchemy": ("db/",),
    "alembic": ("db/store/migrations/",),
    "optuna": ("autotune/samplers/",),
    "click": ("whet/",),
    "triton": ("whet/bench/gpu/triton_kernels.py",),
}
"""Where it may be imported with the file, because nobody imports the file before it is needed."""


class Import(NamedTuple):
    """One import statement's module, its line, and whether it runs when the file is imported."""

    module: str
    line: int
    at_once: bool


def imports(source: str) -> list[Import]:
    """Every import of a file, those inside functions and for type checkers included."""
    found: list[Import] = []

    def visit(node: ast.AST, at_once: bool) -> None:
        if isinstance(node, ast.Import):
            found.extend(Import(alias.name, node.lineno, at_once) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            dots = "." * node.level + (node.module or "")
            names = [f"{dots}.{alias.name}" for alias in node.names]
            whole = dots in ("whet", "whet.compiler")  # its names are modules
            found.extend(Import(n, node.lineno, at_once) for n in (names if whole else [dots]))
        elif later(node):
            at_once = False
        for child in ast.iter_child_nodes(node):
            visit(child, at_once)

    def later(node: ast.AST) -> bool:
        if isinstance(node, ast.If):
            return "TYPE_CHECKING" in ast.unparse(node.test)
        return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)

    visit(ast.parse(source), True)
    return found


def violations(path: str, source: str) -> list[str]:
    """What a file of a room imports, but may not; ``path`` is relative to the repository."""
    room = path.split("/")[0]
    found = []
    for module, line, at_once in imports(source):
        top, _, rest = module.partition(".")
        where = f"{path}:{line}: {module}"
        if module.startswith("."):
            found.append(f"{where}: imports are absolute")
        elif top == "whet":
            home = rest.split(".")[0]
            if home not in ROOMS:
                home = "whet"
            if ROOMS.index(home) > ROOMS.index(room):
                found.append(f"{where}: {room} is to the left of {home}")
        elif top in ROOMS or top == "tests":
            found.append(f"{where}: only `whet.{top}` is there for users")
        elif top in HOMES and not path.startswith(HOMES[top]):
            found.append(f"{where}: {top} lives in {', '.join(HOMES[top])}")
        elif top in HOMES and at_once and not path.startswith(AT_THE_TOP.get(top, ())):
            found.append(f"{where}: {top} is heavy; import it where it is used")
    return found


def files() -> list[Path]:
    """Every file of the rooms, in its own folder and not through a link."""
    listed = [f for room in ROOMS for f in (ROOT / room).rglob("*.py")]
    return [f for f in listed if f.resolve() == f]


def test_rooms_import_only_what_they_may():
    wrong = []
    for file in files():
        wrong += violations(file.relative_to(ROOT).as_posix(), file.read_text())
    assert not wrong, "\n".join(wrong)


def test_every_room_is_looked_at():
    looked = {file.relative_to(ROOT).parts[0] for file in files()}
    assert looked == set(ROOMS)
    assert len(files()) > 100


@pytest.mark.parametrize(
    ("path", "source", "said"),
    [
        ("compiler/te/x.py", "from whet.search_spaces import Config", "to the left of"),
        ("compiler/te/x.py", "from whet import search_spaces", "to the left of"),
        ("measure/x.py", "def f():\n  import whet.autotune.tasks.task", "to the left of"),
        ("db/x.py", "import whet", "to the left of whet"),
        ("autotune/x.py", "from whet.front import build", "to the left of whet"),
        ("db/x.py", "if TYPE_CHECKING:\n  from whet.autotune import Task", "to the left of"),
        ("db/x.py", "from . import log", "absolute"),
        ("db/x.py", "from compiler import te", "only `whet.compiler`"),
        ("db/x.py", "def f():\n  import optuna", "optuna lives in autotune/"),
        ("measure/pool/local.py", "def f():\n  import ray", "ray lives in"),
        ("autotune/x.py", "import xgboost", "heavy"),
        ("compiler/codegen/llvm/x.py", "try:\n  import llvmlite.binding\nfinally: pass", "heavy"),
    ],
)
def test_a_planted_import_is_found(path, source, said):
    (found,) = violations(path, source)
    assert said in found
    assert found.startswith(f"{path}:")


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("autotune/x.py", "from whet.compiler import te\nimport whet.db.log"),
        ("whet/x.py", "from whet.autotune import tune\nfrom whet import cli\nimport click"),
        ("autotune/x.py", "def f():\n  import xgboost"),
        ("measure/x.py", "if TYPE_CHECKING:\n  import numpy\nfrom whet.measure import values"),
    ],
)
def test_an_allowed_import_is_allowed(path, source):
    assert violations(path, source) == []


def test_every_library_is_declared():
    """What the rooms import is in pyproject.toml: a fresh environment lacks nothing."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]

    def names(requirements: list[str]) -> set[str]:
        return {re.split(r"[^\w.-]", r)[0].lower().removesuffix("-cpu") for r in requirements}

    needed = names(project["dependencies"])
    optional = names([r for extra in extras if extra != "test" for r in extras[extra]])
    optional.add("pytest")  # whet.testing is for those who write tests
    used = {i.module.split(".")[0] for f in files() for i in imports(f.read_text())}
    foreign = used - set(sys.stdlib_module_names) - {"whet"}
    assert needed <= foreign, f"declared, but not used: {needed - foreign}"
    assert foreign <= needed | optional, f"not declared: {foreign - needed - optional}"
    assert len(needed) > 8
