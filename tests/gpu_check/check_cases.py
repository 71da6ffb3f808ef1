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


# N, CI, H, W, CO, KH, KW, strides, padding, dilation, groups, dtype, epilogue, packed
def _convs(t: str) -> Cases:
    return [
        (1, 3, 9, 8, 5, 3, 3, 2, 1, 1, 1, t),
        (2, 8, 7, 7, 16, 1, 1, 1, 0, 1, 1, t),
        (1, 4, 10, 9, 6, 3, 2, 1, (1, 0, 0, 2), 2, 1, t),
        (1, 16, 8, 8, 32, 3, 3, 1, 1, 1, 1, t, ("bias", "relu")),
        (1, 16, 7, 5, 17, 3, 3, 1, 1, 1, 1, t, (), True),
        (1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, t),
    ]


def _large_convs(t: str) -> Cases:
    return [
        (2, 64, 56, 56, 64, 3, 3, 1, 1, 1, 1, t),
        (2, 3, 224, 224, 64, 7, 7, 2, 3, 1, 1, t),
        (2, 256, 28, 28, 512, 1, 1, 2, 0, 1, 1, t),
        (2, 512, 7, 7, 512, 3, 3, 1, 1, 1, 1, t, (), True),
    ]


# N, C, H, W, KH, KW, strides, padding, dilation, multiplier, dtype
def _depthwise(t: str) -> Cases:
    return [(1, 3, 9, 8, 3, 3, 2, 1, 1, 1, t), (2, 16, 7, 7, 3, 3, 1, 1, 1, 2, t),
            (1, 1, 1, 1, 1, 1, 1, 0, 1, 1, t)]  # fmt: skip


def _large_depthwise(t: str) -> Cases:
    return [(4, 96, 112, 112, 3, 3, 2, 1, 1, 1, t), (4, 960, 7, 7, 3, 3, 1, 1, 1, 1, t)]


# in the order of each template's arguments
def _signals(t: str) -> Cases:
    return [(1, 6, 33, 9, 3, 2, 1, 1, 1, t), (2, 16, 40, 64, 5, 1, (2, 1), 1, 2, t, ("bias",))]


def _volumes(t: str) -> Cases:
    return [(1, 3, 5, 6, 7, 8, 3, 2, 3, 1, 1, 1, 1, t), (1, 8, 4, 4, 5, 16, 1, 1, 1, 1, 0, 1, 1, t)]


def _blocks(t: str) -> Cases:
    both = (t, ("bias", "relu"), False, 8)
    return [(2, 16, 7, 9, 24, 3, 3, 2, 1, 1, 1, *both), (1, 8, 5, 5, 16, 1, 1, 1, 0, 1, 1, *both)]


def _transposed(t: str) -> Cases:
    return [(1, 3, 5, 6, 4, 3, 3, 2, 1, 1, t), (1, 8, 7, 7, 16, 4, 4, 2, 1, 0, t, ("bias",))]


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
    "conv1d_ncw": _signals,
    "conv3d_ncdhw": _volumes,
    "conv2d_nchwc": _blocks,
    "conv2d_transpose_nchw": _transposed,
    "softmax": _rows(-1),
    "log_softmax": _rows(-1),
    "layer_norm": _rows((-1,), 1e-5),
    "rms_norm": _rows((-1,), 1e-5),
    "sum": _reductions,
    "mean": _reductions,
    "max": _reductions,
    "min": _reductions,
    "cumsum": lambda t: [((5, 133), 1, t), ((3, 700, 5), 1, t)],
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
    "conv1d_ncw": lambda t: [(8, 256, 2048, 256, 5, 1, 2, 1, 1, t)],
    "conv3d_ncdhw": lambda t: [(1, 32, 16, 28, 28, 64, 3, 3, 3, 1, 1, 1, 1, t)],
    "conv2d_nchwc": lambda t: [(2, 64, 56, 56, 64, 3, 3, 1, 1, 1, 1, t, (), False, 16)],
    "conv2d_transpose_nchw": lambda t: [(2, 128, 28, 28, 64, 4, 4, 2, 1, 0, t)],
    "softmax": _large_rows(-1),
    "log_softmax": _large_rows(-1),
    "layer_norm": _large_rows((-1,), 1e-5),
    "rms_norm": _large_rows((-1,), 1e-5),
    "sum": _large_reductions,
    "mean": _large_reductions,
    "max": _large_reductions,
    "min": _large_reductions,
    "cumsum": lambda t: [((2, 1 << 18), 1, t), ((1024, 1000), 0, t)],
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
