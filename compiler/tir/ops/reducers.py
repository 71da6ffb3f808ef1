"""Reductions: sum, min, max, and those that a user defines over one value or a tuple of them."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import COMM_REDUCE, CommReducer, IterVar, PrimExpr, Reduce, Var
from whet.compiler.tir.ops import ops

__all__ = [
    "comm_reducer", "max", "min", "sum",
]  # fmt: skip
"""The names that ``te`` and ``tir`` offer."""


class Reducer:
    """A reduction such as ``te.sum``: ``reducer(expr, axis, where=None, init=None)``.

    With several expressions and no axis it combines them directly.

    Args:
        name: what it is called when printed.
        combine: from two values to their combination; from two tuples to a tuple.
        identity: from the data types, one each, to the values that change nothing.
    """

    def __init__(
        self, name: str, combine: Callable[[Any, Any], Any], identity: Callable[..., Any]
    ) -> None:
        self.__name__ = name
        self._combine = combine
        self._identity = identity

    def __call__(
        self, expr: Any, *args: Any, axis: Any = None, where: Any = None, init: Any = None
    ) -> Any:
        """The reduction of ``expr`` over ``axis``, where ``where`` holds, begun at ``init``.

        Returns:
            An expression; for a tuple of expressions, a tuple, whose parts go into one
            ``te.compute``.

        Raises:
            ArgumentError: for what is no axis, no condition or no expression.
        """
        if axis is None and args and _all_axes(args[0]) and len(args) <= 3:
            axis = args[0]
            where = args[1] if len(args) > 1 else where
            init = args[2] if len(args) > 2 else init
        elif args:
            return self._combined(expr, args)
        if axis is None:
            raise ArgumentError(
                f"{self.__name__}(expr)",
                "no axis to reduce over was given",
                f'k = te.reduce_axis((0, n), name="k"); te.{self.__name__}(expr, axis=k)',
            )
        axes = self._axes(axis)
        many = isinstance(expr, (tuple, list))
        sources = tuple(self._source(x) for x in (expr if many else (expr,)))
        if not sources:
            raise ArgumentError(f"{self.__name__}((), axis)", "there is nothing to reduce")
        combiner = self._combiner(sources, many)
        condition = self._condition(where)
        begin = self._begin(sources, init, many)
        out = tuple(
            Reduce(combiner, sources, axes, condition, k, x.dtype, begin)
            for k, x in enumerate(sources)
        )
        return out if many and len(out) > 1 else out[0]

    def _combined(self, first: Any, others: Sequence[Any]) -> Any:
        out = first if isinstance(first, (tuple, list)) else ops.convert(first)
        for other in others:
            if isinstance(other, IterVar):
                raise ArgumentError(
                    f"{self.__name__}(expr, ..., {other.name})",
                    f"{other.name} is an axis among expressions",
                    f"te.{self.__name__}(expr, axis=[...]) reduces over several axes",
                )
            if not isinstance(out, PrimExpr) and (
                not isinstance(other, (tuple, list)) or len(other) != len(out)
            ):
                raise ArgumentError(
                    f"{self.__name__}(tuple, {other!r})", f"give tuples of {len(out)} expressions"
                )
            out = self._call(out, other)
        return out

    def _call(self, lhs: Any, rhs: Any) -> Any:
        return self._of_user(
            self._combine,
            (lhs, rhs),
            "combination",
            "fcombine takes two values, or for a tuple reducer two tuples",
        )

    def _of_user(
        self, function: Callable[..., Any], args: tuple[Any, ...], what: str, way_out: str
    ) -> Any:
        """``function(*args)`` of a user; its mistakes as errors that name the reducer."""
        try:
            return function(*args)
        except (TypeError, IndexError, ValueError, AttributeError, KeyError) as error:
            if isinstance(error, ArgumentError):
                raise
            raise ArgumentError(
                f"{self.__name__}(...)",
                f"its {what} failed: {type(error).__name__}: {error}",
                way_out,
            ) from error

    def _axes(self, axis: Any) -> tuple[IterVar, ...]:
        axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
        for a in axes:
            if not isinstance(a, IterVar) or a.iter_type != COMM_REDUCE:
                raise ArgumentError(
                    f"{self.__name__}(expr, axis={a!r})",
                    "it is not a reduction axis",
                    'make one with te.reduce_axis((0, n), name="k")',
                )
        if not axes:
            raise ArgumentError(
                f"{self.__name__}(expr, axis=[])",
                "no axis to reduce over was given",
                'make one with te.reduce_axis((0, n), name="k")',
            )
        for k, a in enumerate(axes):
            if any(a is b for b in axes[:k]):
                raise ArgumentError(
                    f"{self.__name__}(expr, axis=[{', '.join(x.name for x in axes)}])",
                    f"{a.name} stands there twice",
                    "name each axis once",
                )
        return axes

    def _source(self, x: Any) -> PrimExpr:
        source = ops.convert(x)
        if source.dtype == "handle":
            raise ArgumentError(f"{self.__name__}({x!r})", "a string has no value to reduce")
        if dt.is_bool(source.dtype) and self.__name__ == "sum":
            raise ArgumentError(
                "sum(expr) of a bool expression",
                "one bit does not hold a sum",
                "convert it: te.sum(x.astype('int32'), axis=k)",
            )
        return source

    def _combiner(self, sources: tuple[PrimExpr, ...], many: bool) -> CommReducer:
        names = _parameter_names(self._combine)
        kinds = [x.dtype for x in sources]

        def fresh(name: str) -> tuple[Var, ...]:
            if not many:
                return (Var(name, kinds[0]),)
            return tuple(Var(f"{name}_{k}", kind) for k, kind in enumerate(kinds))

        lhs, rhs = fresh(names[0]), fresh(names[1])
        result = self._call(lhs, rhs) if many else self._call(lhs[0], rhs[0])
        identity = self._of_user(
            self._identity,
            tuple(kinds),
            "identity",
            f"fidentity takes one data type for each value, here {', '.join(kinds)}",
        )
        return CommReducer(
            lhs,
            rhs,
            self._parts(result, kinds, "combination"),
            self._parts(identity, kinds, "identity"),
            self.__name__,
        )

    def _parts(self, values: Any, kinds: list[str], what: str) -> tuple[PrimExpr, ...]:
        """A value for each component, of its type."""
        given = tuple(values) if isinstance(values, (tuple, list)) else (values,)
        if len(given) != len(kinds):
            raise ArgumentError(
                f"{self.__name__}(...) of {len(kinds)} values",
                f"its {what} gives {len(given)}",
                f"a tuple of {len(kinds)}",
            )
        return tuple(ops.cast(kind, x) for kind, x in zip(kinds, given))

    def _condition(self, where: Any) -> PrimExpr:
        if where is None:
            return ops.const(True)
        condition = ops.convert(where)
        if not dt.is_bool(condition.dtype):
            raise ArgumentError(
                f"{self.__name__}(expr, axis, where=...)",
                f"the condition is a {condition.dtype}, not a bool",
                "compare it with something: where=x != 0",
            )
        return condition

    def _begin(self, sources: tuple[PrimExpr, ...], init: Any, many: bool) -> tuple[PrimExpr, ...]:
        if init is None:
            return ()
        given = tuple(init) if isinstance(init, (tuple, list)) else (init,)
        if len(given) != len(sources):
            raise ArgumentError(
                f"{self.__name__}(expr, axis, init=...)",
                f"{len(given)} values to begin with were given for {len(sources)}",
                "one for each expression",
            )
        return tuple(ops.cast(x.dtype, i) for x, i in zip(sources, given))


def comm_reducer(
    fcombine: Callable[[Any, Any], Any], fidentity: Callable[..., Any], name: str = "reduce"
) -> Reducer:
    """A reduction of your own, commutative and associative.

    >>> product = te.comm_reducer(lambda x, y: x * y, lambda t: tir.const(1, t), name="product")

    A tuple reducer gets and gives tuples; what it makes goes into one ``te.compute``:

    >>> argmax = te.comm_reducer(
    ...     lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
    ...     lambda t0, t1: (tir.const(-1, t0), te.min_value(t1)),
    ...     name="argmax",
    ... )
    >>> A = te.placeholder((8, 16), name="A")
    >>> k = te.reduce_axis((0, 16), name="k")
    >>> where, most = te.compute((8,), lambda i: argmax((k.var, A[i, k]), axis=k), name="B")

    Args:
        fcombine: two values (or two tuples) to one.
        fidentity: the data types, one argument each, to what changes nothing.
        name: what it is called when printed.

    Returns:
        A function ``(expr, axis, where=None, init=None)``.

    Raises:
        ArgumentError: for what cannot be called.
    """
    for role, f in (("fcombine", fcombine), ("fidentity", fidentity)):
        if not callable(f):
            raise ArgumentError(
                f"comm_reducer({role}={f!r})", f"a {type(f).__name__} cannot be called"
            )
    if len(_parameter_names(fcombine)) != 2:
        raise ArgumentError(
            f"comm_reducer({name})",
            f"fcombine takes {len(_parameter_names(fcombine))} values instead of two",
            "lambda x, y: x + y; for a tuple reducer x and y are tuples",
        )
    return Reducer(name, fcombine, fidentity)


def _parameter_names(function: Callable[..., Any]) -> list[str]:
    try:
        spec = inspect.getfullargspec(function)
    except TypeError:
        return ["x", "y"]
    if spec.varargs and len(spec.args) < 2:
        return ["x", "y"]
    return list(spec.args[1:] if inspect.ismethod(function) else spec.args)


def _all_axes(x: Any) -> bool:
    if isinstance(x, (tuple, list)):
        return bool(x) and all(isinstance(a, IterVar) for a in x)
    return isinstance(x, IterVar)


def _greatest(dtype: str) -> PrimExpr:
    # infinity, not the greatest finite number as in TVM: the result equals numpy's for all inputs
    return ops.const(math.inf, dtype) if dt.is_float(dtype) else ops.max_value(dtype)


def _least(dtype: str) -> PrimExpr:
    return ops.const(-math.inf, dtype) if dt.is_float(dtype) else ops.min_value(dtype)


def _add(x: Any, y: Any) -> PrimExpr:
    return ops.add(x, y)


def _min(x: Any, y: Any) -> PrimExpr:
    return ops.minimum(x, y)


def _max(x: Any, y: Any) -> PrimExpr:
    return ops.maximum(x, y)


sum = Reducer("sum", _add, lambda dtype: ops.const(0, dtype))
min = Reducer("min", _min, _greatest)
max = Reducer("max", _max, _least)
