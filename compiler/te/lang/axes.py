"""Scalars and axes: symbolic numbers, reduction axes, thread axes."""

from __future__ import annotations

import numbers
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te.lang.scopes import TAGS, is_tag
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import (
    COMM_REDUCE,
    DATA_PAR,
    THREAD_INDEX,
    Add,
    Div,
    ExprOp,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Max,
    Min,
    Mod,
    Mul,
    PrimExpr,
    Range,
    SizeVar,
    Sub,
    Var,
)
from whet.compiler.tir.ops import ops
from whet.compiler.tir.tracing.traced import whole


def var(name: str = "tindex", dtype: str = "int32") -> Var:
    """A symbolic scalar: an argument of the kernel, or a size that an array's shape gives."""
    return Var(_name("var", name), _scalar(f"var({name})", dtype))


def size_var(name: str = "size", dtype: str = "int32") -> SizeVar:
    """A symbolic size: never negative; in a shape it is bound by the arrays of a call.

    Raises:
        ArgumentError: for a type that is no integer.
    """
    kind = _scalar(f"size_var({name})", dtype)
    if not dt.is_int(kind):
        raise ArgumentError(
            f"size_var({name}, {kind})", "a size is an integer", "int32 or int64; te.var for others"
        )
    return SizeVar(_name("size_var", name), kind)


def reduce_axis(dom: Any, name: str = "rv", thread_tag: str = "", span: Any = None) -> IterVar:
    """An axis to reduce over.

    Args:
        dom: ``(begin, end)``, the end left out, or a :class:`tir.Range`.
        name: name of its loop.
        thread_tag: kept with the axis.
        span: not used.

    Raises:
        ArgumentError: unless the domain is a pair of integers or integer expressions.
    """
    name = _name("reduce_axis", name)
    domain = _range(dom, f"reduce_axis({name})")
    return IterVar(domain, Var(name, index_type(domain.extent)), COMM_REDUCE, thread_tag)


def thread_axis(dom: Any = None, tag: str = "", name: str = "", span: Any = None) -> IterVar:
    """An axis of threads, for ``bind``; a string in the first place is the tag.

    Args:
        dom: ``(begin, end)`` or None: as many threads as the loop that is bound has steps.
        tag: ``"blockIdx.x"`` to ``"threadIdx.z"``, ``"vthread"``, ``"vthread.x"``, ``"cthread"``.
        name: the tag by default.
        span: not used.

    Raises:
        ArgumentError: for a tag that is not known.
    """
    if isinstance(dom, str):
        if is_tag(tag):
            raise ArgumentError(
                f"thread_axis({dom!r}, {tag!r})", "two tags were given", f"thread_axis({tag!r})"
            )
        dom, tag, name = None, dom, tag if isinstance(name, str) and not name else name
    if not is_tag(tag):
        is_empty = isinstance(tag, str) and not tag
        raise ArgumentError(
            f"thread_axis(tag={tag!r})",
            "tag must be given" if tag is None or is_empty else "there is no such tag",
            "tags: " + ", ".join(TAGS),
        )
    name = _name("thread_axis", name)
    domain = None if dom is None else _range(dom, f"thread_axis({tag})")
    kind = "int32" if domain is None else index_type(domain.extent)
    return IterVar(domain, Var(name or tag, kind), THREAD_INDEX, tag)


def axis_over(name: str, extent: Any, dtype: str = "int32", iter_type: int = DATA_PAR) -> IterVar:
    """An axis of ``extent`` steps from 0 on."""
    domain = Range.from_min_extent(ops.const(0, dtype), extent)
    return IterVar(domain, Var(name, dtype), iter_type)


def index_type(extent: PrimExpr) -> str:
    """The type of the variable of an axis with this extent: int64 where the extent is."""
    return "int64" if extent.dtype == "int64" else "int32"


_ARITHMETIC = (Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max)


def widened(index: PrimExpr) -> PrimExpr:
    """An index in 64 bits, its parts computed in 64 bits already."""
    known: dict[int, PrimExpr] = {}

    def wide(n: PrimExpr) -> PrimExpr:
        if n.dtype == "int64" or type(n) not in _ARITHMETIC:
            return ops.cast("int64", n)
        out = known.get(id(n))
        if out is None:
            a, b = wide(n.a), wide(n.b)  # type: ignore[attr-defined]
            out = known[id(n)] = type(n)(a, b, "int64")  # type: ignore[call-arg]
        return out

    return wide(index)


def integer(value: Any, request: str, what: str) -> PrimExpr:
    """An int or an integer expression, of a type that indices have; a whole float is an int."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, numbers.Integral) and not isinstance(value, ExprOp):
        value = whole(value)
        if not -(2**63) <= value < 2**63:
            raise ArgumentError(request, f"{what} {value} does not fit 64 bits")
    if isinstance(value, (str, bytes)) or value is None:
        raise ArgumentError(
            request, f"{what} {value!r} is a {type(value).__name__}, not an integer"
        )
    x = ops.convert(value)
    if isinstance(x, FloatImm) and x.value.is_integer():
        return ops.const(int(x.value))
    if dt.is_bool(x.dtype) and isinstance(x, IntImm):
        return ops.const(x.value)
    if not dt.is_int(x.dtype) or dt.lanes(x.dtype) > 1:
        raise ArgumentError(
            request,
            f"{what} {value!r} is a {x.dtype}, not an integer",
            "give an int, or an expression of ints and te.var",
        )
    if x.dtype in ("int32", "int64"):
        return x
    if isinstance(x, IntImm):
        return ops.const(x.value)
    if isinstance(x, Var):
        raise ArgumentError(
            request,
            f"{what} {x.name} is a variable of type {x.dtype}",
            f"sizes are int32 or int64: te.size_var({x.name!r})",
        )
    return ops.cast("int64" if dt.bits(x.dtype) >= 32 else "int32", x)


def _range(dom: Any, request: str) -> Range:
    if isinstance(dom, Range):
        return dom
    if not isinstance(dom, (tuple, list)) or len(dom) != 2:
        raise ArgumentError(
            f"{request[:-1]}, dom={dom!r})",
            "a domain is a pair (begin, end)",
            "(0, n) for n steps",
        )
    begin, end = (integer(x, request, "the bound") for x in dom)
    extent = ops.subtract(end, begin)
    if isinstance(extent, IntImm) and extent.value < 0:
        raise ArgumentError(
            request,
            f"from {int(begin)} to {int(end)} there are {extent.value} steps",
            "(begin, end) with begin <= end",
        )
    if isinstance(begin, IntImm) and begin.dtype != extent.dtype == "int64":
        begin = ops.cast("int64", begin)
    return Range.from_min_extent(begin, extent)


def _name(function: str, name: Any) -> str:
    if not isinstance(name, str):
        raise ArgumentError(
            f"{function}(name={name!r})", f"a name is a str, not a {type(name).__name__}"
        )
    return name


def _scalar(request: str, dtype: Any) -> str:
    kind = dt.check(dtype)
    if dt.lanes(kind) > 1:
        raise ArgumentError(request, f"{kind} is a vector", f"a scalar type: {dt.element(kind)}")
    return kind
