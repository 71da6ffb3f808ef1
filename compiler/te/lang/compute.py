"""placeholder and compute: the definition of a computation."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te.lang.axes import axis_over, index_type, integer
from whet.compiler.te.lang.tag import chosen_tag
from whet.compiler.te.lang.tensor import ComputeOp, PlaceholderOp, Tensor, TensorSlice
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import ExprOp, IntImm, IterVar, PrimExpr, ProducerLoad, Reduce
from whet.compiler.tir.ops import ops
from whet.compiler.tir.visit.rewrite import nodes


def dimensions(shape: Any, request: str) -> tuple[PrimExpr, ...]:
    """A shape as integer expressions; a bare number or expression is one dimension.

    Raises:
        ArgumentError: for what is no integer, and for negative numbers.
    """
    if isinstance(shape, (str, bytes, Mapping, Tensor, TensorSlice)) or shape is None:
        raise ArgumentError(
            request,
            f"the shape {shape!r} is a {type(shape).__name__}",
            "give a tuple of ints and te.var, e.g. (n, 16)",
        )
    bare = isinstance(shape, ExprOp) or not isinstance(shape, Iterable)
    out: list[PrimExpr] = []
    for d in (shape,) if bare else tuple(shape):
        x = integer(d, request, "the dimension")
        if isinstance(x, IntImm) and x.value < 0:
            raise ArgumentError(request, f"the dimension {x.value} is negative", "at least 0")
        if isinstance(x, IntImm):
            out.append(x)
            continue
        loads = [n for n in nodes((x,)) if type(n) in (ProducerLoad, Reduce)]
        if loads:
            raise ArgumentError(
                request,
                "a dimension is computed from the elements of a tensor",
                "sizes are known before the kernel runs: give a te.var and pass its value",
            )
        out.append(x)
    return tuple(out)


def element_type(dtype: Any, request: str) -> str:
    """A data type that a tensor may hold, e.g. float32 or float32x4; float32 for None."""
    kind = dt.check("float32" if dtype is None else dtype)
    if dt.element(kind) == "handle":
        raise ArgumentError(
            request, f"elements of type {kind} are not known", "numbers, e.g. float32 or float32x4"
        )
    return kind


def checked_name(name: Any, request: str) -> str:
    """A name, which must be a str."""
    if not isinstance(name, str):
        raise ArgumentError(request, f"the name {name!r} is a {type(name).__name__}, not a str")
    return name


def placeholder(
    shape: Any,
    dtype: str | None = None,
    name: str = "placeholder",
    value_range: tuple[float, float] | None = None,
) -> Tensor:
    """An input tensor.

    Args:
        shape: its dimensions, ints or symbolic sizes; a bare one stands for one dimension.
        dtype: float32 unless said.
        name: name of the argument.
        value_range: the least and the largest value that it is called with, e.g. of indices into
            ``n`` elements ``(0, n - 1)``. Measuring draws from it; a call does not check it.

    Raises:
        ArgumentError: for a shape, a type or a range that cannot be.
    """
    request = f"placeholder({name})"
    dims = dimensions(shape, request)
    kind = element_type(dtype, request)
    within = _checked_range(value_range, kind, request)
    given = checked_name(name, request)
    return PlaceholderOp(given, dims, kind, chosen_tag("", request), within).output(0)


def _checked_range(given: Any, kind: str, request: str) -> tuple[float, float] | None:
    """The range of an input's values: two finite numbers that its type can hold."""
    if given is None:
        return None
    request = f"{request} with value_range={given!r}"
    whole = not dt.is_float(kind)
    wanted = (int,) if whole else (int, float)
    if (
        not isinstance(given, tuple)
        or len(given) != 2
        or not all(isinstance(v, wanted) and not isinstance(v, bool) for v in given)
        or not all(math.isfinite(v) for v in given)
    ):
        what = "ints" if whole else "finite numbers"
        raise ArgumentError(request, f"of {kind} it is two {what}", "e.g. value_range=(0, 1)")
    low, high = given
    if low > high:
        raise ArgumentError(
            request, f"no value lies between {low} and {high}", "the least value comes first"
        )
    if whole:
        ends = (ops.convert(f(dt.element(kind))) for f in (ops.min_value, ops.max_value))
        least, most = (int(end) for end in ends)
        if low < least or high > most:
            raise ArgumentError(request, f"{kind} holds {least} to {most}", "stay within it")
    return low, high


