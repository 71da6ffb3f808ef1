"""What an ONNX file says, and files that say what cannot be."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import whet
from whet.compiler.errors import ArgumentError
from whet.frontends.compile import compile
from whet.frontends.onnx import from_onnx

FLOAT = TensorProto.FLOAT


def info(name, shape, kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes, inputs, outputs, constants=(), opset=20, functions=()):
    initializers = [numpy_helper.from_array(a, n) for n, a in dict(constants).items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions))


def relu(shape=(2, 3)):
    return model([helper.make_node("Relu", ["x"], ["y"], name="r")], [info("x", shape)],
                 [info("y", None)])  # fmt: skip


def test_a_file_and_its_bytes(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(relu().SerializeToString())
    x = np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3)
    for given in (path, str(path), path.read_bytes(), relu()):
        np.testing.assert_array_equal(compile(given)(x), np.maximum(x, 0))
    np.testing.assert_array_equal(whet.compile(str(path))(x), np.maximum(x, 0))


def test_symbolic_shapes():
    made = relu(("batch", None, 4))
    with pytest.raises(ArgumentError, match=r"its dimension 0, 'batch', is not known"):
        from_onnx(made)
    graph = from_onnx(made, {"batch": 2, "x[1]": 3})
    assert graph.inputs[0].shape == (2, 3, 4)
    assert from_onnx(made, {"x": (5, 6, 4)}).outputs[0].shape == (5, 6, 4)


def test_shapes_are_folded():
    """A flatten by hand: Shape, Gather, Concat, Reshape."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Unsqueeze", ["n", "axes"], ["n1"]),
        helper.make_node("Concat", ["n1", "rest"], ["to"], axis=0),
        helper.make_node("Reshape", ["x", "to"], ["y"]),
    ]
    constants = {
        "zero": np.int64(0), "axes": np.array([0]), "rest": np.array([-1]),
    }  # fmt: skip
    constants = {k: np.asarray(v, "int64") for k, v in constants.items()}
    graph = from_onnx(model(nodes, [info("x", (2, 3, 4))], [info("y", None)], constants))
    assert [n.operator for n in graph.nodes] == ["reshape"]
    assert graph.outputs[0].shape == (2, 12)


@pytest.mark.parametrize(
    ("node", "inputs", "shape"),
    [
        (("Transpose", {}), ["w"], (4, 5)),
        (("Slice", {}), ["w", "zero", "five", "axis", "two"], (3, 4)),
    ],
)
def test_known_weights_that_are_parts_of_others(node, inputs, shape):
    """A folded weight is a view with strides of its own."""
    w = np.arange(20, dtype="float32").reshape(5, 4)
    constants = {"w": w, "zero": [0], "five": [5], "axis": [0], "two": [2]}
    constants = {n: np.asarray(a, "int64" if a is not w else None) for n, a in constants.items()}
    nodes = [
        helper.make_node(node[0], inputs, ["v"], **node[1]),
        helper.make_node("MatMul", ["x", "v"], ["y"]),
    ]
    x = np.random.default_rng(0).standard_normal((2, shape[0])).astype("float32")
    made = compile(model(nodes, [info("x", x.shape)], [info("y", None)], constants))
    np.testing.assert_allclose(made(x), x @ (w.T if node[0] == "Transpose" else w[::2]), rtol=1e-5)


def test_outputs_keep_their_names():
    nodes = [
        helper.make_node("Identity", ["x"], ["same"]),
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Mul", ["product", "s"], ["scaled"]),
        helper.make_node("Identity", ["scaled"], ["again"]),
    ]
    constants = {"w": np.ones((3, 3), "float32"), "s": np.float32(2).reshape(())}
    outputs = [info(name, None) for name in ("same", "scaled", "again")]
    made = compile(model(nodes, [info("x", (2, 3))], outputs, constants))
    assert [v.name for v in made.outputs][:2] == ["same", "scaled"]
    x = np.arange(6, dtype="float32").reshape(2, 3)
    same, scaled, again = made(x)
    np.testing.assert_array_equal(same, x)
    np.testing.assert_allclose(scaled, 2 * x @ constants["w"])
    np.testing.assert_array_equal(again, scaled)


def test_indices_outside_read_and_write_nothing_outside():
    far = np.array([[10**9, -(10**9), 1]])
    for operator, more in (("GatherElements", []), ("ScatterElements", ["u"])):
        node = helper.make_node(operator, ["x", "i", *more], ["y"])
        inputs = [info("x", (1, 3)), info("i", (1, 3), TensorProto.INT64)]
        inputs += [info("u", (1, 3))] * len(more)
        made = compile(model([node], inputs, [info("y", None)]))
        x = np.float32([[1, 2, 3]])
        assert np.isfinite(made(x, far, *([x] * len(more)))).all()


