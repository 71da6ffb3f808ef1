"""Calls of functions outside the generated code: packed functions, C functions, addresses for them.

A packed function is called through ``i32 whet_call_packed(ptr name, ptr args, ptr codes, i32 n,
ptr result, ptr result_code)``: 8 bytes an argument with the code of its type, arrays as DLTensors
on the stack. Nothing is kept of them once the call returns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from whet.compiler.abi import layout as abi
from whet.compiler.codegen.llvm import types as ty
from whet.compiler.codegen.llvm.conversions import converted
from whet.compiler.codegen.llvm.entry.checked_entry import PACKED_RAISED
from whet.compiler.errors import CodegenError
from whet.compiler.runtime.values import ARRAY, FLOAT, HANDLE, INT, NOTHING, TEXT
from whet.compiler.tir import dtype as dt
from whet.compiler.tir import expr as e

if TYPE_CHECKING:
    from whet.compiler.codegen.llvm.memory import Memory


def call_packed(kernel: Memory, n: e.Call, used: bool = True) -> str:
    """A call of a function that is registered by name; its result, 0 where it has none."""
    name, *args = n.args
    if not isinstance(name, e.StringImm):
        raise CodegenError("call_packed", "its first argument is not the function's name")
    _check_scalars(n, f"call_packed({name.value!r})")
    out = kernel.out
    kernel.declare("declare i32 @whet_call_packed(ptr, ptr, ptr, i32, ptr, ptr)")
    values = _slots(kernel, len(args), "i64", "args")
    codes = _slots(kernel, len(args), "i32", "codes")
    result, result_code = _slots(kernel, 1, "i64", "result"), _slots(kernel, 1, "i32", "code")
    for k, a in enumerate(args):
        code, kind, value = _marshalled(kernel, a)
        out.line(f"store {kind} {value}, ptr {_element(kernel, values, 'i64', k)}")
        out.line(f"store i32 {code}, ptr {_element(kernel, codes, 'i32', k)}")
    wanted = FLOAT if dt.is_float(n.dtype) else HANDLE if n.dtype == "handle" else INT
    if not used:
        wanted = NOTHING
    out.line(f"store i64 0, ptr {result}")
    out.line(f"store i32 {wanted}, ptr {result_code}")
    status = out.here(
        f"call i32 @whet_call_packed(ptr {_text(kernel, name.value)}, ptr {values}, ptr {codes}, "
        f"i32 {len(args)}, ptr {result}, ptr {result_code})"
    )
    for a in args:
        if isinstance(a, e.BufferView):
            kernel.touch(a.buffer)
    with out.branch(out.here(f"icmp ne i32 {status}, 0")):
        kernel.fail(str(PACKED_RAISED))
    return _returned(kernel, n.dtype, result) if used else "0"


def evaluate(kernel: Memory, n: e.PrimExpr) -> None:
    """An expression for its effects; whatever a function returns is ignored."""
    if isinstance(n, e.Call) and n.op == "call_packed":
        call_packed(kernel, n, used=False)
    else:
        kernel.value(n)


def call_extern(kernel: Memory, n: e.Call) -> str:
    """A call of a C function of the process, or of what an exported library is linked with."""
    name, *args = n.args
    if not isinstance(name, e.StringImm):
        raise CodegenError("call_extern", "its first argument is not the function's name")
    _check_scalars(n, f"call_extern({name.value!r})")
    given = [_c_argument(kernel, a) for a in args]
    result = "ptr" if n.dtype == "handle" else ty.type_of(n.dtype)
    symbol, types = abi.quoted(name.value), ", ".join(kind for kind, _ in given)
    declared = f"declare {_extended(n.dtype, result)} {symbol}({types})"
    kernel.module.declare_extern(name.value, declared)
    passed = ", ".join(f"{kind} {value}" for kind, value in given)
    value = kernel.out.here(f"call {_extended(n.dtype, result)} {symbol}({passed})")
    for a in args:
        if isinstance(a, e.BufferView):
            kernel.touch(a.buffer)
        elif isinstance(a, e.Call) and a.op in ("address_of", "tvm_access_ptr"):
            first = a.args[0]
            if isinstance(first, e.BufferLoad):
                kernel.touch(first.buffer)
    return value


def address_of(kernel: Memory, n: e.Call) -> str:
    """The address of the element that a load names."""
    first = n.args[0] if n.args else None
    if not isinstance(first, e.BufferLoad) or dt.lanes(first.dtype) > 1:
        raise CodegenError(n.op, "its argument is not one element of a buffer", f"{n.op}(A[i, j])")
    return kernel.pointer(first.buffer, kernel.linear(first.indices[0]))


CALLS: dict[str, Callable[[Memory, e.Call], str]] = {
    "call_packed": call_packed,
    "call_extern": call_extern,
    "call_pure_extern": call_extern,
    "address_of": address_of,
    "tvm_access_ptr": address_of,
}
"""Operations that reach outside the generated code."""


def _check_scalars(n: e.Call, asked: str) -> None:
    if any(dt.lanes(x.dtype) > 1 for x in (n, *n.args) if x.dtype != "handle"):
        raise CodegenError(
            asked,
            "it is called in a vectorized loop, and takes no vectors",
            "leave the loop around it serial",
        )


def _slots(kernel: Memory, count: int, kind: str, hint: str) -> str:
    name = kernel.out.fresh(hint + ".")
    kernel.out.allocas.append(f"  {name} = alloca [{max(count, 1)} x {kind}], align 8")
    return name


def _element(kernel: Memory, slots: str, kind: str, k: int) -> str:
    return kernel.out.here(f"getelementptr {kind}, ptr {slots}, i64 {k}") if k else slots


def _text(kernel: Memory, text: str) -> str:
    """A constant with a C string."""
    data = text.encode() + b"\0"
    name = f"@{kernel.name}_.text{len(kernel.module.globals)}"
    content = "".join(f"\\{byte:02X}" for byte in data)
    kernel.module.globals.append(f'{name} = internal constant [{len(data)} x i8] c"{content}"')
    return name


def _marshalled(kernel: Memory, a: e.PrimExpr) -> tuple[int, str, str]:
    """The code of an argument, and what is stored in its slot: LLVM type and value."""
    if isinstance(a, e.StringImm):
        return TEXT, "ptr", _text(kernel, a.value)
    if isinstance(a, e.BufferView):
        return ARRAY, "ptr", _tensor(kernel, a)
    if a.dtype == "handle":
        return HANDLE, "ptr", _handle(kernel, a)
    if dt.is_float(a.dtype):
        return FLOAT, "double", converted(kernel.out, kernel.value(a), a.dtype, "float64")
    return INT, "i64", converted(kernel.out, kernel.value(a), a.dtype, "int64")


def _handle(kernel: Memory, a: e.PrimExpr) -> str:
    """A pointer: an address, or the start of a buffer's memory."""
    if isinstance(a, e.Var):
        for b, pointer in kernel.memory:
            if b.data is a:
                return pointer
        raise CodegenError(
            f"the handle {a.name}", "no buffer of the kernel has it", "pass a buffer's data"
        )
    return kernel.value(a)


