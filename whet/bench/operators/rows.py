"""Memory-bound operators: rows, elements, reductions and moves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from types import SimpleNamespace as Args
from typing import Any

import numpy as np

from whet.bench.operators.operator import Array, Call, Operator, Tensor, into
from whet.bench.operators.torch_ways import TorchWays, plain
from whet.bench.operators.triton_ways import Configs, blocks, launched

LONGEST = 32768
"""Elements of a row that a program of Triton's keeps in registers at most."""
PARTS = 64
"""Parts of a column that Triton reduces side by side at most, and then together."""
_ELEMENTS: Configs = [
    ({"BLOCK": block}, warps, 2) for block in (512, 1024, 2048, 4096, 8192) for warps in (4, 8)
]


def erf(x: Array) -> Array:
    """The error function of each element."""
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def sigmoid(x: Array) -> Array:
    """``1 / (1 + exp(-x))`` of each element."""
    return 1 / (1 + np.exp(-x))


def gelu(x: Array) -> Array:
    """``x`` times the share of a normal distribution that lies below it."""
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def _axes(a: Args) -> Any:
    """The axes of a reduction: an int, a tuple of them, or None for all."""
    axes = a.axes if hasattr(a, "axes") else a.axis
    return tuple(axes) if isinstance(axes, list) else axes


def _spread(x: Array, axes: Sequence[int], *numbers: Array) -> list[Array]:
    """Numbers for some axes of ``x``, with an extent of 1 for the others."""
    shape = [n if k in axes else 1 for k, n in enumerate(x.shape)]
    return [number.reshape(shape) for number in numbers]


