"""Calls of functions: registered Python functions, functions of C, and intrinsics by name."""

from __future__ import annotations

import re
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import BufferView, Call, PrimExpr, StringImm, int_value
from whet.compiler.tir.ops import ops


def view(buffer: Buffer) -> BufferView:
    """A whole buffer as an array that a function gets."""
    return BufferView(buffer, buffer.shape, buffer.strides, buffer.elem_offset)


def call_packed(name: str, *args: Any, span: Any = None) -> Call:
    """A call of the function that is registered as ``name``; its value is an int32.

    Args:
        name: what it is registered as (``whet.register_func``).
        args: numbers, expressions, strings, and buffers, which it gets as arrays.
        span: not used.

    Raises:
        ArgumentError: for what cannot be handed over.
    """
    request = f"call_packed({name!r})"
    given = tuple(view(a) if isinstance(a, Buffer) else _value(a, request) for a in args)
    return Call("int32", "call_packed", (_name(name, "call_packed"), *given))


def call_extern(dtype: str, func_name: str, *args: Any, span: Any = None) -> Call:
    """A call of a C function of the program, whose result is a ``dtype``.

    Args:
        dtype: type of the result.
        func_name: its symbol.
        args: numbers, expressions, strings, and buffers, of which it gets the address.
        span: not used.
    """
    return _c_call("call_extern", dtype, func_name, args)


def call_pure_extern(dtype: str, func_name: str, *args: Any, span: Any = None) -> Call:
    """A call of a C function without side effects, whose result is a ``dtype``."""
    return _c_call("call_pure_extern", dtype, func_name, args)


def _c_call(op: str, dtype: str, name: str, args: tuple[Any, ...]) -> Call:
    given = tuple(_c_argument(a, f"{op}({name!r})") for a in args)
    return Call(dtype, op, (_name(name, op), *given))


def call_llvm_intrin(dtype: str, name: str, *args: Any, span: Any = None) -> Call:
    """A call of LLVM's intrinsic ``name``, which may do more than compute a value.

    >>> from whet import tir
    >>> x = tir.Var("x", "float32")
    >>> tir.call_llvm_intrin("float32", "llvm.fma.f32", 3, x, x, x).dtype
    'float32'

    For targets of kind ``llvm``; the processor must have its instruction (``target.features``).

    Args:
        dtype: type of the result, e.g. ``"int32x16"``.
        name: with its types where it is overloaded: ``"llvm.ctpop.v4i32"``.
        args: how many arguments the overloaded types are those of, as TVM has it (a number; the
            name says it here, too), and then the arguments, vectors among them.
        span: not used.

    Raises:
        ArgumentError: for another name, or without that number.
    """
    return _llvm_call("call_llvm_intrin", dtype, name, args)


def call_llvm_pure_intrin(dtype: str, name: str, *args: Any, span: Any = None) -> Call:
    """A call of LLVM's intrinsic ``name``, which computes a value of its arguments.

    Takes what :func:`call_llvm_intrin` takes.
    """
    return _llvm_call("call_llvm_pure_intrin", dtype, name, args)


def _llvm_call(op: str, dtype: str, name: Any, args: tuple[Any, ...]) -> Call:
    request = f"{op}({name!r})"
    if not isinstance(name, str) or not re.fullmatch(r"llvm\.[\w.]+", name):
        raise ArgumentError(
            request, "intrinsics of LLVM are called llvm.something", "llvm.fma.v8f32"
        )
    given = tuple(_c_argument(a, request) for a in args)
    count = int_value(given[0]) if given else None
    if count is None or not 0 <= count < len(given):
        raise ArgumentError(
            request,
            "its first argument is not the number of arguments with an overloaded type",
            f"{op}(dtype, name, 0, ...), or as many of the others as TVM's documentation says",
        )
    return Call(dt.check(dtype), op, (_name(name, op), *given))


def call_intrin(dtype: str, func_name: str, *args: Any, span: Any = None) -> Call:
    """The intrinsic ``func_name``, e.g. ``"tir.exp"`` or ``"exp"``, of a ``dtype``."""
    name = _name(func_name, "call_intrin").value.removeprefix("tir.")
    request = f"call_intrin({name!r})"
    return Call(dt.check(dtype), name, tuple(_c_argument(a, request) for a in args))


def _name(name: Any, function: str) -> StringImm:
    if isinstance(name, StringImm):
        return name
    if not isinstance(name, str) or not name:
        raise ArgumentError(f"{function}({name!r}, ...)", "the first argument is a name, a str")
    return StringImm(name)


def _c_argument(a: Any, request: str) -> PrimExpr:
    return a.access_ptr("rw") if isinstance(a, Buffer) else _value(a, request)


def _value(a: Any, request: str) -> PrimExpr:
    if a is None or isinstance(a, (list, tuple, dict)):
        raise ArgumentError(
            request,
            f"a {type(a).__name__} cannot be handed to a function",
            "hand over buffers, numbers and strings one by one",
        )
    return ops.convert(a)
