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
