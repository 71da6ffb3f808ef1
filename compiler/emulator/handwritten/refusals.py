"""Errors of the C++ compiler for CUDA C that nvcc or the emulator cannot take, with the way out."""

from __future__ import annotations

import re

from whet.compiler.emulator.handwritten.functions import host_part
from whet.compiler.errors import CodegenError

_ERROR = re.compile(
    r"^(?P<file>\S+?):(?P<line>\d+):(?:\d+:)? (?:fatal )?[eE]rror: "
    r"(?:static assertion failed[^:\n]*: )?(?P<said>.*)$"
    r"|(?P<linked>undefined reference to .*)$",
    re.MULTILINE,
)
_LINE = re.compile(r"\bkernel\.cu:(\d+)")
_WARNING = re.compile(r"^\S+:\d+:(?:\d+:)? warning: .*\n(?: .*\n)*", re.MULTILINE)
_NAME = r"[`‘'](?P<name>\w+)"
_PLACE = r"(?:whet_emulator::(?:Ref|OwnedRef|Place|Checked|Rows|Local)<|\b(?:Owned)?Ref<)"
_UNKNOWN = rf"{_NAME}[’'] (?:was not declared|does not name a type|has not been decl)"

_OF_HOST = (
    "{name} is the host's: it has no __device__, and nvcc refuses it in a kernel",
    "write __device__ before its declaration",
)
# What a message says -> why it cannot be, and the way out; the first that fits.
_RULES = (
    (
        r"[‘']__shared__[’']",
        "this is no declaration of shared memory that nvcc takes: it has no initial value",
        "declare __shared__ float t[8]; and let threads store to it before a __syncthreads()",
    ),
    (
        r"(?P<name>\w+) is a function of the host",
        "{name} is a function of the host, and nvcc refuses to call it in a kernel",
        "compute it by functions of the device, or ahead on the host",
    ),
    (
        rf"undefined reference to {_NAME}",
        "{name} is declared in the text, and defined nowhere",
        "give its definition, with __device__ before it",
    ),
    (
        r"-Werror=vla|is not a constant expression",
        "{message}: nvcc takes constants alone as sizes of arrays and arguments of templates",
        "make it one: constexpr, a template's argument, or a macro (-D N=32)",
    ),
    (
        r"exception handling disabled|-fno-rtti",
        "nvcc refuses exceptions, typeid and dynamic_cast in a kernel",
        "end the kernel by assert(condition) or __trap()",
    ),
    (
        r"[‘']asm[’']|output (?:constraint|operand) \d|(?s:.*)Assembler messages:",
        "assembly: there is no PTX in the emulator",
        "use CUDA's functions, or keep it behind #ifdef __CUDA_ARCH__ with plain code in #else",
    ),
    (
        r"-Werror=frame-larger-than",
        "{message}; a thread has 256 KiB of stack in the emulator",
        "smaller arrays in a thread, or shared memory",
    ),
    (
        r"lvalue required as unary|taking address of",
        "the address of an element that is only read is not to be had in the emulator",
        "write the pointer: x + i, not &x[i]",
    ),
    (
        r"cannot bind [^\n]*whet_emulator::(?:Owned)?Ref<"
        r"|(?:cannot bind|invalid initialization).*\n(?s:.*)whet_emulator::Place<",
        "a reference to an element of watched memory is not to be had in the emulator",
        "take a pointer (p + i), or read and write the element by its index",
    ),
    (
        rf"{_PLACE}.*has no member",
        "a member of an element of watched memory is not to be had in the emulator",
        "take the element first: float4 v = p[i]; v.x = 0; p[i] = v",
    ),
    (
        _PLACE,
        "an element or a pointer of watched memory is used as the emulator cannot take it",
        "read it into a variable of its own type first: float v = p[i]",
    ),
    (
        _UNKNOWN,
        "{name} is known neither to the text nor to the emulator",
        "it knows CUDA C, its vectors, half and bfloat16, and no library: cub, cooperative "
        "groups, wmma, textures; other kernels of the file need not compile",
    ),
)


def refused(log: str, code: int, source: str = "") -> CodegenError:
    """The error for a text that does not compile.

    Args:
        log: what the compiler said.
        code: what it ended with.
        source: the text.
    """
    subject = "compiling CUDA C for the emulator"
    log = _WARNING.sub("", log)
    errors = list(_ERROR.finditer(log))
    if not errors:
        return CodegenError(subject, f"it ended with {code}", log)
    # what a header says, the emulator's macros lead to; the text's own errors may only follow
    first = errors[0]
    words = _words(first["said"] or first["linked"], log, source)
    if words is None:
        first = next((e for e in errors if e["file"] == "kernel.cu"), first)
        words = _words(first["said"], log, source) or (first["said"], "")
    line = _LINE.search(log, first.start() if first["file"] == "kernel.cu" else 0)
    why, way_out = words
    why = f"line {line[1]}: {why}" if line else why
    return CodegenError(subject, why, f"{way_out}\n{log}" if way_out else log)


def _words(message: str, log: str, source: str) -> tuple[str, str] | None:
    """Why it cannot be, in terms of CUDA C, and the way out; None: no rule knows the message."""
    for pattern, why, way_out in _RULES:
        if match := re.match(rf".*?(?:{pattern})", f"{message}\n{log}"):
            name = match.groupdict().get("name", "")
            if name in host_part(source)[1]:
                why, way_out = _OF_HOST
            return why.format(name=name, message=message), way_out
    return None
