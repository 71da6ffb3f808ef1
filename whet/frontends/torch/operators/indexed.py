"""Operators that look elements up, or put them down, where other tensors say.

An index outside the tensor, an error in PyTorch, is moved inside where elements are put down.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from whet.compiler.graph import Value
from whet.frontends.torch.operators.node import AtenNode, Translate


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


def _inside(n: AtenNode, index: Value, extent: int, low: int = 0) -> Value:
    """Indices moved inside: nothing else in memory is written."""
    return n.add("clip", [index], low=low, high=max(extent - 1, 0))


class _Places:
    """Integer indices along some axes of a tensor, after PyTorch's and numpy's rules.

    Args:
        n: the call.
        x: the tensor.

    Attributes:
        shape: of the indices, broadcast.
        order: the tensor's axes, those with indices in front.
        first: where the indices' axes stand in a result.
    """

    def __init__(self, n: AtenNode, x: Value) -> None:
        self._n, self._x = n, x
        self._given = [(a, _whole(n, i)) for a, i in enumerate(n["indices"]) if i is not None]
        axes = [a for a, _ in self._given]
        self.shape = tuple(np.broadcast_shapes(*(i.shape for _, i in self._given)))
        self.order = [*axes, *(a for a in range(len(x.shape)) if a not in axes)]
        beside = axes == list(range(axes[0], axes[0] + len(axes)))
        self.first = axes[0] if beside else 0

    @property
    def turned(self) -> Value:
        """The tensor with the axes that have indices in front."""
        return self._transposed(self._x, self.order)

    def columns(self) -> Value:
        """The indices beside each other along a last axis, each inside the tensor."""
        columns = []
        for a, i in self._given:
            extent = self._x.shape[a]
            wide = _inside(self._n, self._n.cast(i, "int64"), extent, -extent)
            if i.shape != self.shape:
                wide = self._n.add("expand", [wide], shape=self.shape)
            columns.append(self._n.reshaped(wide, (*self.shape, 1)))
        if len(columns) == 1:
            return columns[0]
        return self._n.add("concat", columns, axis=len(self.shape))

    def to_result(self, x: Value) -> Value:
        """A tensor with the indices' axes in front as the result has them."""
        return self._transposed(x, np.argsort(self._in_front(len(x.shape))).tolist())

    def from_result(self, x: Value) -> Value:
        """The other way round."""
        return self._transposed(x, self._in_front(len(x.shape)))

    def back(self, x: Value) -> Value:
        """What was :attr:`turned`, as it was."""
        return self._transposed(x, np.argsort(self.order).tolist())

    def _in_front(self, rank: int) -> list[int]:
        own = list(range(self.first, self.first + len(self.shape)))
        return [*own, *(a for a in range(rank) if a not in own)]

    def _transposed(self, x: Value, axes: Sequence[int]) -> Value:
        plain = list(axes) == list(range(len(axes)))
        return x if plain else self._n.add("transpose", [x], axes=tuple(axes))


def _index(n: AtenNode) -> Value:
    """Elements at one index along any axis, or at several."""
    x = n.value("self")
    given = [(a, i) for a, i in enumerate(n["indices"]) if i is not None]
    if len(given) == 1:
        ((axis, index),) = given
        return n.add("take", [x, _whole(n, index)], axis=axis)
    places = _Places(n, x)
    return places.to_result(n.add("gather_nd", [places.turned, places.columns()]))


def _index_put(n: AtenNode) -> Value:
    """A copy with other elements at some places, or with these added."""
    x, new = n.value("self"), n.value("values", n.dtype)
    adds = bool(n.get("accumulate", False))
    if adds and n.dtype == "bool":
        raise n.refused("it adds booleans")
    given = [(a, i) for a, i in enumerate(n["indices"]) if i is not None]
    if any(i.dtype in ("bool", "uint8") for _, i in given):
        return _put_where(n, x, new, given, adds)
    places = _Places(n, x)
    rest = [x.shape[a] for a in places.order[len(given) :]]
    shape = (*rest[: places.first], *places.shape, *rest[places.first :])
    if new.shape != shape:
        new = n.add("expand", [new], shape=shape)
    updates, how = places.from_result(new), "add" if adds else "none"
    made = n.add("scatter_nd", [places.turned, places.columns(), updates], reduction=how)
    return places.back(made)


