"""The checked entry of a kernel, its timing loop and its release, as C: what LLVM code has, too.

``int32_t name(void *args, int32_t n)`` takes an array of pointers to DLTensors and scalars and
returns what the kernel returns, or the code of the first check that fails: the check's number in
the bits from 24 on, the argument's from 8 on, the dimension below.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Mapping

from whet.compiler.abi import layout as abi
from whet.compiler.abi.shape_text import bindings
from whet.compiler.abi.signature import BufferParam, KernelSignature, ScalarParam
from whet.compiler.codegen.c.functions import Functions
from whet.compiler.codegen.c.names import is_kept
from whet.compiler.codegen.llvm.entry.checked_entry import CHECKS
from whet.compiler.codegen.symbols import entry_symbol
from whet.compiler.errors import CodegenError

_NUMBER = {name: number for number, name in CHECKS.items()}

_HEADER = """/* 0, or the code of the first check that an array's device, rank or dtype fails. */
static int32_t whet_check_header(const whet_tensor *t, int32_t arg, int32_t ndim, int code,
                                 int bits)
{
    if (t->device_type != CPU) return DEVICE | arg << 8;
    if (t->ndim != ndim) return NDIM | arg << 8;
    if (t->code != code || t->bits != bits || t->lanes != 1) return DTYPE | arg << 8;
    if (ndim > 0 && t->shape == NULL) return NULLS | arg << 8;
    return 0;
}"""
_DATA = """static inline int64_t whet_count(const whet_tensor *t)
{
    int64_t count = 1;
    int32_t d;
    for (d = 0; d < t->ndim; ++d) count *= t->shape[d];
    return count;
}

/* A step in elements; an array without strides is compact. */
static inline int64_t whet_stride(const whet_tensor *t, int32_t which)
{
    int64_t step = 1;
    int32_t d;
    if (t->strides != NULL) return t->strides[which];
    for (d = t->ndim - 1; d > which; --d) step *= t->shape[d];
    return step;
}

/* 0, or the code of the first check that an array's strides, data or alignment fails. */
static int32_t whet_check_data(const whet_tensor *t, int32_t arg, uint64_t size, int compact)
{
    int64_t count = whet_count(t), step = 1;
    int32_t d;
    for (d = t->ndim - 1; compact && t->strides != NULL && d >= 0; --d) {
        if (t->strides[d] != step && t->shape[d] != 1 && count != 0) return STRIDES | arg << 8 | d;
        step *= t->shape[d];
    }
    if (t->data == NULL && count != 0) return DATA | arg << 8;
    if (((uintptr_t)t->data + t->byte_offset) % size != 0) return ALIGNMENT | arg << 8;
    return 0;
}"""


def checks_text() -> str:
    """The checks that all entries of a text share."""
    text = f"{_HEADER}\n\n{_DATA}".replace("CPU", str(abi.DL_CPU))
    for name, word in (("null", "NULLS"), *((n, n.upper()) for n in _NUMBER if n != "null")):
        text = text.replace(f"return {word} ", f"return {_code(name)} ")
    return text


def _code(check: str, arg: int = 0, dim: int = 0) -> str:
    return f"0x{_NUMBER[check] << 24 | arg << 8 | dim:x}"


def entry_text(sig: KernelSignature, use: Functions, called: Container[str] = ()) -> str:
    """The entry, ``name__repeat`` and ``name__release``; ``called``: what the text calls."""
    release = [
        "/* Nothing is kept between calls. */",
        f"void {sig.name}__release(void);",
        f"void {sig.name}__release(void)",
        "{",
        "}",
    ]
    return "\n\n".join((_checked(sig, use, called), _repeat(sig), "\n".join(release)))


def _checked(sig: KernelSignature, use: Functions, called: Container[str]) -> str:
    body: list[str] = [f"    if (n != {len(sig.params)}) return {_code('count')};"]
    tensors = [i for i, p in enumerate(sig.params) if isinstance(p, BufferParam)]
    for i, p in enumerate(sig.params):
        body.append(f"    if (arg[{i}] == NULL) return {_code('null', i)};")
        if isinstance(p, BufferParam):
            kind = abi.scalar(p.dtype)
            check = f"whet_check_header(t{i}, {i}, {len(p.shape)}, {kind.code}, {kind.bits})"
            body.append(f"    if ((code = {check}) != 0) return code;")
    values: dict[str, str] = {}
    for k, (name, (i, d)) in enumerate(bindings(sig).items()):
        p = sig.params[i]
        source = f"(int64_t)x{i}" if isinstance(p, ScalarParam) else _size(p, i, d)
        if d < 0:
            body.append(f"    memcpy(&x{i}, arg[{i}], sizeof x{i});")
        body.append(f"    s{k} = {source};  /* {name} */")
        values[name] = f"s{k}"
    call: list[str] = []
    for i, p in enumerate(sig.params):
        if isinstance(p, ScalarParam):
            body.append(f"    memcpy(&x{i}, arg[{i}], sizeof x{i});")
            call.append(f"x{i}")
            continue
        for d, dim in enumerate(p.shape):
            wanted = _dimension(dim, values, use)
            body.append(f"    if (t{i}->shape[{d}] != {wanted}) return {_code('shape', i, d)};")
        for d, step in enumerate(p.strides):
            differs = f"{_size(p, i, len(p.shape) + d)} != {_dimension(step, values, use)}"
            free = f"t{i}->shape[{d}] != 1 && whet_count(t{i}) != 0"
            body.append(f"    if ({differs} && {free}) return {_code('strides', i, d)};")
        compact = 0 if p.strides else 1
        check = f"whet_check_data(t{i}, {i}, {abi.scalar(p.dtype).bytes}, {compact})"
        body.append(f"    if ((code = {check}) != 0) return code;")
        call.append(f"(void *)((char *)t{i}->data + t{i}->byte_offset)")
    call += [values[s] for s in sig.symbols]
    declared = ["    void **arg = args;"]
    declared += [f"    whet_tensor *t{i} = n > {i} ? arg[{i}] : NULL;" for i in tensors]
    declared += [
        f"    {_scalar(p)} x{i};" for i, p in enumerate(sig.params) if isinstance(p, ScalarParam)
    ]
    if values:
        declared.append(f"    int64_t {', '.join(values.values())};")
    if tensors:
        declared.append("    int32_t code;")
    if not sig.params:
        declared = ["    (void)args;"]
    body.append(f"    return {sig.name}__raw({', '.join(call)});")
    return "\n".join([*_head(sig, called), "{", *declared, *body, "}"])


def _size(p: BufferParam, i: int, d: int) -> str:
    """A dimension of an array; behind the dimensions, a stride."""
    if d < len(p.shape):
        return f"t{i}->shape[{d}]"
    return f"whet_stride(t{i}, {d - len(p.shape)})"


def _head(sig: KernelSignature, called: Container[str]) -> list[str]:
    """The entry's first lines; a word that C keeps for itself is only a symbol."""
    name = entry_symbol(sig.name, called)
    first = "/* The kernel behind checks of all that it is given. */"
    if not is_kept(name):
        return [
            first,
            f"int32_t {name}(void *args, int32_t n);",
            f"int32_t {name}(void *args, int32_t n)",
        ]
    inside = f"whet_entry_of_{name}"
    return [
        first,
        "#ifdef __GNUC__  /* C keeps this name for itself: the symbol has it all the same */",
        f'int32_t {inside}(void *args, int32_t n) __asm__("{name}");',
        "#else",
        f"int32_t {inside}(void *args, int32_t n);",
        "#endif",
        f"int32_t {inside}(void *args, int32_t n)",
    ]


