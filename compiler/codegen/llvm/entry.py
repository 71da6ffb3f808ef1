"""The checked entry of a kernel and its timing loop, ``name__repeat``, as LLVM text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from whet.compiler.abi import entry, layout
from whet.compiler.abi.signature import BufferParam, KernelSignature
from whet.compiler.codegen.llvm.text import types as ty
from whet.compiler.tir.expr import Call

if TYPE_CHECKING:
    from whet.compiler.codegen.llvm.expressions import Expressions

# property of a tensor -> its offset in a DLTensor, and its type
_FIELDS = {
    "device_type": (layout.DL_DEVICE, "i32"),
    "ndim": (layout.DL_NDIM, "i32"),
    "dtype": (layout.DL_CODE, "i32"),
    "byte_offset": (layout.DL_BYTE_OFFSET, "i64"),
    "data": (layout.DL_DATA, "ptr"),
    "shape": (layout.DL_SHAPE, "ptr"),
    "strides": (layout.DL_STRIDES, "ptr"),
}


def _argument(x: Expressions, n: Call) -> str:
    """A property of an argument of the entry."""
    place, what, dim = (a.value for a in n.args[:3])  # type: ignore[attr-defined]
    out = x.out

    def at(pointer: str, offset: int, kind: str) -> str:
        p = out.offset(pointer, offset) if offset else pointer
        return out.load(f"load {kind}, ptr {p}", p)

    def field(name: str) -> str:
        return at(pointer, *_FIELDS[name])

    pointer = at("%args", 8 * place, "ptr")
    if what == "null":
        return out.op("icmp eq", "ptr", pointer, "null")
    if what == "value":
        value = out.load(f"load {ty.memory_type(n.dtype)}, ptr {pointer}, align 1", pointer)
        return out.op("icmp ne", "i8", value, "0") if n.dtype == "bool" else value
    if what.endswith("_null"):
        return out.op("icmp eq", "ptr", field(what.removesuffix("_null")), "null")
    if what in ("shape", "strides"):
        return at(field(what), 8 * dim, "i64")
    if what == "step":  # the compact array's stands on the stack
        cell, strides = out.slot("i64", "step"), field("strides")
        out.line(f"store i64 {x.value(n.args[3])}, ptr {cell}")
        stride = out.offset(strides, 8 * dim)
        none = out.op("icmp eq", "ptr", strides, "null")
        return out.here(f"load i64, ptr {out.here(f'select i1 {none}, ptr {cell}, ptr {stride}')}")
    if what not in ("data", "address"):
        return field(what)
    data = out.offset(field("data"), field("byte_offset"))
    return data if what == "data" else out.cast("ptrtoint", "ptr", data, "i64")


def _return_code(x: Expressions, n: Call) -> str:
    x.scope.fail(x.value(n.args[0]))
    return "0"


def _call_kernel(x: Expressions, n: Call) -> str:
    name, *args = n.args
    types = ["ptr" if a.dtype == "handle" else ty.type_of(a.dtype) for a in args]
    passed = ", ".join(f"{kind} {x.value(a)}" for kind, a in zip(types, args))
    return x.out.here(f"call i32 {layout.quoted(name.value + '__raw')}({passed})")  # type: ignore[attr-defined]


CALLS: dict[str, Callable[[Expressions, Call], str]] = {
    entry.ARGUMENT: _argument,
    entry.RETURN: _return_code,
    entry.CALL_KERNEL: _call_kernel,
}
"""The operations of the entry."""


def repeat_text(sig: KernelSignature) -> str:
    """LLVM text of ``i32 @name__repeat(i64 number, ptr argv)``.

    It calls the raw kernel ``number`` times with no check and ends with the first result that is
    not 0. ``argv`` has 8 bytes a slot in the raw kernel's order: pointers, scalars in their own
    type at the slot's start, i64 symbols. Timing, and Python calls, need no more than this of a
    kernel's module: the checked entry is for other callers.
    """
    loads: list[str] = []
    call: list[str] = []

    def value(text: str) -> str:
        loads.append(f"  %v{len(loads) + 1} = {text}")
        return f"%v{len(loads)}"

    for i, p in enumerate((*sig.params, *sig.symbols)):
        slot = value(f"getelementptr i8, ptr %argv, i64 {8 * i}") if i else "%argv"
        if isinstance(p, BufferParam):
            call.append(f"ptr {value(f'load ptr, ptr {slot}')}")
        elif isinstance(p, str):
            call.append(f"i64 {value(f'load i64, ptr {slot}')}")
        else:
            number = value(f"load {ty.memory_type(p.dtype)}, ptr {slot}, align 1")
            number = value(f"icmp ne i8 {number}, 0") if p.dtype == "bool" else number
            call.append(f"{ty.type_of(p.dtype)} {number}")
    entry_lines = "\n".join(["entry:", *loads])
    raw = layout.quoted(sig.name + "__raw")
    return f"""
define i32 {layout.quoted(sig.name + "__repeat")}(i64 %number, ptr %argv) {{
{entry_lines}
  %any = icmp sgt i64 %number, 0
  br i1 %any, label %loop, label %done
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %again ]
  %result = call i32 {raw}({", ".join(call)})
  %good = icmp eq i32 %result, 0
  br i1 %good, label %again, label %bad
again:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %number
  br i1 %more, label %loop, label %done
bad:
  ret i32 %result
done:
  ret i32 0
}}
"""
