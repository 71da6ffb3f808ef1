"""Named templates of pooling: maxima and averages over windows of images (N, C, H, W)."""

from __future__ import annotations

from whet.compiler import te, topi
from whet.compiler.te import Tensor
from whet.search_spaces.graph.canonical_args import DTYPE, FLAG, IMAGES, PAIR, SIZES
from whet.search_spaces.graph.graph_templates import graph_template

Parts = tuple[list[Tensor], list[Tensor]]


@graph_template("max_pool2d", IMAGES, SIZES, SIZES, PAIR, SIZES, DTYPE)
def max_pool2d(
    shape: tuple,
    kernel: tuple,
    strides: tuple = (1, 1),
    padding: tuple = (0, 0),
    dilation: tuple = (1, 1),
    dtype: str = "float32",
) -> Parts:
    """The maximum of each window."""
    X = te.placeholder(shape, dtype, name="X")
    return [X], [topi.nn.pool2d(X, kernel, strides, dilation, padding, "max")]


@graph_template("avg_pool2d", IMAGES, SIZES, SIZES, PAIR, FLAG, DTYPE)
def avg_pool2d(
    shape: tuple,
    kernel: tuple,
    strides: tuple = (1, 1),
    padding: tuple = (0, 0),
    count_include_pad: bool = False,
    dtype: str = "float32",
) -> Parts:
    """The average of each window, by default of those elements that are in the image."""
    X = te.placeholder(shape, dtype, name="X")
    pooled = topi.nn.pool2d(
        X, kernel, strides, 1, padding, "avg", count_include_pad=count_include_pad
    )
    return [X], [pooled]


@graph_template("global_avg_pool2d", IMAGES, DTYPE)
def global_avg_pool2d(shape: tuple, dtype: str = "float32") -> Parts:
    """The average of each image, as (N, C, 1, 1)."""
    X = te.placeholder(shape, dtype, name="X")
    return [X], [topi.nn.global_pool(X, "avg")]


@graph_template("adaptive_avg_pool2d", IMAGES, SIZES, DTYPE)
def adaptive_avg_pool2d(shape: tuple, output_size: tuple, dtype: str = "float32") -> Parts:
    """The averages of so many windows, which cover the image."""
    X = te.placeholder(shape, dtype, name="X")
    return [X], [topi.nn.adaptive_pool(X, output_size, "avg")]
