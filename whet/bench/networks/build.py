"""The networks by their names, with weights, statistics and inputs drawn from a seed."""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

NETWORKS: dict[str, str] = {
    "resnet50": "images:resnet50",
    "mobilenet_v2": "images:mobilenet_v2",
    "mobilenet_v3_large": "images:mobilenet_v3_large",
    "efficientnet_b0": "images:efficientnet_b0",
    "unet": "images:unet",
    "bert_base": "sequences:bert_base",
    "gpt2_step": "sequences:gpt2_step",
    "vit_base": "sequences:vit_base",
    "lstm": "sequences:lstm",
}
"""Name -> the module and the function that make it."""


@dataclass(frozen=True)
class Network:
    """A network and inputs that it takes.

    Attributes:
        name: in :data:`NETWORKS`.
        module: a ``torch.nn.Module`` in evaluation mode.
        inputs: tensors, in the order of its arguments.
        names: of the inputs.
    """

    name: str
    module: Any
    inputs: tuple[Any, ...]
    names: tuple[str, ...]


def network(name: str, seed: int = 0, batch: int = 1, **sizes: Any) -> Network:
    """A network with random weights.

    Args:
        name: one of :data:`NETWORKS`.
        seed: of weights and inputs; PyTorch's own generator stays as it is.
        batch: images or sequences in an input.
        sizes: arguments of the function that makes it, e.g. ``width`` and ``depth``.
    """
    import torch

    home, _, function = NETWORKS[name].partition(":")
    make: Callable[..., tuple[Any, dict[str, Any]]]
    make = getattr(importlib.import_module(f"whet.bench.networks.{home}"), function)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        module, inputs = make(batch, **sizes)
        module.eval()
        _draw_weights(module)
        _draw_statistics(module, tuple(inputs.values()))
    for p in module.parameters():
        p.requires_grad_(False)
    return Network(name, module, tuple(inputs.values()), tuple(inputs))


def exported_to_onnx(made: Network, opset: int = 18) -> bytes:
    """The network as an ONNX file of fixed sizes."""
    import torch

    file: Any = io.BytesIO()  # which it takes, whatever its types say
    torch.onnx.export(
        made.module, made.inputs, file, input_names=list(made.names), opset_version=opset,
        dynamo=False,
    )  # fmt: skip
    data: bytes = file.getvalue()
    return data


def _draw_weights(module: Any) -> None:
    """Weights by which values keep their size, and biases that show when they are lost."""
    from torch import nn

    for m in module.modules():
        for name, p in m.named_parameters(recurse=False):
            if isinstance(m, (nn.BatchNorm2d, nn.LayerNorm)):
                p.uniform_(0.5, 1.5) if name == "weight" else p.normal_(0, 0.1)
            elif p.ndim == 1:
                p.normal_(0, 0.1)
            elif isinstance(m, nn.Embedding) or p.ndim == 3:
                p.normal_(0, 1)
            else:
                p.normal_(0, p[0].numel() ** -0.5)


def _draw_statistics(module: Any, inputs: tuple[Any, ...]) -> None:
    """Statistics of batch norms, near those of what they get for these inputs.

    A norm that took away most of what it gets, or enlarged channels in which there is little, would
    leave the errors of what was before it.
    """
    import torch
    from torch import nn

    def measured(norm: Any, args: tuple[Any, ...]) -> None:
        (x,) = args
        mean, square = x.mean((0, 2, 3)), x.square().mean((0, 2, 3))
        norm.running_mean.copy_(mean * torch.rand_like(mean) / 2)
        norm.running_var.copy_((square / 4 + square.mean()) * (torch.rand_like(mean) + 0.5))

    norms = [m for m in module.modules() if isinstance(m, nn.BatchNorm2d)]
    hooks = [m.register_forward_pre_hook(measured) for m in norms]
    if hooks:
        module(*inputs)
    for h in hooks:
        h.remove()