def _put_where(
    n: AtenNode, x: Value, new: Value, given: Sequence[tuple[int, Value]], adds: bool
) -> Value:
    """The same new element, or row, wherever a mask says so."""
    (axis, mask), *more = given
    inner = len(x.shape) - axis - len(mask.shape)
    row = new.shape[-inner:] if inner else ()
    if more or mask.dtype != "bool" or new.size != int(np.prod(row)) or (axis and new.size != 1):
        raise n.refused("how many elements it replaces depends on data")
    wide = n.reshaped(mask, (*mask.shape, *[1] * inner))
    new = n.reshaped(new, row)
    return n.add("where", [wide, n.add("add", [x, new]) if adds else new, x])


def _masked_scatter(n: AtenNode) -> Value:
    """The elements of a source, one after the other, where a mask says so."""
    x, mask, source = n.value("self"), n.value("mask"), n.value("source", n.dtype)
    if mask.shape != x.shape:
        mask = n.add("expand", [mask], shape=x.shape)
    if not source.size or not x.shape:
        raise n.refused("its source is empty, or it is a number")
    before = n.add("cumsum", [n.cast(n.reshaped(mask, (mask.size,)), "int64")], axis=0)
    place = n.add("subtract", [before, n.constant(1, "int64")])
    place = _inside(n, place, source.size)
    taken = n.add("take", [n.reshaped(source, (source.size,)), place], axis=0)
    return n.add("where", [mask, n.reshaped(taken, x.shape), x])


_REDUCTIONS = {
    "sum": "add", "prod": "mul", "amax": "max", "amin": "min", "mean": "add", "add": "add",
    "multiply": "mul",
}  # fmt: skip


def _scatter(n: AtenNode) -> Value:
    x, index = n.value("self"), _whole(n, n.value("index"))
    axis = n.axis(n["dim"], len(x.shape))
    _check_covers(n, x, index, axis)
    reduce = "sum" if "scatter_add" in n.target else n.get("reduce", "")
    if "value" in n.args:
        new = n.value("value", n.dtype)
        updates = n.add("expand", [new], shape=index.shape)
    else:
        updates = n.value("src", n.dtype)
        for a, d in enumerate(index.shape):
            updates = n.part(updates, a, 0, d)
    index = _inside(n, index, x.shape[axis])
    how = _REDUCTIONS.get(reduce, "none")
    own = bool(n.get("include_self", True))
    if own and reduce != "mean":
        return n.add("scatter", [x, index, updates], axis=axis, reduction=how)
    many = _filled(n, x.shape, 0, "int64")
    one = _filled(n, index.shape, 1, "int64")
    many = n.add("scatter", [many, index, one], axis=axis, reduction="add")
    if not own:
        hit = n.add("greater", [many, n.constant(0, "int64")])
        x = n.add("where", [hit, n.constant(_neutral(reduce, n.dtype), n.dtype), x])
    made = n.add("scatter", [x, index, updates], axis=axis, reduction=how)
    if reduce != "mean":
        return made
    if not n.dtype.startswith(("float", "bfloat")):
        raise n.refused("it averages integers")
    if own:
        many = n.add("add", [many, n.constant(1, "int64")])
    return n.add("divide", [made, n.cast(_divisor(n, many), n.dtype)])


def _divisor(n: AtenNode, many: Value) -> Value:
    """Counts, of nothing 1: what is divided by."""
    return n.add("maximum", [many, n.constant(1, "int64")])


def _neutral(reduce: str, dtype: str) -> float | int:
    """What changes no result of a reduction."""
    if reduce not in ("amax", "amin"):
        return 1 if reduce == "prod" else 0
    if dtype.startswith(("float", "bfloat")):
        return -np.inf if reduce == "amax" else np.inf
    info = np.iinfo(dtype)
    return int(info.min if reduce == "amax" else info.max)


def _filled(n: AtenNode, shape: Sequence[int], value: float, dtype: str) -> Value:
    return n.add("expand", [n.constant(value, dtype)], shape=tuple(shape))


_BAG_MODES = ("sum", "mean", "max")


