"""Calls of functions outside the generated code: packed functions, C functions, addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from whet.compiler.abi import layout as abi
from whet.compiler.abi.checks import PACKED_RAISED
from whet.compiler.abi.packed_call import ARRAY, FLOAT, HANDLE, TEXT
from whet.compiler.codegen.c import entry
from whet.compiler.codegen.c.functions import SHORT_FLOATS
from whet.compiler.codegen.c.names import DECLARED, RESERVED, identifier
from whet.compiler.codegen.c.precedence import ATOM, EQUAL, UNARY, Text
from whet.compiler.codegen.c_library import is_of_the_library
from whet.compiler.codegen.outside import (
    ADDRESSES,
    EXTERNS,
    callee,
    element_of,
    memory_of,
    prefetch_hints,
    result_code,
    type_code,
)
from whet.compiler.errors import CodegenError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import BufferView, Call, PrimExpr, StringImm, Var

if TYPE_CHECKING:
    from whet.compiler.codegen.c.kernel import CKernel

TENSOR = """/* DLPack's description of an array. */
typedef struct {
    void *data;
    int32_t device_type, device_id, ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} whet_tensor;
"""
_VALUE = """/* An argument or a result of a packed function. */
typedef union { int64_t number; double real; const void *pointer; } whet_value;
int32_t whet_call_packed(const char *name, const whet_value *args, const int32_t *codes, int32_t n,
                         whet_value *result, int32_t *result_code);
"""
_PREFETCH = """/* A hint; the address may be outside of the array. */
#ifdef __GNUC__
#define WHET_PREFETCH(address, write, locality) \\
    __builtin_prefetch((const void *)(address), write, locality)
#else
#define WHET_PREFETCH(address, write, locality) ((void)0)
#endif
"""


def call_out(k: CKernel, n: Call, used: bool = True) -> Text | None:
    """A call that leaves the generated code; None for another one."""
    if n.op in entry.CALLS:
        return entry.CALLS[n.op](k, n)
    if n.op in ADDRESSES:
        first = element_of(n)
        return f"(void *)&{k.expressions.indices.element(first.buffer, first.indices)}", UNARY
    if n.op == "prefetch":
        return _prefetch(k, n)
    if n.op == "call_packed":
        return _packed(k, n, used)
    return _extern(k, n) if n.op in EXTERNS else None


def _prefetch(k: CKernel, n: Call) -> Text:
    """A prefetch; its address, which may be outside of the array, is no pointer's arithmetic."""
    write, locality, _ = prefetch_hints(n)
    k.declared[_PREFETCH] = None
    if isinstance(n.args[0], Call) and n.args[0].op in ADDRESSES:
        first = element_of(n.args[0])
        item = f"sizeof(*{k.pointer(first.buffer)})"
        offset = f"(uintptr_t){k.index(first.indices[0], UNARY)} * {item}"
        address = f"(uintptr_t){k.pointer(first.buffer)} + {offset}"
    else:
        address = _handle(k, n.args[0])
    return f"WHET_PREFETCH({address}, {write}, {locality})", ATOM


def _packed(k: CKernel, n: Call, used: bool) -> Text:
    name, args = callee(n)
    k.declared[TENSOR] = k.declared[_VALUE] = None
    values, codes = k.names.fresh("args"), k.names.fresh("codes")
    result, kind = k.names.fresh("result"), k.names.fresh("result_code")
    count = max(len(args), 1)
    k.line(f"whet_value {values}[{count}], {result} = {{0}};")
    given = [_marshalled(k, a, type_code(a)) for a in args]
    numbers = ", ".join(str(type_code(a)) for a in args) or "0"
    k.line(f"const int32_t {codes}[{count}] = {{{numbers}}};")
    k.line(f"int32_t {kind} = {result_code(n, used)};")
    for i, (member, text) in enumerate(given):
        k.line(f"{values}[{i}].{member} = {text};")
    if not args:
        k.line(f"{values}[0].number = 0;")
    call = f"whet_call_packed({c_string(name)}, {values}, {codes}, {len(args)}, &{result}, &{kind})"
    k.leave_if(f"{call} != 0", str(PACKED_RAISED))
    return _returned(k, n.dtype, result)


def _returned(k: CKernel, dtype: str, result: str) -> Text:
    if dtype == "handle":
        return f"(void *){result}.pointer", UNARY
    if dt.is_bool(dtype):
        return f"{result}.number != 0", EQUAL
    member = "real" if dt.is_float(dtype) else "number"
    if dtype in SHORT_FLOATS:
        return k.d.rounded(f"(float){result}.real", dtype, k.use), ATOM
    return f"({k.d.value_type(dtype)}){result}.{member}", UNARY


