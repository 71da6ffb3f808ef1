"""What a user writes a computation with: placeholders, axes, reductions, compute."""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Callable, Sequence
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te.tensor import ComputeOp, PlaceholderOp, Tensor, TensorSlice
from whet.compiler.tir import dtype as dt
from whet.compiler.tir import expr as e
from whet.compiler.tir import ops
from whet.compiler.tir.rewrite import post_order_visit


def _shape(shape: Any, what: str) -> tuple[e.PrimExpr, ...]:
    dims = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    out = []
    for d in dims:
        x = ops.convert(int(d) if isinstance(d, (bool, numbers.Integral)) else d)
        if not dt.is_int(x.dtype):
            kind = "str" if isinstance(d, str) else x.dtype
            raise ArgumentError(what, f"the dimension {d!r} is a {kind}, not an integer")
        if isinstance(x, e.IntImm) and x.value < 0:
            raise ArgumentError(what, f"the dimension {x.value} is negative")
        out.append(x)
    return tuple(out)


def var(name: str = "tindex", dtype: str = "int32") -> e.Var:
    """A symbolic scalar."""
    return e.Var(name, dt.check(dtype))


def size_var(name: str = "size", dtype: str = "int32") -> e.SizeVar:
    """A symbolic size: never negative; in a shape it is bound by the arrays of a call."""
    return e.SizeVar(name, dt.check(dtype))


def placeholder(shape: Any, dtype: str | None = None, name: str = "placeholder") -> Tensor:
    """An input tensor of ``shape`` (ints or symbolic sizes); float32 unless said."""
    dims = _shape(shape, f"placeholder({name})")
    return PlaceholderOp(name, dims, dt.check(dtype or "float32")).output(0)


def _range(dom: Any) -> e.Range:
    if isinstance(dom, e.Range):
        return dom
    if not isinstance(dom, (tuple, list)) or len(dom) != 2:
        raise ArgumentError(
            f"reduce_axis({dom!r})", "a domain is a pair (begin, end)", "(0, n) for n steps"
        )
    begin, end = (ops.convert(x) for x in dom)
    return e.Range(begin, ops.subtract(end, begin))


def reduce_axis(dom: Any, name: str = "rv", thread_tag: str = "") -> e.IterVar:
    """An axis to reduce over; ``dom`` is ``(begin, end)``, the end left out."""
    return e.IterVar(_range(dom), e.Var(name), e.COMM_REDUCE, thread_tag)


def _parameters(
    fcompute: Callable, ndim: int, varargs_names: Sequence[str] | None
) -> tuple[list[str], int]:
    """The names of all axes, and how many of them the function takes."""
    spec = inspect.getfullargspec(fcompute)
    if spec.kwonlyargs or spec.varkw:
        raise ArgumentError("compute", "the function has keyword arguments; give plain indices")
    names = list(spec.args[1:] if inspect.ismethod(fcompute) else spec.args)
    if spec.defaults:
        raise ArgumentError("compute", "the function has default arguments; give plain indices")
    if len(names) > ndim:
        raise ArgumentError(
            "compute",
            f"the function takes {len(names)} indices but the shape has {ndim} dimensions",
        )
    takes = ndim if spec.varargs else len(names)
    if spec.varargs:
        rest = ndim - len(names)
        if varargs_names is not None:
            if len(varargs_names) != rest:
                raise ArgumentError(
                    "compute", f"varargs_names names {len(varargs_names)} of {rest} indices"
                )
            names += list(varargs_names)
        else:
            names += [f"{spec.varargs}{k}" for k in range(rest)]
    elif len(names) < ndim:
        names += [f"ax{k}" for k in range(len(names), ndim)]
    return names, takes


def compute(
    shape: Any,
    fcompute: Callable,
    name: str = "compute",
    tag: str = "",
    attrs: dict[str, Any] | None = None,
    varargs_names: Sequence[str] | None = None,
) -> Any:
    """The tensor whose element at some indices is ``fcompute(*indices)``.

    Args:
        shape: the result's dimensions, ints or symbolic sizes; ``()`` for a single element.
        fcompute: from as many indices as it takes (``*i`` for all) to an expression; with fewer
            than there are dimensions, a :class:`TensorSlice` it returns is indexed by the rest. A
            tuple of expressions makes several tensors that share one loop nest.
        name: name of the operation; axes are named after the function's parameters.
        tag, attrs: kept with the operation, for schedules to look at.
        varargs_names: names of the axes behind ``*i``.

    Returns:
        A tensor, or a list of tensors for a tuple.

    Raises:
        ArgumentError: if the function does not fit the shape or mixes reductions.
    """
    dims = _shape(shape, f"compute({name})")
    names, given = _parameters(fcompute, len(dims), varargs_names)
    axis = tuple(
        e.IterVar(e.Range(ops.const(0), d), e.Var(n), e.DATA_PAR) for n, d in zip(names, dims)
    )
    result = fcompute(*[a.var for a in axis[:given]])
    many = isinstance(result, (tuple, list))
    body = []
    for value in result if many else (result,):
        if isinstance(value, (Tensor, TensorSlice)) and given < len(axis):
            value = value[tuple(a.var for a in axis[given:])]
        body.append(ops.convert(value))
    op = ComputeOp(name, axis, _reduction_axes(body, name), tuple(body), tag, dict(attrs or {}))
    outputs = [op.output(k) for k in range(len(body))]
    return outputs if many else outputs[0]


