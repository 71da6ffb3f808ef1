"""Operators of ResNet and BERT, written once for every `te`: ours, and TVM's in its own process.

This file imports neither: `tensors` takes the `te` and the `topi` to build the graph with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Operator:
    """One operator at one size, in float32.

    Attributes:
        shapes: shapes of the inputs.
        graph: ``(te, topi, *inputs) -> output``, a tensor of the library that was given.
        reference: ``(*inputs) -> output`` in numpy, in float64.
        template: Whet's hand-written template and its arguments, where there is one.
    """

    shapes: tuple[Shape, ...]
    graph: Callable[..., Any]
    reference: Callable[..., np.ndarray]
    template: tuple[str, tuple] | None = None

    def tensors(self, te: Any, topi: Any) -> list[Any]:
        """The inputs and the output as tensors of ``te``."""
        inputs = [te.placeholder(s, "float32", name=f"in{i}") for i, s in enumerate(self.shapes)]
        return [*inputs, self.graph(te, topi, *inputs)]

    def arrays(self, seed: int = 0) -> list[np.ndarray]:
        """Random inputs, float32, the same for the same seed."""
        rng = np.random.default_rng(seed)
        return [rng.standard_normal(shape, dtype=np.float32) for shape in self.shapes]

    def expected(self, inputs: list[np.ndarray]) -> np.ndarray:
        """The right output in float64."""
        return self.reference(*(x.astype(np.float64) for x in inputs))


def check(name: str, output: np.ndarray, right: np.ndarray) -> None:
    """End the benchmark where numbers are wrong: beyond 1e-4 of the largest one.

    Raises:
        SystemExit: they are.
    """
    error = float(np.abs(output - right).max() / np.abs(right).max())
    if not error < 1e-4:
        raise SystemExit(f"{name}: wrong by {error:.2g} of the largest number")


def matmul(n: int, k: int, m: int) -> Operator:
    """``(n, k) @ (k, m)``."""

    def graph(te: Any, topi: Any, a: Any, b: Any) -> Any:
        r = te.reduce_axis((0, k), name="r")
        return te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")

    return Operator(((n, k), (k, m)), graph, np.matmul, ("matmul", (n, k, m)))


def batch_matmul(batch: int, n: int, k: int, m: int) -> Operator:
    """``(batch, n, k) @ (batch, k, m)``."""

    def graph(te: Any, topi: Any, a: Any, b: Any) -> Any:
        r = te.reduce_axis((0, k), name="r")
        return te.compute(
            (batch, n, m), lambda h, i, j: te.sum(a[h, i, r] * b[h, r, j], axis=r), name="C"
        )

    shapes = ((batch, n, k), (batch, k, m))
    return Operator(shapes, graph, np.matmul, ("batch_matmul", (batch, n, k, m)))


def conv2d(ci: int, size: int, co: int, kernel: int, stride: int = 1) -> Operator:
    """A square image, NCHW, batch 1, "same" padding."""
    pad = kernel // 2

    def graph(te: Any, topi: Any, x: Any, w: Any) -> Any:
        return topi.nn.conv2d_nchw(x, w, stride, pad, 1)

    def reference(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        return np.einsum("nchwyx,ocyx->nohw", _windows(x, kernel, stride), w, optimize=True)

    args = (1, ci, size, size, co, kernel, kernel, stride, pad)
    shapes = ((1, ci, size, size), (co, ci, kernel, kernel))
    return Operator(shapes, graph, reference, ("conv2d_nchw", args))


def max_pool(channels: int, size: int, kernel: int, stride: int) -> Operator:
    """The largest one of each window of a square image, NCHW, batch 1, padded by half a window."""
    pad = kernel // 2

    def graph(te: Any, topi: Any, x: Any) -> Any:
        sizes = [kernel] * 2, [stride] * 2, [1, 1], [pad] * 4
        return topi.nn.pool2d(x, *sizes, "max")

    def reference(x: np.ndarray) -> np.ndarray:
        return _windows(x, kernel, stride, -np.inf).max(axis=(4, 5))

    shape = (1, channels, size, size)
    template = ("max_pool2d", (shape, (kernel, kernel), (stride, stride), (pad, pad)))
    return Operator((shape,), graph, reference, template)


def sum_over_rows(rows: int, columns: int) -> Operator:
    """Sums of columns."""

    def graph(te: Any, topi: Any, x: Any) -> Any:
        return topi.sum(x, 0)

    shape = (rows, columns)
    return Operator((shape,), graph, lambda x: x.sum(axis=0), ("sum", (shape, (0,))))


def depthwise_conv2d(channels: int, size: int, kernel: int) -> Operator:
    """One filter a channel, NCHW, batch 1, stride 1, "same" padding."""
    pad = kernel // 2

    def graph(te: Any, topi: Any, x: Any, w: Any) -> Any:
        return topi.nn.depthwise_conv2d_nchw(x, w, 1, pad, 1)

    def reference(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        return np.einsum("nchwyx,cyx->nchw", _windows(x, kernel, 1), w[:, 0], optimize=True)

    args = (1, channels, size, size, kernel, kernel, 1, pad)
    shapes = ((1, channels, size, size), (channels, 1, kernel, kernel))
    return Operator(shapes, graph, reference, ("depthwise_conv2d_nchw", args))


def softmax(rows: int, columns: int) -> Operator:
    """Softmax over rows."""

    def graph(te: Any, topi: Any, x: Any) -> Any:
        return topi.nn.softmax(x, axis=1)

    def reference(x: np.ndarray) -> np.ndarray:
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    template = ("softmax", ((rows, columns), 1))
    return Operator(((rows, columns),), graph, reference, template)


def layer_norm(rows: int, columns: int) -> Operator:
    """Rows with mean 0 and variance 1, then scaled and shifted."""

    def graph(te: Any, topi: Any, x: Any, gamma: Any, beta: Any) -> Any:
        return topi.nn.layer_norm(x, gamma, beta, [1], 1e-5)

    def reference(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
        mean, variance = x.mean(axis=1, keepdims=True), x.var(axis=1, keepdims=True)
        return (x - mean) / np.sqrt(variance + 1e-5) * gamma + beta

    shapes = ((rows, columns), (columns,), (columns,))
    return Operator(shapes, graph, reference, ("layer_norm", ((rows, columns),)))


def _windows(x: np.ndarray, kernel: int, stride: int, outside: float = 0.0) -> np.ndarray:
    """The windows of a padded image, ``(n, c, h, w, kernel, kernel)``."""
    pad = kernel // 2
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=outside)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), axis=(2, 3))
    return windows[:, :, ::stride, ::stride]


LIVE: dict[str, Operator] = {
    "matmul 512x512x512": matmul(512, 512, 512),
    "matmul 17x1024x1024": matmul(17, 1024, 1024),
    "matmul 777x333x555": matmul(777, 333, 555),
    "dense 16x768x3072": matmul(16, 768, 3072),
    "batch_matmul 12x128x64x128": batch_matmul(12, 128, 64, 128),
    "conv2d 3x3 64x56x56": conv2d(64, 56, 64, 3),
    "conv2d 3x3 256x14x14": conv2d(256, 14, 256, 3),
    "conv2d 3x3 stride 2 128x56x56": conv2d(128, 56, 128, 3, stride=2),
    "conv2d 1x1 256x14x14 1024": conv2d(256, 14, 1024, 1),
    "conv2d 5x5 48x28x28": conv2d(48, 28, 64, 5),
    "depthwise 3x3 128x56x56": depthwise_conv2d(128, 56, 3),
    "depthwise 5x5 120x28x28": depthwise_conv2d(120, 28, 5),
    "softmax 1536x128": softmax(1536, 128),
    "layer_norm 128x768": layer_norm(128, 768),
    "max_pool 3x3 64x112x112": max_pool(64, 112, 3, 2),
    "sum 2048x2048 axis 0": sum_over_rows(2048, 2048),
}
"""The operators of `live.py`: layers of ResNet-50, MobileNet and BERT-base, and odd sizes."""

TEMPLATES: dict[str, Operator] = {
    "matmul 512x512x512": matmul(512, 512, 512),
    "matmul 1001x1001x1001": matmul(1001, 1001, 1001),
    "matmul 16x1024x1024": matmul(16, 1024, 1024),
    "conv2d 3x3 64x56x56": conv2d(64, 56, 64, 3),
    "conv2d 3x3 256x14x14": conv2d(256, 14, 256, 3),
    "conv2d 1x1 256x14x14 1024": conv2d(256, 14, 1024, 1),
    "conv2d 3x3 stride 2 128x56x56": conv2d(128, 56, 128, 3, stride=2),
}
"""The operators of `derived.py`: those that have a hand-written template."""