def _embedding_bag(n: AtenNode) -> list[Value | None]:
    """Rows of a table, those of a bag together: their sum, average or maximum."""
    table, index = n.value("weight"), _whole(n, n.value("indices"))
    bags, mode = n.shape[0], _BAG_MODES[int(n.get("mode", 0))]
    if not index.size or not bags:
        raise n.refused("it has no index, or no bag")
    rows = n.add("take", [table, index], axis=0)
    kind = "float32" if rows.dtype in ("float16", "bfloat16") else rows.dtype
    rows = n.cast(rows, kind)
    weights = n.optional("per_sample_weights", kind)
    if weights is not None:
        rows = n.add("multiply", [rows, n.reshaped(weights, (index.size, 1))])
    padding = int(n.get("padding_idx", -1))
    offsets = n.part(_whole(n, n.value("offsets")), 0, 0, bags)
    size = None if padding >= 0 else _equal_bags(n, offsets, index.size)
    if size:
        parts = n.reshaped(rows, (bags, size, rows.shape[-1]))
        made = n.add(mode, [parts], axes=[1], keepdims=False)
    else:
        made = _any_bags(n, rows, offsets, padding, mode)
    return [n.cast(made, n.dtype), None, None, None]


def _equal_bags(n: AtenNode, offsets: Value, many: int) -> int | None:
    """How many indices each bag has; None where that is not known, or not the same."""
    known, (bags,) = n.builder.known(offsets), offsets.shape
    if known is None or many % bags:
        return None
    return many // bags if np.array_equal(known, np.arange(bags) * (many // bags)) else None


def _any_bags(n: AtenNode, rows: Value, offsets: Value, padding: int, mode: str) -> Value:
    """Bags that begin where data says; one of nothing but padding gives 0."""
    (bags,), (many, width) = offsets.shape, rows.shape
    index = n.value("indices")
    places = n.constant(np.arange(many), offsets.dtype)
    bag = n.add("searchsorted", [offsets, places], right=True)
    bag = _inside(n, n.add("subtract", [bag, n.constant(1, "int64")]), bags)
    bag = n.reshaped(bag, (many, 1))
    one = _filled(n, (many,), 1, "int64")
    low = n.constant(-np.inf if mode == "max" else 0, rows.dtype)
    if padding >= 0:
        kept = n.add("not_equal", [index, n.constant(padding, index.dtype)])
        one = n.cast(kept, "int64")
        rows = n.add("where", [n.reshaped(kept, (many, 1)), rows, low])
    start = n.add("expand", [low], shape=(bags, width))
    how = "max" if mode == "max" else "add"
    made = n.add("scatter_nd", [start, bag, rows], reduction=how)
    if mode == "sum":
        return made
    counts = n.add("scatter_nd", [_filled(n, (bags,), 0, "int64"), bag, one], reduction="add")
    counts = n.reshaped(counts, (bags, 1))
    if mode == "mean":
        return n.add("divide", [made, n.cast(_divisor(n, counts), rows.dtype)])
    empty = n.add("equal", [counts, n.constant(0, "int64")])
    return n.add("where", [empty, n.constant(0, rows.dtype), made])


def _searchsorted(n: AtenNode) -> Value:
    """The places at which numbers would be put into sorted rows."""
    rows = n.value("boundaries" if "boundaries" in n.args else "sorted_sequence")
    if n.get("sorter") is not None:
        raise n.refused("its rows are sorted by another operand", "torch.gather them before")
    right = bool(n.get("right")) or n.get("side") == "right"
    x, shape = n.value("self"), n.shape
    if not x.shape:
        x = n.reshaped(x, (1,))
    if x.dtype != rows.dtype:
        raise n.refused(f"it looks for {x.dtype} in {rows.dtype}", "cast one of the two")
    return n.reshaped(n.cast(n.add("searchsorted", [rows, x], right=right), n.dtype), shape)


TABLE: dict[str, Translate] = {
    **{
        f"aten.{name}": _scatter
        for name in (
            "scatter.src", "scatter.value", "scatter.reduce", "scatter.value_reduce",
            "scatter_add.default", "scatter_reduce.two",
        )
    },
    "aten._embedding_bag.default": _embedding_bag,
    "aten._embedding_bag_forward_only.default": _embedding_bag,
    "aten.embedding.default": _embedding,
    "aten.gather.default": _gather,
    "aten.index.Tensor": _index,
    "aten.index_put.default": _index_put,
    "aten.index_select.default": _index_select,
    "aten.bucketize.Tensor": _searchsorted,
    "aten.masked_scatter.default": _masked_scatter,
    "aten.searchsorted.Tensor": _searchsorted,
}  # fmt: skip
