"""The checked entry of a kernel, `i32 name(DLTensor **args, i32 n)`, and its timing loop, as LLVM.

The entry serves C, artifacts and graphs. It returns 0; 1 when the kernel had no memory for an
intermediate buffer; 16 and the number of an assertion of the kernel that does not hold; or a code
that says which check failed and where::

    bits 24..30  the check (CHECKS)      bits 8..23  the argument      bits 0..7  the dimension

:func:`decode` turns a code into an error with the kernel's wishes spelt out.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Container, Sequence
from typing import Protocol

from whet.compiler.abi import layout as abi
from whet.compiler.abi.shape_text import Text, bindings, emit
from whet.compiler.abi.signature import BufferParam, KernelSignature, ScalarParam
from whet.compiler.codegen.symbols import entry_symbol
from whet.compiler.errors import ArgumentError, KernelError, OutOfMemoryError


class Require(Protocol):
    """Ends the entry with a code unless a condition holds."""

    def __call__(self, condition: str, check: str, arg: int = 0, dim: int = 0) -> None: ...


NO_MEMORY = 1
PACKED_RAISED = 2  # a packed function raised; its exception is kept for the kernel's caller
FIRST_ASSERT = 16  # a kernel returns this and the number of the assertion that does not hold
MAX_ASSERT_VALUES = 8
CHECKS = {
    1: "count",
    2: "null",
    3: "device",
    4: "ndim",
    5: "dtype",
    6: "shape",
    7: "strides",
    8: "data",
    9: "alignment",
}
_NUMBER = {name: number for number, name in CHECKS.items()}


def entry_text(sig: KernelSignature, called: Container[str] = ()) -> str:
    """LLVM text of the entry and ``@name__repeat``, to stand behind the raw kernel's text.

    ``called``: the functions that the module calls.
    """
    return checked_text(sig, called) + repeat_text(sig)


def checked_text(sig: KernelSignature, called: Container[str] = ()) -> str:
    """LLVM text of ``i32 @name(ptr args, i32 n)``, or what :func:`entry_symbol` calls it.

    ``args[i]`` points to a DLTensor, or to a scalar's value.
    """
    text = Text()
    failures: list[tuple[int, str]] = []

    def require(condition: str, check: str, arg: int = 0, dim: int = 0) -> None:
        failures.append((_NUMBER[check] << 24 | arg << 8 | dim, text.block))
        following = text.fresh("ok")
        text.do(f"br i1 {condition}, label %{following}, label %fail")
        text.label(following)

    text.label("entry")
    require(text.op(f"icmp eq i32 %n, {len(sig.params)}"), "count")
    pointers = [text.field("%args", 8 * i, "ptr") for i in range(len(sig.params))]
    call: list[str] = []
    dims: dict[int, list[str]] = {}
    for i, p in enumerate(sig.params):
        require(text.op(f"icmp ne ptr {pointers[i]}, null"), "null", i)
        if isinstance(p, BufferParam):
            dims[i] = _header(text, p, pointers[i], i, require)

    values: dict[str, str] = {}
    for name, (i, d) in bindings(sig).items():
        p = sig.params[i]
        values[name] = dims[i][d] if d >= 0 else _as_i64(text, p.dtype, pointers[i])
    for i, p in enumerate(sig.params):
        if isinstance(p, ScalarParam):
            call.append(f"{abi.scalar(p.dtype).llvm} {load_scalar(text, p.dtype, pointers[i])}")
            continue
        for d, dim in enumerate(p.shape):
            wanted = emit(dim, values, text)
            if wanted != dims[i][d]:
                require(text.op(f"icmp eq i64 {dims[i][d]}, {wanted}"), "shape", i, d)
        steps = [emit(step, values, text) for step in p.strides]
        call.append(f"ptr {_data(text, p, pointers[i], i, dims[i], steps, require)}")
    call += [f"i64 {values[s]}" for s in sig.symbols]
    result = text.op(f"call i32 {abi.quoted(sig.name + '__raw')}({', '.join(call)})")
    text.do(f"ret i32 {result}")
    text.label("fail")
    text.do("%code = phi i32 " + ", ".join(f"[ {code}, %{block} ]" for code, block in failures))
    text.do("ret i32 %code")
    body = "\n".join(text.lines)
    # Without optimisation its code is made in two thirds of the time; it runs once a call.
    symbol = abi.quoted(entry_symbol(sig.name, called))
    head = f"define i32 {symbol}(ptr %args, i32 %n) noinline optnone"
    return f"\n{head} {{\n{body}\n}}\n"


def _header(text: Text, p: BufferParam, tensor: str, i: int, require: Require) -> list[str]:
    """Check device, rank and dtype of a DLTensor; its dimensions as i64 values.

    The strides follow where the kernel wants them.
    """
    kind = abi.scalar(p.dtype)
    device = text.field(tensor, abi.DL_DEVICE, "i32")
    require(text.op(f"icmp eq i32 {device}, {abi.DL_CPU}"), "device", i)
    ndim = text.field(tensor, abi.DL_NDIM, "i32")
    require(text.op(f"icmp eq i32 {ndim}, {len(p.shape)}"), "ndim", i)
    word = text.field(tensor, abi.DL_CODE, "i32")  # code, bits and one lane, little-endian
    wanted = kind.code | kind.bits << 8 | 1 << 16
    require(text.op(f"icmp eq i32 {word}, {wanted}"), "dtype", i)
    if not p.shape:
        return []
    shape = text.field(tensor, abi.DL_SHAPE, "ptr")
    require(text.op(f"icmp ne ptr {shape}, null"), "null", i)
    dims = [text.field(shape, 8 * d, "i64") for d in range(len(p.shape))]
    return dims + (_strides(text, tensor, dims) if p.strides else [])


def _strides(text: Text, tensor: str, dims: list[str]) -> list[str]:
    """The strides of a DLTensor, which has none where it is compact."""
    given = text.field(tensor, abi.DL_STRIDES, "ptr")
    none = text.op(f"icmp eq ptr {given}, null")
    cell = text.op(f"alloca [{len(dims)} x i64]")
    step = "1"
    for d in reversed(range(len(dims))):
        text.do(f"store i64 {step}, ptr {text.op(f'getelementptr i64, ptr {cell}, i64 {d}')}")
        step = text.op(f"mul i64 {step}, {dims[d]}")
    table = text.op(f"select i1 {none}, ptr {cell}, ptr {given}")
    return [text.field(table, 8 * d, "i64") for d in range(len(dims))]


def _data(
    text: Text,
    p: BufferParam,
    tensor: str,
    i: int,
    dims: list[str],
    steps: list[str],
    require: Require,
) -> str:
    """Check strides, data and alignment of a DLTensor; the address of its first element."""
    total = "1"
    for dim in dims[: len(p.shape)]:
        total = text.op(f"mul i64 {total}, {dim}")
    empty = text.op(f"icmp eq i64 {total}, 0")
    for d, wanted in enumerate(steps):
        given = dims[len(p.shape) + d]
        if wanted != given:
            same = text.op(f"icmp eq i64 {given}, {wanted}")
            one = text.op(f"icmp eq i64 {dims[d]}, 1")
            free = text.op(f"or i1 {one}, {empty}")
            require(text.op(f"or i1 {same}, {free}"), "strides", i, d)
    if dims and not steps:
        strides = text.field(tensor, abi.DL_STRIDES, "ptr")
        checks, after = text.fresh("strided"), text.fresh("compact")
        text.do(f"br i1 {text.op(f'icmp eq ptr {strides}, null')}, label %{after}, label %{checks}")
        text.label(checks)
        expected = "1"
        for d in reversed(range(len(dims))):
            stride = text.field(strides, 8 * d, "i64")
            same = text.op(f"icmp eq i64 {stride}, {expected}")
            one = text.op(f"icmp eq i64 {dims[d]}, 1")
            free = text.op(f"or i1 {one}, {empty}")
            require(text.op(f"or i1 {same}, {free}"), "strides", i, d)
            expected = text.op(f"mul i64 {expected}, {dims[d]}")
        text.do(f"br label %{after}")
        text.label(after)
    base = text.field(tensor, abi.DL_DATA, "ptr")
    there = text.op(f"icmp ne ptr {base}, null")
    require(text.op(f"or i1 {there}, {empty}"), "data", i)
    offset = text.field(tensor, abi.DL_BYTE_OFFSET, "i64")
    data = text.op(f"getelementptr i8, ptr {base}, i64 {offset}")
    size = abi.scalar(p.dtype).bytes
    if size > 1:
        low = text.op(f"and i64 {text.op(f'ptrtoint ptr {data} to i64')}, {size - 1}")
        require(text.op(f"icmp eq i64 {low}, 0"), "alignment", i)
    return data


def load_scalar(text: Text, dtype: str, pointer: str) -> str:
    """Load a scalar argument in the raw kernel's type from memory of any alignment."""
    kind = abi.scalar(dtype)
    value = text.op(f"load {kind.memory}, ptr {pointer}, align 1")
    return text.op(f"icmp ne i8 {value}, 0") if dtype == "bool" else value


