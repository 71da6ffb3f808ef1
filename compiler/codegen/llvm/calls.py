"""Calls of functions outside the generated code: packed functions, C functions, addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from whet.compiler.abi import layout as abi
from whet.compiler.abi.checks import PACKED_RAISED
from whet.compiler.abi.packed_call import ARRAY, FLOAT, HANDLE, TEXT
from whet.compiler.codegen.llvm import entry, intrinsics
from whet.compiler.codegen.llvm.text import types as ty
from whet.compiler.codegen.llvm.text.conversions import converted
from whet.compiler.codegen.outside import (
    ADDRESSES,
    EXTERNS,
    callee,
    element_of,
    handed_buffer,
    memory_of,
    prefetch_hints,
    result_code,
    type_code,
)
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import BufferView, Call, PrimExpr, StringImm, Var

if TYPE_CHECKING:
    from whet.compiler.codegen.llvm.expressions import Expressions


def call_packed(x: Expressions, n: Call, used: bool = True) -> str:
    """A call of a function that is registered by name; its result, 0 where it has none."""
    name, args = callee(n)
    out, count = x.out, len(args)
    out.module.declare("declare i32 @whet_call_packed(ptr, ptr, ptr, i32, ptr, ptr)")
    values, codes = _slots(x, count, "i64", "args"), _slots(x, count, "i32", "codes")
    result, result_kind = _slots(x, 1, "i64", "result"), _slots(x, 1, "i32", "code")
    for k, a in enumerate(args):
        code = type_code(a)
        kind, value = _marshalled(x, a, code)
        out.line(f"store {kind} {value}, ptr {_element(x, values, 'i64', k)}")
        out.line(f"store i32 {code}, ptr {_element(x, codes, 'i32', k)}")
    out.line(f"store i64 0, ptr {result}")
    out.line(f"store i32 {result_code(n, used)}, ptr {result_kind}")
    status = out.here(
        f"call i32 @whet_call_packed(ptr {_text(x, name)}, ptr {values}, ptr {codes}, "
        f"i32 {count}, ptr {result}, ptr {result_kind})"
    )
    for a in args:
        if isinstance(a, BufferView):
            x.scope.touch(a.buffer)
    with out.branch(out.here(f"icmp ne i32 {status}, 0")):
        x.scope.fail(str(PACKED_RAISED))
    if not used:
        return "0"
    if n.dtype == "handle":
        return out.here(f"load ptr, ptr {result}")
    kind, wide = _WIDE[dt.is_float(n.dtype)]
    return converted(out, out.here(f"load {kind}, ptr {result}"), wide, n.dtype)


def evaluate(x: Expressions, n: PrimExpr) -> None:
    """An expression for its effects; whatever a function returns is ignored."""
    if isinstance(n, Call) and n.op == "call_packed":
        call_packed(x, n, used=False)
    else:
        x.value(n)


def call_extern(x: Expressions, n: Call) -> str:
    """A call of a C function of the process, or of what an exported library is linked with."""
    name, args = callee(n)
    types, passed = [], []
    for a in args:
        kind, value = _c_argument(x, a)
        types.append(kind)
        passed.append(f"{kind} {value}")
    head = f"{_extended(n.dtype, '{1} {0}')} {abi.quoted(name)}"
    # calls of other types need no other declaration
    x.scope.module.called.setdefault(name, f"declare {head}({', '.join(types)})")
    value = x.out.here(f"call {head}({', '.join(passed)})")
    for a in args:
        b = handed_buffer(a)
        if b is not None:
            x.scope.touch(b)
    return value


def address_of(x: Expressions, n: Call) -> str:
    """The address of the element that a load names."""
    first = element_of(n)
    return x.pointer(first.buffer, x.linear(first.indices[0]))


def prefetch(x: Expressions, n: Call) -> str:
    """A prefetch; its address makes no claim to be inside of the buffer."""
    write, locality, data = prefetch_hints(n)
    x.out.module.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    given = f"ptr {_handle(x, n.args[0])}, i32 {write}, i32 {locality}, i32 {data}"
    x.out.line(f"call void @llvm.prefetch.p0({given})")
    return "0"


CALLS: dict[str, Callable[[Expressions, Call], str]] = {
    "call_packed": call_packed,
    **dict.fromkeys(EXTERNS, call_extern),
    **dict.fromkeys(ADDRESSES, address_of),
    "prefetch": prefetch,
    **dict.fromkeys(intrinsics.NAMES, intrinsics.call_llvm),
    **entry.CALLS,
}
"""Operations that reach outside the generated code."""

_WIDE = {True: ("double", "float64"), False: ("i64", "int64")}
"""True for a float -> the type of its slot, of LLVM's and of ours."""


