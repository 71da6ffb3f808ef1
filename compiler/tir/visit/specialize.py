"""A function for arguments that are known when it is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.tir import expr as e
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.ops import ops
from whet.compiler.tir.visit.rewrite import replace_buffers, substitute, variables


def specialize(func: PrimFunc, param_map: Mapping[Any, Any]) -> PrimFunc:
    """See :meth:`PrimFunc.specialize`."""
    values: dict[e.Var, e.PrimExpr] = {}
    given: dict[Buffer, Buffer] = {}
    for key, value in param_map.items():
        buffer = _buffer_of(func, key)
        if buffer is not None:
            _take_shape(buffer, value, values)
            given[buffer] = value
        elif isinstance(key, e.Var) and key in _scalars(func):
            values[key] = ops.cast(key.dtype, value)
        else:
            raise ArgumentError(
                f"specialize({{{key!r}: ...}})",
                "it is neither a parameter nor a size of one",
                "parameters: " + ", ".join(p.name for p in func.params),
            )
    buffers = {p: _fixed(p, values) for p in func.params if isinstance(p, Buffer)}
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


def _scalars(func: PrimFunc) -> set[e.Var]:
    found = {p for p in func.params if isinstance(p, e.Var)}
    for p in func.params:
        if isinstance(p, Buffer):
            found.update(v for d in (*p.shape, *p.strides) for v in variables(d))
    return found


def _take_shape(old: Buffer, new: Any, values: dict[e.Var, e.PrimExpr]) -> None:
    """What a buffer's shape says of the sizes in another's."""
    asked = f"specialize({{{old.name}: {new!r}}})"
    if not isinstance(new, Buffer):
        raise ArgumentError(asked, "an array parameter is specialised by a buffer", "decl_buffer")
    if new.ndim != old.ndim or new.dtype != old.dtype:
        raise ArgumentError(
            asked,
            f"{old.name} has {old.ndim} dimensions of {old.dtype}, "
            f"the buffer {new.ndim} of {new.dtype}",
        )
    for d, (a, b) in enumerate(zip(old.shape, new.shape)):
        if isinstance(a, e.Var):
            values[a] = b
        elif isinstance(a, e.IntImm) and isinstance(b, e.IntImm) and a.value != b.value:
            raise ArgumentError(asked, f"dimension {d} is {a.value}, the buffer's is {b.value}")


def _fixed(b: Buffer, values: Mapping[e.Var, e.PrimExpr]) -> Buffer:
    shape = tuple(substitute(d, values) for d in b.shape)
    strides = tuple(substitute(d, values) for d in b.strides)
    if all(x is y for x, y in zip((*shape, *strides), (*b.shape, *b.strides))):
        return b
    return replace(b, shape=shape, strides=strides)