def _marshalled(k: CKernel, a: PrimExpr, code: int) -> tuple[str, str]:
    """The member of an argument's slot, and what is stored there."""
    if code in _POINTERS:
        return "pointer", _POINTERS[code](k, a)
    if code == FLOAT:
        return "real", k.value(a)
    return "number", f"(int64_t){k.value(a, UNARY)}"


def _tensor(k: CKernel, view: BufferView) -> str:
    """A DLTensor in a variable; its name."""
    name = k.names.fresh(f"{identifier(view.buffer.name)}_array")
    tables = []
    for word, parts in (("shape", view.shape), ("strides", view.strides)):
        table = k.names.fresh(f"{name}_{word}") if parts else "NULL"
        if parts:
            numbers = ", ".join(k.index(p) for p in parts)
            k.line(f"int64_t {table}[{len(parts)}] = {{{numbers}}};")
        tables.append(table)
    kind = abi.scalar(view.buffer.dtype)
    data = f"(void *)({k.pointer(view.buffer)} + {k.index(view.offset, 13)})"
    fields = f"{data}, {abi.DL_CPU}, 0, {len(view.shape)}, {kind.code}, {kind.bits}, 1"
    k.line(f"whet_tensor {name} = {{{fields}, {tables[0]}, {tables[1]}, 0}};")
    return name


def _handle(k: CKernel, a: PrimExpr) -> str:
    """A pointer: an address, or the start of a buffer's memory."""
    if not isinstance(a, Var) or a in k.values:
        return k.value(a)
    return f"(void *){k.pointer(memory_of(a, ((b, b) for b in k.memory)))}"


_POINTERS: dict[int, Callable[[CKernel, Any], str]] = {
    TEXT: lambda k, a: c_string(a.value),
    ARRAY: lambda k, a: "&" + _tensor(k, a),
    HANDLE: _handle,
}
"""Code of an argument -> what writes the pointer to it."""


def _extern(k: CKernel, n: Call) -> Text:
    name, args = callee(n)
    if name != identifier(name):
        raise CodegenError(f"call_extern({name!r})", "this is no name of a C function")
    given = [_c_argument(k, a) for a in args]
    result = k.d.memory_type(n.dtype)
    if n.dtype in SHORT_FLOATS:
        raise CodegenError(f"call_extern({name!r})", f"C99 functions return no {n.dtype}")
    inside = _declared(k, name, result, [kind for kind, _ in given])
    text = f"{inside}({', '.join(value for _, value in given)})"
    return (f"{text} != 0", EQUAL) if dt.is_bool(n.dtype) else (text, ATOM)


def _declared(k: CKernel, name: str, result: str, kinds: list[str]) -> str:
    """The name in the text of a C function, which is declared once.

    The headers may declare functions of C's library with other types than a call has: they get
    names of their own here, for their symbols.
    """
    params = ", ".join(kinds) or "void"
    if name in DECLARED:
        return name
    if not is_of_the_library(name) and name not in RESERVED:
        k.externs.setdefault(name, f"extern {result} {name}({params});")
        return name
    inside = f"whet_c_{name}"
    symbol = f'#ifdef __GNUC__\nextern {result} {inside}({params}) __asm__("{name}");'
    k.externs.setdefault(name, f"{symbol}\n#else\n#define {inside} {name}\n#endif")
    return inside


def _c_argument(k: CKernel, a: PrimExpr) -> tuple[str, str]:
    """An argument of a C function: type and value."""
    if isinstance(a, StringImm):
        return "const char *", c_string(a.value)
    if isinstance(a, BufferView):
        return "void *", f"(void *)({k.pointer(a.buffer)} + {k.index(a.offset, 13)})"
    if a.dtype == "handle":
        return "void *", _handle(k, a)
    if a.dtype in SHORT_FLOATS:
        raise CodegenError("call_extern", f"C99 passes no {a.dtype}", "cast it to float32")
    return k.d.memory_type(a.dtype), k.value(a)


def c_string(text: str) -> str:
    """A string constant."""
    quoted = (
        chr(byte) if 32 <= byte < 127 and byte not in b'"\\?' else f"\\{byte:03o}"
        for byte in text.encode()
    )
    return '"' + "".join(quoted) + '"'
