"""Products of matrices; PyTorch's as they come, into an output, and with weights packed ahead."""

from __future__ import annotations

from itertools import starmap
from math import prod
from types import SimpleNamespace as Args

import numpy as np

from whet.bench.operators.operator import Array, Call, Operator, Tensor, into
from whet.bench.operators.torch_ways import TorchWays
from whet.bench.operators.triton_ways import blocks, launched


def _factors(a: Args, x: Array, y: Array) -> tuple[Array, Array]:
    """The operands of ``@``: numpy's arrays, or PyTorch's tensors."""
    left = x.swapaxes(-1, -2) if a.transpose_a else x
    return left, y.swapaxes(-1, -2) if a.transpose_b else y


def _torch_matmul(ways: TorchWays, x: Tensor, y: Tensor) -> None:
    import torch

    left, right = _factors(ways.a, x, y)

    def work(left: Tensor, right: Tensor) -> Tensor:
        return ways.after(torch.matmul(left, right), -1)

    ways.add("", lambda: lambda: work(left, right))
    if not ways.a.epilogue:
        ways.into(torch.matmul, left, right)
    else:
        ways.compiled(work, left, right)
    if getattr(ways.a, "packed", False):
        _torch_packed(ways, left, right.mT.contiguous())


def _torch_dense(ways: TorchWays, x: Tensor, w: Tensor) -> None:
    from torch.nn import functional as F

    def work(x: Tensor, w: Tensor) -> Tensor:
        return ways.after(F.linear(x, w), -1)

    ways.add("", lambda: lambda: work(x, w))
    if ways.a.epilogue:
        ways.compiled(work, x, w)
    if ways.a.packed:
        _torch_packed(ways, x, w)


def _torch_packed(ways: TorchWays, x: Tensor, w: Tensor) -> None:
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


def _torch_matvec(ways: TorchWays, x: Tensor, y: Tensor) -> None:
    import torch

    ways.add("", lambda: lambda: ways.after(torch.mv(x, y), -1))
    if not ways.a.epilogue:
        ways.into(torch.mv, x, y)


_TILES = (
    (64, 64, 16, 4, 3), (64, 64, 32, 4, 3), (128, 64, 16, 4, 3), (64, 128, 16, 4, 3),
    (128, 128, 16, 8, 3), (128, 128, 32, 8, 2), (128, 128, 16, 4, 3), (32, 64, 32, 4, 3),
    (64, 32, 32, 4, 3), (128, 256, 16, 8, 3),
)  # fmt: skip
"""Triton's tiles: N, M and K, warps and stages."""


def _triton_matmul(left: Tensor, right: Tensor) -> Call:
    *batch, n, k = left.shape
    m = right.shape[-1]
    out = left.new_empty((*batch, n, m))

    def config(bn: int, bm: int, bk: int, warps: int, stages: int) -> tuple[dict, int, int]:
        return {"BN": bn, "BM": bm, "BK": bk, "GROUP": 8}, warps, stages

    def steps(t: Tensor) -> tuple[int, int, int]:
        return (t.stride(0) if t.ndim == 3 else 0, t.stride(-2), t.stride(-1))

    def grid(meta: dict) -> tuple[int, int]:
        return blocks(n, meta["BN"]) * blocks(m, meta["BM"]), prod(batch)

    sizes = n, m, k, *steps(left), *steps(right), *steps(out)[:2]
    configs = list(starmap(config, _TILES))
    return launched("matmul", ("n", "m", "k"), configs, grid, out, left, right, out, *sizes)


_MATMUL = Operator(
    lambda a, x, y: np.matmul(*_factors(a, x, y)),
    lambda a, x, y: into(np.matmul, *_factors(a, x, y)),
    _torch_matmul,
    lambda a, x, y: _triton_matmul(*_factors(a, x, y)),
    weights=(1,),
)
CONTRACTIONS: dict[str, Operator] = {
    "matmul": _MATMUL,
    "batch_matmul": _MATMUL,
    "dense": Operator(
        lambda a, x, w: x @ w.T,
        lambda a, x, w: into(np.matmul, x, w.T),
        _torch_dense,
        lambda a, x, w: _triton_matmul(x, w.mT),
        weights=(1,),
    ),
    "matvec": Operator(lambda a, x, y: x @ y, lambda a, x, y: into(np.matmul, x, y), _torch_matvec),
}
