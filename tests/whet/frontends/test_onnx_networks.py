"""Networks that the ``onnx`` package brings, with random weights, beside onnxruntime."""

import numpy as np
import pytest

from whet.bench.light_models import randomised
from whet.frontends.compile import compile
from whet.frontends.onnx import from_onnx


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
