"""Peers on a device: PyTorch and Triton, float32 in true float32."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from whet.bench.operators.operator import Call, Peers, Tensor
from whet.bench.operators.table import OPERATORS, by_name, of_bytes
from whet.bench.operators.torch_ways import TorchWays
from whet.compiler.installed import install_extra

if TYPE_CHECKING:
    import numpy as np

    from whet.autotune import Task
    from whet.compiler.runtime.arrays.device import Device


def torch_name(device: Device) -> str:
    """PyTorch's name of a device; the emulator's arrays are the CPU's for it."""
    return f"cuda:{device.index}" if device.type == "cuda" else "cpu"


def sees(device: Device) -> str:
    """Why PyTorch cannot use a device; empty where it can."""
    import torch

    if device.type == "cuda" and not torch.cuda.is_available():
        return f"PyTorch {torch.__version__} sees no GPU"
    if device.type == "cuda" and device.index >= torch.cuda.device_count():
        return f"PyTorch sees {torch.cuda.device_count()} GPUs, and not number {device.index}"
    return ""


def true_float32() -> None:
    """Let PyTorch compute float32 in float32, as our kernels do, and take the fastest way.

    TF32 cuts the factors of products to 10 bits of mantissa and uses the tensor cores: that is
    another operator. cuDNN measures its algorithms for each shape.
    """
    import torch

    torch.set_grad_enabled(False)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    logging.getLogger("torch").setLevel(logging.ERROR)


def peers_on(device: Device, task: Task, inputs: Sequence[np.ndarray], compiled: bool) -> Peers:
    """PyTorch and Triton where they are installed and see the device.

    Args:
        device: which.
        task: whose work it is.
        inputs: the kernel's inputs.
        compiled: False leaves ``torch.compile`` out, which takes seconds an operator.
    """
    peers = Peers()
    for name, title in (("torch", "PyTorch"), ("triton", "Triton")):
        if find_spec(name) is None:
            why = f"{title} is not installed: {install_extra('bench')}"
            peers.left_out.append(f"{name}: {why}")
    if find_spec("torch") is None:
        return peers
    add, why = _ways_of(task), sees(device)
    if why:
        peers.left_out.append(f"torch: {why}")
    elif add is not None:
        true_float32()
        ways = TorchWays(peers, by_name(task), _tensors(device, inputs), compiled)
        add(ways, *ways.operands)
    if find_spec("triton") is not None:
        add_triton(device, peers, task, inputs)
    return peers


def add_triton(device: Device, peers: Peers, task: Task, inputs: Sequence[np.ndarray]) -> None:
    """Add Triton's way of a task, if there is one.

    Args:
        device: where its arrays are.
        peers: to which it is added.
        task: whose work it is.
        inputs: the kernel's inputs.
    """
    operator, a = OPERATORS.get(task.name), by_name(task)
    if operator is None or sees(device) or of_bytes(task) or getattr(a, "epilogue", False):
        return
    make = operator.triton
    if make is None:
        return
    true_float32()
    there = _tensors(device, inputs)

    def tuned() -> Call:
        call = make(a, *there)
        if call is None:
            raise ValueError("not written for these arguments")
        return call

    peers.add("triton", tuned)


def exact_by_torch(device: Device, task: Task, inputs: Sequence[np.ndarray]) -> Any | None:
    """The right outputs of a task by PyTorch in float64; None where it cannot do the work."""
    import torch

    add = _ways_of(task)
    if add is None or sees(device):
        return None
    true_float32()
    there = [x.double() if x.is_floating_point() else x for x in _tensors(device, inputs)]
    first = _First()
    ways = TorchWays(first, by_name(task), there, compiled=False)
    add(ways, *ways.operands)
    torch.cuda.empty_cache()
    return first.result


def _ways_of(task: Task) -> Callable[..., None] | None:
    operator = OPERATORS.get(task.name)
    return None if operator is None or of_bytes(task) else operator.torch


@dataclass
class _First(Peers):
    """Takes the result of the first way that works, and tries no other."""

    result: Any | None = None

    def add(self, name: str, make: Callable[[], Call], packed: bool = False) -> None:
        if self.result is None and not packed:
            super().add(name, lambda: self._kept(make()), packed)

    def _kept(self, call: Call) -> Call:
        def run() -> Any:
            self.result = call()
            return self.result

        return run


def _tensors(device: Device, inputs: Sequence[np.ndarray]) -> list[Tensor]:
    import torch

    return [torch.from_numpy(x).to(torch_name(device)) for x in inputs]
