"""A CUDA file's text: the device's part of it, lines where they were; lists between brackets."""

from __future__ import annotations

import re

_HEAD_OF_FUNCTION = re.compile(r"\)\s*(?:const\b|noexcept\b|->[^{;]*)?\s*$")
_DEVICE = re.compile(r"\b__(?:global|device)__\b")


def without_host(text: str) -> str:
    """A text without the functions that only the host runs.

    Args:
        text: CUDA C, without comments.
    """
    out: list[str] = []
    start = at = 0
    while at < len(text):
        c = text[at]
        if c == "#" and not text[start:at].strip():
            at = start = _copied(out, text, start, _end_of_directive(text, at))
        elif c == ";":
            at = start = _copied(out, text, start, at + 1)
        elif c == "{":
            end = past_closing_brace(text, at)
            head = text[start:at]
            if _HEAD_OF_FUNCTION.search(head) and not _DEVICE.search(head):
                out.append("\n" * text.count("\n", start, end))
            else:
                out.append(text[start:end])
            at = start = end
        else:
            at = _past(text, at)
    out.append(text[start:])
    return "".join(out)


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
