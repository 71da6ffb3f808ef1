"""PyTorch on a device as a peer: cuBLAS, cuDNN and its own kernels, float32 in true float32."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from whet.bench.arguments import by_name
from whet.bench.peers.libraries import Peers
from whet.bench.peers.torch_peers import TorchWays, ways_of

if TYPE_CHECKING:
    import numpy as np

    from whet.autotune import Task
    from whet.bench.peers.libraries import Call
    from whet.compiler.runtime.arrays.device import Device

Tensor = Any


def place_of(device: Device) -> str:
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


def add_torch_on(
    device: Device, found: Peers, task: Task, inputs: Sequence[np.ndarray], compiled: bool
) -> None:
    """Add PyTorch's ways of a task, its arrays on the device.

    Args:
        device: which.
        found: what is added to.
        task: whose work it is.
        inputs: the kernel's inputs.
        compiled: whether ``torch.compile`` is tried, which takes seconds an operator.
    """
    add, why = ways_of(task), sees(device)
    if why:
        found.left_out.append(f"torch: {why}")
    if why or add is None:
        return
    true_float32()
    there = _tensors(device, inputs)
    ways = TorchWays(found, by_name(task), there, compiled)
    add(ways, *ways.operands)


def exact_by_torch(device: Device, task: Task, inputs: Sequence[np.ndarray]) -> Any | None:
    """The right outputs of a task by PyTorch in float64; None where it cannot do the work."""
    import torch

    add = ways_of(task)
    if add is None or sees(device):
        return None
    true_float32()
    there = [x.double() if x.is_floating_point() else x for x in _tensors(device, inputs)]
    first = _First()
    ways = TorchWays(first, by_name(task), there, compiled=False)
    add(ways, *ways.operands)
    torch.cuda.empty_cache()
    return first.result


class _First(Peers):
    """Takes the result of the first way that works, and tries no other."""

    def __init__(self) -> None:
        super().__init__()
        self.result: Any | None = None

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

    return [torch.from_numpy(x).to(place_of(device)) for x in inputs]
