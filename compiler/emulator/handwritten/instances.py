"""A kernel that is a template, as the one that a launch names: ``f<32, float><<<4, 64>>>(...)``.

Before::

    template <int N, typename T> __global__ void f(T *x) { .. }

After::

    constexpr int N = 32; using T = float; __global__ void f(T *x) { .. }

Templates of the same text whose parameters have these names hide them; lines stay where they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from whet.compiler.emulator.handwritten.device_code import listed
from whet.compiler.emulator.handwritten.one_kernel import blanked
from whet.compiler.errors import ArgumentError

_TYPE = re.compile(r"(?:typename|class)\s+(\w+)")
_VALUE = re.compile(r"(.*?[\s*&])(\w+)", re.DOTALL)


def instance(source: str, kernel: str, arguments: Sequence[str]) -> str:
    """The text with a kernel in the place of its template.

    Args:
        source: CUDA C.
        kernel: its name.
        arguments: the template's, in order; those that have defaults may be missing.

    Raises:
        ArgumentError: the kernel is no template, or not one of such arguments.
    """
    text = blanked(source)
    head = re.search(
        rf"\btemplate\s*<(?P<parameters>[^;{{}}]*)>(?=[^;{{}}<>]*\b__global__\b[^;{{]*?\b{kernel}\s*\()",
        text,
    )
    asked = f"launching {kernel}<{', '.join(arguments)}>"
    if head is None:
        raise ArgumentError(asked, f"{kernel} is no template", f"{kernel}<<<grid, block>>>(...)")
    parameters = [
        " ".join(p.split())
        for p in listed(source[head.start("parameters") : head.end("parameters")])
    ]
    if len(arguments) > len(parameters):
        raise ArgumentError(asked, f"it takes {len(parameters)}: {', '.join(parameters)}")
    given = [*arguments, *[""] * (len(parameters) - len(arguments))]
    made = " ".join(_definition(asked, p, a) for p, a in zip(parameters, given))
    lines = "\n" * source.count("\n", head.start(), head.end())
    return source[: head.start()] + made + lines + source[head.end() :]


def _definition(asked: str, parameter: str, argument: str) -> str:
    """What gives a parameter its argument, or its default."""
    declared, _, default = parameter.partition("=")
    value = argument or default.strip()
    declared = declared.strip()
    kind = _TYPE.fullmatch(declared)
    number = _VALUE.fullmatch(declared)
    if "..." in parameter or "<" in declared or (kind is None and number is None):
        raise ArgumentError(
            asked, f"its parameter {parameter!r} is neither a type nor a value", "write it for one"
        )
    if not value:
        raise ArgumentError(asked, f"it has no argument for {parameter!r}", "give one for each")
    if kind is not None:
        return f"using {kind[1]} = {value};"
    assert number is not None
    return f"constexpr {number[1].strip()} {number[2]} = {value};"
