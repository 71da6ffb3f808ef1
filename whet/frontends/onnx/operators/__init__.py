"""ONNX's operators: what each becomes in a graph."""

from __future__ import annotations

from whet.frontends.onnx.operators import (
    elementwise,
    networks,
    products,
    quantized,
    recurrent,
    reductions,
    resampling,
    sampled,
    shapes,
)
from whet.frontends.onnx.operators.node import Translate

TABLE: dict[str, Translate] = {
    **elementwise.TABLE,
    **shapes.TABLE,
    **reductions.TABLE,
    **networks.TABLE,
    **quantized.TABLE,
    **recurrent.TABLE,
    **resampling.TABLE,
    **sampled.TABLE,
    **products.TABLE,
}
"""Operator of the domain ``ai.onnx`` -> the function that translates a node."""
