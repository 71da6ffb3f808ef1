"""Shapes that every template for GPUs is checked with: odd ones, single ones, large ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Cases = list[tuple[Any, ...]]


def _products(t: str) -> Cases:
    return [
        (33, 65, 47, False, False, t),
        (64, 32, 96, True, False, t),
        (17, 40, 64, False, True, t),
        (1, 1, 1, False, False, t),
        (1, 129, 77, True, True, t),
    ]


def _large_products(t: str) -> Cases:
    return [(1024, 1024, 1024, False, False, t), (1000, 1000, 1000, False, False, t),
            (512, 768, 3072, False, True, t)]  # fmt: skip


def _batched(cases: Cases) -> Cases:
    return [(3, *case) for case in cases]


# N, CI, H, W, CO, KH, KW, strides, padding, dilation, groups, dtype, epilogue
def _convs(t: str) -> Cases:
    return [
        (1, 3, 9, 8, 5, 3, 3, 2, 1, 1, 1, t),
        (2, 8, 7, 7, 16, 1, 1, 1, 0, 1, 1, t),
        (1, 4, 10, 9, 6, 3, 2, 1, (1, 0, 0, 2), 2, 1, t),
        (1, 16, 8, 8, 32, 3, 3, 1, 1, 1, 1, t, ("bias", "relu")),
        (1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, t),
    ]


def _large_convs(t: str) -> Cases:
    return [
        (2, 64, 56, 56, 64, 3, 3, 1, 1, 1, 1, t),
        (2, 3, 224, 224, 64, 7, 7, 2, 3, 1, 1, t),
        (2, 256, 28, 28, 512, 1, 1, 2, 0, 1, 1, t),
    ]


# N, C, H, W, KH, KW, strides, padding, dilation, multiplier, dtype
def _depthwise(t: str) -> Cases:
    return [(1, 3, 9, 8, 3, 3, 2, 1, 1, 1, t), (2, 16, 7, 7, 3, 3, 1, 1, 1, 2, t),
            (1, 1, 1, 1, 1, 1, 1, 0, 1, 1, t)]  # fmt: skip


def _large_depthwise(t: str) -> Cases:
    return [(4, 96, 112, 112, 3, 3, 2, 1, 1, 1, t), (4, 960, 7, 7, 3, 3, 1, 1, 1, 1, t)]


ROWS = ((3, 33), (1, 1), (7, 257), (5, 4, 64), (2, 1000))
LARGE_ROWS = ((4096, 1024), (300, 8192), (65, 20001))


def _rows(*more: Any) -> Callable[[str], Cases]:
    return lambda t: [(shape, *more, t) for shape in ROWS]


def _large_rows(*more: Any) -> Callable[[str], Cases]:
    return lambda t: [(shape, *more, t) for shape in LARGE_ROWS]


def _reductions(t: str) -> Cases:
    return [((5, 33), (1,), t), ((33, 5), (0,), t), ((3, 4, 65), (0, 2), t), ((7, 129), None, t),
            ((1, 1), (0,), t)]  # fmt: skip


def _large_reductions(t: str) -> Cases:
    return [((4096, 4096), (0,), t), ((4096, 4096), (1,), t), ((1000, 1001), None, t)]


SMALL: dict[str, Callable[[str], Cases]] = {
    "matmul": _products,
    "batch_matmul": lambda t: _batched(_products(t)),
    "dense": lambda t: [(17, 33, 40, t), (16, 64, 128, t, ("bias", "gelu")), (1, 1, 1, t)],
    "conv2d_nchw": _convs,
    "conv2d_nhwc": _convs,
    "depthwise_conv2d_nchw": _depthwise,
    "depthwise_conv2d_nhwc": _depthwise,
    "softmax": _rows(-1),
    "log_softmax": _rows(-1),
    "layer_norm": _rows((-1,), 1e-5),
    "rms_norm": _rows((-1,), 1e-5),
    "sum": _reductions,
    "mean": _reductions,
    "max": _reductions,
    "min": _reductions,
    "add": lambda t: [((5, 33), (5, 33), t), ((5, 33), (1, 33), t), ((1,), (1,), t)],
    "bias_gelu": _rows(),
    "transpose": lambda t: [((5, 33), None, t), ((65, 64), None, t), ((3, 4, 5), (2, 0, 1), t)],
}
"""Quick ones, for the emulator, too."""

LARGE: dict[str, Callable[[str], Cases]] = {
    "matmul": _large_products,
    "batch_matmul": lambda t: [(48, 128, 64, 128, False, False, t)],
    "dense": lambda t: [(256, 1024, 1000, t, ("bias",))],
    "conv2d_nchw": _large_convs,
    "conv2d_nhwc": _large_convs,
    "depthwise_conv2d_nchw": _large_depthwise,
    "depthwise_conv2d_nhwc": _large_depthwise,
    "softmax": _large_rows(-1),
    "log_softmax": _large_rows(-1),
    "layer_norm": _large_rows((-1,), 1e-5),
    "rms_norm": _large_rows((-1,), 1e-5),
    "sum": _large_reductions,
    "mean": _large_reductions,
    "max": _large_reductions,
    "min": _large_reductions,
    "add": lambda t: [((4096, 4096), (4096, 4096), t), ((1001, 4099), (1, 4099), t)],
    "bias_gelu": lambda t: [((1024, 1000), t)],
    "transpose": lambda t: [((4096, 4096), None, t), ((1001, 4099), None, t)],
}
"""Those of models, for a GPU."""

DTYPES = ("float32", "float16")


def cases(template: str, dtype: str, large: bool) -> Cases:
    """The arguments that a template is checked with.

    Args:
        template: its name; one without a row has no cases.
        dtype: of the tensors.
        large: whether large ones are among them.
    """
    tables = (SMALL, LARGE) if large else (SMALL,)
    return [args for table in tables if template in table for args in table[template](dtype)]
