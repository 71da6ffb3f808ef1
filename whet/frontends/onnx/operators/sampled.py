"""Operators that read images, or write into them, at places that are data."""

from __future__ import annotations

from math import prod

import numpy as np

from whet.compiler.graph import Value
from whet.frontends.onnx.operators.networks import places_of_maxima, window_sides
from whet.frontends.onnx.operators.node import OnnxNode, Translate
from whet.frontends.onnx.operators.shapes import reshaped

_MODES = {"linear": "bilinear", "cubic": "bicubic"}  # names since version 20 -> before


def _grid_sample(n: OnnxNode) -> Value:
    mode = n.attr("mode", "bilinear")
    return n.add(
        "grid_sample", n.inputs, method=_MODES.get(mode, mode),
        padding=n.attr("padding_mode", "zeros"), corners=bool(n.attr("align_corners", 0)),
    )  # fmt: skip


def _affine_grid(n: OnnxNode) -> Value:
    size = n.ints(1, "size")
    corners = bool(n.attr("align_corners", 0))
    return n.add("affine_grid", [n.input(0)], target_shape=size[2:], align_corners=corners)


def _roi_align(n: OnnxNode) -> Value:
    usual = "half_pixel" if n.version >= 16 else "output_half_pixel"
    where = n.attr("coordinate_transformation_mode", usual)
    return n.add(
        "roi_align", [n.input(0), n.input(1), n.input(2)], mode=n.attr("mode", "avg").lower(),
        pooled_size=(n.attr("output_height", 1), n.attr("output_width", 1)),
        spatial_scale=n.attr("spatial_scale", 1.0), sample_ratio=n.attr("sampling_ratio", 0),
        half_pixel=where == "half_pixel",
    )  # fmt: skip


def _deform_conv(n: OnnxNode) -> Value:
    x, w = n.input(0), n.input(1)
    if len(x.shape) != 4:
        raise n.refused(f"it has {len(x.shape) - 2} spatial dimensions, not 2")
    operands = [x, w, n.input(2), *(n.input(k) if n.has(k) else None for k in (3, 4))]
    return n.add(
        "deform_conv", operands, strides=n.attr("strides", [1, 1]),
        padding=n.attr("pads", [0] * 4), dilation=n.attr("dilations", [1, 1]),
        groups=n.attr("group", 1), offset_groups=n.attr("offset_group", 1),
    )  # fmt: skip


def _col2im(n: OnnxNode) -> Value:
    image, block = n.ints(1, "image_shape"), n.ints(2, "block_shape")
    rank = len(image)
    return n.add(
        "col2im", [n.input(0)], image_shape=image, block_shape=block,
        strides=n.attr("strides", [1] * rank), padding=n.attr("pads", [0] * 2 * rank),
        dilation=n.attr("dilations", [1] * rank),
    )  # fmt: skip


def _max_pool(n: OnnxNode) -> Value | list[Value]:
    """Maxima; their places, too, where they are asked for, counted in the whole operand."""
    x, window = n.input(0), n.attr("kernel_shape")
    strides, dilation = (n.attr(name, [1] * len(window)) for name in ("strides", "dilations"))
    sides = window_sides(n, x.shape[2:], window, strides, dilation)
    more = {
        "window": list(window), "strides": list(strides), "padding": sides,
        "dilation": list(dilation), "ceil_mode": bool(n.attr("ceil_mode", 0)),
    }  # fmt: skip
    made = n.add("pool", [x], kind="max", count_include_pad=False, **more)
    if n.count == 1 or not n.proto.output[1]:
        return made
    return [made, places_of_maxima(n, x, more)]


def _max_unpool(n: OnnxNode) -> Value:
    x, window = n.input(0), n.attr("kernel_shape")
    rank = len(window)
    strides, pads = n.attr("strides", [1] * rank), n.attr("pads", [0] * 2 * rank)
    image = [
        (d - 1) * s - pads[k] - pads[rank + k] + w
        for k, (d, s, w) in enumerate(zip(x.shape[2:], strides, window))
    ]
    shape = (*x.shape[:2], *image)
    zeros = n.constant(np.zeros(prod(shape)), x.dtype)
    flat = [reshaped(n, v, (x.size,)) for v in (n.input(1), x)]
    made = reshaped(n, n.add("scatter", [zeros, *flat], axis=0, reduction="none"), shape)
    wanted = n.ints(2, "output_shape", list(shape))
    behind = [w - d for w, d in zip(wanted, shape)]
    if not any(behind):
        return made
    return n.add("pad", [made], before=[0] * len(shape), after=behind)


def _tensor_scatter(n: OnnxNode) -> Value:
    x = n.input(0)
    axis = n.axis(n.attr("axis", -2), len(x.shape))
    begins = n.input(2) if n.has(2) else None
    circular = n.attr("mode", "linear") == "circular"
    return n.add("tensor_scatter", [x, n.input(1), begins], axis=axis, circular=circular)


def _reverse_sequence(n: OnnxNode) -> Value:
    time, batch = n.attr("time_axis", 0), n.attr("batch_axis", 1)
    return n.add("reverse_sequence", [n.input(0), n.input(1)], seq_axis=time, batch_axis=batch)


TABLE: dict[str, Translate] = {
    "AffineGrid": _affine_grid,
    "Col2Im": _col2im,
    "DeformConv": _deform_conv,
    "GridSample": _grid_sample,
    "MaxPool": _max_pool,
    "MaxUnpool": _max_unpool,
    "ReverseSequence": _reverse_sequence,
    "RoiAlign": _roi_align,
    "TensorScatter": _tensor_scatter,
}
