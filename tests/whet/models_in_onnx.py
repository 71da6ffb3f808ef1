"""A small model in ONNX for tests: with parallel kernels and packed weights."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

TARGET = "llvm -num_threads=2"
SHAPE = (2, 3, 8, 8)


def proto(seed=0, batch=2):
    """A convolution, a pool and a product, with drawn weights."""
    rng = np.random.default_rng(seed)
    weights = {
        "w": rng.standard_normal((16, 3, 3, 3)),
        "b": rng.standard_normal(16),
        "v": rng.standard_normal((16, 5)),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("MatMul", ["f", "v"], ["y"]),
    ]
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "small",
        [tensor("x", TensorProto.FLOAT, [batch, *SHAPE[1:]])],
        [tensor("y", TensorProto.FLOAT, [batch, 5])],
        [numpy_helper.from_array(a.astype("float32"), name) for name, a in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def inputs(count, seed):
    """Inputs of the model."""
    return np.random.default_rng(seed).standard_normal((count, *SHAPE)).astype("float32")


def expected(model, x):
    """The reference implementation's output."""
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(model).run(None, {"x": x})[0]
