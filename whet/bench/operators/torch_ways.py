"""PyTorch as a peer: each operator in the ways that may be its best, frozen and compiled included.

Weights are packed ahead where PyTorch can do so: by mkldnn, by a frozen module, by MKL.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from types import SimpleNamespace as Args
from typing import Any

from whet.bench.operators.operator import Call, Peers, Tensor, after, brought_by, into


class TorchWays:
    """Adds PyTorch's ways of one task to its peers.

    Args:
        found: what is added to.
        a: the template's arguments.
        inputs: the kernel's inputs as tensors that share their memory.
        compiled: False leaves ``torch.compile`` out.
    """

    def __init__(self, found: Peers, a: Args, inputs: list[Tensor], compiled: bool) -> None:
        self.found, self.a, self.inputs = found, a, inputs
        steps = tuple(getattr(a, "epilogue", ()) or ())
        operands = len(inputs) - brought_by(steps)
        self._steps, self.operands, self._brought = steps, inputs[:operands], inputs[operands:]
        self._compiled = compiled and shutil.which("g++") is not None

    def add(self, name: str, make: Callable[[], Call], packed: bool = False) -> None:
        """A way, by the name of its layout or its trick."""
        self.found.add(f"torch {name}".rstrip(), make, packed)

    def plain(self, work: Callable[..., Tensor], *inputs: Tensor, name: str = "") -> None:
        """The operator as it is called without further ado, and compiled."""
        self.add(name, lambda: lambda: work(*inputs))
        self.compiled(work, *inputs, name=name)

    def into(self, work: Callable[..., Tensor], *inputs: Any) -> None:
        """The operator into an output that exists already."""
        self.add("out=", lambda: into(work, *inputs))

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
        """``x`` after the template's epilogue; ``channels`` is their axis."""
        import torch

        def step_of(name: str) -> Callable[..., Tensor]:
            if name == "cast":
                return lambda x, dtype: x.to(getattr(torch, dtype))
            return torch.sigmoid if name == "sigmoid" else getattr(torch.nn.functional, name)

        return after(x, self._steps, self._brought, (channels,), step_of)


def plain(
    work: Callable[..., Tensor],
    out: bool = False,
    fits: Callable[..., bool] = lambda a, *inputs: True,
) -> Callable[..., None]:
    """An operator's ways: as PyTorch is called without further ado, and compiled.

    Args:
        work: the operator, from PyTorch, the template's arguments and the inputs.
        out: it takes ``out=``, and is called with an output that exists already, too.
        fits: False for arguments that PyTorch does not have.
    """

    def add(ways: TorchWays, *inputs: Tensor) -> None:
        import torch

        if not fits(ways.a, *inputs):
            return
        a = ways.a
        ways.add("", lambda: lambda: work(torch, a, *inputs))
        ways.compiled(lambda *xs: work(torch, a, *xs), *inputs)
        if out:
            ways.into(work, torch, a, *inputs)

    return add
