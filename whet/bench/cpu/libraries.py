"""Peers on the CPU: numpy, PyTorch, onnxruntime and OpenVINO, where they are installed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from whet.bench.cpu.onnx_runtimes import add_runtimes
from whet.bench.operators.operator import Operator, Peers
from whet.bench.operators.table import OPERATORS, by_name, of_bytes
from whet.bench.operators.torch_ways import TorchWays
from whet.bench.turns import numpy_threads
from whet.compiler.installed import install_extra

if TYPE_CHECKING:
    import numpy as np

    from whet.autotune import Task


def peers_of(
    threads: int,
    task: Task,
    inputs: Sequence[np.ndarray],
    compiled: bool = True,
    operator: Operator | None = None,
) -> Peers:
    """The libraries that are installed here and can do a task's work.

    The number of PyTorch's threads, and that there are no gradients, is set for this process.

    Args:
        threads: how many each may use.
        task: what is done; an operator that no peer knows has none.
        inputs: the kernel's inputs, with weights as they are before they are packed.
        compiled: False leaves ``torch.compile`` out, which takes seconds an operator.
        operator: of a task without a named template.
    """
    peers, a, operator = Peers(), by_name(task), operator or OPERATORS.get(task.name)
    if numpy_threads() != threads:
        peers.left_out.append(f"numpy: its library was not started with threads={threads}")
    elif operator and operator.numpy and not getattr(a, "epilogue", ()):
        make = operator.numpy
        peers.add("numpy", lambda: make(a, *inputs))
    if find_spec("torch") is None:
        peers.left_out.append(f"torch: PyTorch is not installed: {install_extra('bench')}")
    elif operator and operator.torch and not of_bytes(task):
        import torch

        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        logging.getLogger("torch").setLevel(logging.ERROR)
        ways = TorchWays(peers, a, [torch.from_numpy(x) for x in inputs], compiled)
        operator.torch(ways, *ways.operands)
    if operator and operator.onnx and not of_bytes(task):
        add_runtimes(peers, threads, task, operator, a, inputs)
    return peers
