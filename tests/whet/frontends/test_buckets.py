"""One model for several sizes of its inputs: dispatch, what is shared, tuning, errors."""

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

import whet
from whet.commands.tune import command as tune
from whet.compiler.errors import ArgumentError
from whet.frontends.buckets import buckets

TARGET = "llvm -num_threads=2"
WIDTH = 24


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Two products and a bias for batches and lengths of any size."""
    rng = np.random.default_rng(0)
    weights = {f"w{k}": rng.standard_normal((WIDTH, WIDTH)) for k in range(2)}
    weights["b"] = rng.standard_normal(WIDTH)
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "w1"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["y"]),
    ]
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [tensor("x", TensorProto.FLOAT, ["batch", "length", WIDTH])],
        [tensor("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(a.astype("float32"), n) for n, a in weights.items()],
    )
    path = tmp_path_factory.mktemp("model") / "model.onnx"
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    path.write_bytes(made.SerializeToString())
    w = {n: a.astype("float32").astype("float64") for n, a in weights.items()}
    return path, lambda x: np.maximum(x @ w["w0"], 0) @ w["w1"] + w["b"]


@pytest.fixture(scope="module")
def model(file):
    """Of two buckets."""
    return whet.compile(file[0], {"batch": [1, 3], "length": 2}, TARGET)


def drawn(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def test_each_size_has_its_model(file, model, seeds):
    assert list(model.buckets) == [((b, 2, WIDTH),) for b in (1, 3)]
    for seed in seeds(3):
        for batch in (1, 3):
            x = drawn(batch, 2, WIDTH, seed=seed)
            exact = file[1](x)
            for found in (model(x), model(x=x), model.dump(x)["y"]):
                np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-4)
            out = np.full(x.shape, 77, "float32")
            model.run([x], [out])
            np.testing.assert_allclose(out, exact, rtol=1e-4, atol=1e-4)
    assert [c for c, _ in model.profile(x, rounds=1)] == list(model.bucket(x).calls)


def test_other_sizes_are_an_error_that_lists_the_buckets(model):
    why = (
        r"model\(\[2, 2, 24\]\): no bucket.*\n  inputs: x; buckets:\n  \[1, 2, 24\]\n  \[3, 2, 24\]"
    )
    with pytest.raises(ArgumentError, match=why):
        model(drawn(2, 2, WIDTH))
    with pytest.raises(ArgumentError, match="it has no such input"):
        model(x=drawn(1, 2, WIDTH), z=drawn(1))


def test_equal_weights_are_there_once(file):
    path = file[0]
    lengths = 64, 128  # whose kernels pack weights alike, whatever the processor
    model = whet.compile(path, {"batch": 1, "length": lengths}, TARGET)
    a, b = model.buckets.values()
    assert a._constants is b._constants
    alone = whet.compile(path, {"batch": 1, "length": 64}, TARGET)
    assert a._constants.nbytes == alone._constants.nbytes
    model = whet.compile(path, {"batch": 1, "length": lengths}, "cuda -arch=sm_80")
    a, b = model.buckets.values()
    alone = whet.compile(path, {"batch": 1, "length": 64}, "cuda -arch=sm_80")
    assert a._held is b._held and a._held.size == alone._held.size


@pytest.mark.parametrize(
    ("shapes", "wanted"),
    [
        ([{"n": 1, "m": 2}, {"n": 2, "m": 3}], [{"n": 1, "m": 2}, {"n": 2, "m": 3}]),
        ({"x": [(1, 2), (2, 2)]}, [{"x": (1, 2)}, {"x": (2, 2)}]),
        ({"n": (1, 2), "m": 3}, [{"n": 1, "m": 3}, {"n": 2, "m": 3}]),
        ({"n": [1, 2], "m": [3, 4]}, [{"n": n, "m": m} for n in (1, 2) for m in (3, 4)]),
        ({"n": [2]}, [{"n": 2}]),
        ({"n": 2, "x": [1, 2, 3]}, None),
        (None, None),
    ],
)
def test_ways_to_name_buckets(shapes, wanted):
    assert buckets(shapes, ["x"]) == wanted


@pytest.mark.parametrize(
    ("shapes", "why"),
    [
        ([], "no bucket is named"),
        ({"batch": [], "length": 1}, "it names no size"),
        ({"batch": [1, 1], "length": 1}, "two buckets have these sizes"),
        ({"batches": [1, 2]}, "did you mean 'batch'.*it has: 'batch', 'length', 'x'"),
        ({"batch": None}, "None is no size"),
        ({"batch": [1.5]}, "1.5 is no size"),
        ({"batch": -1}, "-1 is no size"),
        ({"batch": True}, "True is no size"),
        (5, "int names no sizes"),
        ([1, 2], "list names no sizes"),
        ({"x": 1}, r"'x': 1}: the file's input 'x' is \[batch, length, 24\]"),
        ({"batch": [(1, 2)], "length": 1}, "it names 2 sizes"),
        ({"x": (1, 2, 5)}, r"'x': \(1, 2, 5\)}: the file's input 'x' is \[batch, length, 24\]"),
        ({"x": (1, WIDTH)}, r"the file's input 'x' is \[batch, length, 24\]"),
        ({"x": (1, 2, WIDTH), "batch": 3}, "shapes give 'batch' 3"),
        ({"x[2]": 5, "batch": 1, "length": 1}, "the file fixes this size: 24"),
    ],
)
def test_wrong_buckets(file, shapes, why):
    with pytest.raises(ArgumentError, match=why):
        whet.compile(file[0], shapes, TARGET)


def test_sizes_of_numpy_are_sizes(file):
    model = whet.compile(file[0], {"batch": np.int64(1), "length": np.array([1, 2])}, TARGET)
    assert list(model.buckets) == [((1, n, WIDTH),) for n in (1, 2)]


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (None, r"compile\(None\): it is no model\n.*a Graph"),
        (np.arange(1000), r"compile\(ndarray\): it is no model"),
        (test_ways_to_name_buckets, r"compile\(function\): it is no model"),
        ("modle.onnx", "there is no such file\n  did you mean 'model.onnx'"),
        ("", "it is a folder"),
        ("net.whet", "whet.load"),
        ("net.pt", "torch.export the module first"),
    ],
)
def test_what_is_no_model(file, model, why):
    if isinstance(model, str):
        model = file[0].parent / model
        if model.suffix in (".whet", ".pt"):
            model.write_bytes(b"x")
    with pytest.raises(ArgumentError, match=why):
        whet.compile(model, {"batch": 1}, TARGET)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"cache": 7}, "int names no folder"),
        ({"inputs": (1,)}, "example inputs are for a torch.nn.Module"),
        ({"constants": {"foo": 1}}, "no such input\n  it has: 'x'"),
    ],
)
def test_wrong_options(file, given, why):
    with pytest.raises(ArgumentError, match=why):
        whet.compile(file[0], {"batch": 1, "length": 1}, TARGET, **given)


def test_one_group_is_tuned(tmp_path, monkeypatch):
    given = {}
    monkeypatch.setattr(whet.autotune, "tune", lambda tasks, **named: given.update(named, t=tasks))
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [tensor("x", TensorProto.FLOAT, [8])],
        [tensor("y", TensorProto.FLOAT, [8])],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    (tmp_path / "model.onnx").write_bytes(made.SerializeToString())
    CliRunner().invoke(tune, [str(tmp_path / "model.onnx")], catch_exceptions=False)
    assert isinstance(given["t"], whet.Task) and given["weights"] is None


def test_all_buckets_are_tuned(file, monkeypatch):
    given = {}
    monkeypatch.setattr(whet.autotune, "tune", lambda tasks, **named: given.update(named, t=tasks))
    words = [str(file[0]), "--shape", "batch=1,3", "--shape", "length=2", "--target", TARGET]
    CliRunner().invoke(tune, words, catch_exceptions=False)
    assert len(given["t"]) == 4 and given["weights"] == [1.0] * 4
    found = whet.model_tasks(file[0], {"batch": [3, 3, 1], "length": 2}, TARGET)
    assert [count for _, count in found] == [2, 2, 1, 1]