def _parameters(
    fcompute: Callable, ndim: int, varargs_names: Sequence[str] | None, request: str
) -> tuple[list[str], int]:
    """The names of all axes, and how many of them the function takes."""
    if not callable(fcompute):
        raise ArgumentError(
            request,
            f"fcompute is a {type(fcompute).__name__}, not a function",
            "lambda i, j: A[i, j] + 1",
        )
    try:
        spec = inspect.getfullargspec(fcompute)
    except TypeError as error:
        raise ArgumentError(
            request, f"the arguments of {fcompute!r} cannot be seen", "wrap it: lambda i: f(i)"
        ) from error
    names = list(spec.args)
    if inspect.ismethod(fcompute) or not (
        inspect.isroutine(fcompute) or hasattr(fcompute, "__wrapped__")
    ):
        names = [n for k, n in enumerate(names) if k or n != "self"]
    if spec.kwonlyargs or spec.varkw:
        raise ArgumentError(
            request, "the function has keyword arguments", "take plain indices: lambda i, j: ..."
        )
    if spec.defaults:
        raise ArgumentError(
            request,
            "the function has default arguments",
            "take plain indices; functools.partial gives other values",
        )
    if len(names) > ndim:
        raise ArgumentError(
            request,
            f"the function takes {len(names)} indices but the shape has {ndim} dimensions",
            f"lambda {', '.join('ijklmn'[k % 6] for k in range(ndim))}: ..." if ndim else "lambda:",
        )
    takes = ndim if spec.varargs else len(names)
    if spec.varargs:
        rest = ndim - len(names)
        if varargs_names is None:
            names += [f"{spec.varargs}{k}" for k in range(rest)]
        elif not isinstance(varargs_names, (list, tuple)):
            kind = type(varargs_names).__name__
            raise ArgumentError(request, f"varargs_names is a {kind}", "give a list of names")
        elif len(varargs_names) != rest:
            raise ArgumentError(
                request, f"varargs_names names {len(varargs_names)} of {rest} indices", "name each"
            )
        else:
            names += [checked_name(n, request) for n in varargs_names]
    elif varargs_names is not None:
        raise ArgumentError(
            request, "varargs_names was given, but the function has no *args", "leave it out"
        )
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
) -> Tensor:
    """The tensor whose element at some indices is ``fcompute(*indices)``.

    Args:
        shape: the result's dimensions, ints or symbolic sizes; ``()`` for a single element.
        fcompute: from as many indices as it takes (``*i`` for all) to an expression; with fewer
            than there are dimensions, a :class:`TensorSlice` it returns is indexed by the rest, or
            an instruction (``te.decl_tensor_intrin``) that it returns computes them. A
            tuple of expressions makes several tensors that share one loop nest.
        name: name of the operation; axes are named after the function's parameters.
        tag, attrs: kept with the operation, for schedules to look at.
        varargs_names: names of the axes behind ``*i``.

    Returns:
        A tensor; for a tuple of several a list of tensors, which type checkers cannot tell apart.

    Raises:
        ArgumentError: if the function does not fit the shape, takes too few indices for what it
            returns, or mixes reductions.
    """
    name = checked_name(name, "compute(...)")
    request = f"compute({name})"
    dims = dimensions(shape, request)
    tag, attrs = chosen_tag(tag, request), checked_attrs(attrs, request)
    names, given = _parameters(fcompute, len(dims), varargs_names, request)
    axis = tuple(axis_over(n, d, index_type(d)) for n, d in zip(names, dims))
    result = fcompute(*[a.var for a in axis[:given]])
    instruction = getattr(result, "as_operation", None)  # what calling one gives
    if instruction is not None:
        return _outputs(instruction(name, axis, given, tag, attrs))
    many = isinstance(result, (tuple, list))
    body = []
    for value in result if many else (result,):
        if isinstance(value, (Tensor, TensorSlice)) and given < len(axis):
            value = value[tuple(a.var for a in axis[given:])]
        elif given < len(axis):
            raise ArgumentError(
                request,
                f"the function takes {given} of {len(axis)} indices and returns no part of a "
                "tensor that the others could index",
                f"name them all: lambda {', '.join(names)}: ..., or lambda *i: ...",
            )
        body.append(_element(value, request))
    if not body:
        raise ArgumentError(request, "the function gives no value", "return an expression")
    reduced = _reduction_axes(body, request)
    return _outputs(ComputeOp(name, axis, reduced, tuple(body), tag, attrs))


