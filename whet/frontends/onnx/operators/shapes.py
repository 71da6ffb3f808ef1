"""Operators on shapes, and those that move elements."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from whet.compiler.graph import Value
from whet.frontends.onnx.operators.elementwise import dtype_of
from whet.frontends.onnx.operators.node import OnnxNode, Translate


def _reshape(n: OnnxNode) -> Value:
    x, wanted = n.input(0), n.ints(1, "shape")
    keep = not n.attr("allowzero", 0)
    shape = [x.shape[k] if d == 0 and keep else d for k, d in enumerate(wanted)]
    if -1 in shape:
        rest = prod(d for d in shape if d != -1)
        shape[shape.index(-1)] = x.size // rest if rest else 0
    if prod(shape) != x.size:
        raise n.refused(f"{list(x.shape)} has {x.size} elements, {wanted} has {prod(shape)}")
    return reshaped(n, x, shape)


def reshaped(n: OnnxNode, x: Value, shape: Sequence[int]) -> Value:
    """The same elements in another shape; itself where it has that shape already."""
    return x if x.shape == tuple(shape) else n.add("reshape", [x], shape=tuple(shape))


def _flatten(n: OnnxNode) -> Value:
    x, at = n.input(0), n.attr("axis", 1)
    at += len(x.shape) if at < 0 else 0
    return reshaped(n, x, (prod(x.shape[:at]), prod(x.shape[at:])))


def _squeeze(n: OnnxNode) -> Value:
    x = n.input(0)
    ones = [k for k, d in enumerate(x.shape) if d == 1]
    axes = {n.axis(a, len(x.shape)) for a in n.ints(1, "axes", ones)}
    if any(x.shape[a] != 1 for a in axes):
        raise n.refused(f"axes {sorted(axes)} of {list(x.shape)} are not all 1")
    return reshaped(n, x, [d for k, d in enumerate(x.shape) if k not in axes])


def _unsqueeze(n: OnnxNode) -> Value:
    x, given = n.input(0), n.ints(1, "axes")
    rank = len(x.shape) + len(given)
    axes = {n.axis(a, rank) for a in given}
    left = iter(x.shape)
    return reshaped(n, x, [1 if k in axes else next(left) for k in range(rank)])


def _transpose(n: OnnxNode) -> Value:
    x = n.input(0)
    axes = n.attr("perm", list(reversed(range(len(x.shape)))))
    if list(axes) == list(range(len(axes))):
        return x
    return n.add("transpose", [x], axes=tuple(axes))


def _concat(n: OnnxNode) -> Value:
    parts = [n.input(k) for k in range(len(n.inputs))]
    axis = n.axis(n.attr("axis", 1), len(parts[0].shape))
    parts = [p for p in parts if p.shape[axis]] or parts[:1]
    return parts[0] if len(parts) == 1 else n.add("concat", parts, axis=axis)


def _slice(n: OnnxNode) -> Value:
    x = n.input(0)
    begin, end = n.ints(1, "starts"), n.ints(2, "ends")
    axes = n.ints(3, "axes", list(range(len(begin))))
    step = n.ints(4, "steps", [1] * len(begin))
    axes = [n.axis(a, len(x.shape)) for a in axes]
    ends = [_end(e, s, x.shape[a]) for e, s, a in zip(end, step, axes)]
    begins = [max(min(b, x.shape[a]), -x.shape[a]) for b, a in zip(begin, axes)]
    begins = [
        x.shape[a] - 1 if s < 0 and b >= x.shape[a] else b for b, s, a in zip(begins, step, axes)
    ]
    if all(
        range(x.shape[a])[slice(b, e, s)] == range(x.shape[a])
        for b, e, s, a in zip(begins, ends, step, axes)
    ):
        return x
    return n.add("slice", [x], begin=begins, end=ends, step=step, axes=axes)


def _end(end: int, step: int, extent: int) -> int:
    """The end as numpy takes it; in front of the first element for a negative step."""
    if step < 0 and end < -extent:
        return -extent - 1
    return max(min(end, extent), -extent - 1)


def _split(n: OnnxNode) -> list[Value]:
    x = n.input(0)
    axis = n.axis(n.attr("axis", 0), len(x.shape))
    extent, count = x.shape[axis], n.attr("num_outputs", n.count)
    each = -(-extent // count)
    even = [min(each, extent - each * k) for k in range(count)]
    sizes = n.ints(1, "split", even)
    made, at = [], 0
    for size in sizes:
        made.append(n.add("slice", [x], begin=[at], end=[at + size], step=[1], axes=[axis]))
        at += size
    return made


def _expand(n: OnnxNode) -> Value:
    x, wanted = n.input(0), n.ints(1, "shape")
    shape = np.broadcast_shapes(x.shape, tuple(wanted))
    return x if shape == x.shape else n.add("expand", [x], shape=tuple(map(int, shape)))


def _pad(n: OnnxNode) -> Value:
    x, sides = n.input(0), n.ints(1, "pads")
    rank, value = len(x.shape), 0.0
    if "value" in n.attrs:
        value = n.attr("value")
    elif n.has(2):
        value = np.asarray(n.known(2)).reshape(()).item()
    axes = [n.axis(a, rank) for a in n.ints(3, "axes", list(range(rank)))]
    before, after = [0] * rank, [0] * rank
    for k, a in enumerate(axes):
        before[a], after[a] = sides[k], sides[k + len(axes)]
    mode = n.attr("mode", "constant")
    return n.add("pad", [x], before=before, after=after, value=value, mode=mode)


def _gather(n: OnnxNode) -> Value:
    x, indices = n.input(0), n.input(1)
    axis = n.axis(n.attr("axis", 0), len(x.shape))
    known = n.builder.known(indices)
    if known is not None and known.ndim <= 1 and known.size == 1:  # a slice
        k = int(known.reshape(()))
        k += x.shape[axis] if k < 0 else 0
        part = n.add("slice", [x], begin=[k], end=[k + 1], step=[1], axes=[axis])
        behind = x.shape[axis + 1 :]
        return reshaped(n, part, (*x.shape[:axis], *known.shape, *behind))
    return n.add("take", [x, indices], axis=axis)


def _gather_elements(n: OnnxNode) -> Value:
    x, indices = n.input(0), n.input(1)
    axis = n.axis(n.attr("axis", 0), len(x.shape))
    extent = n.constant(x.shape[axis], indices.dtype)
    below = n.add("less", [indices, n.constant(0, indices.dtype)])
    counted = n.add("where", [below, n.add("add", [indices, extent]), indices])
    # one outside would read other memory
    inside = n.add("clip", [counted], low=0, high=max(x.shape[axis] - 1, 0))
    return n.add("gather", [x, inside], axis=axis)


def _tile(n: OnnxNode) -> Value:
    return n.add("tile", [n.input(0)], repeats=n.ints(1, "repeats"))


def _one_hot(n: OnnxNode) -> Value:
    indices, depth, values = n.input(0), int(np.asarray(n.known(1)).reshape(())), n.known(2)
    axis = n.attr("axis", -1)
    return n.add(
        "one_hot", [indices], depth=depth, values=[v.item() for v in values], axis=axis,
        dtype=str(values.dtype),
    )  # fmt: skip


def _trilu(n: OnnxNode) -> Value:
    k = int(np.asarray(n.known(1, np.int64(0))).reshape(()))
    return n.add("trilu", [n.input(0)], upper=bool(n.attr("upper", 1)), k=k)


def _depth_to_space(n: OnnxNode) -> Value:
    mode = n.attr("mode", "DCR")
    return n.add("depth_to_space", [n.input(0)], block=n.attr("blocksize"), mode=mode)


def _same(n: OnnxNode) -> Value:
    return n.input(0)


def _dropout(n: OnnxNode) -> list[Value]:
    training = n.has(2) and bool(np.asarray(n.known(2)).reshape(()))
    ratio = n.attr("ratio", 0.5)
    if n.version >= 12:
        ratio = float(np.asarray(n.known(1, np.float32(0.5))).reshape(()))
    if training and ratio:
        raise n.refused("it is in training mode, and drops elements at random")
    x = n.input(0)
    if n.count == 1:
        return [x]
    # before version 12 nothing says what it is, and onnxruntime gives zeros
    mask = np.full(x.shape, n.version >= 12)
    return [x, n.constant(mask, x.dtype if n.version < 10 else "bool")]


def _scatter(n: OnnxNode) -> Value:
    axis = n.axis(n.attr("axis", 0), len(n.input(0).shape))
    how = n.attr("reduction", "none")
    return n.add("scatter", n.inputs[:3], axis=axis, reduction=how)


def _eye_like(n: OnnxNode) -> Value:
    x = n.input(0)
    dtype = dtype_of(n, n.attr("dtype")) if "dtype" in n.attrs else x.dtype
    rows, columns = x.shape
    return n.constant(np.eye(rows, columns, k=int(n.attr("k", 0))), dtype)


TABLE: dict[str, Translate] = {
    "Concat": _concat,
    "DepthToSpace": _depth_to_space,
    "Dropout": _dropout,
    "Expand": _expand,
    "EyeLike": _eye_like,
    "Flatten": _flatten,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": lambda n: n.add("gather_nd", n.inputs, batch_dims=n.attr("batch_dims", 0)),
    "Identity": _same,
    "OneHot": _one_hot,
    "Pad": _pad,
    "Reshape": _reshape,
    "Scatter": _scatter,
    "ScatterElements": _scatter,
    "ScatterND": lambda n: n.add("scatter_nd", n.inputs[:3], reduction=n.attr("reduction", "none")),
    "Slice": _slice,
    "SpaceToDepth": lambda n: n.add("space_to_depth", [n.input(0)], block=n.attr("blocksize")),
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Trilu": _trilu,
    "Unsqueeze": _unsqueeze,
}
