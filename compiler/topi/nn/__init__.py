"""Operators of neural networks."""

from whet.compiler.topi.nn import utils
from whet.compiler.topi.nn.activation import gelu, gelu_tanh, leaky_relu, prelu, relu, silu
from whet.compiler.topi.nn.conv import (
    conv1d_ncw,
    conv2d,
    conv2d_nchw,
    conv2d_nhwc,
    conv2d_transpose_nchw,
    conv3d_ncdhw,
    depthwise_conv2d_nchw,
    group_conv2d_nchw,
)
from whet.compiler.topi.nn.dense import batch_matmul, bias_add, dense, flatten
from whet.compiler.topi.nn.dilate import dilate
from whet.compiler.topi.nn.epilogue import Epilogue
from whet.compiler.topi.nn.normalization import batch_norm, layer_norm, rms_norm, scale_shift_nchw
from whet.compiler.topi.nn.pad import circular_pad, mirror_pad, pad, reflect_pad, replicate_pad
from whet.compiler.topi.nn.pooling import adaptive_pool, global_pool, pool2d
from whet.compiler.topi.nn.softmax import log_softmax, softmax
from whet.compiler.topi.nn.windows import get_pad_tuple, pair

__all__ = [
    "adaptive_pool",
    "Epilogue",
    "batch_matmul",
    "batch_norm",
    "bias_add",
    "circular_pad",
    "conv1d_ncw",
    "conv2d",
    "conv2d_nchw",
    "conv2d_nhwc",
    "conv2d_transpose_nchw",
    "conv3d_ncdhw",
    "dense",
    "depthwise_conv2d_nchw",
    "dilate",
    "flatten",
    "gelu",
    "gelu_tanh",
    "get_pad_tuple",
    "global_pool",
    "group_conv2d_nchw",
    "layer_norm",
    "leaky_relu",
    "log_softmax",
    "mirror_pad",
    "pad",
    "pair",
    "pool2d",
    "prelu",
    "reflect_pad",
    "relu",
    "replicate_pad",
    "rms_norm",
    "scale_shift_nchw",
    "silu",
    "softmax",
    "utils",
]


def __getattr__(name: str) -> object:
    from whet.compiler.absent import missing

    raise missing(__name__, "topi.nn", name)
