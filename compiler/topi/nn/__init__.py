"""Operators of neural networks."""

from typing import TYPE_CHECKING

from whet.compiler.homes import imported
from whet.compiler.topi.nn import utils
from whet.compiler.topi.nn.activation import (
    celu,
    elu,
    gelu,
    gelu_tanh,
    hardsigmoid,
    hardswish,
    leaky_relu,
    mish,
    prelu,
    relu,
    selu,
    shrink,
    silu,
    softplus,
    softsign,
    swish,
    thresholded_relu,
)
from whet.compiler.topi.nn.conv import (
    conv1d,
    conv1d_ncw,
    conv1d_nwc,
    conv1d_transpose_ncw,
    conv2d,
    conv2d_hwcn,
    conv2d_nchw,
    conv2d_NCHWc,
    conv2d_nhwc,
    conv2d_transpose_nchw,
    conv3d_ncdhw,
    conv3d_ndhwc,
    conv3d_transpose_ncdhw,
    depthwise_conv2d_nchw,
    group_conv2d_nchw,
)
from whet.compiler.topi.nn.dense import batch_matmul, bias_add, dense, flatten
from whet.compiler.topi.nn.dense import layer_matmul as matmul
from whet.compiler.topi.nn.epilogue import Epilogue
from whet.compiler.topi.nn.normalization import (
    batch_norm,
    group_norm,
    instance_norm,
    l2_normalize,
    layer_norm,
    lrn,
    rms_norm,
    scale_shift_nchw,
    scale_shift_nchwc,
    scale_shift_nhwc,
)
from whet.compiler.topi.nn.pad import (
    batch_to_space_nd,
    circular_pad,
    dilate,
    mirror_pad,
    pad,
    reflect_pad,
    replicate_pad,
    space_to_batch_nd,
)
from whet.compiler.topi.nn.pooling import (
    adaptive_pool,
    adaptive_pool1d,
    adaptive_pool3d,
    global_pool,
    max_pool_places,
    pool1d,
    pool2d,
    pool3d,
)
from whet.compiler.topi.nn.softmax import fast_softmax, log_softmax, nll_loss, softmax
from whet.compiler.topi.nn.windows import get_pad_tuple, pair

if TYPE_CHECKING:
    from whet.compiler.topi.algebra.products import sparse_dense
    from whet.compiler.topi.algebra.sparse import sparse_add, sparse_transpose
    from whet.compiler.topi.image.blocks import depth_to_space, space_to_depth
    from whet.compiler.topi.image.deformable import deformable_conv2d_nchw
    from whet.compiler.topi.image.resize import upsampling, upsampling3d
    from whet.compiler.topi.indexed.views import fifo_buffer
    from whet.compiler.topi.nn.grouped import (
        depthwise_conv2d_NCHWc,
        depthwise_conv2d_nhwc,
        group_conv1d_ncw,
        group_conv1d_nwc,
        group_conv1d_transpose_ncw,
        group_conv2d_nhwc,
        group_conv2d_transpose_nchw,
    )
    from whet.compiler.topi.nn.recurrent import gru, lstm, rnn
    from whet.compiler.topi.vision.windows import correlation_nchw

_HOMES = {
    "sparse_add": "algebra.sparse",
    "upsampling3d": "image.resize",
    "correlation_nchw": "vision.windows",
    "fifo_buffer": "indexed.views",
    "deformable_conv2d_nchw": "image.deformable",
    "depth_to_space": "image.blocks",
    "depthwise_conv2d_NCHWc": "nn.grouped",
    "depthwise_conv2d_nhwc": "nn.grouped",
    "group_conv1d_ncw": "nn.grouped",
    "group_conv1d_nwc": "nn.grouped",
    "group_conv1d_transpose_ncw": "nn.grouped",
    "group_conv2d_nhwc": "nn.grouped",
    "group_conv2d_transpose_nchw": "nn.grouped",
    "gru": "nn.recurrent",
    "lstm": "nn.recurrent",
    "rnn": "nn.recurrent",
    "space_to_depth": "image.blocks",
    "sparse_dense": "algebra.products",
    "sparse_transpose": "algebra.sparse",
    "upsampling": "image.resize",
}
"""Operators that few programs have -> their modules, imported as they are asked for."""

__all__ = [
    "Epilogue",
    "sparse_add",
    "upsampling3d",
    "correlation_nchw",
    "fifo_buffer",
    "fast_softmax",
    "matmul",
    "nll_loss",
    "scale_shift_nchwc",
    "scale_shift_nhwc",
    "adaptive_pool",
    "adaptive_pool1d",
    "adaptive_pool3d",
    "batch_matmul",
    "batch_norm",
    "batch_to_space_nd",
    "bias_add",
    "celu",
    "circular_pad",
    "conv1d",
    "conv1d_ncw",
    "conv1d_nwc",
    "conv1d_transpose_ncw",
    "conv2d",
    "conv2d_NCHWc",
    "conv2d_hwcn",
    "conv2d_nchw",
    "conv2d_nhwc",
    "conv2d_transpose_nchw",
    "conv3d_ncdhw",
    "conv3d_ndhwc",
    "conv3d_transpose_ncdhw",
    "deformable_conv2d_nchw",
    "dense",
    "depth_to_space",
    "depthwise_conv2d_NCHWc",
    "depthwise_conv2d_nchw",
    "depthwise_conv2d_nhwc",
    "dilate",
    "elu",
    "flatten",
    "gelu",
    "gelu_tanh",
    "get_pad_tuple",
    "global_pool",
    "group_conv1d_ncw",
    "group_conv1d_nwc",
    "group_conv1d_transpose_ncw",
    "group_conv2d_nchw",
    "group_conv2d_nhwc",
    "group_conv2d_transpose_nchw",
    "group_norm",
    "gru",
    "hardsigmoid",
    "hardswish",
    "instance_norm",
    "l2_normalize",
    "layer_norm",
    "leaky_relu",
    "log_softmax",
    "lrn",
    "lstm",
    "max_pool_places",
    "mirror_pad",
    "mish",
    "pad",
    "pair",
    "pool1d",
    "pool2d",
    "pool3d",
    "prelu",
    "reflect_pad",
    "relu",
    "replicate_pad",
    "rms_norm",
    "rnn",
    "scale_shift_nchw",
    "selu",
    "shrink",
    "silu",
    "softmax",
    "softplus",
    "softsign",
    "space_to_batch_nd",
    "space_to_depth",
    "sparse_dense",
    "sparse_transpose",
    "swish",
    "thresholded_relu",
    "upsampling",
    "utils",
]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        found = globals()[name] = imported(f"whet.compiler.topi.{_HOMES[name]}:{name}")
        return found
    from whet.compiler.absent import missing

    raise missing(__name__, "topi.nn", name)
