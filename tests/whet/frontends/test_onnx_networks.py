"""Networks that the ``onnx`` package brings, with random weights, beside onnxruntime."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from whet.frontends.compile import compile
from whet.frontends.onnx import from_onnx

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


def randomised(name, seed=0):
    """A model whose constant weights, which would hide wrong layouts, are random."""
    made = onnx.load(LIGHT / f"light_{name}.onnx")
    rng = np.random.default_rng(seed)
    known = {i.name: numpy_helper.to_array(i) for i in made.graph.initializer}
    variances = {n.input[4] for n in made.graph.node if n.op_type == "BatchNormalization"}
    kept = []
    for n in made.graph.node:
        if n.op_type != "ConstantOfShape":
            kept.append(n)
            continue
        w = rng.standard_normal(tuple(known[n.input[0]])).astype("float32")
        if n.output[0] in variances:
            w = np.abs(w) + np.float32(0.5)
        elif w.ndim > 1:
            w *= np.float32(np.sqrt(2 / np.prod(w.shape[1:])) * (1e-4 if w.ndim == 2 else 1))
        made.graph.initializer.append(numpy_helper.from_array(w, n.output[0]))
    del made.graph.node[:]
    made.graph.node.extend(kept)
    return made


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet"])
def test_a_network(name):
    import onnxruntime

    made = randomised(name)
    graph = from_onnx(made)
    (given,) = graph.inputs
    x = np.random.default_rng(1).standard_normal(given.shape).astype("float32")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    (wanted,) = session.run(None, {given.name: x})
    model = compile(graph, target="llvm -num_threads=2")
    found = model(x)
    assert len(np.unique(wanted)) > 100
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=1e-6 * np.abs(wanted).max())
    assert model.arena.size <= 1.15 * model.arena.least
