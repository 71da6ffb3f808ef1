"""Networks of the ``onnx`` package with random weights, and single nodes, beside onnxruntime."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from whet.bench.light_models import randomised
from whet.frontends.compile import compile
from whet.frontends.onnx import from_onnx


def by_onnxruntime(made, inputs):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, inputs)


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet"])
def test_a_network(name):
    made = randomised(name)
    graph = from_onnx(made)
    (given,) = graph.inputs
    x = np.random.default_rng(1).standard_normal(given.shape).astype("float32")
    (wanted,) = by_onnxruntime(made, {given.name: x})
    model = compile(graph, target="llvm -num_threads=2")
    found = model(x)
    assert len(np.unique(wanted)) > 100
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=1e-6 * np.abs(wanted).max())
    assert model.arena.size <= 1.15 * model.arena.least


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "cubic", "nearest"])
def test_samples_outside_of_an_image(mode, padding, corners):
    """The reference of the onnx package has other ones for cubic at borders; nobody else does."""
    sizes = {"x": (2, 3, 6, 7), "grid": (2, 4, 5, 2), "y": (2, 3, 4, 5)}
    infos = {n: helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in sizes.items()}
    node = helper.make_node(
        "GridSample", ["x", "grid"], ["y"], mode=mode, padding_mode=padding, align_corners=corners
    )
    graph = helper.make_graph([node], "g", [infos["x"], infos["grid"]], [infos["y"]])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    rng = np.random.default_rng()
    given = {n: 1.3 * rng.standard_normal(sizes[n]).astype("float32") for n in ("x", "grid")}
    (wanted,) = by_onnxruntime(made, given)
    np.testing.assert_allclose(compile(made)(**given), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("version", "many"), [(18, 3), (21, 12)])
def test_groups_are_scaled_by_group_before_by_channel(version, many):
    info = helper.make_tensor_value_info
    shapes = {"x": (2, 12, 5, 4), "scale": (many,), "bias": (many,), "y": (2, 12, 5, 4)}
    infos = {n: info(n, TensorProto.FLOAT, s) for n, s in shapes.items()}
    node = helper.make_node("GroupNormalization", ["x", "scale", "bias"], ["y"], num_groups=3)
    graph = helper.make_graph([node], "g", [infos[n] for n in ("x", "scale", "bias")], [infos["y"]])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=8)
    rng = np.random.default_rng()
    given = {n: rng.standard_normal(shapes[n]).astype("float32") for n in ("x", "scale", "bias")}
    rows = given["x"].astype("float64").reshape(2, 3, -1)
    off = rows - rows.mean(-1, keepdims=True)
    normal = (off / np.sqrt((off**2).mean(-1, keepdims=True) + 1e-5)).reshape(2, 12, 5, 4)
    scale, bias = (np.repeat(given[n], 12 // many)[:, None, None] for n in ("scale", "bias"))
    found = compile(made, target="llvm -num_threads=1", cache=False)(**given)
    np.testing.assert_allclose(found, normal * scale + bias, rtol=1e-4, atol=1e-5)
