"""An ONNX model from its file or its bytes, or an error that says what was given instead."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ArgumentError, nearest
from whet.compiler.installed import install_extra

if TYPE_CHECKING:
    from onnx import ModelProto

KINDS = (
    "give a file model.onnx, its bytes, a Graph, an ExportedProgram, "
    "or a torch.nn.Module with inputs="
)
_OTHERS = {
    ".whet": ("it is a package, and is compiled already", "whet.load(FILE) reads packages"),
    **dict.fromkeys(
        (".pt", ".pth", ".pt2", ".ckpt", ".safetensors"),
        (
            "it is a file of PyTorch, and no ONNX model",
            "torch.export the module first, and give the ExportedProgram; or torch.onnx.export it",
        ),
    ),
    **dict.fromkeys(
        (".tflite", ".pb", ".h5", ".keras"),
        ("it is a file of TensorFlow, and no ONNX model", "tf2onnx makes one of it"),
    ),
}
"""Endings of other files: what they are, and the way out."""


def loaded(model: Any, who: str = "from_onnx") -> ModelProto:
    """A model, read where it is a file or its bytes.

    Args:
        model: it, its file, or the file's bytes.
        who: the function that was given it.

    Raises:
        ArgumentError: it cannot be read.
    """
    given = isinstance(model, str | bytes | os.PathLike)
    if not given and type(model).__name__ != "ModelProto":
        raise no_model(who, model)
    if isinstance(model, str | os.PathLike):
        _check_file(who, Path(model))
    try:
        import onnx
    except ImportError:
        raise ArgumentError(
            f"{who}(...)", "the package onnx is missing", install_extra("onnx")
        ) from None
    if not given:
        return model
    what = "bytes" if isinstance(model, bytes) else str(model)
    try:
        is_data = isinstance(model, bytes)
        found = onnx.load_model_from_string(model) if is_data else onnx.load(model)
    except Exception as error:  # whatever a damaged file makes protobuf and onnx raise
        why = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ArgumentError(f"{who}({what!r})", f"it is no ONNX model: {why}") from error
    if not found.graph.output:
        raise ArgumentError(f"{who}({what!r})", "it is no ONNX model: it names no outputs")
    return found


def no_model(who: str, model: Any) -> ArgumentError:
    """The error of what is no model at all, by its type: an array's numbers are not shown."""
    kind = type(model)
    if kind.__module__.startswith("whet.compiler.graph.") and kind.__name__.endswith("Model"):
        return ArgumentError(f"{who}({kind.__name__})", "it is compiled already", "call it")
    said = repr(model) if model is None or isinstance(model, int | float) else kind.__name__
    return ArgumentError(f"{who}({said})", "it is no model", KINDS)


def _check_file(who: str, path: Path) -> None:
    request = f"{who}({str(path)!r})"
    if path.is_dir():
        inside = sorted(p.name for p in path.glob("*.onnx"))
        way = f"{path / inside[0]}" if inside else "name the file in it that is the model"
        raise ArgumentError(request, "it is a folder", way)
    if not path.is_file():
        folder = path.parent
        near = [p.name for p in folder.glob("*.onnx")] if folder.is_dir() else []
        close = nearest(path.name, near)
        where = f"models in {folder.resolve()}: {', '.join(sorted(near)[:8]) or '(none)'}"
        raise ArgumentError(request, "there is no such file", close + where)
    if path.suffix.lower() in _OTHERS:
        raise ArgumentError(request, *_OTHERS[path.suffix.lower()])
