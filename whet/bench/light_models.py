"""The networks that the ``onnx`` package brings, with random weights.

Their own weights are constants, which hide a wrong layout: every output is one number.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

LIGHT = (
    "bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet",
    "squeezenet", "vgg19", "zfnet512",
)  # fmt: skip
"""Their names."""


def randomised(name: str, seed: int = 0) -> Any:
    """One of them as a ``ModelProto``.

    Weights are drawn so that values keep their size from layer to layer; those of the last product
    are small, so that a softmax does not saturate.
    """
    import onnx
    from onnx import numpy_helper

    folder = Path(onnx.__file__).parent / "backend/test/data/light"
    made = onnx.load(folder / f"light_{name}.onnx")
    rng = np.random.default_rng(seed)
    known = {i.name: numpy_helper.to_array(i) for i in made.graph.initializer}
    variances = {n.input[4] for n in made.graph.node if n.op_type == "BatchNormalization"}
    last = [n.input[1] for n in made.graph.node if n.op_type == "Gemm"][-1:]
    kept = []
    for n in made.graph.node:
        if n.op_type != "ConstantOfShape":
            kept.append(n)
            continue
        w = rng.standard_normal(tuple(known[n.input[0]])).astype(np.float32)
        if n.output[0] in variances:
            w = np.abs(w) + np.float32(0.5)
        elif w.ndim > 1:
            w *= np.float32(
                np.sqrt(2 / np.prod(w.shape[1:])) * (1e-4 if n.output[0] in last else 1)
            )
        made.graph.initializer.append(numpy_helper.from_array(w, n.output[0]))
    del made.graph.node[:]
    made.graph.node.extend(kept)
    return made
