"""The rules of the house hold, and each of them finds what breaks it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from house import command, count, imports, rules
from house.classes import halves
from house.tree import APART, PRODUCT, Tree, of_folder, of_revision, top_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tree():
    """The files as they lie here."""
    return of_folder(ROOT)


@pytest.mark.parametrize("rule", rules.RULES)
def test_the_rules_hold(rule, tree):
    violations = rules.broken(rule, tree).values()
    assert not violations, "\n".join(one.text for one in violations)


def test_every_room_is_looked_at(tree):
    assert {top_of(path) for path in tree.product()} == set(PRODUCT)
    assert {top_of(path) for path in tree.parsed} >= {*PRODUCT, *APART}
    assert len(tree.product()) > 100 and "scripts/house" in tree.parsed
    tops = [top_of(f"{room}/") for room in rules.ROOMS]
    assert tops == sorted(tops, key=PRODUCT.index)


def broken(rule, files, monkeypatch=None, order=()):
    """The violations of a rule in a tree of a few files, with its rooms in an order."""
    if order:
        monkeypatch.setattr(rules, "ROOMS", order)
    return rules.broken(rule, Tree("planted", files))


ORDER = ("compiler/tir", "compiler/te", "search_spaces", "measure", "db", "autotune", "whet")
MODULES = {
    "compiler/te/__init__.py": "",
    "compiler/te/bound.py": "",
    "search_spaces/__init__.py": "",
    "autotune/__init__.py": "",
    "autotune/task.py": "",
    "whet/__init__.py": "",
    "whet/front.py": "",
}


def test_a_text_that_names_the_top_is_found():
    files = {"compiler/x.py": "import_module('whet.tvm.ir')", "whet/x.py": "HOME = 'whet.tvm.ir'"}
    assert broken("top", files).keys() == {"compiler/x.py"}


@pytest.mark.parametrize(
    ("path", "source", "key"),
    [
        ("compiler/te/x.py", "from whet.search_spaces import C", "compiler/te -> search_spaces"),
        ("compiler/te/x.py", "from whet import search_spaces", "compiler/te -> search_spaces"),
        ("compiler/tir/x.py", "def f():\n  import whet.compiler.te", "compiler/tir -> compiler/te"),
        ("compiler/tir/x.py", "from whet.compiler.te import bound", "compiler/tir -> compiler/te"),
        ("measure/x.py", "def f():\n  import whet.autotune.task", "measure -> autotune"),
        ("db/x.py", "import whet", "db -> whet"),
        ("autotune/x.py", "class A:\n  from whet.front import build", "autotune -> whet"),
        ("db/x.py", "if TYPE_CHECKING:\n  from whet.autotune import Task", "db -> autotune"),
    ],
)  # fmt: skip
def test_an_import_from_above_is_found(path, source, key, monkeypatch):
    (violation,) = broken("order", MODULES | {path: source}, monkeypatch, ORDER).values()
    assert violation.key == key and f"{path}:" in violation.text


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("autotune/x.py", "from whet.compiler import te\nimport whet.autotune.task"),
        ("whet/x.py", "from whet.autotune import tune\nfrom whet import front\nimport click"),
        ("autotune/x.py", "def f():\n  import xgboost"),
        ("measure/x.py", "if TYPE_CHECKING:\n  import numpy\nfrom whet.measure import values"),
        ("compiler/tir/x.py", "if TYPE_CHECKING:\n  from whet.compiler.te import bound"),
    ],
)
def test_an_allowed_import_is_allowed(path, source, monkeypatch):
    files = MODULES | {path: source}
    assert not broken("order", files, monkeypatch, ORDER)
    assert not broken("imports", files) and not broken("cycles", files)


@pytest.mark.parametrize(
    ("path", "source", "text"),
    [
        ("db/x.py", "from . import log", "absolute"),
        ("db/x.py", "from compiler import te", "only `whet.compiler`"),
        ("db/x.py", "def f():\n  import optuna", "optuna lives in autotune/"),
        ("measure/pool/local.py", "def f():\n  import ray", "ray lives in"),
        ("autotune/x.py", "import xgboost", "heavy"),
        ("whet/x.py", "from tests import conftest", "only `whet.tests`"),
        ("compiler/jit/x.py", "try:\n  import llvmlite.binding\nfinally: pass", "heavy"),
    ],
)
def test_a_bad_form_of_import_is_found(path, source, text):
    (violation,) = broken("imports", {path: source}).values()
    assert text in violation.text and violation.text.startswith(f"{path}:")


def test_cycles_are_found_through_functions_but_not_through_types():
    files = {
        "db/a.py": "def f():\n  from whet.db import b",
        "db/b.py": "import whet.db.c",
        "db/c.py": "from whet.db.a import f",
        "db/d.py": "if TYPE_CHECKING:\n  from whet.db import e",
        "db/e.py": "from whet.db import d",
        "db/g.py": "from whet.db.g import h",
    }
    assert set(broken("cycles", files)) == {"db/a.py", "db/b.py", "db/c.py"}


@pytest.mark.parametrize(
    ("rule", "source", "value"),
    [
        ("files", "x = 1\n" * 401, 401),
        ("functions", "def f():\n" + "  x = 1\n" * 60, 61),
        ("functions", "class A:\n def f():\n" + "  x = 1\n" * 60, 61),
        ("classes", "class A:\n" + "".join(f"  def f{k}(self): pass\n" for k in range(41)), 41),
    ],
)
def test_what_is_too_long_is_found(rule, source, value):
    (violation,) = broken(rule, {"tests/x.py": source}).values()
    assert violation.value == value
    shorter = source.replace("  x = 1\n", "", 1) if "x = 1" in source else source[:-20]
    assert not broken(rule, {"tests/x.py": shorter.removeprefix("x = 1\n")})


def test_large_and_unlisted_rooms_are_found(monkeypatch):
    files = {f"benchmarks/m{k}.{'h' if k % 2 else 'py'}": "" for k in range(17)}
    assert broken("rooms", files)["benchmarks"].value == 17
    files |= {"benchmarks/m16.md": files.pop("benchmarks/m16.py")}
    assert not broken("rooms", files)
    monkeypatch.setattr(rules, "ROOMS", ("db", "db", "measure"))
    planted = Tree("planted", {"db/a.py": "", "autotune/a.py": ""})
    assert set(rules.broken("listed_rooms", planted)) == {"db", "measure", "autotune"}


HALF = "class Half:\n  def f(self): return self.x\n"
WHOLE = "from whet.db.a import Half\nclass Whole(Half):\n  def __init__(self): self.x = 1\n"


@pytest.mark.parametrize(
    ("half", "whole", "found"),
    [
        (HALF, WHOLE, True),
        (HALF.replace(" def", " x: int\n  def", 1), WHOLE, True),  # an annotation is no value
        ("class Half:\n  def f(self): raise NotImplementedError\n", WHOLE, True),
        ("class Half:\n  @abstractmethod\n  def f(self): ...\n", WHOLE, True),
        (HALF, WHOLE + "class Other(Half): pass\n", False),
        (HALF, WHOLE.replace("Whole(Half)", "Middle(Half)") + "class Whole(Middle): pass\n", True),
        (HALF.replace("Half:", "Half(Protocol):"), WHOLE, False),
        ("@dataclass\n" + HALF.replace(" def", " x: int\n  def", 1), WHOLE, False),
        ("class Half:\n  def f(self): return self.y\n", WHOLE, False),
    ],
)  # fmt: skip
def test_halves_of_classes_are_found(half, whole, found):
    pairs = halves(Tree("planted", {"db/a.py": half, "db/b.py": whole}))
    assert [(h.name, w.path) for h, w in pairs] == [("Half", "db/b.py")] * found
    together = Tree("planted", {"db/b.py": half + whole.partition("\n")[2]})
    assert halves(together) == []


def test_violations_are_reported(capsys):
    planted = Tree("planted", {"tests/a.py": "\n" * 450})
    assert command.report(planted) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "  BROKEN tests/a.py: 450 lines, at most 400" in lines
    assert sum(line.startswith("  BROKEN tests/") for line in lines) == 1


def test_sizes_leave_out_docstrings_alone():
    source = (
        '"""Doc."""\nclass A:\n  """Doc."""\n  def f(self):\n    """Doc."""\n    return "text"\n'
    )
    bare = 'class A:\n  def f(self):\n    return "text"\n'
    files = {
        "db/a.py": source,
        "db/sub/b.h": "1\n",
        "db/c.ll": "1\n2\n",
        "tests/c.py": bare,
        "pyproject.toml": "\n",
    }
    files |= {"db/notes.md": "12345", "README.md": "1", "scripts/s": "#!/usr/bin/env python3\n"}
    sizes = count.count(Tree("planted", files))
    nodes = sum(1 for _ in ast.walk(ast.parse(bare)))
    assert sizes.rooms["db"] == count.Size(nodes, 4, lines=2, data=5, files=1)
    assert sizes.product == count.Size(nodes, 4, lines=4, data=5, files=1)
    assert sizes.apart["tests"].nodes == nodes and sizes.apart["scripts"].files == 1
    assert sizes.together().nodes == 2 * nodes + 1


def test_two_trees_are_compared_in_percent():
    old = count.count(Tree("old", {"db/a.py": "x = 1\n" * 10, "db/gone.h": "\n"}))
    new = count.count(Tree("new", {"db/a.py": "x = 1\n" * 5, "tests/a.py": "x = 1\n"}))
    lines = command.compared(Tree("old", {}), old, new)
    row = {line.split("  ")[0]: line.split() for line in lines}
    assert row["product"][1:5] == ["41", "21", "-48.8", "%"]
    assert row["apart: tests"][2:5] == ["0", "5", "new"]
    assert "-100.0 %" in next(line for line in lines if line.startswith("db "))


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no repository")
def test_a_revision_is_read_without_a_checkout():
    head = of_revision(ROOT, "HEAD")
    listed = subprocess.run(
        ["git", "ls-tree", "-r", "--name-only", "HEAD", *PRODUCT], cwd=ROOT,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert head.product() == sorted(p for p in listed.stdout.split() if p.endswith(".py"))
    with pytest.raises(SystemExit, match="nosuch"):
        of_revision(ROOT, "nosuch")


def test_every_library_is_declared(tree):
    """Packages that the rooms import are in pyproject.toml: a fresh environment lacks nothing."""
    project = tomllib.loads(tree.texts["pyproject.toml"])["project"]
    extras = project["optional-dependencies"]

    def names(requirements: list[str]) -> set[str]:
        found = (re.split(r"[^\w.-]", r)[0].lower().removesuffix("-cpu") for r in requirements)
        return {"grpc" if name == "grpcio" else name.replace("-", "_") for name in found}

    needed = names(project["dependencies"])
    optional = names([r for extra in extras if extra != "test" for r in extras[extra]])
    optional.add("pytest")  # whet.testing is for those who write tests
    used = imports.libraries(tree.parsed[path] for path in tree.product())
    foreign = used - set(sys.stdlib_module_names) - {"whet"}
    assert needed <= foreign, f"declared, but not used: {needed - foreign}"
    assert foreign <= needed | optional, f"not declared: {foreign - needed - optional}"
    assert len(needed) > 8
