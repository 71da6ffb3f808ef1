"""Operators over whole axes."""

from __future__ import annotations

import math
from math import prod

from whet.compiler.graph import Value
from whet.frontends.torch.operators.node import AtenNode, Translate

MOST_SORTED = 4096  # elements in a row: ranks are counted, n * n comparisons of a row


def _reduce(operator: str) -> Translate:
    """Summed in the result's type; PyTorch sums integers as int64."""

    def translate(n: AtenNode) -> Value:
        x = n.value("self", n.dtype)
        return _reduced(n, operator, x, n.axes("dim", len(x.shape)))

    return translate


def _reduced(n: AtenNode, operator: str, x: Value, axes: list[int]) -> Value:
    if not x.shape:
        return x
    if x.dtype == "bool":
        wide = n.add(operator, [n.cast(x, "uint8")], axes=axes, keepdims=_keeps(n))
        return n.cast(wide, "bool")
    return n.add(operator, [x], axes=axes, keepdims=_keeps(n))


def _keeps(n: AtenNode) -> bool:
    return bool(n.get("keepdim", False))


def _truth(operator: str) -> Translate:
    """True where any element, or each, differs from 0."""

    def translate(n: AtenNode) -> Value:
        x = n.value("self")
        if x.dtype != "bool":
            x = n.add("not_equal", [x, n.constant(0, x.dtype)])
        made = _reduced(n, operator, x, n.axes("dim", len(x.shape)))
        return n.cast(made, n.dtype)

    return translate


def _with_place(operator: str) -> Translate:
    """The extreme elements, and where they are."""

    def translate(n: AtenNode) -> list[Value]:
        x = n.value("self")
        axis = n.axis(n["dim"], len(x.shape))
        best = _reduced(n, operator, x, [axis])
        places = n.add(f"arg{operator}", [x], axis=axis, keepdims=_keeps(n), last=False)
        return [best, places]

    return translate


def _place(operator: str) -> Translate:
    def translate(n: AtenNode) -> Value:
        x = n.value("self")
        if n.get("dim") is None:
            flat = n.reshaped(x, (x.size,))
            made = n.add(operator, [flat], axis=0, keepdims=False, last=False)
            return n.reshaped(made, n.shape)
        axis = n.axis(n["dim"], len(x.shape))
        return n.add(operator, [x], axis=axis, keepdims=_keeps(n), last=False)

    return translate


def _cumulative(operator: str) -> Translate:
    def translate(n: AtenNode) -> Value:
        x = n.value("self", n.dtype)
        if not x.shape:
            return x
        return n.add(operator, [x], axis=n.axis(n["dim"], len(x.shape)))

    return translate


def _variance(n: AtenNode) -> Value:
    return _moments(n)[0]


def _moments(n: AtenNode) -> list[Value]:
    """The variance, and the mean."""
    x = n.value("self")
    axes = n.axes("dim", len(x.shape))
    correction = n.get("correction")
    if correction is None:
        correction = 1 if n.get("unbiased", True) else 0
    count = prod(x.shape[a] for a in axes)
    if count - correction <= 0:
        raise n.refused(f"a variance of {count} elements, {correction} of them corrected for")
    mean = n.add("mean", [x], axes=axes, keepdims=True)
    off = n.add("subtract", [x, mean])
    total = n.add("sum", [n.add("multiply", [off, off])], axes=axes, keepdims=_keeps(n))
    made = n.add("multiply", [total, n.constant(1 / (count - correction), x.dtype)])
    return [made, n.reshaped(mean, made.shape)]


def _norm(n: AtenNode) -> Value:
    """The norm of vectors along some axes, of any order."""
    x, order = n.value("self", n.dtype), float(n.get("ord", 2))
    axes = n.axes("dim", len(x.shape))
    size = n.add("abs", [x])
    if math.isinf(order):
        return _reduced(n, "max" if order > 0 else "min", size, axes)
    if order == 0:
        return _reduced(n, "sum", n.cast(n.add("not_equal", [x, _zero(n)]), n.dtype), axes)
    if order == 1 or not x.shape:
        return _reduced(n, "sum", size, axes)
    if order == 2:
        return n.add("sqrt", [_reduced(n, "sum", n.add("multiply", [x, x]), axes)])
    powers = n.add("power", [size, n.constant(order, n.dtype)])
    return n.add("power", [_reduced(n, "sum", powers, axes), n.constant(1 / order, n.dtype)])


def _zero(n: AtenNode) -> Value:
    return n.constant(0, n.dtype)


def _distances(n: AtenNode) -> Value:
    """The distance of each row of one matrix from each of another."""
    a, b, order = n.value("x1", n.dtype), n.value("x2", n.dtype), float(n["p"])
    a = n.reshaped(a, (*a.shape[:-1], 1, a.shape[-1]))
    b = n.reshaped(b, (*b.shape[:-2], 1, *b.shape[-2:]))
    away = n.add("subtract", [a, b])
    given = {"self": away, "ord": order, "dim": [-1]}
    return _norm(AtenNode(n.target, n.origin, given, {}, n.results, n.builder))


def _top(n: AtenNode) -> tuple[Value, ...]:
    x = n.value("self")
    axis = n.axis(n.get("dim", -1), len(x.shape))
    if x.shape[axis] > MOST_SORTED:
        raise n.refused(f"it sorts {x.shape[axis]} elements, more than {MOST_SORTED}")
    k = int(n.get("k", x.shape[axis]))
    largest = bool(n.get("largest", n.get("descending", False)))
    return n.add_all("top_k", [x], k=k, axis=axis, largest=largest)


TABLE: dict[str, Translate] = {
    **{
        f"aten.{name}": _reduce(operator)
        for operator, names in {
            "max": ("amax.default", "max.default"),
            "mean": ("mean.default", "mean.dim"),
            "min": ("amin.default", "min.default"),
            "prod": ("prod.default", "prod.dim_int"),
            "sum": ("sum.default", "sum.dim_IntList"),
        }.items()
        for name in names
    },
    **{f"aten.any.{o}": _truth("max") for o in ("default", "dim", "dims")},
    **{f"aten.all.{o}": _truth("min") for o in ("default", "dim", "dims")},
    **{f"aten.var.{o}": _variance for o in ("correction", "dim")},
    "aten._cdist_forward.default": _distances,
    "aten.argmax.default": _place("argmax"),
    "aten.argmin.default": _place("argmin"),
    "aten.cumprod.default": _cumulative("cumprod"),
    "aten.cumsum.default": _cumulative("cumsum"),
    "aten.linalg_vector_norm.default": _norm,
    "aten.max.dim": _with_place("max"),
    "aten.min.dim": _with_place("min"),
    "aten.sort.default": _top,
    "aten.topk.default": _top,
    "aten.var_mean.correction": _moments,
}
