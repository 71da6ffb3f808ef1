"""The outputs of an ONNX model in float64, by the `onnx` package's own implementation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def exact_outputs(proto: Any, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray] | None:
    """A model's outputs, computed in float64 by the ``onnx`` package; None where it cannot."""
    from onnx.reference import ReferenceEvaluator

    wide = {n: a.astype(np.float64) if a.dtype == np.float32 else a for n, a in inputs.items()}
    try:
        return [np.asarray(a) for a in ReferenceEvaluator(in_float64(proto)).run(None, wide)]
    except Exception:  # an operator that it lacks, or has for float32 alone
        return None


def in_float64(proto: Any) -> Any:
    """A model with float64 in the place of float32: inputs, weights, casts."""
    import onnx
    from onnx import TensorProto, numpy_helper

    def widened(t: Any) -> None:
        if t.data_type == TensorProto.FLOAT:
            wide = numpy_helper.to_array(t).astype(np.float64)
            t.CopyFrom(numpy_helper.from_array(wide, t.name))

    made = onnx.ModelProto()
    made.CopyFrom(proto)
    for t in made.graph.initializer:
        widened(t)
    for v in (*made.graph.input, *made.graph.output):
        if v.type.tensor_type.elem_type == TensorProto.FLOAT:
            v.type.tensor_type.elem_type = TensorProto.DOUBLE
    del made.graph.value_info[:]
    for node in (*made.graph.node, *(n for f in made.functions for n in f.node)):
        for attribute in node.attribute:
            if attribute.HasField("t"):
                widened(attribute.t)
            is_type = node.op_type == "Cast" and attribute.name == "to"
            if is_type and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.DOUBLE
    return made
