"""The codes that a kernel and its checked entry return, and the errors that they mean.

0: all went well. 1: there was no memory for an intermediate buffer. 2: a packed function raised. 16
and the number of an assertion of the kernel that does not hold. Else the check of the entry that
failed, and where::

    bits 24..30  the check (CHECKS)      bits 8..23  the argument      bits 0..7  the dimension
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

from whet.compiler.abi.extent import Extent
from whet.compiler.abi.signature import BufferParam, KernelSignature, ScalarParam
from whet.compiler.errors import ArgumentError, KernelError, OutOfMemoryError

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
    10: "same",
}
_NUMBER = {name: number for number, name in CHECKS.items()}


def code_of(check: str, arg: int = 0, dim: int = 0) -> int:
    """The code of a check that failed."""
    return _NUMBER[check] << 24 | arg << 8 | dim


def assert_values(sig: KernelSignature, code: int, address_of: Callable[[str], int]) -> list[int]:
    """The numbers that the message of a failed assertion names; none for another result."""
    if not FIRST_ASSERT <= code < FIRST_ASSERT + len(sig.asserts):
        return []
    held = (ctypes.c_int64 * MAX_ASSERT_VALUES).from_address(
        address_of(f"{sig.name}__assert_values")
    )
    return list(held)


def decode(
    sig: KernelSignature,
    code: int,
    values: Sequence[int] = (),
    raised: Callable[[str], BaseException] | None = None,
) -> BaseException | None:
    """The error that a result of the entry means, or None for 0.

    Args:
        sig: the kernel's parameters.
        code: the result.
        values: those of :func:`assert_values`.
        raised: gives the exception of a packed function that a kernel of this name called.
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
        return (
            KernelError(f"{sig.name}()", "a packed function failed")
            if raised is None
            else raised(sig.name)
        )
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
        "same": other_memory(p.same or 0),
    }[check]


def other_memory(same: int) -> str:
    """Why an array is refused that is not the argument it must be."""
    return f"the function takes one tensor twice: it must be the array of argument {same}"


def wants(p: BufferParam | ScalarParam) -> str:
    """A parameter in words."""
    if isinstance(p, ScalarParam):
        return f"a number ({p.dtype})"
    layout = f"strides {tuple_text(p.strides)}" if p.strides else "row-major"
    written = ", written to" if p.written else ""
    return f"{p.dtype} array of shape {tuple_text(p.shape)}, {layout}{written}"


def tuple_text(parts: Sequence[Extent]) -> str:
    """``(n, 3)``; with names bare."""
    return "(" + ", ".join(map(str, parts)) + ("," if len(parts) == 1 else "") + ")"


def wants_all(sig: KernelSignature) -> str:
    """All parameters of a kernel in words, a line each."""
    return "\n".join(f"argument {i} ({p.name}): {wants(p)}" for i, p in enumerate(sig.params))
