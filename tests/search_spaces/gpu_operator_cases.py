"""Every operator at a small size, with inputs of a kind that it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from whet.compiler import topi
from whet.compiler.te import Tensor

nn = topi.nn


@dataclass(frozen=True)
class Input:
    """A tensor's shape and type, and which numbers are in it.

    Attributes:
        shape, dtype: the tensor's.
        values: ``"any"``, ``"positive"``, ``"near one"`` or ``"index"`` (from 0 to 5).
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    values: str = "any"

    def drawn(self, rng: np.random.Generator) -> np.ndarray:
        """Numbers of that kind."""
        if self.dtype == "bool":
            return rng.integers(0, 2, self.shape).astype(bool)
        if self.values == "index":
            return rng.integers(0, 6, self.shape).astype(self.dtype)
        if self.dtype.startswith("int"):
            low = 0 if self.values == "positive" else -9
            return rng.integers(low, 9, self.shape).astype(self.dtype)
        span = {"positive": (0.3, 3), "near one": (0.9, 1.1)}.get(self.values, (-2, 2))
        return rng.uniform(*span, self.shape).astype(self.dtype)


@dataclass(frozen=True)
class Operator:
    """How an operator is called, and on what."""

    make: Callable[..., Tensor]
    inputs: tuple[Input, ...]


def _of(make: Callable[..., Tensor], *inputs: Input) -> Operator:
    return Operator(make, inputs)


def _positive(*shape: int, dtype: str = "float32") -> Input:
    return Input(shape, dtype, "positive")


def _plain(*shape: int, dtype: str = "float32") -> Input:
    return Input(shape, dtype)


def _index(*shape: int) -> Input:
    return Input(shape, "int32", "index")


_SIGNED = (
    "asinh atan cosh fast_erf fast_exp fast_tanh sinh "
    "abs ceil cos erf exp floor identity isfinite isinf isnan negative round sigmoid sign sin tan "
    "tanh trunc"
)
_ROOTS = "sqrt rsqrt log log2 log10"
_PAIRS = (
    "add subtract multiply divide maximum minimum power floor_mod mod floor_divide equal not_equal "
    "greater greater_equal less less_equal"
)
_BITS = "bitwise_and bitwise_or bitwise_xor left_shift right_shift"
_HALVES = "float16"
_RESIZED = [
    (method, places)
    for method in ("nearest_neighbor", "linear")
    for places in ("half_pixel", "align_corners", "asymmetric")
]

