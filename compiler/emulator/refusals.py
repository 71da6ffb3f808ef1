"""What the C++ compiler says of CUDA C that the emulator cannot take, with the way out."""

from __future__ import annotations

import re

from whet.compiler.errors import CodegenError

_FIRST = re.compile(r"^kernel\.cu:(\d+):(?:\d+:)? (?:fatal )?error: (.*)$", re.MULTILINE)
_PLACE = re.compile(r"whet_emulator::(?:Ref|OwnedRef|Place|Checked|Rows|Local)<|\b(?:Owned)?Ref<")
_UNKNOWN = re.compile(r"[‘'](\w+)[’'] (?:was not declared|does not name a type|has not been decl)")


def refused(log: str, code: int) -> CodegenError:
    """The error for a text that does not compile.

    Args:
        log: what it said.
        code: what it ended with.
    """
    asked = "compiling CUDA C for the emulator"
    first = _FIRST.search(log)
    if first is None:
        return CodegenError(asked, f"it ended with {code}", log)
    why, way_out = _told(first[2], "whet_emulator::Place<" in log)
    return CodegenError(asked, f"line {first[1]}: {why}", f"{way_out}\n{log}" if way_out else log)


def _told(message: str, of_place: bool) -> tuple[str, str]:
    """Why it cannot be, in the emulator's terms where they are what is missing, and the way out."""
    if "lvalue required" in message or "taking address of" in message:
        return (
            "the address of an element that is only read is not to be had in the emulator",
            "write the pointer: x + i, not &x[i]",
        )
    if of_place and ("cannot bind" in message or "invalid initialization" in message):
        return (
            "a reference to an element of watched memory is not to be had in the emulator",
            "take a pointer (p + i), or read and write the element by its index",
        )
    if _PLACE.search(message):
        if "has no member" in message:
            why = "a member of an element of watched memory is not to be had in the emulator"
            return why, "take the element first: float4 v = p[i]; v.x = 0; p[i] = v"
        return (
            "an element or a pointer of watched memory is used as the emulator cannot take it",
            "read it into a variable of its own type first: float v = p[i]",
        )
    unknown = _UNKNOWN.search(message)
    if unknown is not None:
        return (
            f"{unknown[1]} is known neither to the text nor to the emulator",
            "it knows CUDA C, its vectors, half and bfloat16, and no library: cub, cooperative "
            "groups, wmma, textures; other kernels of the file need not compile",
        )
    return message, ""
