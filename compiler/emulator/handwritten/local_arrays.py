"""Arrays of a thread in CUDA C by hand, made ones whose elements the emulator looks at."""

from __future__ import annotations

import re

_NUMBER = (
    r"(?:unsigned|signed)(?:\s+(?:long\s+long|long|int|short|char))?|long\s+long|long|int|short"
    r"|char|float|double|bool|u?int(?:8|16|32|64)_t|size_t"
)
_ZEROS = r"(?:=\s*\{\s*(?:0(?:\.0*)?f?)?\s*\}\s*)?"
_ONE = rf"\w+\s*(?:\[[^\[\],;{{}}]+\]\s*)+{_ZEROS}"
# one or several, of one dimension or more, with nothing in them or zeros
_SIMPLE = re.compile(
    rf"(?<=[;{{}}])(?P<space>\s*)(?P<type>{_NUMBER})\s+(?P<all>{_ONE}(?:,\s*{_ONE})*);"
)
_PARTS = re.compile(rf"(?P<name>\w+)\s*(?P<sizes>(?:\[[^\[\],;{{}}]+\]\s*)+)(?P<zeros>{_ZEROS})")
# A declaration of an array, whatever it holds.
ARRAY = re.compile(
    r"(?<![\w.>])(?:(?:__device__|__constant__|static|const|alignas\s*\([^()]*\)"
    r"|__align__\s*\([^()]*\))\s+)*(?!(?:return|else|do|case|goto|delete|new|typedef|using)\b)"
    r"(?:(?:unsigned|signed|long|short|struct)\s+)*[A-Za-z_]\w*(?:::\w+)*\s+"
    r"(?:\w+\s*(?:=[^,;(){}]*)?,\s*)*(?P<name>[A-Za-z_]\w*)\s*(?:\[[^\[\];{}]*\]\s*)+(?=[;=,{])"
)
# Another one of the same declaration, where the one before ends.
MORE = re.compile(r"\s*(?:=?\s*\{[^{};]*\}\s*)?,\s*(?P<name>\w+)\s*(?:\[[^\[\];{}]*\]\s*)+")
_REFERENCE = re.compile(r"&\s*\w+\s*[={]$")  # ``float &r =``
_DEFINED = re.compile(r"\b(\w+)\s*\(([^(){};]*&[^(){};]*)\)\s*\{")
_NO_FUNCTION = re.compile(
    r"(?:\b(?:struct|class|union|enum)\b[^;{}()]*|\bnamespace\b[\s\w:]*|\"C\"\s*|=\s*)$"
)


def watched_arrays(text: str) -> str:
    """A text whose plain arrays of numbers are declared by ``WHET_LOCAL``.

    Those stay as they are that are handed on as a whole or by rows: anything but elements.

    Args:
        text: CUDA C, without comments.
    """

    def declared(m: re.Match[str]) -> str:
        if not _in_function(text, m.start("all")):
            return m[0]
        made = []
        for one in _PARTS.finditer(m["all"]):
            sizes = [size.strip() for size in re.findall(r"\[([^\]]+)\]", one["sizes"])]
            if not _only_elements(text, m.end(), one["name"], len(sizes)):
                made.append(f"{m['type']} {one[0].strip()};")
                continue
            kind = "_ZEROS" if one["zeros"] else "_ROWS" if len(sizes) > 1 else ""
            made.append(f"WHET_LOCAL{kind}({m['type']}, {one['name']}, {', '.join(sizes)});")
        return f"{m['space']}{' '.join(made)}" + "\n" * m["all"].count("\n")

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


def closing(text: str, at: int) -> int:
    """The place of the brace that ends the block a place is in."""
    depth = 0
    for k in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[k], 0)
        if depth < 0:
            return k
    return len(text)


def _in_function(text: str, at: int) -> bool:
    """Whether an array is declared in a function, where no jump passes it over."""
    head = head_of(text, at)
    return is_function(head) and not re.search(r"\bswitch\b", head or "")


def _only_elements(text: str, at: int, name: str, dimensions: int) -> bool:
    """Whether all that is done with an array, behind a place in its block, is with elements."""
    block = text[at : closing(text, at)]
    if re.search(r"\bgoto\b|\bauto\b", block):
        return False
    takes_references = _with_references(text)
    for use in re.finditer(rf"\b{re.escape(name)}\b", block):
        before, after = block[: use.start()].rstrip(), block[use.end() :].lstrip()
        taken = before.endswith("&") and not before.endswith("&&")
        taken = taken or _REFERENCE.search(before) is not None
        if taken or before.endswith((".", "->")) or _called(before) in takes_references:
            return False
        for _ in range(dimensions):
            if not after.startswith("["):
                return False
            after = after[end_of_subscript(after) :].lstrip()
        if after.startswith(("[", ".", "->")):
            return False
    return True


def _with_references(text: str) -> set[str]:
    """The functions of a text with a parameter by reference that they may change, and swap."""
    found = {"swap"}
    for name, parameters in _DEFINED.findall(text):
        if any("&" in one and not re.search(r"\bconst\b", one) for one in parameters.split(",")):
            found.add(name)
    return found


def _called(before: str) -> str:
    """The function whose arguments are open at the end of a text; "" outside of all."""
    depth = 0
    for k in range(len(before) - 1, -1, -1):
        if before[k] in ";{}":
            return ""
        depth += {")": 1, "(": -1}.get(before[k], 0)
        if depth < 0:
            name = re.search(r"(\w+)\s*(?:<[^<>()]*>\s*)?$", before[:k])
            return name[1] if name else ""
    return ""


def end_of_subscript(text: str, opened: int = 0) -> int:
    """Behind the bracket that closes the one at a place."""
    depth = 0
    for k in range(opened, len(text)):
        depth += {"[": 1, "]": -1}.get(text[k], 0)
        if depth == 0:
            return k + 1
    return len(text)