def _triton_rows(
    kernel: str, x: Tensor, axes: Sequence[int], *beside: Tensor, **constants: Any
) -> Call | None:
    """A row a program, if the axes are the last ones and a program can keep a row."""
    last = sorted(axis % x.ndim for axis in axes)
    n = math.prod(x.shape[axis] for axis in last)
    if last != list(range(x.ndim - len(last), x.ndim)) or n > LONGEST:
        return None
    block = {"BLOCK": 1 << (max(n, 1) - 1).bit_length()}
    configs = [(block, warps, 2) for warps in (1, 2, 4, 8, 16, 32)]
    out = x.new_empty(x.shape)
    grid = (x.numel() // n,)
    return launched(kernel, ("n",), configs, grid, out, x, *beside, out, n, **constants)


def _triton_elements(kernel: str, x: Tensor, y: Tensor, *sizes: int) -> Call:
    """A block of elements a program."""
    out, size = x.new_empty(x.shape), x.numel()

    def grid(meta: dict) -> tuple[int]:
        return (blocks(size, meta["BLOCK"]),)

    return launched(kernel, ("size",), _ELEMENTS, grid, out, x, y, out, size, *sizes)


def _softmax(a: Args, x: Array) -> Array:
    e = np.exp(x - x.max(axis=a.axis, keepdims=True))
    return e / e.sum(axis=a.axis, keepdims=True)


def _numpy_softmax(a: Args, x: Array) -> Call:
    out = np.empty_like(x)

    def run() -> Array:
        np.subtract(x, x.max(axis=a.axis, keepdims=True), out=out)
        np.exp(out, out=out)
        return np.divide(out, out.sum(axis=a.axis, keepdims=True), out=out)

    return run


def _log_softmax(a: Args, x: Array) -> Array:
    low = x - x.max(axis=a.axis, keepdims=True)
    return low - np.log(np.exp(low).sum(axis=a.axis, keepdims=True))


def _layer_norm(a: Args, x: Array, gamma: Array, beta: Array) -> Array:
    axes = tuple(a.axes)
    mean, variance = x.mean(axis=axes, keepdims=True), x.var(axis=axes, keepdims=True)
    scale, shift = _spread(x, axes, gamma, beta)
    return (x - mean) / np.sqrt(variance + a.epsilon) * scale + shift


def _numpy_layer_norm(a: Args, x: Array, gamma: Array, beta: Array) -> Call:
    axes, out = tuple(a.axes), np.empty_like(x)
    scale, shift = _spread(x, axes, gamma, beta)

    def run() -> Array:
        mean, variance = x.mean(axis=axes, keepdims=True), x.var(axis=axes, keepdims=True)
        np.subtract(x, mean, out=out)
        np.multiply(out, 1 / np.sqrt(variance + np.float32(a.epsilon)), out=out)
        np.multiply(out, scale, out=out)
        return np.add(out, shift, out=out)

    return run


def _rms_norm(a: Args, x: Array, gamma: Array) -> Array:
    axes = tuple(a.axes)
    mean = (x * x).mean(axis=axes, keepdims=True)
    return x / np.sqrt(mean + a.epsilon) * _spread(x, axes, gamma)[0]


def _last_axes(a: Args, x: Tensor, gamma: Tensor, *others: Tensor) -> bool:
    """True where the axes that are normalised are the last ones, as PyTorch's are."""
    return tuple(a.axes) == tuple(range(x.ndim - gamma.ndim, x.ndim))


def _batch_norm(a: Args, x: Array, *numbers: Array) -> Array:
    gamma, beta, mean, variance = _spread(x, (a.axis,), *numbers)
    return (x - mean) / np.sqrt(variance + a.epsilon) * gamma + beta


def _torch_add(ways: TorchWays, x: Tensor, y: Tensor) -> None:
    import torch

    ways.plain(torch.add, x, y)
    ways.into(torch.add, x, y)


def _numpy_transpose(a: Args, x: Array) -> Call:
    view = x.transpose(a.axes)
    out = np.empty(view.shape, x.dtype)

    def run() -> Array:
        np.copyto(out, view)
        return out

    return run


def _torch_transpose(ways: TorchWays, x: Tensor) -> None:
    axes = ways.a.axes or tuple(reversed(range(x.ndim)))
    view = x.permute(axes)
    out = x.new_empty(view.shape)
    ways.plain(lambda x: x.permute(axes).contiguous(), x)
    ways.add("copy_", lambda: lambda: out.copy_(view))


def _triton_transpose(a: Args, x: Tensor) -> Call | None:
    if x.ndim != 2 or tuple(a.axes or (1, 0)) != (1, 0):
        return None
    n, m = x.shape
    out = x.new_empty((m, n))
    tiles = product((32, 64, 128), (32, 64, 128), (4, 8))
    configs: Configs = [({"BN": bn, "BM": bm}, w, 2) for bn, bm, w in tiles]

    def grid(meta: dict) -> tuple[int, int]:
        return blocks(n, meta["BN"]), blocks(m, meta["BM"])

    return launched("transpose", ("n", "m"), configs, grid, out, x, out, n, m)


def _reduction(
    name: str, torch_name: str = "", out: bool = False, triton: bool = False
) -> Operator:
    """A reduction.

    Args:
        name: numpy's.
        torch_name: PyTorch's, where that is another.
        out: PyTorch's takes ``out=``.
        triton: there is a kernel of Triton's.
    """

    def work(x: Array, **more: Any) -> Array:  # an array, too, where all is one number
        return np.asarray(getattr(np, name)(x, **more))

    def torch(ways: TorchWays, x: Tensor) -> None:
        import torch

        work, axes = getattr(torch, torch_name or name), _axes(ways.a)
        axes = tuple(range(x.ndim)) if axes is None else axes
        ways.plain(lambda x: work(x, dim=axes), x)
        if out:
            ways.into(lambda x, **more: work(x, dim=axes, **more), x)

    def by_triton(a: Args, x: Tensor) -> Call | None:
        axes = range(x.ndim) if a.axes is None else [k % x.ndim for k in a.axes]
        if x.ndim != 2 or len(axes) != 1:
            return None
        scale = 1.0 / x.shape[axes[0]] if name == "mean" else 1.0
        return (_triton_over_rows if axes[0] else _triton_over_columns)(x, scale, name == "max")

    return Operator(
        lambda a, x: work(x, axis=_axes(a)),
        lambda a, x: into(work, x, axis=_axes(a)),
        torch,
        by_triton if triton else None,
    )


def _triton_over_rows(x: Tensor, scale: float, largest: bool) -> Call:
    rows, n = x.shape
    out = x.new_empty(rows)
    sizes = [(1, 1024), (1, 2048), (1, 4096), (2, 1024), (2, 2048), (4, 512), (4, 1024), (8, 256)]
    configs: Configs = [({"ROWS": r, "BLOCK": b}, w, 2) for (r, b), w in product(sizes, (4, 8))]

    def grid(meta: dict) -> tuple[int]:
        return (blocks(rows, meta["ROWS"]),)

    key = ("n", "rows")
    return launched("reduce_rows", key, configs, grid, out, x, out, n, rows, scale, MAX=largest)


def _triton_over_columns(x: Tensor, scale: float, largest: bool) -> Call:
    """In two steps: parts of the columns, many at a time, then the parts."""
    import torch

    rows, m = x.shape
    part = max(blocks(rows, PARTS), 64)
    parts = blocks(rows, part)
    some, out = x.new_empty((parts, m), dtype=torch.float32), x.new_empty(m)
    sizes = product((8, 16, 32), (32, 64, 128), (4, 8))
    configs: Configs = [({"BN": bn, "BM": bm}, w, 2) for bn, bm, w in sizes]

    def step(to: Tensor, programs: int, *arguments: Any) -> Call:
        def grid(meta: dict) -> tuple[int, int]:
            return blocks(m, meta["BM"]), programs

        key = ("rows", "m")
        return launched("reduce_columns", key, configs, grid, to, *arguments, MAX=largest)

    first = step(some, parts, x, some, rows, m, part, 1.0)
    last = step(out, 1, some, out, parts, m, parts, scale)

    def call() -> Tensor:
        first()
        return last()

    return call


def _gather(a: Args, x: Array, places: Array) -> Array:
    part = tuple(
        slice(None) if k == a.axis % x.ndim else slice(n) for k, n in enumerate(places.shape)
    )
    return np.take_along_axis(x[part], places.astype(np.int64), a.axis)


def _torch_gather(ways: TorchWays, x: Tensor, places: Tensor) -> None:
    import torch

    ways.plain(lambda x, i: torch.gather(x, ways.a.axis, i), x, places.long())


def _numpy_concatenate(a: Args, *parts: Array) -> Call:
    out = np.concatenate(parts, a.axis)
    return lambda: np.concatenate(parts, a.axis, out=out)


def _pad(a: Args, x: Array) -> Array:
    after = a.before if a.after is None else a.after
    more = {"constant_values": a.value} if a.mode == "constant" else {}
    return np.pad(x, list(zip(a.before, after)), a.mode, **more)


def _torch_pad(ways: TorchWays, x: Tensor) -> None:
    from torch.nn import functional as F

    a = ways.a
    after = a.before if a.after is None else a.after
    if a.mode == "constant":
        ends = [n for pair in reversed(list(zip(a.before, after))) for n in pair]
        ways.plain(lambda x: F.pad(x, ends, value=a.value), x)


ROWS: dict[str, Operator] = {
    "softmax": Operator(
        _softmax,
        _numpy_softmax,
        plain(lambda t, a, x, **out: t.softmax(x, a.axis, **out), out=True),
        lambda a, x: _triton_rows("softmax", x, (a.axis,), LOG=False),
    ),
    "log_softmax": Operator(
        _log_softmax,
        torch=plain(lambda t, a, x: t.log_softmax(x, a.axis)),
        triton=lambda a, x: _triton_rows("softmax", x, (a.axis,), LOG=True),
    ),
    "layer_norm": Operator(
        _layer_norm,
        _numpy_layer_norm,
        plain(
            lambda t, a, x, g, b: t.nn.functional.layer_norm(x, g.shape, g, b, a.epsilon),
            fits=_last_axes,
        ),
        lambda a, x, gamma, beta: _triton_rows(
            "layer_norm", x, a.axes, gamma, beta, epsilon=a.epsilon, CENTRED=True
        ),
    ),
    "rms_norm": Operator(
        _rms_norm,
        torch=plain(
            lambda t, a, x, g: t.nn.functional.rms_norm(x, g.shape, g, a.epsilon), fits=_last_axes
        ),
        triton=lambda a, x, gamma: _triton_rows(
            "layer_norm", x, a.axes, gamma, gamma, epsilon=a.epsilon, CENTRED=False
        ),
    ),
    "batch_norm": Operator(
        _batch_norm,
        torch=plain(
            lambda t, a, x, gamma, beta, mean, variance: t.nn.functional.batch_norm(
                x, mean, variance, gamma, beta, eps=a.epsilon
            ),
            fits=lambda a, *inputs: a.axis == 1,
        ),
    ),
    "bias_gelu": Operator(
        lambda a, x, bias: gelu(x + bias),
        torch=plain(lambda t, a, x, bias: t.nn.functional.gelu(x + bias)),
        triton=lambda a, x, bias: _triton_elements("bias_gelu", x, bias, bias.numel()),
    ),
    "add": Operator(
        lambda a, x, y: x + y,
        lambda a, x, y: into(np.add, x, y),
        _torch_add,
        lambda a, x, y: _triton_elements("add", x, y) if x.shape == y.shape else None,
    ),
    "sum": _reduction("sum", out=True, triton=True),
    "mean": _reduction("mean", out=True, triton=True),
    "max": _reduction("max", "amax", out=True, triton=True),
    "min": _reduction("min", "amin", out=True),
    "argmax": _reduction("argmax"),
    "argmin": _reduction("argmin"),
    "cumsum": _reduction("cumsum"),
    "transpose": Operator(
        lambda a, x: x.transpose(a.axes), _numpy_transpose, _torch_transpose, _triton_transpose
    ),
    "concatenate": Operator(
        lambda a, *parts: np.concatenate(parts, a.axis),
        _numpy_concatenate,
        plain(lambda t, a, *parts: t.cat(parts, a.axis)),
    ),
    "gather": Operator(_gather, torch=_torch_gather),
    "take": Operator(
        lambda a, x, places: x.take(places, a.axis),
        torch=plain(
            lambda t, a, x, places: (
                t.index_select(x, a.axis, places)
                if places.ndim == 1
                else t.nn.functional.embedding(places, x)
            ),
            fits=lambda a, x, places: places.ndim == 1 or (a.axis, x.ndim) == (0, 2),
        ),
    ),
    "pad": Operator(_pad, torch=_torch_pad),
}