def _outputs(op: ComputeOp) -> Any:
    outputs = [op.output(k) for k in range(op.num_outputs)]
    return outputs if len(outputs) > 1 else outputs[0]


def checked_attrs(attrs: Any, request: str) -> dict[str, Any]:
    """Attributes of an operation as a dictionary of their own."""
    if attrs is not None and not isinstance(attrs, Mapping):
        raise ArgumentError(request, f"attrs is a {type(attrs).__name__}, not a dict")
    return dict(attrs or {})


def _element(value: Any, request: str) -> PrimExpr:
    if value is None:
        raise ArgumentError(request, "the function returned None", "return an expression")
    x = ops.convert(value)
    if x.dtype == "handle":
        raise ArgumentError(
            request, f"the function gives a {x.dtype}", "an element is a number, or a few of them"
        )
    return x


def _reduction_axes(body: list[PrimExpr], request: str) -> tuple[IterVar, ...]:
    top = [b for b in body if isinstance(b, Reduce)]
    roots = {id(b) for b in top}
    for n in nodes(body):
        if type(n) is Reduce and (id(n) not in roots or _inside(n, body)):
            raise ArgumentError(
                request,
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
            request,
            "outputs of one nest must all be reductions over the same axes",
            "give the others a te.compute of their own",
        )
    _check_groups(top, request)
    for a in top[0].axis:
        if any(type(n) is ProducerLoad for n in nodes((a.domain.min, a.domain.extent))):
            raise ArgumentError(
                request,
                f"the domain of {a.var.name} is read from a tensor",
                "reduce over the whole range under a condition: "
                "te.sum(A[i, k], axis=k, where=k < L[i])",
            )
    return top[0].axis


def _inside(n: Reduce, body: list[PrimExpr]) -> bool:
    """True if an output's reduction is also a part of another output."""
    return any(part is n for b in body if b is not n for part in nodes((b,)))


def groups(body: Sequence[PrimExpr]) -> list[list[int]]:
    """The outputs of each reduction: those of a tuple reducer share their combiner."""
    by_combiner: dict[int, list[int]] = {}
    for k, b in enumerate(body):
        assert isinstance(b, Reduce)
        by_combiner.setdefault(id(b.combiner), []).append(k)
    return list(by_combiner.values())


def _check_groups(top: list[Reduce], request: str) -> None:
    for group in groups(top):
        reducer = top[group[0]]
        wanted = len(reducer.source)
        places = sorted(top[k].value_index for k in group)
        if wanted > 1 and places != list(range(wanted)):
            raise ArgumentError(
                request,
                f"{reducer.combiner.name} reduces {wanted} values together, and the outputs "
                f"hold {', '.join(f'number {p}' for p in places)}",
                "return all that it gives, each once: "
                f"lambda i: {reducer.combiner.name}(values, axis=k)",
            )
