"""TemplateRef: templates found again by real processes that never run the user's script."""

import importlib
import json
import os
import pickle
import subprocess
import sys
import textwrap

import pytest

from whet.compiler.errors import SpaceError
from whet.search_spaces import TemplateRef, Workload, get_template, resolve, template

# What a worker does: open the ref, find the template, run it under a config.
WORKER = """
    import json, pickle, sys
    from whet.search_spaces import Config, Workload, instantiate, resolve, space_of
    ref, workload, config = pickle.load(open(sys.argv[1], "rb"))
    found = resolve(ref)
    assert resolve(ref) is found
    work = Workload.from_json(workload)
    space = space_of(work)
    assert space_of(work) is space
    s, args = instantiate(work, config or space.default)
    print(json.dumps({"name": found.name, "args": args, "print": space.fingerprint,
                      "steps": str(s), "main": sys.modules["__main__"].__dict__.get("ran")}))
"""

TEMPLATE = """
    import whet.search_spaces as ws
    scale = 3

    def double(value):
        return 2 * value

    @ws.template("tests/travels")
    def travels(n):
        cfg = ws.get_config()
        cfg.define_knob("k", [1, 2, 4], default=2)
        return f"schedule of {cfg['k'].val}", [double(n) * scale, travels.name]
"""


def run(tmp_path, script, *args, cwd=None, path=None):
    file = tmp_path / f"script{len(list(tmp_path.iterdir()))}.py"
    file.write_text(textwrap.dedent(script))
    env = dict(os.environ)
    if path is not None:
        env["PYTHONPATH"] = os.pathsep.join([str(path), env.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, str(file), *map(str, args)],
        capture_output=True,
        text=True,
        cwd=cwd or tmp_path,
        env=env,
        timeout=300,
    )


def works(process):
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


def test_a_template_of_a_script_travels_without_the_script(tmp_path):
    message = tmp_path / "message"
    driver = textwrap.dedent(TEMPLATE) + textwrap.dedent("""
        import json, pickle, sys
        ran = True
        space = travels.space(travels.workload(7))
        ref = travels.ref()
        assert ref.pickled and not ref.module
        assert ws.resolve(pickle.loads(pickle.dumps(ref))) is travels
        travels.space(travels.workload(7))
        with open(sys.argv[1], "wb") as f:
            pickle.dump((ref, travels.workload(7).to_json(), space[2]), f)
        print(json.dumps(space.fingerprint))
        """)
    fingerprint = works(run(tmp_path, driver, message))
    (tmp_path / "script0.py").unlink(missing_ok=True)
    (tmp_path / "script1.py").unlink(missing_ok=True)
    result = works(run(tmp_path, WORKER, message))
    assert result == {
        "name": "tests/travels",
        "args": [42, "tests/travels"],
        "print": fingerprint,
        "steps": "schedule of 4",
        "main": None,
    }


def test_a_template_of_a_file_that_nobody_can_import_brings_its_helpers(tmp_path):
    driver = """
        import json, pickle, sys, types
        from whet.search_spaces import Workload, get_template
        module = types.ModuleType("loaded_by_hand")
        sys.modules[module.__name__] = module
        exec(compile(open(sys.argv[2]).read(), sys.argv[2], "exec"), module.__dict__)
        ref = module.travels.ref()
        assert ref.pickled
        with open(sys.argv[1], "wb") as f:
            pickle.dump((ref, Workload("tests/travels", (7,)).to_json(), None), f)
        print("null")
    """
    (tmp_path / "template.py").write_text(textwrap.dedent(TEMPLATE))
    message = tmp_path / "message"
    works(run(tmp_path, driver, message, tmp_path / "template.py"))
    assert works(run(tmp_path, WORKER, message))["args"] == [42, "tests/travels"]


