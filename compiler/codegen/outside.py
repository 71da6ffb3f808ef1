"""Calls that leave the generated code, as every generator reads them.

A packed function is called through ``int32 whet_call_packed(name, args, codes, n, result,
result_code)``: 8 bytes an argument with the code of its type, arrays as DLTensors on the stack.
Nothing is kept of them once the call returns.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from whet.compiler.abi.packed_call import ARRAY, FLOAT, HANDLE, INT, NOTHING, TEXT
from whet.compiler.errors import CodegenError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.analysis.effects import may_write
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import BufferLoad, BufferView, Call, IntImm, PrimExpr, StringImm, Var

T = TypeVar("T")

ADDRESSES = ("address_of", "tvm_access_ptr")
EXTERNS = ("call_extern", "call_pure_extern")


def no_value(v: Var) -> CodegenError:
    """The error that a variable has no value."""
    return CodegenError(
        f"the variable {v.name}",
        "nothing gives it a value",
        "use it in the shape of an argument or pass it as an argument",
    )


def no_memory(view: Buffer) -> CodegenError:
    """The error that the memory of a declared buffer is nowhere."""
    return CodegenError(
        f"declare the buffer {view.name}",
        f"nothing allocates the memory of {view.data.name}",
        "give it the data of a parameter or of an allocated buffer",
    )


def callee(n: Call) -> tuple[str, tuple[PrimExpr, ...]]:
    """The name of the function that a call names, and what it is given.

    Raises:
        CodegenError: there is no name, or a vector among the arguments.
    """
    name, *args = n.args
    if not isinstance(name, StringImm):
        raise CodegenError(n.op, "its first argument is not the function's name")
    if any(dt.lanes(x.dtype) > 1 for x in (n, *args) if x.dtype != "handle"):
        raise CodegenError(
            f"{n.op}({name.value!r})",
            "it is called in a vectorized loop, and takes no vectors",
            "leave the loop around it serial",
        )
    return name.value, tuple(args)


def type_code(a: PrimExpr) -> int:
    """The code of an argument of a packed function."""
    if isinstance(a, StringImm):
        return TEXT
    if isinstance(a, BufferView):
        return ARRAY
    return _scalar_code(a.dtype)


def result_code(n: Call, used: bool) -> int:
    """The code of the result that the caller of a packed function can use."""
    return _scalar_code(n.dtype) if used else NOTHING


def _scalar_code(dtype: str) -> int:
    return FLOAT if dt.is_float(dtype) else HANDLE if dtype == "handle" else INT


def element_of(n: Call) -> BufferLoad:
    """The element whose address a call takes.

    Raises:
        CodegenError: it names none.
    """
    first = n.args[0] if n.args else None
    if not isinstance(first, BufferLoad) or dt.lanes(first.dtype) > 1:
        raise CodegenError(n.op, "its argument is not one element of a buffer", f"{n.op}(A[i, j])")
    return first


def prefetch_hints(n: Call) -> tuple[int, int, int]:
    """The numbers of a prefetch: 1 for writing, its locality from 0 to 3, 1 for data.

    Raises:
        CodegenError: they are no such numbers.
    """
    hints = [x.value if isinstance(x, IntImm) else -1 for x in n.args[1:]]
    if len(hints) != 3 or not all(0 <= x <= most for x, most in zip(hints, (1, 3, 1))):
        raise CodegenError(
            "prefetch",
            "what follows the address is not 0 or 1, a locality from 0 to 3, and 0 or 1",
            'call_intrin("int32", "tir.prefetch", A.access_ptr("r"), 0, 3, 1)',
        )
    return hints[0], hints[1], hints[2]


def memory_of(handle: Var, placed: Iterable[tuple[Buffer, T]]) -> T:
    """Where the buffer's memory is that a handle stands for.

    Args:
        handle: the variable.
        placed: buffers, and where each of them is.

    Raises:
        CodegenError: no buffer has it.
    """
    for buffer, place in placed:
        if buffer.data is handle:
            return place
    raise CodegenError(
        f"the handle {handle.name}", "no buffer of the kernel has it", "pass a buffer's data"
    )


def handed_buffer(a: object) -> Buffer | None:
    """The buffer whose memory a function is handed, and may write, by an argument of this form."""
    if isinstance(a, BufferView):
        return a.buffer
    first = a.args[0] if isinstance(a, Call) and may_write(a) else None
    return first.buffer if isinstance(first, BufferLoad) else None