def _reduction_axes(body: list[e.PrimExpr], name: str) -> tuple[e.IterVar, ...]:
    top = [b for b in body if isinstance(b, e.Reduce)]
    for expression in body:
        nested: list[e.Reduce] = []
        post_order_visit(expression, lambda n: nested.append(n) if type(n) is e.Reduce else None)  # noqa: B023
        if any(n is not expression for n in nested):
            raise ArgumentError(
                f"compute({name})",
                "a reduction stands inside a larger expression",
                "give it a compute of its own and read its result: "
                "S = te.compute(shape, lambda i: te.sum(...)); "
                "te.compute(shape, lambda i: f(S[i]))",
            )
    if not top:
        return ()
    if len(top) != len(body) or any(
        len(t.axis) != len(top[0].axis) or any(a is not b for a, b in zip(t.axis, top[0].axis))
        for t in top
    ):
        raise ArgumentError(
            f"compute({name})", "outputs of one nest must all be reductions over the same axes"
        )
    return top[0].axis


class Reducer:
    """A reduction such as ``te.sum``: ``reducer(expr, axis, where=None, init=None)``.

    With several expressions and no axis it combines them directly.
    """

    def __init__(
        self,
        name: str,
        combine: Callable[[Any, Any], Any],
        identity: Callable[[str], e.PrimExpr],
    ) -> None:
        self.__name__ = name
        self._combine = combine
        self._identity = identity

    def __call__(
        self, expr: Any, *args: Any, axis: Any = None, where: Any = None, init: Any = None
    ) -> e.PrimExpr:
        """The reduction of ``expr`` over ``axis``, where ``where`` holds, begun at ``init``."""
        if axis is None and args and _all_axes(args[0]) and len(args) <= 3:
            axis = args[0]
            where = args[1] if len(args) > 1 else where
            init = args[2] if len(args) > 2 else init
        elif args:
            out = ops.convert(expr)
            for other in args:
                out = self._combine(out, other)
            return out
        if axis is None:
            raise ArgumentError(
                f"{self.__name__}(expr)",
                "no axis to reduce over was given",
                f'k = te.reduce_axis((0, n), name="k"); te.{self.__name__}(expr, axis=k)',
            )
        axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
        for a in axes:
            if not isinstance(a, e.IterVar) or a.iter_type != e.COMM_REDUCE:
                raise ArgumentError(
                    f"{self.__name__}(expr, axis={a!r})",
                    "it is not a reduction axis",
                    'make one with te.reduce_axis((0, n), name="k")',
                )
        source = ops.convert(expr)
        if dt.is_bool(source.dtype) and self.__name__ == "sum":
            raise ArgumentError(
                "sum(expr) of a bool expression",
                "one bit does not hold a sum",
                "convert it: te.sum(x.astype('int32'), axis=k)",
            )
        lhs, rhs = e.Var("x", source.dtype), e.Var("y", source.dtype)
        combiner = e.CommReducer(
            (lhs,),
            (rhs,),
            (ops.cast(source.dtype, self._combine(lhs, rhs)),),
            (self._identity(source.dtype),),
            self.__name__,
        )
        condition = ops.const(True) if where is None else ops.convert(where)
        begin = () if init is None else (ops.cast(source.dtype, init),)
        return e.Reduce(combiner, (source,), axes, condition, 0, source.dtype, begin)


def _all_axes(x: Any) -> bool:
    if isinstance(x, (tuple, list)):
        return bool(x) and all(isinstance(a, e.IterVar) for a in x)
    return isinstance(x, e.IterVar)


def _greatest(dtype: str) -> e.PrimExpr:
    # infinity, not the greatest finite number as in TVM: the result equals numpy's for all inputs
    return ops.const(math.inf, dtype) if dt.is_float(dtype) else ops.max_value(dtype)


def _least(dtype: str) -> e.PrimExpr:
    return ops.const(-math.inf, dtype) if dt.is_float(dtype) else ops.min_value(dtype)


sum = Reducer("sum", ops.add, lambda dtype: ops.const(0, dtype))
min = Reducer("min", ops.minimum, _greatest)
max = Reducer("max", ops.maximum, _least)
