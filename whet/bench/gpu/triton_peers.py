"""Triton as a peer: kernels that its autotuner fits to each shape."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from types import SimpleNamespace as Args
from typing import TYPE_CHECKING, Any

from whet.bench.arguments import by_name
from whet.bench.gpu.torch_device import place_of, sees, true_float32
from whet.bench.peers.torch_peers import of_bytes

if TYPE_CHECKING:
    import numpy as np

    from whet.autotune import Task
    from whet.bench.peers.libraries import Call, Peers
    from whet.compiler.runtime.arrays.device import Device

Tensor = Any
LONGEST = 32768
"""Elements of a row that a program keeps in registers at most."""
PARTS = 64
"""Parts of a column that are reduced side by side at most, and then together."""


def add_triton(device: Device, found: Peers, task: Task, inputs: Sequence[np.ndarray]) -> None:
    """Add Triton's way of a task, if there is one.

    Args:
        device: where its arrays are.
        found: what is added to.
        task: whose work it is.
        inputs: the kernel's inputs.
    """
    make = PEERS.get(task.name)
    a = by_name(task)
    if make is None or sees(device) or of_bytes(task) or tuple(getattr(a, "epilogue", ()) or ()):
        return
    import torch

    true_float32()
    there = [torch.from_numpy(x).to(place_of(device)) for x in inputs]

    def tuned() -> Call:
        call = make(a, *there)
        if call is None:
            raise ValueError("not written for these arguments")
        return call

    found.add("triton", tuned)


def _tuned(kernel: Any, key: tuple[str, ...], configs: Sequence[tuple[dict, int, int]]) -> Any:
    """A kernel with Triton's autotuner: each config is block sizes, warps and stages."""
    import triton

    more = {} if isinstance(kernel, triton.runtime.JITFunction) else {"do_bench": _by_the_host}
    options = [triton.Config(blocks, num_warps=w, num_stages=s) for blocks, w, s in configs]
    return triton.autotune(configs=options, key=list(key), **more)(kernel)


def _by_the_host(call: Callable[[], Any], quantiles: Sequence[float] = (), **more: Any) -> Any:
    """Milliseconds by the host's clock: Triton's interpreter has no device to ask."""
    start = time.perf_counter()
    call()
    spent = (time.perf_counter() - start) * 1e3
    return [spent] * len(quantiles) if quantiles else spent


def _even(n: int) -> int:
    import triton

    return triton.next_power_of_2(max(n, 1))


def _matmul(a: Args, x: Tensor, y: Tensor) -> Call:
    import torch
    import triton

    from whet.bench.gpu import triton_kernels

    left = x.mT if getattr(a, "transpose_a", False) else x
    right = y.mT if getattr(a, "transpose_b", False) else y
    *batch, n, k = left.shape
    m = right.shape[-1]
    out = torch.empty((*batch, n, m), dtype=x.dtype, device=x.device)
    sizes = [
        (64, 64, 16, 4, 3), (64, 64, 32, 4, 3), (128, 64, 16, 4, 3), (64, 128, 16, 4, 3),
        (128, 128, 16, 8, 3), (128, 128, 32, 8, 2), (128, 128, 16, 4, 3), (32, 64, 32, 4, 3),
        (64, 32, 32, 4, 3), (128, 256, 16, 8, 3),
    ]  # fmt: skip
    configs: list[tuple[dict, int, int]] = [
        ({"BN": bn, "BM": bm, "BK": bk, "GROUP": 8}, w, s) for bn, bm, bk, w, s in sizes
    ]
    run = _tuned(triton_kernels.matmul, ("n", "m", "k"), configs)

    def steps(t: Tensor) -> tuple[int, int, int]:
        return (t.stride(0) if t.ndim == 3 else 0, t.stride(-2), t.stride(-1))

    def grid(meta: dict) -> tuple[int, int]:
        return triton.cdiv(n, meta["BN"]) * triton.cdiv(m, meta["BM"]), prod(batch)

    def call() -> Tensor:
        run[grid](left, right, out, n, m, k, *steps(left), *steps(right), *steps(out)[:2])
        return out

    return call


def _dense(a: Args, x: Tensor, w: Tensor) -> Call:
    return _matmul(a, x, w.mT)


def _rows_of(x: Tensor, axes: Sequence[int]) -> int | None:
    """Elements of a row, if the axes are the last ones and a program can keep a row."""
    last = sorted(axis % x.ndim for axis in axes)
    n = prod(x.shape[axis] for axis in last)
    return n if last == list(range(x.ndim - len(last), x.ndim)) and n <= LONGEST else None


def _row_configs(n: int) -> list[tuple[dict, int, int]]:
    return [({"BLOCK": _even(n)}, warps, 2) for warps in (1, 2, 4, 8, 16, 32)]


