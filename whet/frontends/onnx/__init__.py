"""ONNX files as graphs."""

from __future__ import annotations

from whet.frontends.onnx.importer import from_onnx

__all__ = ["from_onnx"]
