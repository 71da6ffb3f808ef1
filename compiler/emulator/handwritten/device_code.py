"""A CUDA file's text: the device's part of it, lines where they were; lists between brackets."""

from __future__ import annotations

import re

_HEAD_OF_FUNCTION = re.compile(r"\)\s*(?:const\b|noexcept\b|->[^{;]*)?\s*$")
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:\\\n|[^\n])*)", re.MULTILINE)
_NAME = re.compile(r"(\w+)\s*\(")
# a variable of file scope that no code of the device knows
_VARIABLE = re.compile(
    r"\s*(?!.*\b(?:__\w+__|const|constexpr|typedef|using|extern|template|struct|class|union|enum|namespace)\b)"
    r"[A-Za-z_]\w*(?:\s*::\s*\w+)*(?:\s+\w+)*?[\s*]+(?P<name>\w+)\s*(?:\[[^;{}()]*\]\s*)*"
    r"(?:=[^;]*)?;\s*",
    re.DOTALL,
)


def without_host(text: str) -> str:
    """A text without what only the host knows: its functions, and variables of file scope.

    Args:
        text: CUDA C, without comments.
    """
    return _split(text)[0]


def host_names(text: str) -> frozenset[str]:
    """The names of what :func:`without_host` leaves out."""
    return frozenset(_split(text)[1])


def _split(text: str) -> tuple[str, list[str]]:
    """The device's part of a text, and the names in the rest."""
    out: list[str] = []
    names: list[str] = []
    macros, device = {name for name, _ in _MACRO.findall(text)}, _words_of_device(text)
    start = at = 0
    while at < len(text):
        c = text[at]
        if c == "#" and not text[start:at].strip():
            at = start = _copied(out, text, start, _end_of_directive(text, at))
        elif c == ";":
            variable = _VARIABLE.fullmatch(text, start, at + 1)
            type_of = text[start : variable.start("name")] if variable is not None else ""
            # a macro may stand for __constant__ or const
            if variable is not None and macros.isdisjoint(re.findall(r"\w+", type_of)):
                names.append(variable["name"])
                at = start = _left_out(out, text, start, at + 1)
            else:
                at = start = _copied(out, text, start, at + 1)
        elif c == "{":
            end = past_closing_brace(text, at)
            head = text[start:at]
            if head.rstrip().endswith("="):
                at = end  # values, of what goes on
            elif _HEAD_OF_FUNCTION.search(head) and not device.search(head):
                names += _NAME.findall(head)[:1]
                at = start = _left_out(out, text, start, end)
            else:
                at = start = _copied(out, text, start, end)
        else:
            at = _past(text, at)
    out.append(text[start:])
    return "".join(out), names


def _words_of_device(text: str) -> re.Pattern[str]:
    """What tells that a declaration is the device's: CUDA's words, or a macro that has one."""
    words = ["__(?:global|device|constant|shared|managed)__"]
    for name, value in _MACRO.findall(text):
        if re.search(rf"\b(?:{'|'.join(words)})\b", value):
            words.append(name)
    return re.compile(rf"\b(?:{'|'.join(words)})\b")


def _left_out(out: list[str], text: str, start: int, end: int) -> int:
    out.append("\n" * text.count("\n", start, end))
    return end


def _copied(out: list[str], text: str, start: int, end: int) -> int:
    out.append(text[start:end])
    return end


def _end_of_directive(text: str, at: int) -> int:
    """Behind a line that begins with ``#``, and those that it goes on in."""
    while True:
        end = text.find("\n", at)
        if end < 0:
            return len(text)
        if text[end - 1] != "\\":
            return end + 1
        at = end + 1


def _past(text: str, at: int) -> int:
    """Behind a character, or behind the string that begins with it."""
    if text[at] not in "\"'":
        return at + 1
    found = re.compile(r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'").match(text, at)
    return found.end() if found else at + 1


def past_closing_brace(text: str, at: int) -> int:
    """Behind the brace that closes the one at a place; the end where there is none."""
    depth = 0
    while at < len(text):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return at + 1
        at = _past(text, at)
    return len(text)


def listed(text: str) -> list[str]:
    """The parts of a list of arguments or parameters: between commas that stand in no brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += {"(": 1, "[": 1, "<": 1, ")": -1, "]": -1, ">": -1}.get(c, 0)
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts if p.strip()]