def _slots(x: Expressions, count: int, kind: str, hint: str) -> str:
    return x.out.slot(f"[{max(count, 1)} x {kind}]", hint + ".", ", align 8")


def _element(x: Expressions, slots: str, kind: str, k: int) -> str:
    return x.out.here(f"getelementptr {kind}, ptr {slots}, i64 {k}") if k else slots


def _text(x: Expressions, text: str) -> str:
    """A constant with a C string."""
    return x.scope.module.constant(f"{x.scope.name}_.text", text.encode() + b"\0")


def _marshalled(x: Expressions, a: PrimExpr, code: int) -> tuple[str, str]:
    """The content of an argument's slot: LLVM type and value."""
    if code in _POINTERS:
        return "ptr", _POINTERS[code](x, a)
    kind, wide = _WIDE[code == FLOAT]
    return kind, converted(x.out, x.value(a), a.dtype, wide)


def _handle(x: Expressions, a: PrimExpr) -> str:
    """A pointer: an address, or the start of a buffer's memory."""
    return memory_of(a, x.scope.memory) if isinstance(a, Var) else x.value(a)


def _tensor(x: Expressions, view: BufferView) -> str:
    """A DLTensor on the stack."""
    out, rank = x.out, len(view.shape)
    tensor, shape = _slots(x, 6, "i64", "tensor"), _slots(x, rank, "i64", "shape")
    strides = _slots(x, rank, "i64", "strides") if view.strides else "null"
    for table, parts in ((shape, view.shape), (strides, view.strides)):
        for k, part in enumerate(parts):
            number = x.i64(x.linear(part))
            out.line(f"store i64 {number}, ptr {_element(x, table, 'i64', k)}")
    fields = (
        (abi.DL_DATA, "ptr", x.pointer(view.buffer, x.linear(view.offset))),
        (abi.DL_DEVICE, "i64", str(abi.DL_CPU)),  # and the device's number, 0
        (abi.DL_NDIM, "i32", str(rank)),
        (abi.DL_CODE, "i32", str(abi.scalar(view.buffer.dtype).word)),
        (abi.DL_SHAPE, "ptr", shape),
        (abi.DL_STRIDES, "ptr", strides),
        (abi.DL_BYTE_OFFSET, "i64", "0"),
    )
    for offset, type_, value in fields:
        at = out.here(f"getelementptr i8, ptr {tensor}, i64 {offset}")
        out.line(f"store {type_} {value}, ptr {at}")
    return tensor


_POINTERS: dict[int, Callable[[Expressions, Any], str]] = {
    TEXT: lambda x, a: _text(x, a.value),
    ARRAY: _tensor,
    HANDLE: _handle,
}
"""Code of an argument -> what writes the pointer to it."""


def _c_argument(x: Expressions, a: PrimExpr) -> tuple[str, str]:
    """An argument of a C function: LLVM type and value."""
    if isinstance(a, StringImm):
        return "ptr", _text(x, a.value)
    if isinstance(a, BufferView):
        return "ptr", x.pointer(a.buffer, x.linear(a.offset))
    return _extended(a.dtype, "{0} {1}"), _handle(x, a) if a.dtype == "handle" else x.value(a)


def _extended(dtype: str, order: str) -> str:
    """A type and its extension: C's callers expect small integers in whole registers."""
    if dtype == "handle":
        return "ptr"
    if dt.is_float(dtype) or dt.bits(dtype) >= 32:
        return ty.type_of(dtype)
    return order.format(ty.type_of(dtype), "signext" if dtype.startswith("int") else "zeroext")
