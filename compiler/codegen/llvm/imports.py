"""LLVM text of a user's own, linked into a module: the pragma ``import_llvm``."""

from __future__ import annotations

from collections.abc import Iterable

from whet.compiler.codegen.llvm.intrinsics import ended_with
from whet.compiler.errors import CodegenError
from whet.compiler.jit.compile import Machine, linked
from whet.compiler.tir.expr import PrimExpr, StringImm

IMPORT = "pragma_import_llvm"
_REQUEST = 'pragma(..., "import_llvm", text)'


def imported(value: PrimExpr) -> str:
    """The text of a pragma.

    Raises:
        CodegenError: for what is no text.
    """
    if isinstance(value, StringImm):
        return value.value
    raise CodegenError(
        _REQUEST, "its value is no text", "give what `clang -S -emit-llvm` writes, as a str"
    )


def with_imports(text: str, imports: Iterable[str], machine: Machine) -> str:
    """A module's text with the functions of others in it, each seen by this module alone.

    Raises:
        CodegenError: for text that LLVM does not read, has no instructions for, or that defines
            what is there already.
    """
    whole = [x for x in imports if x.strip()]
    if not whole:
        return text
    try:
        out = linked(text, whole, machine)
    except RuntimeError as error:
        raise CodegenError(
            _REQUEST,
            f"LLVM refuses the text: {str(error).strip()}",
            "give what `clang -S -emit-llvm` writes, with opaque pointers (clang 15 and later)",
        ) from None
    # LLVM ends the process for an instruction that the processor has not
    _, why = ended_with(out, machine)
    if why:
        raise CodegenError(
            _REQUEST, f"{machine.target} cannot: {why}", "compile it for this processor"
        )
    return out
