"""Declarations of CUDA C whose memory the emulator watches: constants, and pointers to rows.

::

    __constant__ float c[4] = {1};     WHET_CONSTANT(float, c, [4], = {1});
    float (*t)[33]                     WHET_ROWS_POINTER(float, t, 33)   (and t[][33] of parameters)
    float (&t)[32][33]                 WHET_ROWS_REFERENCE(float, t, 32, 33)
    __shared__ typename T::Storage s;  typedef typename T::Storage s_kind; __shared__ s_kind s;
"""

from __future__ import annotations

import re

from whet.compiler.emulator.handwritten.device_code import past_closing_brace
from whet.compiler.emulator.handwritten.local_arrays import closing, end_of_subscript

_CONSTANT = re.compile(
    r"\b(?:(?:static|const|__device__)[ \t]+)*__constant__(?:[ \t]+(?:static|const|__device__)\b)*"
)
_DECLARED = re.compile(
    r"(?P<type>[\w:<>\s]*?[\w:<>])\s+(?P<name>\w+)\s*(?P<sizes>(?:\[[^\[\]]*\]\s*)*)"
    r"(?P<value>(?:=.*|\{.*)?)",
    re.DOTALL,
)
_KIND = re.compile(
    r"(?P<head>\b__shared__\s+)(?P<type>(?:typename\s+)?[\w:]+(?:\s*<[^;{}=]*?>[\w:]*)?)\s+"
    r"(?P<name>\w+)(?=\s*(?:\[[^\]]+\]\s*)*(?:,[^;{}]*)?;)"
)


def with_constants(text: str) -> str:
    """A text whose ``__constant__`` arrays know their bounds; what the host sets is zero."""
    text = _CONSTANT.sub("__constant__", text)
    parts, at = [], 0
    for found in re.finditer(r"\b__constant__\b", text):
        end = _end(text, found.end())
        line = text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
        if end is None or line.lstrip().startswith("#"):
            continue
        made = _constants(text, text[found.end() : end])
        parts += [text[at : found.start()], made, "\n" * text.count("\n", found.start(), end)]
        at = end + 1
    return "".join([*parts, text[at:]])


def _end(text: str, at: int) -> int | None:
    """The place of the semicolon that ends a declaration."""
    while at < len(text):
        if text[at] == ";":
            return at
        if text[at] == "}":
            return None
        at = past_closing_brace(text, at) if text[at] == "{" else at + 1
    return None


def _constants(text: str, declared: str) -> str:
    made, kind = [], ""
    for one in _split(declared):
        found = _DECLARED.fullmatch(f"{kind} {one}".strip())
        if found is None or "*" in one:
            return f"__constant__ {declared};"
        kind = found["type"]
        value = " ".join(found["value"].split()) or "{}"
        name, sizes = found["name"], found["sizes"].strip()
        if not sizes or "," in kind or re.search(rf"\bsizeof\s*\(?\s*{name}\b(?!\s*\[)", text):
            made.append(f"__constant__ {kind} {name}{sizes} {value};")
        else:
            made.append(f"WHET_CONSTANT({kind}, {name}, {sizes}, {value});")
    return " ".join(made)


def _split(text: str) -> list[str]:
    parts, depth = [""], 0
    for c in text:
        depth += {"(": 1, "[": 1, "{": 1, "<": 1, ")": -1, "]": -1, "}": -1, ">": -1}.get(c, 0)
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts]


def with_kinds(text: str) -> str:
    """A text with a plain name for the type of each shared variable whose type is not one word."""

    def named(m: re.Match[str]) -> str:
        if not re.search(r"[<,]|\btypename\b", m["type"]):
            return m[0]
        lines = "\n" * m[0].count("\n")
        kind = f"{m['name']}_kind"
        made = f"typedef {' '.join(m['type'].split())} {kind};"
        return f"{made} {m['head'].strip()} {kind} {m['name']}{lines}"

    return _KIND.sub(named, text)


def used_whole(text: str, at: int, name: str, kind: str) -> bool:
    """Whether a shared variable of a class is handed to a function, or has its methods called.

    Args:
        text: CUDA C, without comments.
        at: the place behind its declaration.
        name: the variable.
        kind: its type.
    """
    if re.search(r"^(?:(?:un)?signed|long|short|int|char|float|double|bool|half)\b", kind):
        return False
    text = text[at : closing(text, at)]
    for use in re.finditer(rf"(?<![\w.>]){name}\b", text):
        behind = use.end()
        while text[behind : behind + 1] == "[":
            behind = end_of_subscript(text, behind)
        if re.match(r"\s*(?:\.|->)\s*\w+\s*\(", text[behind:]):
            return True
        before = text[: use.start()].rstrip()
        handed = before.endswith(("(", ",", "{")) and re.match(r"\s*[,)}]", text[behind:])
        if handed and behind == use.end():
            return True
    return False


def with_rows(text: str, known: str) -> str:
    """A text whose pointers and references to rows of watched memory are watched.

    Args:
        text: CUDA C, without comments.
        known: the types, as alternatives of a pattern.
    """
    kind = rf"(?<![\w:])(?P<type>(?:const\s+)?(?:{known})(?:\s+const)?)\s*"
    rows = r"(?P<sizes>(?:\[[^\[\];{}]+\]\s*)+)"

    def pointer(m: re.Match[str]) -> str:
        return _of_rows("POINTER", m)

    def reference(m: re.Match[str]) -> str:
        return _of_rows("REFERENCE", m)

    restrict = r"(?:(?:const|__restrict__|__restrict)\b\s*)*"
    text = re.sub(rf"{kind}\(\s*\*\s*{restrict}(?P<name>\w+)\s*\)\s*{rows}", pointer, text)
    text = re.sub(rf"{kind}\(\s*&\s*(?P<name>\w+)\s*\)\s*{rows}(?=[,)])", reference, text)
    first = kind.replace("(?<!", " *(?<!", 1)
    parameter = rf"(?<=[(,]){first}(?P<name>\w+)\s*\[[^\[\]]*\]\s*{rows}(?=[,)])"
    return re.sub(parameter, pointer, text)


def _of_rows(what: str, m: re.Match[str]) -> str:
    sizes = ", ".join(s.strip() for s in re.findall(r"\[([^\]]+)\]", m["sizes"]))
    lines = "\n" * m[0].count("\n")
    return f" WHET_ROWS_{what}({' '.join(m['type'].split())}, {m['name']}, {sizes}){lines}"
