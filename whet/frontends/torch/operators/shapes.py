"""Operators on shapes, and those that move elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from whet.compiler.graph import Value
from whet.frontends.torch.operators.node import AtenNode, Translate


def _same(n: AtenNode) -> Value:
    return n.value("self")


def _view(n: AtenNode) -> Value:
    return n.reshaped(n.value("self"), n.shape)


def _squeeze(n: AtenNode) -> Value:
    """Without axes of 1; an open size that is 1 here is one of the others for the program."""
    x = n.value("self")
    axes = n.axes("dim", len(x.shape))
    kept = tuple(d for k, d in enumerate(x.shape) if d != 1 or k not in axes)
    if kept != n.shape:
        raise n.refused(
            f"it leaves out an axis of 1, whose size is open: {list(x.shape)} becomes {list(kept)}",
            "torch.export.Dim(..., min=2)",
        )
    return n.reshaped(x, n.shape)


def _permute(n: AtenNode) -> Value:
    x = n.value("self")
    return _transposed(n, x, [n.axis(a, len(x.shape)) for a in n.ints("dims")])


def _transpose(n: AtenNode) -> Value:
    x = n.value("self")
    axes = list(range(len(x.shape)))
    if len(axes) > 1:
        a, b = (n.axis(n.get(name, k), len(axes)) for k, name in enumerate(("dim0", "dim1")))
        axes[a], axes[b] = axes[b], axes[a]
    return _transposed(n, x, axes)


def _transposed(n: AtenNode, x: Value, axes: Sequence[int]) -> Value:
    if list(axes) == list(range(len(axes))):
        return x
    return n.add("transpose", [x], axes=tuple(axes))


def _expand(n: AtenNode) -> Value:
    x = n.value("self")
    return x if x.shape == n.shape else n.add("expand", [x], shape=n.shape)


def _bounds(n: AtenNode, extent: int) -> tuple[int, int]:
    """The first element of a slice and the one behind its last."""
    begin, end, _ = slice(n.get("start"), n.get("end")).indices(extent)
    return begin, max(begin, end)


def _slice(n: AtenNode) -> Value:
    x = n.value("self")
    axis = n.axis(n.get("dim", 0), len(x.shape))
    return n.part(x, axis, *_bounds(n, x.shape[axis]), int(n.get("step", 1)))


def _select(n: AtenNode) -> Value:
    x = n.value("self")
    axis = n.axis(n["dim"], len(x.shape))
    k = n.axis(n["index"], x.shape[axis])
    return n.reshaped(n.part(x, axis, k, k + 1), n.shape)


def _slice_scatter(n: AtenNode) -> Value:
    x, new = n.value("self"), n.value("src", n.dtype)
    axis = n.axis(n.get("dim", 0), len(x.shape))
    begin, end = _bounds(n, x.shape[axis])
    step = int(n.get("step", 1))
    if step == 1 or end == begin:
        return _replaced(n, x, new, axis, begin, end)
    # each place along the axis takes its own element of the new ones, or keeps what it had
    place = np.arange(x.shape[axis]) - begin
    inside = (place >= 0) & (place < end - begin) & (place % step == 0)
    spread = n.add("take", [new, n.constant(np.where(inside, place // step, 0))], axis=axis)
    mask = inside.reshape([-1 if a == axis else 1 for a in range(len(x.shape))])
    return n.add("where", [n.constant(mask), spread, x])


def _copy(n: AtenNode) -> Value:
    new = n.value("src", n.dtype)
    return new if new.shape == n.shape else n.add("expand", [new], shape=n.shape)


def _diagonal(n: AtenNode) -> Value:
    """The elements at equal places of two axes, along the last one of the result."""
    x, offset = n.value("self"), int(n.get("offset", 0))
    rank = len(x.shape)
    a, b = (n.axis(n.get(name, k), rank) for k, name in enumerate(("dim1", "dim2")))
    others = [k for k in range(rank) if k not in (a, b)]
    outer = [x.shape[k] for k in others]
    flat = n.reshaped(_transposed(n, x, [*others, a, b]), (*outer, x.shape[a] * x.shape[b]))
    places = np.arange(n.shape[-1])
    at = (places + max(-offset, 0)) * x.shape[b] + places + max(offset, 0)
    return n.add("take", [flat, n.constant(at)], axis=len(outer))


def _unfold(n: AtenNode) -> Value:
    """Windows along an axis, their elements along a new one behind all others."""
    x, size, step = n.value("self"), int(n["size"]), int(n["step"])
    if not x.shape:
        return n.reshaped(x, n.shape)
    axis = n.axis(n["dimension"], len(x.shape))
    begins = np.arange(n.shape[axis]) * step
    made = n.add("take", [x, n.constant(begins[:, None] + np.arange(size))], axis=axis)
    axes = [k for k in range(len(made.shape)) if k != axis + 1]
    return _transposed(n, made, [*axes, axis + 1])


def _as_strided(n: AtenNode) -> Value:
    """Elements by their places in memory, where that of the operand is in its own order."""
    x = n.value("self")
    meta = n.metas["self"]
    if not meta.is_contiguous() or meta.storage_offset():
        raise n.refused("its operand is a part of a tensor, or not in the order of its axes")
    at = np.full(n.shape, int(n.get("storage_offset") or 0))
    for axis, stride in enumerate(n.ints("stride")):
        along = [-1 if k == axis else 1 for k in range(at.ndim)]
        at = at + np.arange(n.shape[axis]).reshape(along) * stride
    if at.size and at.max() >= x.size:
        raise n.refused("it reads behind its operand")
    return n.add("take", [n.reshaped(x, (x.size,)), n.constant(at)], axis=0)


def _select_scatter(n: AtenNode) -> Value:
    x, new = n.value("self"), n.value("src", n.dtype)
    axis = n.axis(n["dim"], len(x.shape))
    k = n.axis(n["index"], x.shape[axis])
    one = [1 if a == axis else d for a, d in enumerate(x.shape)]
    return _replaced(n, x, n.reshaped(new, one), axis, k, k + 1)


def _replaced(n: AtenNode, x: Value, new: Value, axis: int, begin: int, end: int) -> Value:
    extent = x.shape[axis]
    parts = [new] if end > begin else []
    if begin > 0:
        parts.insert(0, n.part(x, axis, 0, begin))
    if end < extent:
        parts.append(n.part(x, axis, end, extent))
    return parts[0] if len(parts) == 1 else n.add("concat", parts, axis=axis)


def _cat(n: AtenNode) -> Value:
    parts = [n.as_value(x, n.dtype) for x in n["tensors"]]
    parts = [p for p in parts if p.size] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    return n.add("concat", parts, axis=n.axis(n.get("dim", 0), len(n.shape)))


def _split(n: AtenNode) -> list[Value]:
    x = n.value("self")
    axis = n.axis(n.get("dim", 0), len(x.shape))
    made, at = [], 0
    for found in n.results:
        assert found is not None
        size = found[0][axis] if len(found[0]) == len(x.shape) else 1
        made.append(n.reshaped(n.part(x, axis, at, at + size), found[0]))
        at += size
    return made


def _flip(n: AtenNode) -> Value:
    x = n.value("self")
    for a in n.ints("dims"):
        x = n.add("flip", [x], axis=n.axis(a, len(x.shape)))
    return x


def _roll(n: AtenNode) -> Value:
    """The last elements along axes in front of the others; without axes, of all elements."""
    x, shifts = n.value("self"), n.ints("shifts")
    dims = n.get("dims") and n.ints("dims")
    if not dims:
        x, axes = n.reshaped(x, (x.size,)), [0]
    else:
        axes = [n.axis(a, len(x.shape)) for a in dims]
    for axis, shift in zip(axes, shifts):
        extent = x.shape[axis]
        # two parts for any extent beyond the shift, which an open one is
        behind = -shift if -extent < shift < 0 else extent - shift % max(extent, 1)
        if 0 < behind < extent:
            parts = [n.part(x, axis, behind, extent), n.part(x, axis, 0, behind)]
            x = n.add("concat", parts, axis=axis)
    return n.reshaped(x, n.shape)


def _repeat(n: AtenNode) -> Value:
    x, repeats = n.value("self"), n.ints("repeats")
    x = n.reshaped(x, [1] * (len(repeats) - len(x.shape)) + list(x.shape))
    return x if all(r == 1 for r in repeats) else n.add("tile", [x], repeats=repeats)


def _pad(mode: str) -> Translate:
    def translate(n: AtenNode) -> Value:
        x = n.value("self")
        sides = n.ints("pad" if mode == "constant" else "padding")
        before, after = [0] * len(x.shape), [0] * len(x.shape)
        for k in range(len(sides) // 2):  # the last axis comes first
            before[-1 - k], after[-1 - k] = sides[2 * k], sides[2 * k + 1]
        if not any(before) and not any(after):
            return x
        more = {"value": n.get("value", 0)} if mode == "constant" else {}
        return n.add("pad", [x], before=before, after=after, mode=mode, **more)

    return translate


def _triangle(upper: bool) -> Translate:
    return lambda n: n.add("trilu", [n.value("self")], upper=upper, k=int(n.get("diagonal", 0)))


def _each(of: Translate, *names: str) -> dict[str, Translate]:
    return {f"aten.{name}": of for name in names}


TABLE: dict[str, Translate] = {
    **_each(
        _same, "alias.default", "clone.default", "detach.default", "contiguous.default",
        "lift_fresh_copy.default",
    ),
    **_each(
        _view, "view.default", "_unsafe_view.default", "reshape.default", "unsqueeze.default",
        "flatten.using_ints", "unflatten.int",
    ),
    **_each(_transpose, "transpose.int", "t.default"),
    **_each(_split, "split_with_sizes.default", "split.Tensor", "unbind.int"),
    **_each(_pad("reflect"), *[f"reflection_pad{k}d.default" for k in (1, 2, 3)]),
    **_each(_pad("edge"), *[f"replication_pad{k}d.default" for k in (1, 2, 3)]),
    "aten.as_strided.default": _as_strided,
    "aten.cat.default": _cat,
    "aten.constant_pad_nd.default": _pad("constant"),
    "aten.copy.default": _copy,
    "aten.diagonal.default": _diagonal,
    "aten.expand.default": _expand,
    "aten.flip.default": _flip,
    "aten.permute.default": _permute,
    "aten.repeat.default": _repeat,
    "aten.roll.default": _roll,
    **_each(_squeeze, "squeeze.dim", "squeeze.dims", "squeeze.default"),
    "aten.select.int": _select,
    "aten.select_scatter.default": _select_scatter,
    "aten.slice.Tensor": _slice,
    "aten.slice_scatter.default": _slice_scatter,
    "aten.tril.default": _triangle(False),
    "aten.triu.default": _triangle(True),
    "aten.unfold.default": _unfold,
}  # fmt: skip
VIEWS = frozenset(
    name
    for name, of in TABLE.items()
    if of in (_same, _view, _squeeze, _permute, _transpose, _select)
)
"""Operators that give another view of a tensor, and compute nothing."""
