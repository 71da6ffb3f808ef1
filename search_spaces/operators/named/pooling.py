"""Named templates of pooling: maxima and averages over windows of images (N, C, H, W)."""

from __future__ import annotations

from whet.compiler import topi
from whet.compiler.te import Tensor
from whet.search_spaces.graph.canonical_args import FLAG, IMAGES, PAIR, SIZES
from whet.search_spaces.graph.graph_templates import tensor_template


@tensor_template("max_pool2d", SIZES, SIZES, PAIR, SIZES, shape=IMAGES)
def max_pool2d(
    X: Tensor,
    kernel: tuple,
    strides: tuple = (1, 1),
    padding: tuple = (0, 0),
    dilation: tuple = (1, 1),
) -> Tensor:
    """The maximum of each window."""
    return topi.nn.pool2d(X, kernel, strides, dilation, padding, "max")


@tensor_template("avg_pool2d", SIZES, SIZES, PAIR, FLAG, shape=IMAGES)
def avg_pool2d(
    X: Tensor,
    kernel: tuple,
    strides: tuple = (1, 1),
    padding: tuple = (0, 0),
    count_include_pad: bool = False,
) -> Tensor:
    """The average of each window, by default of those elements that are in the image."""
    return topi.nn.pool2d(
        X, kernel, strides, 1, padding, "avg", count_include_pad=count_include_pad
    )


@tensor_template("global_avg_pool2d", shape=IMAGES)
def global_avg_pool2d(X: Tensor) -> Tensor:
    """The average of each image, as (N, C, 1, 1)."""
    return topi.nn.global_pool(X, "avg")


@tensor_template("adaptive_avg_pool2d", SIZES, shape=IMAGES)
def adaptive_avg_pool2d(X: Tensor, output_size: tuple) -> Tensor:
    """The averages of so many windows, which cover the image."""
    return topi.nn.adaptive_pool(X, output_size, "avg")