def _scalar(p: ScalarParam) -> str:
    return {"float32": "float", "float64": "double", "bool": "uint8_t"}.get(p.dtype, f"{p.dtype}_t")


def _repeat(sig: KernelSignature) -> str:
    body: list[str] = []
    call: list[str] = []
    for i, p in enumerate(sig.params):
        if isinstance(p, BufferParam):
            call.append(f"slot[{i}]")
        else:
            body += [f"    {_scalar(p)} x{i};"]
            call.append(f"x{i}")
    for j in range(len(sig.symbols)):
        body.append(f"    int64_t s{j};")
        call.append(f"s{j}")
    names = [(i, f"x{i}") for i, p in enumerate(sig.params) if isinstance(p, ScalarParam)]
    names += [(len(sig.params) + j, f"s{j}") for j in range(len(sig.symbols))]
    loads = [f"    memcpy(&{name}, slot + {at}, sizeof {name});" for at, name in names]
    head = f"int32_t {sig.name}__repeat(int64_t number, void *argv)"
    first = "    void **slot = argv;" if call else "    (void)argv;"
    return "\n".join(
        [
            "/* The kernel again and again, with no checks: for timing. Eight bytes a slot. */",
            f"{head};",
            head,
            "{",
            first,
            *body,
            "    int32_t result = 0;",
            *loads,
            "    for (; number > 0 && result == 0; --number)",
            f"        result = {sig.name}__raw({', '.join(call)});",
            "    return result;",
            "}",
        ]
    )


def _dimension(dim: int | str, values: Mapping[str, str], use: Functions) -> str:
    """A dimension as a C expression of type int64_t."""
    if isinstance(dim, int):
        return f"INT64_C({dim})" if dim >= 1 << 31 else str(dim)

    def go(n: ast.expr) -> str:
        match n:
            case ast.Constant(value=int(value)):
                return f"INT64_C({value})"
            case ast.Name(id=name) if name in values:
                return values[name]
            case ast.UnaryOp(op=ast.USub(), operand=x):
                return f"-{go(x)}"
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() as op, right=right):
                symbol = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}[type(op)]
                return f"({go(left)} {symbol} {go(right)})"
            case ast.BinOp(left=left, op=ast.FloorDiv() | ast.Mod() as op, right=right):
                name = use.get("floordiv" if isinstance(op, ast.FloorDiv) else "floormod", "int64")
                b = go(right)
                return (
                    f"{name}({go(left)}, {b})"
                    if b[-1] == ")" and b[0] == "I"
                    else f"{name}({go(left)}, {b} == 0 ? 1 : {b})"
                )
            case ast.Call(func=ast.Name(id=("min" | "max") as which), args=args) if args:
                name, out = use.get(which, "int64"), go(args[0])
                for x in args[1:]:
                    out = f"{name}({out}, {go(x)})"
                return out
        raise CodegenError(
            f"the dimension {dim!r}",
            f"{ast.unparse(n)!r} is not a symbol or an operation that a shape can hold",
            "operations: + - * // % min max",
        )

    return go(ast.parse(dim, mode="eval").body)