@pytest.fixture
def module(tmp_path, monkeypatch):
    folder = tmp_path / "code"
    folder.mkdir()
    name = f"travelling_{tmp_path.name}"
    file = folder / f"{name}.py"
    file.write_text(textwrap.dedent(TEMPLATE))
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    found = importlib.import_module(name)
    yield found, file
    # The table of templates outlives the module.
    importlib.import_module("whet.search_spaces.values.registry")._templates.pop("tests/travels")


def send(tmp_path, ref):
    message = tmp_path / "message"
    message.write_bytes(pickle.dumps((ref, Workload("tests/travels", (7,)).to_json(), None)))
    return message


def test_a_template_of_a_module_travels_by_its_name(tmp_path, module):
    found, file = module
    ref = found.travels.ref()
    assert (ref.module, ref.qualname, ref.pickled) == (file.stem, "travels", b"")
    assert resolve(ref) is found.travels
    result = works(run(tmp_path, WORKER, send(tmp_path, ref), path=file.parent))
    assert result["steps"] == "schedule of 2"
    assert result["print"] == found.travels.space(found.travels.workload(7)).fingerprint


def test_a_template_of_a_module_is_pickled_by_its_name(module):
    found, _ = module
    payload = pickle.dumps(found.travels)
    assert len(payload) < 500
    assert pickle.loads(payload) is found.travels


def test_another_source_in_the_worker_is_an_error(tmp_path, module):
    found, file = module
    message = send(tmp_path, found.travels.ref())
    file.write_text(file.read_text().replace("[1, 2, 4]", "[1, 2, 8]"))
    process = run(tmp_path, WORKER, message, path=file.parent)
    assert process.returncode != 0
    assert "SpaceError" in process.stderr
    assert "is not the driver's" in process.stderr
    assert file.name in process.stderr


def test_a_module_that_the_worker_cannot_import(tmp_path, module):
    found, _ = module
    process = run(tmp_path, WORKER, send(tmp_path, found.travels.ref()))
    assert "the worker cannot import the module" in process.stderr


def test_a_template_that_is_not_in_the_module_any_more(tmp_path, module):
    found, file = module
    message = send(tmp_path, found.travels.ref())
    file.write_text("travels = 3\n")
    process = run(tmp_path, WORKER, message, path=file.parent)
    assert "is not this template here" in process.stderr


def test_a_template_inside_a_function_is_carried(tmp_path):
    values = [1, 2, 3]

    @template("tests/local")
    def local(n):
        from whet.search_spaces import get_config

        cfg = get_config()
        cfg.define_knob("k", values)
        return cfg["k"].val, []

    ref = local.ref()
    assert ref.pickled
    assert get_template("tests/local") is local
    message = tmp_path / "message"
    message.write_bytes(pickle.dumps((ref, Workload("tests/local", (7,)).to_json(), None)))
    assert works(run(tmp_path, WORKER, message))["steps"] == "1"


def test_what_cannot_be_sent_says_so(tmp_path):
    with open(tmp_path / "open", "wb") as file:

        @template("tests/unsendable")
        def unsendable(n):
            return file, []

        with pytest.raises(SpaceError, match="cannot be pickled"):
            unsendable.ref()


def test_a_ref_that_cannot_be_opened_says_so():
    with pytest.raises(SpaceError, match="cannot open it"):
        resolve(TemplateRef("tests/broken", 1, "", pickled=b"not a pickle"))


def test_the_same_source_in_two_processes_has_one_hash(tmp_path, module):
    found, file = module
    script = f"import json, {file.stem} as m; print(json.dumps(m.travels.source_hash))"
    assert works(run(tmp_path, script, path=file.parent)) == found.travels.source_hash


def test_collecting_needs_no_heavy_package(tmp_path):
    script = """
        import json, sys
        import whet.search_spaces
        heavy = {"llvmlite", "sqlalchemy", "optuna", "xgboost", "ray", "cloudpickle", "rich"}
        print(json.dumps(sorted(heavy & set(sys.modules))))
    """
    assert works(run(tmp_path, script)) == []
