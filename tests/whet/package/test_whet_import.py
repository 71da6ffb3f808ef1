"""The front door: what `import whet` loads, and that its names are the ones it promises."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import whet

HEAVY = {
    "alembic",
    "click",
    "cloudpickle",
    "llvmlite",
    "optuna",
    "pandas",
    "pycuda",
    "ray",
    "rich",
    "scipy",
    "sqlalchemy",
    "torch",
    "xgboost",
}
ROOMS = ("whet.compiler", "whet.search_spaces", "whet.measure", "whet.db", "whet.autotune")


def loaded_by(code: str) -> set[str]:
    """The modules that a fresh process holds after running some code."""
    code += "\nimport sys, json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_whet_loads_no_heavy_library():
    loaded = loaded_by("import whet")
    assert "whet" in loaded
    assert not loaded & {*HEAVY, *ROOMS, "numpy"}


def test_using_every_public_name_loads_no_heavy_library():
    loaded = loaded_by("import whet\nfor name in whet.__all__: getattr(whet, name)")
    assert set(ROOMS) <= loaded
    assert not loaded & HEAVY


def test_making_a_task_loads_no_heavy_library():
    loaded = loaded_by(
        "import whet\ntask = whet.create_task('matmul', (64, 64, 64), 'llvm -mcpu=generic')\n"
        "assert len(task.config_space) > 1"
    )
    # LLVM names this machine's features, which a canonical target has, and a file keeps them.
    assert not loaded & (HEAVY - {"llvmlite"})


APPLYING = """
import sys, whet
task = whet.create_task("matmul", args=(8, 8, 8), target="llvm")
with whet.apply_best(sys.argv[1]) as applied, task.target:
    assert applied.choose(task.workload).tuned_by.how == "exact"
"""


def test_finding_a_config_in_a_log_loads_no_more_than_it_needs(tmp_path, monkeypatch):
    """A process that begins waits for each of these: about half a millisecond a module."""
    from whet.measure import MeasureResult

    monkeypatch.setenv("WHET_CACHE_DIR", str(tmp_path))
    task, path = whet.create_task("matmul", args=(8, 8, 8), target="llvm"), tmp_path / "a.db"
    with whet.TuningLog(path) as log:
        config = task.config_space.default
        run = log.start_run(task.workload, task.target, None, config.fingerprint)
        log.add_trial(run, 0, config, MeasureResult("ok", (1e-6,)))
    code = f"import sys; sys.argv.append({str(path)!r}){APPLYING}"
    loaded_by(code)  # which asks LLVM for this machine's features, and keeps them
    loaded = loaded_by(code)
    slow = {"numpy", "statistics", "subprocess", "socket", "uuid", "platform", "ctypes"}
    assert not loaded & {*HEAVY, *slow}
    rooms = {".".join(name.split(".")[:3]) for name in loaded}
    assert not rooms & {
        "whet.compiler.runtime",
        "whet.compiler.passes",
        "whet.compiler.codegen",
        "whet.compiler.jit",
        "whet.autotune.search",
        "whet.autotune.session",
        "whet.measure.pool",
        "whet.db.session",
        "whet.db.missing",
    }
    assert len([name for name in loaded if name.startswith("whet.")]) <= 264


def test_what_a_file_says_of_the_machine_is_what_llvm_says(tmp_path, monkeypatch):
    from whet.compiler.target.machine import llvm_facts

    monkeypatch.setenv("WHET_CACHE_DIR", str(tmp_path))
    asked = llvm_facts.llvm_facts.__wrapped__
    first = asked()
    (kept,) = tmp_path.glob("host/*/*.json")
    monkeypatch.setattr(llvm_facts, "_asked", lambda: pytest.fail("LLVM was asked again"))
    assert asked() == first == llvm_facts.llvm_facts()
    monkeypatch.setattr(llvm_facts, "_asked", lambda: first)
    for damaged in ("", "[]", "{", "1", '{"triple": 1, "cpu": "", "features": []}', "[" * 90_000):
        kept.write_text(damaged)
        assert asked() == first  # and written anew
        assert json.loads(kept.read_text())["triple"] == first.triple
    monkeypatch.setenv("WHET_CACHE_DIR", "")
    assert asked() == first


def test_the_list_of_loaded_modules_would_show_one(tmp_path):
    loaded = loaded_by(f"import whet; whet.TuningLog({str(tmp_path / 'a.db')!r}).close()")
    assert "sqlalchemy" in loaded


def test_type_checkers_see_the_names_that_are_fetched_later():
    tree = ast.parse(Path(whet.__file__).read_text())
    (checked,) = (node for node in tree.body if isinstance(node, ast.If))
    told = {}
    for node in checked.body:
        assert isinstance(node, ast.ImportFrom)
        told |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
    assert set(told) == set(whet._HOMES) | set(whet._MODULES) == set(whet.__all__)
    for name, (module, original) in told.items():
        namespace: dict = {}
        exec(f"from {module} import {original} as {name}", namespace)
        assert namespace[name] is getattr(whet, name), name


def test_star_import_brings_the_public_names():
    namespace: dict = {}
    exec("from whet import *", namespace)
    assert namespace["te"] is whet.te
    assert set(whet.__all__) <= set(namespace)


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="module 'whet' has no attribute 'nowhere'"):
        _ = whet.nowhere
    assert "create_task" in dir(whet)
    assert "__version__" in dir(whet)


def test_dir_shows_what_can_be_used():
    shown = set(dir(whet))
    assert not [name for name in shown if name.startswith("_") and not name.startswith("__")]
    assert shown.isdisjoint({"metal", "opencl", "rocm", "vulkan", "ext_dev", "Any", "NOT_HERE"})
    assert {"te", "topi", "tune", "build", "cpu", "cuda", "TuningLog"} <= shown
    assert whet.opencl(0).device_type  # TVM's names stay, for errors that explain


def test_the_names_are_bound_once():
    assert whet.build is vars(whet)["build"]
