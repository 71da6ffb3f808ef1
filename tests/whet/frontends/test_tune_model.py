"""Tuning a model from the command line, and compiling it from the log."""

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

import whet
from whet.commands.show import command as show
from whet.commands.tune import command

TARGET = "llvm -num_threads=2"


@pytest.fixture
def file(tmp_path):
    """A chain of three equal products and another one, for batches of any size."""
    rng = np.random.default_rng(0)
    weights = {f"w{k}": rng.standard_normal((8, 8)) for k in range(3)}
    weights["last"] = rng.standard_normal((8, 3))
    nodes = [helper.make_node("MatMul", [f"h{k}", f"w{k}"], [f"h{k + 1}"]) for k in range(3)]
    nodes.append(helper.make_node("MatMul", ["h3", "last"], ["y"]))
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [tensor("h0", TensorProto.FLOAT, ["batch", 8])],
        [tensor("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(a.astype("float32"), n) for n, a in weights.items()],
    )
    path = tmp_path / "model.onnx"
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    path.write_bytes(made.SerializeToString())
    return path


def test_tasks_count_as_often_as_they_run(file):
    found = whet.model_tasks(file, {"batch": 4}, TARGET)
    assert [count for _, count in found] == [3, 1]
    assert [task.flop for task, _ in found] == [2 * 4 * 8 * 8, 2 * 4 * 8 * 3]


def test_a_model_is_tuned_and_compiled(file, tmp_path):
    log = tmp_path / "whet.db"
    words = [str(file), "--shape", "batch=4", "--trials", "6", "--log", str(log), "--quiet"]
    done = CliRunner().invoke(command, [*words, "--target", TARGET], catch_exceptions=False)
    assert done.exit_code == 0 and done.output.count("speed-up") == 2
    model = whet.compile(file, {"batch": 4}, TARGET, log=log)
    assert {c.tuned_by.how for c in model.calls} == {"exact"}
    x = np.random.default_rng(1).standard_normal((4, 8)).astype("float32")
    np.testing.assert_allclose(
        model(x), whet.compile(file, {"batch": 4}, TARGET)(x), rtol=1e-5, atol=1e-5
    )
    words = [str(file), "--shape", "batch=4", "--log", str(log), "--target", TARGET]
    done = CliRunner().invoke(show, words, catch_exceptions=False)
    assert done.output.count("exact: trial") == 4 and ", 4 tuned, " in done.output


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--shape", "batch"], "--shape 'batch': e.g. batch=1"),
        (["--shape", "batch=1", "--weight", "2"], "the tasks of a model count as often"),
    ],
)
def test_wrong_words(file, words, why):
    done = CliRunner().invoke(command, [str(file), *words])
    assert done.exit_code == 2 and why in done.output


def test_shapes_are_for_models():
    done = CliRunner().invoke(command, ["kernels.py:task", "--shape", "batch=1"])
    assert done.exit_code == 2 and "--shape is for a model" in done.output
