"""A text with some of its kernels alone: what others in it need is not compiled."""

from __future__ import annotations

import re
from collections.abc import Collection

from whet.compiler.emulator.handwritten.device_code import past_closing_brace
from whet.compiler.errors import ArgumentError

_HIDDEN = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|^[ \t]*#(?:\\\n|[^\n])*", re.DOTALL | re.MULTILINE
)
_HEAD = re.compile(r"\b__global__\b[^;{]*[;{]")
_ATTRIBUTE = re.compile(
    r"\b__(?:launch_bounds|align|attribute|maxnreg)__\s*\((?:[^()]|\([^()]*\))*\)"
)
_NAME = re.compile(r"(\w+)\s*(?:<[^<>()]*>)?\s*\(")


def blanked(source: str) -> str:
    """A text with blanks for what only looks like code: comments, strings, directives."""
    return _HIDDEN.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), source)


def with_kernels(source: str, names: Collection[str]) -> str:
    """A text without the kernels of other names, lines where they were.

    Args:
        source: CUDA C.
        names: of the kernels that stay.

    Raises:
        ArgumentError: it has none of one of these names.
    """
    text = blanked(source)
    parts, known, at = [], [], 0
    for head in _HEAD.finditer(text):
        name = _NAME.search(_ATTRIBUTE.sub("", head[0]))
        if name is None:
            continue
        if head[0].endswith("{"):
            known.append(name[1])
        if name[1] in names:
            continue
        end = head.end() if head[0].endswith(";") else past_closing_brace(text, head.end() - 1)
        begin = _begin(text, source, head.start())
        parts += [source[at:begin], "\n" * source.count("\n", begin, end)]
        at = end
    missing = next((n for n in names if n not in known), None)
    if not known:
        return source  # a macro's, maybe
    if missing is not None:
        raise ArgumentError(
            f"emulating the kernel {missing!r}",
            f"the text has {len(known)}: {', '.join(known)}",
            "name one of them",
        )
    return "".join([*parts, source[at:]])


def _begin(text: str, source: str, at: int) -> int:
    """Where a declaration begins that goes on at a place: behind the one before it."""
    begin = max(text.rfind(c, 0, at) for c in ";{}") + 1
    directives = [m.end() for m in re.finditer(r"^[ \t]*#[^\n]*$", source[begin:at], re.MULTILINE)]
    return begin + directives[-1] if directives else begin
