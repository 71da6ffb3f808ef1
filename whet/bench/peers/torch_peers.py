"""PyTorch as a peer: each operator in the ways that may be its best, frozen and compiled included.

Weights are packed ahead where PyTorch can do so: by mkldnn, by a frozen module, by MKL. The number
of threads, and that there are no gradients, is set for all of PyTorch in this process.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Sequence
from types import SimpleNamespace as Args
from typing import TYPE_CHECKING, Any

from whet.bench.arguments import by_name
from whet.bench.references.operators import PRODUCTS
from whet.search_spaces.operators.arguments import BYTES

if TYPE_CHECKING:
    import numpy as np

    from whet.autotune import Task
    from whet.bench.peers.libraries import Call, Peers

Tensor = Any
Ways = Callable[..., None]


class TorchWays:
    """Adds PyTorch's ways of one task to what is found.

    Args:
        found: what is added to.
        a: the template's arguments.
        inputs: the kernel's inputs as tensors that share their memory.
        compiled: whether ``torch.compile`` is tried.
    """

    def __init__(self, found: Peers, a: Args, inputs: list[Tensor], compiled: bool) -> None:
        self.found, self.a, self.inputs = found, a, inputs
        steps = tuple(getattr(a, "epilogue", ()) or ())
        brought = sum(step in ("bias", "residual") for step in steps)
        self.operands = inputs[: len(inputs) - brought]
        self._steps, self._brought = steps, inputs[len(inputs) - brought :]
        self._compiled = compiled and shutil.which("g++") is not None

    def add(self, name: str, make: Callable[[], Call], packed: bool = False) -> None:
        """A way, by the name of its layout or its trick."""
        self.found.add(f"torch {name}".rstrip(), make, packed)

    def plain(self, work: Callable[..., Tensor], *inputs: Tensor, name: str = "") -> None:
        """The operator as it is called without further ado, and compiled."""
        self.add(name, lambda: lambda: work(*inputs))
        self.compiled(work, *inputs, name=name)

    def into(self, work: Callable[..., Tensor], *inputs: Tensor) -> None:
        """The operator into an output that exists already."""
        out = work(*inputs)
        self.add("out=", lambda: lambda: work(*inputs, out=out))

    def compiled(
        self, work: Callable[..., Tensor], *inputs: Tensor, name: str = "", packed: bool = False
    ) -> None:
        """By ``torch.compile``; a module is frozen, which packs its weights."""
        if not self._compiled:
            return
        import torch
        from torch._inductor import config

        def make() -> Call:
            torch._dynamo.reset()
            config.freezing = packed
            run = torch.compile(work)
            for _ in range(3):
                run(*inputs)
            return lambda: run(*inputs)

        self.add(f"compiled {name}".rstrip(), make, packed)

    def after(self, x: Tensor, channels: int) -> Tensor:
        """``x`` after the template's epilogue, as a user writes it; ``channels`` is their axis."""
        from torch.nn import functional as F

        rest = list(self._brought)
        for step in self._steps:
            name = step if isinstance(step, str) else step[0]
            if name == "bias":
                shape = [1] * x.ndim
                shape[channels] = -1
                x = x + rest.pop(0).reshape(shape)
            elif name == "residual":
                x = x + rest.pop(0)
            elif name == "clip":
                x = x.clamp(step[1], step[2])
            elif name == "cast":
                import torch

                x = x.to(getattr(torch, step[1]))
            else:
                x = getattr(F if name != "sigmoid" else x, name)(
                    *([x] if name != "sigmoid" else [])
                )
        return x


def ways_of(task: Task) -> Ways | None:
    """What adds PyTorch's ways of a task, wherever its tensors are; None: it has none."""
    from whet.bench.peers.torch_convs import CONVS
    from whet.bench.peers.torch_matmuls import MATMULS
    from whet.bench.peers.torch_rows import ROWS

    return None if of_bytes(task) else {**MATMULS, **CONVS, **ROWS}.get(task.name)


def of_bytes(task: Task) -> bool:
    """Whether a task multiplies bytes: PyTorch's and Triton's operators of its name sum bytes up
    in bytes."""
    kind = getattr(by_name(task), "dtype", "")
    return task.name in PRODUCTS and kind in BYTES


def add_torch(
    found: Peers, task: Task, inputs: Sequence[np.ndarray], threads: int, compiled: bool
) -> None:
    """Add PyTorch's ways of a task.

    Args:
        found: what is added to.
        task: whose work it is.
        inputs: the kernel's inputs.
        threads: how many PyTorch may use.
        compiled: whether ``torch.compile`` is tried.
    """
    import torch

    add = ways_of(task)
    if add is None:
        return
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    logging.getLogger("torch").setLevel(logging.ERROR)
    ways = TorchWays(found, by_name(task), [torch.from_numpy(x) for x in inputs], compiled)
    add(ways, *ways.operands)