def _as_i64(text: Text, dtype: str, pointer: str) -> str:
    kind = abi.scalar(dtype)
    value = text.op(f"load {kind.memory}, ptr {pointer}, align 1")
    if kind.bits == 64:
        return value
    widen = "zext" if dtype.startswith("u") else "sext"
    return text.op(f"{widen} {kind.memory} {value} to i64")


def repeat_text(sig: KernelSignature) -> str:
    """LLVM text of ``i32 @name__repeat(i64 number, ptr argv)``.

    It calls the raw kernel ``number`` times with no check and ends with the first result that is
    not 0. ``argv`` has 8 bytes a slot in the raw kernel's order: pointers, scalars in their own
    type at the slot's start, i64 symbols. Timing, and Python calls, need no more than this of a
    kernel's module: the checked entry is for other callers.
    """
    text = Text()
    text.label("entry")
    call: list[str] = []
    for i, p in enumerate(sig.params):
        if isinstance(p, BufferParam):
            call.append(f"ptr {text.field('%argv', 8 * i, 'ptr')}")
        else:
            at = text.op(f"getelementptr i8, ptr %argv, i64 {8 * i}")
            call.append(f"{abi.scalar(p.dtype).llvm} {load_scalar(text, p.dtype, at)}")
    for j in range(len(sig.symbols)):
        call.append(f"i64 {text.field('%argv', 8 * (len(sig.params) + j), 'i64')}")
    loads = "\n".join(text.lines)
    raw = abi.quoted(sig.name + "__raw")
    return f"""
define i32 {abi.quoted(sig.name + "__repeat")}(i64 %number, ptr %argv) {{
{loads}
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


def assert_values(sig: KernelSignature, code: int, address_of: Callable[[str], int]) -> list[int]:
    """The numbers that the message of a failed assertion names; none for another result."""
    if not FIRST_ASSERT <= code < FIRST_ASSERT + len(sig.asserts):
        return []
    held = (ctypes.c_int64 * MAX_ASSERT_VALUES).from_address(
        address_of(f"{sig.name}__assert_values")
    )
    return list(held)


def decode(sig: KernelSignature, code: int, values: Sequence[int] = ()) -> BaseException | None:
    """The error that a result of the entry means, or None for 0.

    ``values`` are those of :func:`assert_values`.
    """
    if code == 0:
        return None
    if code == NO_MEMORY:
        return OutOfMemoryError(
            f"{sig.name}()",
            "there is no memory for an intermediate buffer",
            "compute it inside the loops that read it (compute_at), or take smaller arrays",
        )
    if code == PACKED_RAISED:
        from whet.compiler.runtime.packed import take_raised

        return take_raised(sig.name)
    if FIRST_ASSERT <= code < FIRST_ASSERT + len(sig.asserts):
        message = sig.asserts[code - FIRST_ASSERT]
        return KernelError(f"{sig.name}()", message.format(*values) if values else message)
    check, arg, dim = CHECKS.get(code >> 24, "?"), code >> 8 & 0xFFFF, code & 0xFF
    if check == "count":
        return ArgumentError(
            f"{sig.name}()",
            f"it takes {len(sig.params)} arguments: num_args should be {len(sig.params)}",
            wants_all(sig),
        )
    if check == "?" or arg >= len(sig.params):
        return ArgumentError(f"{sig.name}()", f"the kernel returned the unknown code {code}")
    p = sig.params[arg]
    why = _reason(p, check, arg, dim)
    return ArgumentError(f"{sig.name}(), argument {arg} ({p.name})", why, "wanted: " + wants(p))


def _reason(p: BufferParam | ScalarParam, check: str, arg: int, dim: int) -> str:
    """Why a check of an argument failed, with TVM's words for what was expected."""
    if check == "null" or isinstance(p, ScalarParam):
        what = "a pointer" if isinstance(p, BufferParam) else f"a pointer to its {p.dtype}"
        return f"it is a null pointer: expect arg[{arg}] to be {what}"
    strides = (
        f"it is not compact: the stride of dimension {dim} is not the row-major one: "
        f"{p.name}.strides: expected to be compact array"
    )
    if p.strides:
        strides = f"{p.name}.strides[{dim}] is expected to equal {p.strides[dim]}"
    extent = p.shape[dim] if dim < len(p.shape) else "?"
    return {
        "device": f"its memory is not on the CPU: {p.name}.device_type is expected to be 1",
        "ndim": "it has another number of dimensions: "
        f"{p.name}.ndim is expected to equal {len(p.shape)}",
        "dtype": f"it has another dtype: {p.name}.dtype is expected to be {p.dtype}",
        "shape": f"dimension {dim} has another extent: "
        f"{p.name}.shape[{dim}] is expected to equal {extent}",
        "strides": strides,
        "data": "it has elements but no data",
        "alignment": "its data is not aligned to the size of an element",
    }[check]


def wants(p: BufferParam | ScalarParam) -> str:
    """What a parameter takes, in words."""
    if isinstance(p, ScalarParam):
        return f"a number ({p.dtype})"
    layout = f"strides {tuple_text(p.strides)}" if p.strides else "row-major"
    written = ", written to" if p.written else ""
    return f"{p.dtype} array of shape {tuple_text(p.shape)}, {layout}{written}"


def tuple_text(parts: Sequence[int | str]) -> str:
    """``(n, 3)``; with names bare."""
    return "(" + ", ".join(map(str, parts)) + ("," if len(parts) == 1 else "") + ")"


def wants_all(sig: KernelSignature) -> str:
    """What each parameter of a kernel takes, a line each."""
    return "\n".join(f"argument {i} ({p.name}): {wants(p)}" for i, p in enumerate(sig.params))
