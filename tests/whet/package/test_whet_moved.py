"""Earlier versions' pickles and import paths."""

from __future__ import annotations

import pickle
import platform
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whet
from whet.moved import MOVED

BEFORE = Path(__file__).parents[1] / "data" / "before.pickle"
"""Objects of a version before modules moved; the artifact is for any x86-64."""


@pytest.fixture(scope="module")
def before() -> dict[str, Any]:
    return pickle.loads(BEFORE.read_bytes())


@pytest.mark.skipif(platform.machine() != "x86_64", reason="machine code of x86-64")
def test_an_artifact_of_an_earlier_version_runs(before):
    kernel = whet.runtime.Module.from_artifact(before["artifact"])
    out = np.zeros(6, "float32")
    kernel(np.arange(3, dtype="float32"), out)
    assert out.tolist() == [0, 0, 2, 2, 4, 4]
    with pytest.raises(whet.ArgumentError, match=r"expected 6 \(n \* 2, where n = 3\)"):
        kernel(np.arange(3, dtype="float32"), np.zeros(7, "float32"))


def test_arrays_and_devices_of_an_earlier_version(before):
    assert type(before["array"]) is whet.nd.NDArray
    assert before["array"].numpy().tolist() == [0, 1, 2]
    assert before["device"] == whet.cpu(0)
    assert whet.runtime.device("cpu") == whet.cpu(0)


def test_a_task_of_an_earlier_version_is_built(before):
    out = np.zeros(3, "float32")
    whet.build(before["task"])(np.ones(3, "float32"), out)
    assert out.tolist() == [2, 2, 2]


def test_loop_ir_and_a_schedule_of_an_earlier_version(before):
    schedule = before["schedule"]
    (b,) = (op.output(0) for op in schedule.outputs)
    again = whet.lower(schedule, [*b.op.input_tensors, b], name="twice")
    whet.ir.assert_structural_equal(again, before["module"])
    assert "split(i, factor=4)" in str(schedule.trace)
    out = np.zeros(2, "float32")
    whet.build(before["module"], target="llvm")(np.ones(1, "float32"), out)
    assert out.tolist() == [2, 2]


def test_a_plan_of_launches_reads_texts_of_extents():
    from whet.compiler.abi.extent import Operation, Symbol
    from whet.compiler.abi.launch import Launch, LaunchPlan, Temporary

    def plan(n: Any, half: Any) -> LaunchPlan:
        launch = Launch("k", ("A", "n"), (half, 1, 1), (32, 1, 1))
        return LaunchPlan("f", (Temporary("t", "float32", (n, 3)),), (launch,))

    n = Symbol("n")
    now = plan(n, Operation("//", n, 2))
    assert pickle.loads(pickle.dumps(now)) == now
    assert pickle.loads(pickle.dumps(plan("n", "n // 2"))) == now


@pytest.mark.parametrize("name", MOVED)
def test_a_former_name_gives_the_module(name):
    assert import_module(name) is import_module(MOVED[name])


def test_a_former_name_hides_nothing():
    fresh(
        "from importlib import import_module\n"
        "from types import ModuleType\n"
        "from whet.moved import MOVED\n"
        "for name in MOVED:\n"
        "    parent, _, child = name.rpartition('.')\n"
        "    hidden = vars(import_module(parent)).get(child)\n"
        "    assert hidden is None or isinstance(hidden, ModuleType), name\n"
    )


def test_pickles_name_modules_that_nobody_has_imported_yet():
    fresh(
        "import pickle, whet\n"
        f"pickle.load(open({str(BEFORE)!r}, 'rb'))\n"
        "from whet.measure.pool import Pool, open_pool\n"
        "import whet.compiler.contrib.cc, whet.autotune.autotvm.task\n"
        "assert whet.compiler.contrib.cc is whet.contrib.cc and Pool is whet.measure.Pool\n"
    )


def fresh(code: str) -> None:
    """Run code in a process of its own."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
