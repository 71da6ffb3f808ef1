"""Named templates at small sizes, each with numpy's answer in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import erf

import numpy as np


@dataclass(frozen=True)
class Case:
    """A template, its arguments, and what numpy makes of its inputs."""

    name: str
    args: tuple
    reference: Callable[..., np.ndarray]
    tolerance: float = 2e-6


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def layer_norm(axes: tuple) -> Callable[..., np.ndarray]:
    def reference(x: np.ndarray, g: np.ndarray, b: np.ndarray) -> np.ndarray:
        other = [d for d in range(x.ndim) if d not in axes]
        wide = [np.expand_dims(t, other) for t in (g, b)]
        away = x - x.mean(axes, keepdims=True)
        return away / np.sqrt(x.var(axes, keepdims=True) + 1e-5) * wide[0] + wide[1]

    return reference


def rms_norm(x: np.ndarray, g: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * g


def batch_norm(x: np.ndarray, *given: np.ndarray) -> np.ndarray:
    g, b, m, v = (t[:, None, None] for t in given)
    return (x - m) / np.sqrt(v + 1e-5) * g + b


def gelu(x: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (x + b) * (1 + np.vectorize(erf)((x + b) / np.sqrt(2))) / 2


def pooled(how: Callable, kernel: int, stride: int, pad: int) -> Callable[..., np.ndarray]:
    def reference(x: np.ndarray) -> np.ndarray:
        edges = ((0, 0), (0, 0), (pad, pad), (pad, pad))
        p = np.pad(x, edges, constant_values=np.nan)
        windows = np.lib.stride_tricks.sliding_window_view(p, (kernel, kernel), axis=(2, 3))
        return how(windows[:, :, ::stride, ::stride], axis=(4, 5))

    return reference


def resized(x: np.ndarray) -> np.ndarray:
    for axis, want in ((2, 11), (3, 6)):
        n = x.shape[axis]
        at = (np.arange(want) + 0.5) * n / want - 0.5
        low = np.floor(at).astype(int)
        part = np.expand_dims(at - low, [d for d in range(4) if d != axis])
        a, b = (np.take(x, np.clip(low + k, 0, n - 1), axis) for k in (0, 1))
        x = a + (b - a) * part
    return x


CASES: dict[str, Case] = {
    "softmax": Case("softmax", ((13, 77),), lambda x: softmax(x, 1)),
    "softmax over columns": Case("softmax", ((33, 21), 0), lambda x: softmax(x, 0)),
    "softmax of the middle": Case("softmax", ((3, 17, 9), 1), lambda x: softmax(x, 1)),
    "softmax of size 1": Case("softmax", ((5, 1),), lambda x: softmax(x, 1)),
    "log_softmax": Case("log_softmax", ((7, 130),), lambda x: np.log(softmax(x, 1))),
    "layer_norm": Case("layer_norm", ((9, 101),), layer_norm((1,)), 5e-6),
    "layer_norm of two": Case("layer_norm", ((4, 6, 17), (1, 2)), layer_norm((1, 2)), 5e-6),
    "layer_norm of columns": Case("layer_norm", ((40, 19), (0,)), layer_norm((0,)), 5e-6),
    "rms_norm": Case("rms_norm", ((11, 67),), rms_norm),
    "batch_norm": Case("batch_norm", ((2, 5, 6, 7),), batch_norm, 5e-6),
    "bias_gelu": Case("bias_gelu", ((9, 37),), gelu),
    "add": Case("add", ((5, 1, 9), (7, 1)), lambda a, b: a + b),
    "transpose": Case("transpose", ((45, 70),), lambda x: x.T),
    "transpose of squares": Case("transpose", ((64, 32),), lambda x: x.T),
    "transpose of three": Case(
        "transpose", ((5, 33, 18), (1, 2, 0)), lambda x: x.transpose(1, 2, 0)
    ),
    "transpose of doubles": Case("transpose", ((24, 40), None, "float64"), lambda x: x.T),
    "sum over rows": Case("sum", ((130, 45), 0), lambda x: x.sum(0)),
    "sum over columns": Case("sum", ((45, 130), 1), lambda x: x.sum(1)),
    "sum of all": Case("sum", ((37, 61),), lambda x: x.sum()),
    "sum of few": Case("sum", ((3, 1), 0), lambda x: x.sum(0)),
    "sum over the outer": Case("sum", ((9, 20, 31), (0, 2)), lambda x: x.sum((0, 2))),
    "mean": Case("mean", ((20, 33), -1), lambda x: x.mean(1)),
    "max": Case("max", ((7, 90), 1), lambda x: x.max(1)),
    "min": Case("min", ((90, 33), 0), lambda x: x.min(0)),
    "argmax": Case("argmax", ((11, 70),), lambda x: x.argmax(1)),
    "argmin": Case("argmin", ((70, 11), 0), lambda x: x.argmin(0)),
    "cumsum": Case("cumsum", ((5, 67),), lambda x: x.cumsum(1)),
    "cumsum over rows": Case("cumsum", ((21, 35), 0), lambda x: x.cumsum(0)),
    "max_pool2d": Case("max_pool2d", ((2, 3, 13, 15), 3, 2, 1), pooled(np.nanmax, 3, 2, 1)),
    "avg_pool2d": Case("avg_pool2d", ((1, 4, 12, 11), 2, 2), pooled(np.nanmean, 2, 2, 0)),
    "avg_pool2d of the edge": Case(
        "avg_pool2d", ((1, 2, 9, 9), 3, 1, 1), pooled(np.nanmean, 3, 1, 1)
    ),
    "global_avg_pool2d": Case(
        "global_avg_pool2d", ((2, 9, 7, 7),), lambda x: x.mean((2, 3), keepdims=True)
    ),
    "adaptive_avg_pool2d": Case(
        "adaptive_avg_pool2d", ((1, 3, 8, 8), 2), pooled(np.mean, 4, 4, 0)
    ),
    "gather": Case(
        "gather", ((6, 9), (4, 9)), lambda x, i: np.take_along_axis(x, i.astype("int64"), 0)
    ),
    "take": Case("take", ((6, 33), (4, 3)), lambda x, i: x[i]),
    "concatenate": Case(
        "concatenate", (((4, 9), (4, 17), (4, 1)), 1), lambda *x: np.concatenate(x, 1)
    ),
    "pad": Case("pad", ((6, 9), (1, 2)), lambda x: np.pad(x, ((1, 1), (2, 2)))),
    "pad by reflection": Case(
        "pad", ((6, 9), (1, 2), (0, 3), "reflect"),
        lambda x: np.pad(x, ((1, 0), (2, 3)), "reflect"),
    ),
    "resize2d": Case("resize2d", ((1, 2, 5, 9), (11, 6)), resized),
    "layout_transform": Case(
        "layout_transform", ((1, 16, 5, 6), "NCHW", "NCHW8c"),
        lambda x: x.reshape(1, 2, 8, 5, 6).transpose(0, 1, 3, 4, 2),
    ),
}  # fmt: skip
"""Name -> a case."""