ELEMENTWISE = {
    **{n: _of(getattr(topi, n), _plain(7, 33)) for n in _SIGNED.split()},
    **{n: _of(getattr(topi, n), _positive(7, 33)) for n in _ROOTS.split()},
    **{n: _of(getattr(topi, n), _positive(5, 1, 9), _positive(7, 1)) for n in _PAIRS.split()},
    **{n: _of(getattr(topi, n), *[_positive(5, 9, dtype="int32")] * 2) for n in _BITS.split()},
    "asin": _of(lambda x: topi.asin(topi.tanh(x)), _plain(7, 33)),
    "bitwise_not": _of(topi.bitwise_not, _plain(5, 9, dtype="int32")),
    "logical_and": _of(topi.logical_and, *[_plain(5, 9, dtype="bool")] * 2),
    "logical_or": _of(topi.logical_or, *[_plain(5, 9, dtype="bool")] * 2),
    "logical_xor": _of(topi.logical_xor, *[_plain(5, 9, dtype="bool")] * 2),
    "logical_not": _of(topi.logical_not, _plain(5, 9, dtype="bool")),
    "cast": _of(lambda x: topi.cast(x, _HALVES), _plain(5, 9)),
    "clip": _of(lambda x: topi.clip(x, -0.5, 0.5), _plain(5, 9)),
    "elemwise_sum": _of(lambda *x: topi.elemwise_sum(list(x)), *[_plain(5, 9)] * 3),
    "full": _of(lambda x: topi.add(topi.full((5, 9), x.dtype, 2.5), x), _plain(5, 9)),
    "full_like": _of(lambda x: topi.full_like(x, 3.0), _plain(5, 9)),
    "ones": _of(lambda x: topi.add(topi.ones((5, 9), x.dtype), x), _plain(5, 9)),
    "zeros": _of(lambda x: topi.add(topi.zeros((5, 9), x.dtype), x), _plain(5, 9)),
    "broadcast_to": _of(lambda x: topi.broadcast_to(x, (4, 5, 9)), _plain(5, 1)),
    "where": _of(topi.where, _plain(5, 9, dtype="bool"), _plain(5, 9), _plain(5, 9)),
    **{
        f"{n}{dtype}": _of(make, _plain(5, 33, dtype=dtype))
        for n, make in (
            ("relu", nn.relu),
            ("gelu", nn.gelu),
            ("gelu_tanh", nn.gelu_tanh),
            ("silu", nn.silu),
            ("leaky_relu", lambda x: nn.leaky_relu(x, 0.1)),
        )
        for dtype in ("float32", _HALVES)
    },
    **{
        n: _of(getattr(nn, n), _plain(5, 33))
        for n in (
            *("celu", "elu", "hardsigmoid", "hardswish", "mish", "selu", "shrink", "softplus"),
            *("softsign", "swish", "thresholded_relu"),
        )
    },
    "prelu": _of(nn.prelu, _plain(2, 4, 5, 5), _plain(4)),
    "ceil_log2": _of(lambda x: topi.ceil_log2(topi.add(x, 1)), _positive(5, 9, dtype="int32")),
    "reinterpret": _of(lambda x: topi.reinterpret(x, "uint32"), _plain(5, 9, dtype="int32")),
    "fixed_point_multiply": _of(
        lambda x: topi.fixed_point_multiply(x, 1 << 30, 2), _plain(5, 9, dtype="int32")
    ),
    "fixed_point_multiply_per_axis": _of(
        lambda x, y, s: topi.fixed_point_multiply_per_axis(x, y, s, s, 1, 1, (1,)),
        *(_plain(5, 9, dtype="int32"), _positive(9, dtype="int32"), _index(9)),
    ),
    "scale_shift_nhwc": _of(nn.scale_shift_nhwc, _plain(2, 6, 7, 5), _plain(5), _plain(5)),
    "scale_shift_nchwc": _of(
        nn.scale_shift_nchwc, _plain(2, 3, 4, 5, 4), _plain(3, 4), _plain(3, 4)
    ),
    "bias_add": _of(lambda x, b: nn.bias_add(x, b, 1), _plain(2, 5, 6), _plain(5)),
    "scale_shift_nchw": _of(nn.scale_shift_nchw, _plain(2, 5, 6, 7), _plain(5), _plain(5)),
}
MOVED = {
    "transpose": _of(lambda x: topi.transpose(x, (2, 0, 1)), _plain(5, 33, 18)),
    "reshape": _of(lambda x: topi.reshape(x, (9, 20)), _plain(6, 30)),
    "flip": _of(lambda x: topi.flip(x, 1), _plain(5, 9)),
    "repeat": _of(lambda x: topi.repeat(x, 3, 1), _plain(5, 9)),
    "tile": _of(lambda x: topi.tile(x, (2, 3)), _plain(5, 9)),
    "squeeze": _of(lambda x: topi.squeeze(x, 1), _plain(5, 1, 9)),
    "expand_dims": _of(lambda x: topi.expand_dims(x, 1), _plain(5, 9)),
    "stack": _of(lambda a, b: topi.stack([a, b], 1), _plain(5, 9), _plain(5, 9)),
    "split": _of(lambda x: topi.split(x, 3, 1)[1], _plain(5, 9)),
    "strided_slice": _of(lambda x: topi.strided_slice(x, [1, 8], [5, 0], [1, -2]), _plain(6, 9)),
    "concatenate": _of(lambda a, b: topi.concatenate([a, b], 1), _plain(5, 9), _plain(5, 3)),
    "take": _of(lambda x, i: topi.take(x, i, 0), _plain(6, 33), _index(4, 3)),
    "gather": _of(lambda x, i: topi.gather(x, 0, i), _plain(6, 9), _index(4, 9)),
    "gather_nd": _of(topi.gather_nd, _plain(6, 9), _index(1, 4)),
    "layout_transform": _of(
        lambda x: topi.layout_transform(x, "NCHW", "NCHW8c"), _plain(1, 16, 5, 6)
    ),
    "one_hot": _of(lambda i: topi.one_hot(i, 1.5, 0.5, 7, 1, "float32"), _index(4, 3)),
    "unravel_index": _of(lambda i: topi.unravel_index(i, (2, 3)), _index(9)),
    "trilu": _of(lambda x: topi.trilu(x, 1, False), _plain(3, 5, 7)),
    "matrix_set_diag": _of(topi.matrix_set_diag, _plain(2, 5, 7), _plain(2, 5)),
    "sequence_mask": _of(lambda x, n: topi.sequence_mask(x, n, 9.0), _plain(6, 4, 3), _index(4)),
    "reverse_sequence": _of(topi.reverse_sequence, _plain(4, 6, 3), _index(4)),
    "dynamic_strided_slice": _of(
        lambda x, b, e, t: topi.dynamic_strided_slice(x, b, e, t, (3, 2)),
        *(_plain(6, 9), _index(2), _index(2), _index(2)),
    ),
    "adv_index": _of(
        lambda x, i, j: topi.adv_index(x, [i, j]), _plain(7, 9, 4), _index(3, 1), _index(5)
    ),
    "sliding_window": _of(lambda x: topi.sliding_window(x, 1, (3, 2), (2, 1)), _plain(3, 8, 5)),
    "fifo_buffer": _of(lambda x, b: nn.fifo_buffer(x, b, 1), _plain(3, 2, 5), _plain(3, 7, 5)),
    "expand_like": _of(lambda x, y: topi.expand_like(x, y, (1,)), _plain(4, 5), _plain(4, 3, 5)),
    "shape": _of(topi.shape, _plain(4, 3, 5)),
    "ndarray_size": _of(topi.ndarray_size, _plain(4, 3)),
    "depth_to_space": _of(lambda x: nn.depth_to_space(x, 2), _plain(1, 8, 3, 5)),
    "space_to_depth": _of(lambda x: nn.space_to_depth(x, 2), _plain(1, 2, 6, 10)),
    "flatten": _of(nn.flatten, _plain(2, 5, 6)),
    "space_to_batch_nd": _of(
        lambda x: nn.space_to_batch_nd(x, [2, 3], [1, 0], [0, 2]), _plain(1, 5, 4, 3)
    ),
    "batch_to_space_nd": _of(
        lambda x: nn.batch_to_space_nd(x, [2, 3], [1, 0], [0, 2]), _plain(6, 3, 2, 3)
    ),
    "upsampling3d": _of(lambda x: nn.upsampling3d(x, 2, 1, 3), _plain(1, 2, 3, 5, 2)),
    "upsampling": _of(lambda x: nn.upsampling(x, 2, 3), _plain(1, 2, 3, 5)),
    "dilate": _of(lambda x: nn.dilate(x, (1, 1, 2, 3)), _plain(1, 2, 5, 6)),
    **{
        f"pad {m}": _of(
            partial(topi.pad, pad_before=(1, 2), pad_after=(0, 3), mode=m), _plain(6, 9)
        )
        for m in ("constant", "edge", "reflect", "symmetric", "wrap")
    },
    **{
        f"resize2d {m} {p}": _of(
            partial(
                topi.image.resize2d,
                roi=None,
                size=(11, 6),
                method=m,
                coordinate_transformation_mode=p,
            ),
            _plain(1, 2, 5, 9),
        )
        for m, p in _RESIZED
    },
}
REDUCED = {
    **{
        f"{n} over {axis} of {dtype}": _of(
            partial(getattr(topi, n), axis=axis), Input((9, 20, 31), dtype, "near one")
        )
        for n, axes in (
            ("sum", (0, 1, (0, 2), None)),
            ("prod", (0, (0, 2))),
            ("max", (0, 1, None)),
            ("min", (1, (0, 2))),
            ("argmax", (0, 1, None)),
            ("argmin", (1, None)),
        )
        for axis in axes
        for dtype in ("float32", _HALVES)
    },
    "all": _of(lambda x: topi.all(x, 1), _plain(9, 20, dtype="bool")),
    "any": _of(lambda x: topi.any(x, 1), _plain(9, 20, dtype="bool")),
    **{f"cumsum {a}": _of(partial(topi.cumsum, axis=a), _plain(9, 33)) for a in (0, 1, None)},
    **{
        f"cumprod {a}": _of(partial(topi.cumprod, axis=a), Input((9, 33), values="near one"))
        for a in (0, 1)
    },
    **{
        f"{n} of {dtype}": _of(getattr(nn, n), _plain(9, 77, dtype=dtype))
        for n in ("softmax", "log_softmax")
        for dtype in ("float32", _HALVES)
    },
    "collapse_sum": _of(lambda x: topi.collapse_sum(x, (9, 1)), _plain(4, 9, 20)),
    "dft": _of(lambda x, y: topi.dft(x, y, True)[1], _plain(3, 11), _plain(3, 11)),
    "stft": _of(
        lambda x, w: topi.stft(x, 7, 3, 7, w, True, True, (2, 4, 5, 2)), _plain(2, 20), _plain(7)
    ),
    "fast_softmax": _of(nn.fast_softmax, _plain(9, 77)),
    "nll_loss": _of(
        lambda p, t, w: nn.nll_loss(p, t, w, "sum", 2), _plain(5, 6, 3), _index(5, 3), _plain(6)
    ),
    "layer_norm": _of(
        lambda x, g, b: nn.layer_norm(x, g, b, (1,)), _plain(9, 77), _plain(77), _plain(77)
    ),
    "rms_norm": _of(lambda x, g: nn.rms_norm(x, g, (1,)), _plain(9, 77), _plain(77)),
    "instance_norm": _of(
        lambda *x: nn.instance_norm(*x, (2, 3)), _plain(2, 3, 5, 7), _plain(3), _plain(3)
    ),
    "group_norm": _of(
        lambda *x: nn.group_norm(*x, 2, 1, (2, 3)), _plain(2, 6, 5, 7), _plain(6), _plain(6)
    ),
    "lrn": _of(lambda x: nn.lrn(x, 5), _plain(2, 9, 3, 4)),
    "l2_normalize": _of(lambda x: nn.l2_normalize(x, 1e-6, 1), _plain(5, 33)),
    "adaptive_pool1d": _of(lambda x: nn.adaptive_pool1d(x, 4, "avg"), _plain(2, 3, 9)),
    "adaptive_pool3d": _of(lambda x: nn.adaptive_pool3d(x, 2, "max"), _plain(1, 2, 4, 3, 5)),
    "pool1d": _of(lambda x: nn.pool1d(x, 3, 2, 1, 1, "avg"), _plain(2, 3, 21)),
    "pool3d": _of(lambda x: nn.pool3d(x, 2, 2, 1, 0, "max"), _plain(1, 3, 6, 6, 4)),
    **{
        f"{n} {kind} of {dtype}": _of(
            partial(make, pool_type=kind), _plain(2, 3, 13, 15, dtype=dtype)
        )
        for n, make in (
            ("pool2d", partial(nn.pool2d, kernel=3, stride=2, dilation=1, padding=1)),
            ("global_pool", nn.global_pool),
            ("adaptive_pool", partial(nn.adaptive_pool, output_size=(3, 2))),
        )
        for kind in ("max", "avg")
        for dtype in ("float32", _HALVES)
    },
}
PRODUCTS = {
    "matmul": _of(topi.matmul, _plain(13, 17), _plain(17, 21)),
    "matmul of halves": _of(
        topi.matmul, _plain(13, 17, dtype=_HALVES), _plain(17, 21, dtype=_HALVES)
    ),
    "dense": _of(nn.dense, _plain(9, 33), _plain(17, 33), _plain(17)),
    "batch_matmul": _of(nn.batch_matmul, _plain(2, 9, 17), _plain(2, 11, 17)),
    "correlation_nchw": _of(
        lambda a, b: nn.correlation_nchw(a, b, 3, 2, 1, 1, 2, True), *[_plain(1, 3, 7, 8)] * 2
    ),
    "conv1d_ncw": _of(lambda x, w: nn.conv1d_ncw(x, w, 1, 1, 1), _plain(2, 5, 20), _plain(7, 5, 3)),
    "conv2d_nchw": _of(
        lambda x, w: nn.conv2d_nchw(x, w, 2, 1, 1), _plain(2, 5, 9, 11), _plain(8, 5, 3, 3)
    ),
    "conv2d_nhwc": _of(
        lambda x, w: nn.conv2d_nhwc(x, w, 1, 1, 1), _plain(1, 9, 11, 8), _plain(3, 3, 8, 12)
    ),
    "conv3d_ncdhw": _of(
        lambda x, w: nn.conv3d_ncdhw(x, w, 1, 1, 1), _plain(1, 3, 5, 6, 7), _plain(8, 3, 3, 3, 3)
    ),
    "conv2d_transpose_nchw": _of(
        lambda x, w: nn.conv2d_transpose_nchw(x, w, 2, 1, x.dtype, 0),
        _plain(1, 3, 5, 6),
        _plain(3, 4, 3, 3),
    ),
    "einsum": _of(
        lambda a, b: topi.einsum("bij,bkj->bik", a, b), _plain(2, 9, 17), _plain(2, 5, 17)
    ),
    "tensordot": _of(lambda a, b: topi.tensordot(a, b, 2), _plain(9, 3, 5), _plain(3, 5, 11)),
    "conv1d": _of(lambda x, w: nn.conv1d(x, w, 2), _plain(2, 5, 20), _plain(7, 5, 3)),
    "conv1d_nwc": _of(nn.conv1d_nwc, _plain(2, 20, 5), _plain(3, 5, 7)),
    "conv3d_ndhwc": _of(nn.conv3d_ndhwc, _plain(1, 5, 6, 7, 3), _plain(3, 3, 3, 3, 8)),
    "conv2d_hwcn": _of(nn.conv2d_hwcn, _plain(9, 8, 5, 2), _plain(3, 3, 5, 7)),
    "conv2d_NCHWc": _of(nn.conv2d_NCHWc, _plain(1, 2, 7, 8, 4), _plain(3, 2, 3, 3, 4, 8)),
    "conv1d_transpose_ncw": _of(
        lambda x, w: nn.conv1d_transpose_ncw(x, w, 2, 1), _plain(2, 5, 9), _plain(5, 4, 4)
    ),
    "conv3d_transpose_ncdhw": _of(
        lambda x, w: nn.conv3d_transpose_ncdhw(x, w, 2),
        _plain(1, 3, 3, 4, 2),
        _plain(3, 4, 2, 2, 2),
    ),
    "depthwise_conv2d_nchw": _of(
        lambda x, w: nn.depthwise_conv2d_nchw(x, w, 1, 1, 1),
        _plain(1, 5, 9, 10),
        _plain(5, 1, 3, 3),
    ),
    "group_conv1d_ncw": _of(
        lambda x, w: nn.group_conv1d_ncw(x, w, groups=2), _plain(1, 4, 9), _plain(6, 2, 3)
    ),
    "group_conv1d_nwc": _of(
        lambda x, w: nn.group_conv1d_nwc(x, w, groups=2), _plain(1, 9, 4), _plain(3, 2, 6)
    ),
    "group_conv2d_nhwc": _of(
        lambda x, w: nn.group_conv2d_nhwc(x, w, 1, 1, 1, 2),
        _plain(1, 6, 5, 4),
        _plain(3, 3, 2, 6),
    ),
    "group_conv1d_transpose_ncw": _of(
        lambda x, w: nn.group_conv1d_transpose_ncw(x, w, 2, 0, x.dtype, 0, 2),
        _plain(1, 4, 5),
        _plain(4, 3, 3),
    ),
    "group_conv2d_transpose_nchw": _of(
        lambda x, w: nn.group_conv2d_transpose_nchw(x, w, 2, 0, x.dtype, 0, 2),
        _plain(1, 4, 3, 4),
        _plain(4, 3, 2, 2),
    ),
    "depthwise_conv2d_nhwc": _of(nn.depthwise_conv2d_nhwc, _plain(1, 6, 5, 4), _plain(3, 3, 4, 2)),
    "depthwise_conv2d_NCHWc": _of(
        nn.depthwise_conv2d_NCHWc, _plain(1, 2, 5, 6, 4), _plain(2, 1, 3, 3, 1, 4)
    ),
    "group_conv2d_nchw": _of(
        lambda x, w: nn.group_conv2d_nchw(x, w, 1, 1, 1, 4),
        _plain(1, 8, 9, 10),
        _plain(32, 2, 3, 3),
    ),
}
OPERATORS: dict[str, Operator] = {**ELEMENTWISE, **MOVED, **REDUCED, **PRODUCTS}
"""Name -> an operator, for the tests of targets."""