def _tensor(kernel: Memory, view: e.BufferView) -> str:
    """A DLTensor on the stack."""
    out, rank = kernel.out, len(view.shape)
    tensor, shape = _slots(kernel, 6, "i64", "tensor"), _slots(kernel, rank, "i64", "shape")
    strides = _slots(kernel, rank, "i64", "strides") if view.strides else "null"
    for table, parts in ((shape, view.shape), (strides, view.strides)):
        for k, part in enumerate(parts):
            number = kernel.i64(kernel.linear(part))
            out.line(f"store i64 {number}, ptr {_element(kernel, table, 'i64', k)}")
    kind = abi.scalar(view.buffer.dtype)
    word = kind.code | kind.bits << 8 | 1 << 16
    fields = (
        (abi.DL_DATA, "ptr", kernel.pointer(view.buffer, kernel.linear(view.offset))),
        (abi.DL_DEVICE, "i64", str(abi.DL_CPU)),  # and the device's number, 0
        (abi.DL_NDIM, "i32", str(rank)),
        (abi.DL_CODE, "i32", str(word)),
        (abi.DL_SHAPE, "ptr", shape),
        (abi.DL_STRIDES, "ptr", strides),
        (abi.DL_BYTE_OFFSET, "i64", "0"),
    )
    for offset, type_, value in fields:
        at = out.here(f"getelementptr i8, ptr {tensor}, i64 {offset}")
        out.line(f"store {type_} {value}, ptr {at}")
    return tensor


def _returned(kernel: Memory, dtype: str, result: str) -> str:
    """The result in the type that the call has."""
    out = kernel.out
    if dtype == "handle":
        return out.here(f"load ptr, ptr {result}")
    if dt.is_float(dtype):
        return converted(out, out.here(f"load double, ptr {result}"), "float64", dtype)
    return converted(out, out.here(f"load i64, ptr {result}"), "int64", dtype)


def _c_argument(kernel: Memory, a: e.PrimExpr) -> tuple[str, str]:
    """An argument of a C function: LLVM type and value."""
    if isinstance(a, e.StringImm):
        return "ptr", _text(kernel, a.value)
    if isinstance(a, e.BufferView):
        return "ptr", kernel.pointer(a.buffer, kernel.linear(a.offset))
    if a.dtype == "handle":
        return "ptr", _handle(kernel, a)
    kind = ty.type_of(a.dtype)
    if dt.bits(a.dtype) >= 32 or dt.is_float(a.dtype):
        return kind, kernel.value(a)
    return f"{kind} {_extension(a.dtype)}", kernel.value(a)


def _extended(dtype: str, kind: str) -> str:
    """The type of a result: C's callers expect small integers in whole registers."""
    if dtype == "handle" or dt.is_float(dtype) or dt.bits(dtype) >= 32:
        return kind
    return f"{_extension(dtype)} {kind}"


def _extension(dtype: str) -> str:
    return "zeroext" if dt.is_uint(dtype) or dt.is_bool(dtype) else "signext"