def test_log_sum_exp_of_infinities():
    node = helper.make_node("ReduceLogSumExp", ["x", "axes"], ["y"], keepdims=0)
    made = compile(
        model([node], [info("x", (3, 2))], [info("y", None)], {"axes": np.array([1])}, opset=18)
    )
    inf = np.inf
    found = made(np.float32([[-inf, -inf], [inf, 0], [0, 0]]))
    np.testing.assert_allclose(found, [-inf, inf, np.log(2)], rtol=1e-6)


def test_a_pool_whose_windows_reach_beyond_the_end():
    """Maxima of three dimensions, and of a last window that is only partly there."""
    from onnx.reference import ReferenceEvaluator

    for shape, attrs in (
        ((1, 4, 14, 14), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
        ((1, 2, 8, 8, 8), {"kernel_shape": [2, 2, 2], "strides": [1, 1, 1]}),
    ):
        node = helper.make_node("MaxPool", ["x"], ["y"], **attrs)
        made = model([node], [info("x", shape)], [info("y", None)])
        x = np.random.default_rng(0).standard_normal(shape).astype("float32")
        (wanted,) = ReferenceEvaluator(made).run(None, {"x": x})
        np.testing.assert_array_equal(compile(made)(x), wanted)


def test_shapes_name_what_is_there():
    with pytest.raises(ArgumentError, match="no input and no dimension of one has this name"):
        from_onnx(relu(("batch", 4)), {"batch": 1, "bach": 2})


def test_functions_of_the_file():
    body = helper.make_function(
        "own", "Twice", ["a"], ["b"],
        [helper.make_node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 20)],
    )  # fmt: skip
    node = helper.make_node("Twice", ["x"], ["y"], domain="own")
    graph = from_onnx(model([node], [info("x", (3,))], [info("y", None)], functions=[body]))
    x = np.arange(3, dtype="float32")
    np.testing.assert_array_equal(compile(graph)(x), 2 * x)


def test_an_output_that_is_an_input():
    node = helper.make_node("Identity", ["x"], ["y"])
    made = model([node], [info("x", (3,))], [info("y", (3,)), info("x", (3,))])
    x = np.arange(3, dtype="float32")
    for one in compile(made)(x):
        np.testing.assert_array_equal(one, x)


def node(operator, inputs=("x",), outputs=("y",), **attrs):
    return helper.make_node(operator, inputs, outputs, name="here", **attrs)


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ([node("Nothing")], 'ONNX node Nothing "here" .y.: the operator Nothing is not supported'),
        ([node("Relu", ["z"])], "nothing makes it before it is read"),
        ([node("Relu", ["y"])], "nothing makes it before it is read"),  # a cycle
        ([node("Relu", [""])], "Relu"),
        ([node("Reshape", ["x", "x"])], "shapes would depend on data"),
        ([node("Concat", ["x", "x"], axis=7)], "axis 7 of 2 dimensions"),
        ([node("MatMul", ["x", "x"])], "3 and 2 elements are multiplied"),
        ([node("Cast", to=999)], "type 999 is unknown"),
        ([node("Cast", to=TensorProto.STRING)], "is not supported"),
        ([node("Conv", ["x"])], "its input 1 is missing"),
        ([node("RandomNormal", [], shape=(2, 3))], "its results are random"),
    ],
)
def test_what_cannot_be_is_an_error_with_its_node(nodes, why):
    with pytest.raises(ArgumentError, match=why):
        from_onnx(model(nodes, [info("x", (2, 3))], [info("y", None)]))


def test_damaged_files(tmp_path):
    data = relu().SerializeToString()
    path = tmp_path / "broken.onnx"
    for bad in (data[: len(data) // 2], b"", b"not a model" * 10):
        path.write_bytes(bad)
        with pytest.raises(ArgumentError, match=r"broken.onnx.*: it is no ONNX model: "):
            from_onnx(path)
    with pytest.raises(ArgumentError, match="there is no such file"):
        from_onnx(tmp_path / "none.onnx")


def test_inputs_without_numbers():
    text = helper.make_tensor_value_info("x", TensorProto.STRING, (2,))
    with pytest.raises(ArgumentError, match="input 'x': its type string is not supported"):
        from_onnx(model([node("Identity")], [text], [info("y", None)]))


def test_nothing_outside_the_folder_is_read(tmp_path):
    from onnx import external_data_helper

    secret = tmp_path / "secret.bin"
    secret.write_bytes(b"\0" * 24)
    inside = tmp_path / "inside"
    inside.mkdir()
    for location in (str(secret), "../secret.bin"):
        made = model(
            [helper.make_node("Add", ["x", "w"], ["y"])], [info("x", (2, 3))], [info("y", None)],
            {"w": np.ones((2, 3), "float32")},
        )  # fmt: skip
        (tensor,) = made.graph.initializer
        external_data_helper.set_external_data(tensor, location)
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        path = inside / "model.onnx"
        path.write_bytes(made.SerializeToString())
        with pytest.raises(ArgumentError):
            from_onnx(path)
        with pytest.raises(ArgumentError):
            from_onnx(path.read_bytes())
