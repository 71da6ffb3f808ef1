"""A function for arguments that are known when it is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import IntImm, PrimExpr, Var
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.ops import ops
from whet.compiler.tir.visit.buffers import replace_buffers, scalars_of, with_sizes
from whet.compiler.tir.visit.rewrite import substitute


def specialize(func: PrimFunc, param_map: Mapping[Any, Any]) -> PrimFunc:
    """The function for some arguments, known now.

    Args:
        func: the function.
        param_map: a scalar parameter or a size -> its value; an array parameter, or the variable
            of its address -> a buffer, whose shape gives sizes their values.

    Raises:
        ArgumentError: for what is no parameter, or a buffer that does not fit.
    """
    values: dict[Var, PrimExpr] = {}
    given: dict[Buffer, Buffer] = {}
    for key, value in param_map.items():
        buffer = _buffer_of(func, key)
        if buffer is not None:
            _take_shape(buffer, value, values)
            given[buffer] = value
        elif isinstance(key, Var) and key in scalars_of(func):
            values[key] = ops.cast(key.dtype, value)
        else:
            raise ArgumentError(
                f"specialize({{{key!r}: ...}})",
                "it is neither a parameter nor a size of one",
                "parameters: " + ", ".join(p.name for p in func.params),
            )
    buffers = {p: with_sizes(p, values) for p in func.params if isinstance(p, Buffer)}
    body = replace_buffers(substitute(func.body, values), buffers)
    params = tuple(
        buffers[p] if isinstance(p, Buffer) else p
        for p in func.params
        if isinstance(p, Buffer) or p not in values
    )
    attrs = {k: v for k, v in func.attrs.items() if k not in ("signature", "symbols")}
    return PrimFunc(params, body, func.ret_type, None, attrs)


def _buffer_of(func: PrimFunc, key: object) -> Buffer | None:
    for p in func.params:
        if isinstance(p, Buffer) and (key is p or key is p.data):
            return p
    return None


def _take_shape(old: Buffer, new: Any, values: dict[Var, PrimExpr]) -> None:
    """Take the values of sizes in a buffer's shape from another buffer's shape."""
    request = f"specialize({{{old.name}: {new!r}}})"
    if not isinstance(new, Buffer):
        raise ArgumentError(request, "an array parameter is specialised by a buffer", "decl_buffer")
    if new.ndim != old.ndim or new.dtype != old.dtype:
        raise ArgumentError(
            request,
            f"{old.name} has {old.ndim} dimensions of {old.dtype}, "
            f"the buffer {new.ndim} of {new.dtype}",
        )
    for d, (a, b) in enumerate(zip(old.shape, new.shape)):
        if isinstance(a, Var):
            values[a] = b
        elif isinstance(a, IntImm) and isinstance(b, IntImm) and a.value != b.value:
            raise ArgumentError(request, f"dimension {d} is {a.value}, the buffer's is {b.value}")


PrimFunc.specialize = specialize
