"""PyTorch's ways of a product of matrices: as it comes, into an output, weights packed ahead."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whet.bench.peers.libraries import Call
    from whet.bench.peers.torch_peers import TorchWays

Tensor = Any


def _matmul(ways: TorchWays, x: Tensor, y: Tensor) -> None:
    import torch

    left = x.mT if ways.a.transpose_a else x
    right = y.mT if ways.a.transpose_b else y

    def work(left: Tensor, right: Tensor) -> Tensor:
        return ways.after(torch.matmul(left, right), -1)

    ways.add("", lambda: lambda: work(left, right))
    if not ways.a.epilogue:
        ways.into(torch.matmul, left, right)
    else:
        ways.compiled(work, left, right)
    if getattr(ways.a, "packed", False):
        _packed(ways, left, right.mT.contiguous())


def _dense(ways: TorchWays, x: Tensor, w: Tensor) -> None:
    from torch.nn import functional as F

    def work(x: Tensor, w: Tensor) -> Tensor:
        return ways.after(F.linear(x, w), -1)

    ways.add("", lambda: lambda: work(x, w))
    if ways.a.epilogue:
        ways.compiled(work, x, w)
    if ways.a.packed:
        _packed(ways, x, w)


def _packed(ways: TorchWays, x: Tensor, w: Tensor) -> None:
    """Weights (m, k) packed ahead by MKL, by mkldnn, and by freezing a compiled module."""
    import torch

    rows = x.shape[0]

    def mkl() -> Call:
        there = torch.ops.mkl._mkl_reorder_linear_weight(w, rows)
        return lambda: ways.after(torch.ops.mkl._mkl_linear(x, there, w, None, rows), -1)

    def mkldnn() -> Call:
        there = torch.ops.mkldnn._reorder_linear_weight(w, rows)
        linear = torch.ops.mkldnn._linear_pointwise
        return lambda: ways.after(linear(x, there, None, "none", [], ""), -1)

    ways.add("MKL packed", mkl, packed=True)
    ways.add("mkldnn packed", mkldnn, packed=True)

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(w)

        def forward(self, x: Tensor) -> Tensor:
            return ways.after(torch.nn.functional.linear(x, self.weight), -1)

    ways.compiled(Layer().eval(), x, name="frozen", packed=True)


def _matvec(ways: TorchWays, x: Tensor, y: Tensor) -> None:
    import torch

    ways.add("", lambda: lambda: ways.after(torch.mv(x, y), -1))
    if not ways.a.epilogue:
        ways.into(torch.mv, x, y)


MATMULS: dict[str, Callable[..., None]] = {
    "matmul": _matmul,
    "batch_matmul": _matmul,
    "dense": _dense,
    "matvec": _matvec,
}
