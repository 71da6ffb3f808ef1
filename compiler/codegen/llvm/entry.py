"""The checked entry of a kernel and its timing loop, ``name__repeat``, as LLVM text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from whet.compiler.abi import entry, layout
from whet.compiler.abi.signature import BufferParam, KernelSignature
from whet.compiler.codegen.llvm import types as ty
from whet.compiler.tir import expr as e

if TYPE_CHECKING:
    from whet.compiler.codegen.llvm.memory import Memory

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


def _argument(kernel: Memory, n: e.Call) -> str:
    """A property of an argument of the entry."""
    place, what, dim = (a.value for a in n.args[:3])  # type: ignore[attr-defined]
    out, pointer = kernel.out, _field(kernel, "%args", 8 * place, "ptr")
    if what == "null":
        return out.pure(f"icmp eq ptr {pointer}, null", pointer)
    if what == "value":
        value = out.load(f"load {layout.scalar(n.dtype).memory}, ptr {pointer}, align 1", pointer)
        return out.pure(f"icmp ne i8 {value}, 0", value) if n.dtype == "bool" else value

    def field(name: str) -> str:
        return _field(kernel, pointer, *_FIELDS[name])

    if what.endswith("_null"):
        table = field(what.removesuffix("_null"))
        return out.pure(f"icmp eq ptr {table}, null", table)
    if what in ("shape", "strides"):
        return _field(kernel, field(what), 8 * dim, "i64")
    if what == "step":  # the compact array's stands on the stack
        cell, strides = out.fresh("step"), field("strides")
        out.allocas.append(f"  {cell} = alloca i64")
        out.line(f"store i64 {kernel.value(n.args[3])}, ptr {cell}")
        at = out.pure(f"getelementptr i8, ptr {strides}, i64 {8 * dim}", strides)
        none = out.pure(f"icmp eq ptr {strides}, null", strides)
        return out.here(f"load i64, ptr {out.here(f'select i1 {none}, ptr {cell}, ptr {at}')}")
    if what not in ("data", "address"):
        return field(what)
    base, offset = field("data"), field("byte_offset")
    data = out.pure(f"getelementptr i8, ptr {base}, i64 {offset}", base, offset)
    return data if what == "data" else out.pure(f"ptrtoint ptr {data} to i64", data)


def _field(kernel: Memory, pointer: str, offset: int, kind: str) -> str:
    out = kernel.out
    at = out.pure(f"getelementptr i8, ptr {pointer}, i64 {offset}", pointer) if offset else pointer
    return out.load(f"load {kind}, ptr {at}", at)


def _return_code(kernel: Memory, n: e.Call) -> str:
    kernel.fail(kernel.value(n.args[0]))
    return "0"


def _call_kernel(kernel: Memory, n: e.Call) -> str:
    name, *args = n.args
    types = ["ptr" if a.dtype == "handle" else ty.type_of(a.dtype) for a in args]
    passed = ", ".join(f"{kind} {kernel.value(a)}" for kind, a in zip(types, args))
    return kernel.out.here(f"call i32 {layout.quoted(name.value + '__raw')}({passed})")  # type: ignore[attr-defined]


CALLS: dict[str, Callable[[Memory, e.Call], str]] = {
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
            kind = layout.scalar(p.dtype)
            number = value(f"load {kind.memory}, ptr {slot}, align 1")
            number = value(f"icmp ne i8 {number}, 0") if p.dtype == "bool" else number
            call.append(f"{kind.llvm} {number}")
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
