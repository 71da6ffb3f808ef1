"""Operators of neural networks."""

from whet.compiler.topi.nn import utils
from whet.compiler.topi.nn.activation import leaky_relu, log_softmax, relu, softmax
from whet.compiler.topi.nn.conv2d import conv2d, conv2d_nchw, depthwise_conv2d_nchw
from whet.compiler.topi.nn.dense import batch_matmul, bias_add, dense, flatten
from whet.compiler.topi.nn.dilate import dilate
from whet.compiler.topi.nn.normalization import layer_norm, scale_shift_nchw
from whet.compiler.topi.nn.padding import get_pad_tuple, pair
from whet.compiler.topi.nn.pooling import global_pool, pool2d
from whet.compiler.topi.pad import pad

__all__ = [
    "batch_matmul",
    "bias_add",
    "conv2d",
    "conv2d_nchw",
    "dense",
    "depthwise_conv2d_nchw",
    "dilate",
    "flatten",
    "get_pad_tuple",
    "global_pool",
    "layer_norm",
    "leaky_relu",
    "log_softmax",
    "pad",
    "pair",
    "pool2d",
    "relu",
    "scale_shift_nchw",
    "softmax",
    "utils",
]


def __getattr__(name: str) -> object:
    from whet.compiler.tir.absent import missing

    raise missing(__name__, "topi.nn", name, {})
