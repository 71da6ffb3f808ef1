"""The networks of ``whet.bench.networks`` in PyTorch: as ONNX, as peers, and in float64."""

from __future__ import annotations

import argparse
import copy
import warnings
from typing import Any

from whet.bench.networks import exported_to_onnx, network


class InTorch:
    """A network, and what runs it in PyTorch.

    Args:
        name: one of ``NETWORKS``.
        options: of the command: threads and batch.
    """

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        import torch

        torch.set_num_threads(options.threads)
        self.network = network(name, batch=options.batch)

    def onnx(self) -> Any:
        """The network as a ``ModelProto``."""
        import onnx

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return onnx.load_model_from_string(exported_to_onnx(self.network))

    def program(self) -> Any:
        """The network as an exported program."""
        import torch

        return torch.export.export(self.network.module, self.network.inputs)

    def arrays(self) -> list[Any]:
        """Its inputs."""
        return [x.numpy() for x in self.network.inputs]

    def exact(self) -> list[Any]:
        """Its results in float64."""
        inputs = [x.double() if x.is_floating_point() else x for x in self.network.inputs]
        made = copy.deepcopy(self.network.module).double()(*inputs)
        return [x.numpy() for x in (made if isinstance(made, tuple) else (made,))]

    def peers(self) -> dict[str, Any]:
        """PyTorch's own call, and that of ``torch.compile``: frozen, images channels last."""
        import torch
        import torch._inductor.config

        module, inputs = self.network.module, self.network.inputs
        torch._inductor.config.freezing = True
        last = copy.deepcopy(module).to(memory_format=torch.channels_last)
        given = [
            x.to(memory_format=torch.channels_last) if x.ndim == 4 and x.shape[1] == 3 else x
            for x in inputs
        ]
        compiled = torch.compile(last)

        def run(call: Any, args: Any) -> Any:
            with torch.inference_mode():
                return call(*args)

        calls = {
            "eager": lambda: run(module, inputs),
            "torch.compile": lambda: run(compiled, given),
        }
        try:
            calls["torch.compile"]()
        except Exception as error:  # whatever a missing compiler of C++ makes inductor raise
            print(f"torch.compile: {str(error).strip().splitlines()[0]}", flush=True)
            del calls["torch.compile"]
        return calls
