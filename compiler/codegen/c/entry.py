"""The checked entry of a kernel, its timing loop and its release, as C: what LLVM code has, too."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING

from whet.compiler.abi import entry
from whet.compiler.abi.signature import BufferParam, KernelSignature
from whet.compiler.codegen.c.names import is_kept
from whet.compiler.codegen.c.precedence import ATOM, CHOICE, EQUAL, UNARY, Text
from whet.compiler.codegen.symbols import entry_symbol
from whet.compiler.tir.expr import Call, IntImm

if TYPE_CHECKING:
    from whet.compiler.codegen.c.kernel import CKernel

# property of an argument -> its text, and how tightly that binds
_PROPERTIES: dict[str, Text] = {
    "null": ("tensor[{i}] == NULL", EQUAL),
    "device_type": ("tensor[{i}]->device_type", ATOM),
    "ndim": ("tensor[{i}]->ndim", ATOM),
    "dtype": (
        "tensor[{i}]->code | tensor[{i}]->bits << 8 | (uint32_t)tensor[{i}]->lanes << 16",
        CHOICE,
    ),
    "shape": ("tensor[{i}]->shape[{d}]", ATOM),
    "strides": ("tensor[{i}]->strides[{d}]", ATOM),
    "shape_null": ("tensor[{i}]->shape == NULL", EQUAL),
    "strides_null": ("tensor[{i}]->strides == NULL", EQUAL),
    "data_null": ("tensor[{i}]->data == NULL", EQUAL),
    "address": ("((uintptr_t)tensor[{i}]->data + tensor[{i}]->byte_offset)", ATOM),
    "data": ("(void *)((char *)tensor[{i}]->data + tensor[{i}]->byte_offset)", UNARY),
}


def _argument(k: CKernel, n: Call) -> Text:
    """A property of an argument of the entry."""
    i, what, d = (a.value for a in n.args[:3])  # type: ignore[attr-defined]
    if what == "value":
        value = f"{k.use.unaligned(n.dtype)}(tensor[{i}])"
        return (f"{value} != 0", EQUAL) if n.dtype == "bool" else (value, ATOM)
    if what == "step":
        given = f"tensor[{i}]->strides"
        return f"{given} == NULL ? {k.value(n.args[3])} : {given}[{d}]", CHOICE
    text, binds = _PROPERTIES[what]
    return text.format(i=i, d=d), binds


def _return_code(k: CKernel, n: Call) -> Text:
    code = n.args[0]
    k.line(f"return {f'0x{code.value:x}' if isinstance(code, IntImm) else k.value(code)};")
    return "", ATOM


def _call_kernel(k: CKernel, n: Call) -> Text:
    name, *args = n.args
    return f"{name.value}__raw({', '.join(map(k.value, args))})", ATOM  # type: ignore[attr-defined]


CALLS: dict[str, Callable[[CKernel, Call], Text]] = {
    entry.ARGUMENT: _argument,
    entry.RETURN: _return_code,
    entry.CALL_KERNEL: _call_kernel,
}
"""The operations of the entry."""


def entry_text(kernel: CKernel, called: Container[str] = ()) -> str:
    """The entry that a writer was made for, ``name__repeat`` and ``name__release``.

    Args:
        kernel: the writer of :func:`~whet.compiler.abi.entry.entry_function`.
        called: the functions that the module calls.
    """
    sig, (_, n) = kernel.signature, kernel.func.params
    kernel.values[n] = "n"  # type: ignore[index]
    kernel.statements.statement(kernel.func.body)
    first = "    whet_tensor **tensor = args;" if sig.params else "    (void)args;"
    release = [
        "/* Nothing is kept between calls. */",
        f"void {sig.name}__release(void);",
        f"void {sig.name}__release(void)",
        "{",
        "}",
    ]
    checked = [*_head(sig, called), "{", first, *kernel.scope.lines, "}"]
    return "\n\n".join("\n".join(part) for part in (checked, _repeat(kernel), release))


def _head(sig: KernelSignature, called: Container[str]) -> list[str]:
    """The entry's first lines; a word that C keeps for itself is only a symbol."""
    name = entry_symbol(sig.name, called)
    inside = f"whet_entry_of_{name}" if is_kept(name) else name
    head = f"int32_t {inside}(void *args, int32_t n)"
    declared = [f"{head};"]
    if is_kept(name):
        declared = [
            "#ifdef __GNUC__  /* C keeps this name for itself: the symbol has it all the same */",
            f'{head} __asm__("{name}");',
            "#else",
            f"{head};",
            "#endif",
        ]
    return ["/* The kernel behind checks of all that it is given. */", *declared, head]


def _repeat(k: CKernel) -> list[str]:
    params = k.signature.params
    symbols = [f"s{j}" for j in range(len(k.signature.symbols))]
    call = [f"slot[{i}]" if isinstance(p, BufferParam) else f"x{i}" for i, p in enumerate(params)]
    call += symbols
    kinds = [k.d.memory_type(p.dtype) for p in params] + ["int64_t"] * len(symbols)
    numbers = [
        (at, kind, name)
        for at, (kind, name) in enumerate(zip(kinds, call))
        if not name.startswith("slot")
    ]
    head = f"int32_t {k.name}__repeat(int64_t number, void *argv)"
    return [
        "/* The kernel again and again, with no checks: for timing. Eight bytes a slot. */",
        f"{head};",
        head,
        "{",
        "    void **slot = argv;" if call else "    (void)argv;",
        *(f"    {kind} {name};" for _, kind, name in numbers),
        "    int32_t result = 0;",
        *(f"    memcpy(&{name}, slot + {at}, sizeof {name});" for at, _, name in numbers),
        "    for (; number > 0 && result == 0; --number)",
        f"        result = {k.name}__raw({', '.join(call)});",
        "    return result;",
        "}",
    ]