def _softmax(log: bool) -> Callable[..., Call | None]:
    def make(a: Args, x: Tensor) -> Call | None:
        import torch

        from whet.bench.gpu import triton_kernels

        n = _rows_of(x, (a.axis,))
        if n is None:
            return None
        out = torch.empty_like(x)
        run = _tuned(triton_kernels.softmax, ("n",), _row_configs(n))

        def call() -> Tensor:
            run[(x.numel() // n,)](x, out, n, LOG=log)
            return out

        return call

    return make


def _norm(centred: bool) -> Callable[..., Call | None]:
    def make(a: Args, x: Tensor, gamma: Tensor, beta: Tensor | None = None) -> Call | None:
        import torch

        from whet.bench.gpu import triton_kernels

        n = _rows_of(x, a.axes)
        if n is None:
            return None
        out = torch.empty_like(x)
        run = _tuned(triton_kernels.layer_norm, ("n",), _row_configs(n))
        shift = gamma if beta is None else beta

        def call() -> Tensor:
            run[(x.numel() // n,)](x, gamma, shift, out, n, a.epsilon, CENTRED=centred)
            return out

        return call

    return make


_BLOCKS: list[tuple[dict, int, int]] = [
    ({"BLOCK": block}, warps, 2) for block in (512, 1024, 2048, 4096, 8192) for warps in (4, 8)
]


def _elementwise(name: str) -> Callable[..., Call | None]:
    def make(a: Args, x: Tensor, y: Tensor) -> Call | None:
        import torch
        import triton

        from whet.bench.gpu import triton_kernels

        if name == "add" and x.shape != y.shape:
            return None
        out, size = torch.empty_like(x), x.numel()
        run = _tuned(getattr(triton_kernels, name), ("size",), _BLOCKS)
        more = () if name == "add" else (y.numel(),)

        def grid(meta: dict) -> tuple[int]:
            return (triton.cdiv(size, meta["BLOCK"]),)

        def call() -> Tensor:
            run[grid](x, y, out, size, *more)
            return out

        return call

    return make


def _transpose(a: Args, x: Tensor) -> Call | None:
    import torch
    import triton

    from whet.bench.gpu import triton_kernels

    if x.ndim != 2 or tuple(a.axes or (1, 0)) != (1, 0):
        return None
    n, m = x.shape
    out = torch.empty((m, n), dtype=x.dtype, device=x.device)
    tiles = product((32, 64, 128), (32, 64, 128), (4, 8))
    configs: list[tuple[dict, int, int]] = [({"BN": bn, "BM": bm}, w, 2) for bn, bm, w in tiles]
    run = _tuned(triton_kernels.transpose, ("n", "m"), configs)

    def grid(meta: dict) -> tuple[int, int]:
        return triton.cdiv(n, meta["BN"]), triton.cdiv(m, meta["BM"])

    def call() -> Tensor:
        run[grid](x, out, n, m)
        return out

    return call


def _reduced(name: str) -> Callable[..., Call | None]:
    def make(a: Args, x: Tensor) -> Call | None:
        axes = tuple(range(x.ndim)) if a.axes is None else tuple(k % x.ndim for k in a.axes)
        if x.ndim != 2 or len(axes) != 1:
            return None
        scale = 1.0 / x.shape[axes[0]] if name == "mean" else 1.0
        return (_over_rows if axes == (1,) else _over_columns)(x, scale, name == "max")

    return make


def _over_rows(x: Tensor, scale: float, largest: bool) -> Call:
    import torch
    import triton

    from whet.bench.gpu import triton_kernels

    rows, n = x.shape
    out = torch.empty(rows, dtype=x.dtype, device=x.device)
    sizes = [(1, 1024), (1, 2048), (1, 4096), (2, 1024), (2, 2048), (4, 512), (4, 1024), (8, 256)]
    configs: list[tuple[dict, int, int]] = [
        ({"ROWS": r, "BLOCK": b}, w, 2) for (r, b), w in product(sizes, (4, 8))
    ]
    run = _tuned(triton_kernels.reduce_rows, ("n", "rows"), configs)

    def grid(meta: dict) -> tuple[int]:
        return (triton.cdiv(rows, meta["ROWS"]),)

    def call() -> Tensor:
        run[grid](x, out, n, rows, scale, MAX=largest)
        return out

    return call


def _over_columns(x: Tensor, scale: float, largest: bool) -> Call:
    """In two steps: parts of the columns, many at a time, then the parts."""
    import torch
    import triton

    from whet.bench.gpu import triton_kernels

    rows, m = x.shape
    part = max(triton.cdiv(rows, PARTS), 64)
    parts = triton.cdiv(rows, part)
    some = torch.empty((parts, m), dtype=torch.float32, device=x.device)
    out = torch.empty(m, dtype=x.dtype, device=x.device)
    sizes = product((8, 16, 32), (32, 64, 128), (4, 8))
    configs: list[tuple[dict, int, int]] = [({"BN": bn, "BM": bm}, w, 2) for bn, bm, w in sizes]
    first, last = (_tuned(triton_kernels.reduce_columns, ("rows", "m"), configs) for _ in range(2))

    def call() -> Tensor:
        first[lambda meta: (triton.cdiv(m, meta["BM"]), parts)](
            x, some, rows, m, part, 1.0, MAX=largest
        )
        last[lambda meta: (triton.cdiv(m, meta["BM"]), 1)](
            some, out, parts, m, parts, scale, MAX=largest
        )
        return out

    return call


PEERS: dict[str, Callable[..., Call | None]] = {
    "matmul": _matmul,
    "batch_matmul": _matmul,
    "dense": _dense,
    "softmax": _softmax(log=False),
    "log_softmax": _softmax(log=True),
    "layer_norm": _norm(centred=True),
    "rms_norm": _norm(centred=False),
    "add": _elementwise("add"),
    "bias_gelu": _elementwise("bias_gelu"),
    "transpose": _transpose,
    "sum": _reduced("sum"),
    "mean": _reduced("mean"),
    "max": _reduced("max"),
}
"""What Triton does, by template."""
