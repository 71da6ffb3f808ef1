"""Arrays of a thread in CUDA C by hand, made ones whose elements the emulator looks at."""

from __future__ import annotations

import re

_NUMBER = (
    r"(?:unsigned|signed)(?:\s+(?:long\s+long|long|int|short|char))?|long\s+long|long|int|short"
    r"|char|float|double|bool|u?int(?:8|16|32|64)_t|size_t"
)
_SIMPLE = re.compile(
    rf"(?<=[;{{}}])(?P<space>\s*)(?P<type>{_NUMBER})\s+(?P<name>\w+)\s*"
    r"\[(?P<size>[^\[\],;{}]+)\]\s*;"
)
# A declaration of an array, whatever it holds.
ARRAY = re.compile(
    r"(?<![\w.>])(?:(?:__device__|__constant__|static|const|volatile|alignas\s*\([^()]*\)"
    r"|__align__\s*\([^()]*\))\s+)*(?!(?:return|else|do|case|goto|delete|new|typedef|using)\b)"
    r"(?:(?:unsigned|signed|long|short|struct)\s+)*[A-Za-z_]\w*(?:::\w+)*\s+"
    r"(?:\w+\s*(?:=[^,;(){}]*)?,\s*)*(?P<name>[A-Za-z_]\w*)\s*(?:\[[^\[\];{}]*\]\s*)+(?=[;=,{])"
)
# Another one of the same declaration, where the one before ends.
MORE = re.compile(r"\s*(?:=?\s*\{[^{};]*\}\s*)?,\s*(?P<name>\w+)\s*(?:\[[^\[\];{}]*\]\s*)+")
_REFERENCE = re.compile(r"&\s*\w+\s*[={]$")  # ``float &r =``
_NO_FUNCTION = re.compile(
    r"(?:\b(?:struct|class|union|enum)\b[^;{}()]*|\bnamespace\b[\s\w:]*|\"C\"\s*|=\s*)$"
)


def watched_arrays(text: str) -> str:
    """A text whose plain arrays of numbers are declared by ``WHET_LOCAL``.

    Those stay as they are that are handed on as a whole, or looked at other than by a single
    subscript.

    Args:
        text: CUDA C, without comments.
    """

    def declared(m: re.Match[str]) -> str:
        if not _only_subscripted(text, m):
            return m[0]
        return f"{m['space']}WHET_LOCAL({m['type']}, {m['name']}, {m['size'].strip()});"

    return _SIMPLE.sub(declared, text)


def head_of(text: str, at: int) -> str | None:
    """What stands before the brace around a place, back to the statement before; None: no brace."""
    opened = _opening(text, at)
    if opened is None:
        return None
    return re.split(r"[;{}]", text[:opened])[-1] if opened else ""


def is_function(head: str | None) -> bool:
    """Whether a brace with this before it opens a function's body, or a block in one."""
    return head is not None and not _NO_FUNCTION.search(head)


def _opening(text: str, at: int) -> int | None:
    """The place of the brace that is open at a place."""
    depth = 0
    for k in range(at - 1, -1, -1):
        depth += {"}": 1, "{": -1}.get(text[k], 0)
        if depth < 0:
            return k
    return None


def _closing(text: str, at: int) -> int:
    """The place of the brace that ends the block a place is in."""
    depth = 0
    for k in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[k], 0)
        if depth < 0:
            return k
    return len(text)


def _only_subscripted(text: str, m: re.Match[str]) -> bool:
    """Whether all that is done with an array in its block is reading and writing elements."""
    head = head_of(text, m.start("name"))
    if not is_function(head) or re.search(r"\bswitch\b", head or ""):
        return False
    block = text[m.end() : _closing(text, m.end())]
    if re.search(r"\bgoto\b|\bauto\b", block):
        return False
    for use in re.finditer(rf"\b{re.escape(m['name'])}\b", block):
        before, after = block[: use.start()].rstrip(), block[use.end() :].lstrip()
        taken = before.endswith("&") and not before.endswith("&&")
        taken = taken or _REFERENCE.search(before) is not None
        if taken or before.endswith((".", "->")) or not after.startswith("["):
            return False
        behind = after[end_of_subscript(after) :].lstrip()
        if behind.startswith(("[", ".", "->")):
            return False
    return True


def end_of_subscript(text: str, opened: int = 0) -> int:
    """Behind the bracket that closes the one at a place."""
    depth = 0
    for k in range(opened, len(text)):
        depth += {"[": 1, "]": -1}.get(text[k], 0)
        if depth == 0:
            return k + 1
    return len(text)
