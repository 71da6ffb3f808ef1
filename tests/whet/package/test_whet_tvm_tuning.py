"""AutoTVM's names, what a template sees of the config in force, and the helpers of tests."""

from __future__ import annotations

import sys

import pytest

import whet
from whet import autotvm, te

pytest_plugins = ["pytester"]


@autotvm.template("tests/tvm_names")
def scaled(n):
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    cfg = autotvm.get_config()
    cfg.define_split("tile", B.op.axis[0], num_outputs=2)
    cfg["tile"].apply(s, B, B.op.axis[0])
    seen.append(cfg.is_fallback)
    return s, [A, B]


seen: list[bool] = []


def test_a_task_by_autotvms_names():
    task = autotvm.task.create("tests/tvm_names", args=(12,), target="llvm")
    assert task == whet.create_task("tests/tvm_names", (12,), "llvm")
    space = task.config_space
    assert isinstance(space, autotvm.ConfigSpace)
    assert [space.get(i) for i in range(len(space))] == list(space)
    assert isinstance(space.get(3), autotvm.ConfigEntity)
    assert isinstance(space.get(3)["tile"], autotvm.SplitEntity)
    with pytest.raises(whet.SpaceError, match=f"the space has {len(space)} configs"):
        space.get(len(space))
    hosted = autotvm.task.create("tests/tvm_names", (12,), "cuda", target_host="llvm")
    assert hosted.target.kind.name == "cuda"


def test_is_fallback_where_nothing_was_chosen(tmp_path):
    task = whet.create_task("tests/tvm_names", (12,), "llvm")
    _ = task.config_space
    scaled(12)  # collects the space outside of a target
    seen.clear()
    scaled(12)  # nothing in force
    task.instantiate(task.config_space.get(1))  # chosen
    task.instantiate()  # the default, on purpose
    assert seen == [True, False, False]
    seen.clear()
    with (
        whet.TuningLog(tmp_path / "a.db") as log,
        pytest.warns(UserWarning, match="no record"),
        whet.apply_best(log),
        whet.Target("llvm"),
    ):
        scaled(12)
    assert seen[-1]
    assert autotvm.get_config().is_fallback
    assert not task.config_space.is_fallback


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("XGBTuner", "autotvm.tuner.XGBTuner"),
        ("RPCRunner", "ray://"),
        ("DispatchContext", "whet.apply_best"),
    ],
)
def test_names_that_do_not_map_say_what_to_call(name, said):
    with pytest.raises(AttributeError, match=said) as error:
        getattr(autotvm, name)
    assert isinstance(error.value, whet.WhetError)
    with pytest.raises(ImportError, match=said):
        exec(f"from whet.autotvm import {name}")


def test_names_of_tasks_that_do_not_map():
    with pytest.raises(AttributeError, match="there is no Relay"):
        _ = autotvm.task.extract_from_program
    for module in (autotvm, autotvm.task):
        with pytest.raises(AttributeError, match="no attribute 'nothing'"):
            _ = module.nothing


TESTS = """
import whet.testing

size = whet.testing.parameter(3, 5, ids=["three", "five"])

@whet.testing.parametrize_targets("llvm", "opencl", "llvm -num_threads=2")
def test_targets(target, dev, size):
    assert dev == whet.cpu(0) and target.startswith("llvm") and size in (3, 5)

@whet.testing.parametrize_targets
def test_all_targets(target, dev):
    assert (target, dev) in whet.testing.enabled_targets()

@whet.testing.requires_llvm
def test_llvm(): ...

@whet.testing.requires_llvm()
def test_llvm_called(): ...

class TestHere:
    number = whet.testing.parameter(1, 2)

    def test_number(self, number):
        assert number in (1, 2)

if __name__ == "__main__":
    whet.testing.main()
"""


def test_the_decorators_of_tests(pytester):
    file = pytester.makepyfile(test_it=TESTS)
    done = pytester.run(
        sys.executable, file, "-q", "-k", "not all_targets", "-p", "no:cacheprovider"
    )
    done.assert_outcomes(passed=8, skipped=2)
    done = pytester.run(sys.executable, file, "-q", "-k", "all_targets", "-p", "no:cacheprovider")
    assert "1 passed" in done.stdout.str() or "2 passed" in done.stdout.str()


def test_devices_of_tests():
    assert whet.testing.device_enabled("llvm -mcpu=generic")
    assert not whet.testing.device_enabled("opencl")
    assert ("llvm", whet.cpu(0)) in whet.testing.enabled_targets()
    for requires in (whet.testing.requires_cuda, whet.testing.requires_gpu):
        skipped = whet.testing.device_enabled("cuda") is False
        assert requires().mark.name == "skipif" and requires().mark.args == (skipped,)
    with pytest.raises(AttributeError, match=r"pytest\.mark\.parametrize"):
        _ = whet.testing.parameters
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = whet.testing.nothing


def test_methods_of_tuners_that_are_not_here_say_what_to_call():
    tuner = autotvm.tuner.XGBTuner(whet.create_task("matmul", args=(8, 8, 8), target="llvm"))
    with pytest.raises(AttributeError, match="ends with a MeasureError"):
        tuner.set_error_threshold(3)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tuner.nothing
    assert not hasattr(tuner, "set_error_threshold")


@pytest.mark.parametrize(
    ("name", "said"),
    [("auto_scheduler", "outputs="), ("meta_schedule", "outputs="), ("relay", "no models")],
)
def test_tvms_other_tuning_modules_say_what_to_call(name, said):
    with pytest.raises(AttributeError, match=said) as error:
        getattr(whet, name)
    assert isinstance(error.value, whet.WhetError) and not hasattr(whet, name)
    with pytest.raises(ImportError, match=said):
        __import__(f"whet.{name}")
