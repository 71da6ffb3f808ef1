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
    if int(n.get("step", 1)) != 1:
        raise n.refused("it replaces elements that are not side by side")
    return _replaced(n, x, new, axis, begin, end)


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


def _whole(n: AtenNode, x: Value) -> Value:
    """An index; booleans that select are refused."""
    if x.dtype not in ("int32", "int64"):
        raise n.refused(f"its index is of {x.dtype}: the shape of its result depends on data")
    return x


def _embedding(n: AtenNode) -> Value:
    return n.add("take", [n.value("weight"), _whole(n, n.value("indices"))], axis=0)


def _index_select(n: AtenNode) -> Value:
    x, index = n.value("self"), _whole(n, n.value("index"))
    return n.add("take", [x, index], axis=n.axis(n["dim"], len(x.shape)))


def _gather(n: AtenNode) -> Value:
    x, index = n.value("self"), _whole(n, n.value("index"))
    axis = n.axis(n["dim"], len(x.shape))
    _check_covers(n, x, index, axis)
    inside = n.add("clip", [index], low=0, high=max(x.shape[axis] - 1, 0))
    return n.add("gather", [x, inside], axis=axis)


def _check_covers(n: AtenNode, x: Value, index: Value, axis: int) -> None:
    """Refuse a scalar, and what reads a part of the other axes."""
    if not x.shape:
        raise n.refused("it looks elements up in a number")
    for a, (d, e) in enumerate(zip(x.shape, index.shape)):
        if a != axis and d != e and n.target.startswith("aten.gather"):
            raise n.refused(f"its index has {e} of {d} elements in axis {a}")


def _index(n: AtenNode) -> Value:
    """One index along any axis, or several along the first ones."""
    x = n.value("self")
    given = [(a, _whole(n, i)) for a, i in enumerate(n["indices"]) if i is not None]
    if len(given) == 1:
        ((axis, index),) = given
        return n.add("take", [x, index], axis=axis)
    if [a for a, _ in given] != list(range(len(given))):
        raise n.refused("its indices are not those of the first axes")
    shape = tuple(np.broadcast_shapes(*(i.shape for _, i in given)))
    columns = []
    for _, i in given:
        wide = n.cast(i, "int64")
        wide = wide if i.shape == shape else n.add("expand", [wide], shape=shape)
        columns.append(n.reshaped(wide, (*shape, 1)))
    return n.add("gather_nd", [x, n.add("concat", columns, axis=len(shape))])


_REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}


def _scatter(n: AtenNode) -> Value:
    x, index = n.value("self"), _whole(n, n.value("index"))
    axis = n.axis(n["dim"], len(x.shape))
    _check_covers(n, x, index, axis)
    how = "add" if "scatter_add" in n.target else _REDUCTIONS.get(n.get("reduce", ""), "none")
    if n.get("reduce") == "mean" or not n.get("include_self", True):
        raise n.refused("it averages, or leaves out what was there")
    if "value" in n.args:
        new = n.value("value", n.dtype)
        updates = n.add("expand", [new], shape=index.shape)
    else:
        updates = n.value("src", n.dtype)
        for a, d in enumerate(index.shape):
            updates = n.part(updates, a, 0, d)
    return n.add("scatter", [x, index, updates], axis=axis, reduction=how)


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
        _view, "view.default", "_unsafe_view.default", "reshape.default", "squeeze.dim",
        "squeeze.dims", "squeeze.default", "unsqueeze.default", "flatten.using_ints",
        "unflatten.int",
    ),
    **_each(_transpose, "transpose.int", "t.default"),
    **_each(_split, "split_with_sizes.default", "split.Tensor", "unbind.int"),
    **_each(_pad("reflect"), *[f"reflection_pad{k}d.default" for k in (1, 2, 3)]),
    **_each(_pad("edge"), *[f"replication_pad{k}d.default" for k in (1, 2, 3)]),
    **_each(
        _scatter, "scatter.src", "scatter.value", "scatter_add.default", "scatter_reduce.two"
    ),
    "aten.cat.default": _cat,
    "aten.constant_pad_nd.default": _pad("constant"),
    "aten.embedding.default": _embedding,
    "aten.expand.default": _expand,
    "aten.flip.default": _flip,
    "aten.gather.default": _gather,
    "aten.index.Tensor": _index,
    "aten.index_select.default": _index_select,
    "aten.permute.default": _permute,
    "aten.repeat.default": _repeat,
    "aten.select.int": _select,
    "aten.select_scatter.default": _select_scatter,
    "aten.slice.Tensor": _slice,
    "aten.slice_scatter.default": _slice_scatter,
    "aten.tril.default": _triangle(False),
    "aten.triu.default": _triangle(True),
}  # fmt: skip
VIEWS = frozenset(
    name for name, of in TABLE.items() if of in (_same, _view, _permute, _transpose, _select)
)
"""Operators that give another view of a tensor, and compute nothing."""
