"""Where C++ would take a watched element itself, its value: what CUDA's elements are.

A watched element is an object that converts to its number. Beside an int it would become an int,
and 0.5 be 0; and ``auto``, or a template's type, would be the object's, which is the memory::

    c ? s[i] : 0                   c ? whet_emulator::value_of((s[i])) : 0
    auto v = s[i];                 auto v = whet_emulator::value_of((s[i]));
    template <class T> T f(T v);   f(whet_emulator::value_of((s[i])))
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from whet.compiler.emulator.handwritten.local_arrays import end_of_subscript

_TOKEN = re.compile(r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'|::|\\\n|[?:;,()\[\]{}\n]")
_NUMBER = re.compile(r"\s*[-+]?\s*(?:\d[\w.]*|\.\d\w*)\s*$")
_AUTO = re.compile(r"\bauto\s+\w+\s*=(?!=|\s*\[)")
_TEMPLATE = re.compile(
    r"\btemplate\s*<[^;{}]*?\b(?:typename|class)\b[^;{}]*?>(?P<head>[^;{}()]*?)\b(?P<name>\w+)\s*\("
)
_ONE = re.compile(r"\bWHET_SHARED_ONE\([^()]*,\s*(\w+)\)")
_READ = "whet_emulator::value_of(("

_Added = list[tuple[int, str]]


def read_values(text: str) -> str:
    """A text that reads elements where their values are meant.

    Args:
        text: CUDA C, without comments.
    """
    ones = set(_ONE.findall(text))
    added: _Added = []
    for found in _TOKEN.finditer(text):
        if found[0] == "?":
            added += _choice(text, found.end())
    for found in _AUTO.finditer(text):
        end = _end(text, found.end())
        value = text[found.end() : end]
        if "[" in value or "WHET_MEMBER(" in value or _is_element(value, ones):
            added += [(found.end(), _READ), (end, "))")]
    added += _arguments(text, ones)
    parts, at = [], 0
    for place, what in sorted(added):
        parts += [text[at:place], what]
        at = place
    return "".join([*parts, text[at:]])


def _choice(text: str, begin: int) -> _Added:
    """What is put where, for the choice whose first value begins at a place."""
    colon = _end(text, begin)
    if text[colon : colon + 1] != ":":
        return []
    ends = (begin, colon), (colon + 1, _end(text, colon + 1))
    values = [text[a:b] for a, b in ends]
    added: _Added = []
    for own, other, (a, b) in zip(values, reversed(values), ends):
        if not _NUMBER.match(own) and "[" not in other and ("[" in own or _NUMBER.match(other)):
            added += [(a, _READ), (b, "))")]
    return added


def _arguments(text: str, ones: set[str]) -> _Added:
    """The same for elements given to templates that take values."""
    added: _Added = []
    for name, by_value in _templates(text).items():
        for call in re.finditer(rf"\b{name}\s*(?:<[^<>;(){{}}]*>\s*)?\(", text):
            for takes, (a, b) in zip(by_value, _parts(text, call.end())):
                if takes and _is_element(text[a:b], ones):
                    added += [(a, _READ), (b, "))")]
    return added


def _templates(text: str) -> dict[str, list[bool]]:
    """The templates of a text: of each parameter, whether it is a value in all of that name."""
    found: dict[str, list[bool]] = {}
    for m in _TEMPLATE.finditer(text):
        if "__global__" in m["head"]:
            continue
        takes = [_is_value(text[a:b]) for a, b in _parts(text, m.end())]
        known = found.get(m["name"], takes)
        found[m["name"]] = [a and b for a, b in zip(takes, known)]
    return found


def _is_value(parameter: str) -> bool:
    changed = "&" in parameter and not re.search(r"\bconst\b", parameter)
    return not changed and not re.search(r"[*\[]|&&|\bWHET_", parameter)


def _is_element(value: str, ones: set[str]) -> bool:
    """Whether a value is an element, and nothing is computed with it."""
    value = value.strip()
    if value in ones or re.fullmatch(r"\*\s*(?:\w+|\([^()]*\))", value):
        return True
    name = re.match(r"\w+\s*(?=\[)", value)
    at = name.end() if name else len(value)
    while value[at : at + 1] == "[":
        at = end_of_subscript(value, at)
        at += len(value[at:]) - len(value[at:].lstrip())
    return name is not None and at == len(value)


def _parts(text: str, begin: int) -> Iterator[tuple[int, int]]:
    """What stands between commas, from behind a bracket on until that is closed."""
    while True:
        end = _end(text, begin)
        yield begin, end
        if text[end : end + 1] != ",":
            return
        begin = end + 1


def _end(text: str, begin: int) -> int:
    """Where the value of a choice that begins at a place ends: at its colon, or behind it all."""
    directive = _in_directive(text, begin)
    depth = choices = 0
    for found in _TOKEN.finditer(text, begin):
        word = found[0]
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(word, 0)
        if depth < 0 or (depth == 0 and word in ";,") or (word == "\n" and directive):
            return found.start()
        if depth == 0 and word == "?":
            choices += 1
        elif depth == 0 and word == ":":
            if choices == 0:
                return found.start()
            choices -= 1
    return len(text)


def _in_directive(text: str, at: int) -> bool:
    """Whether a place is in a line, or in one that goes on behind a backslash, that begins by #."""
    begin = text.rfind("\n", 0, at)
    while begin > 0 and text[begin - 1] == "\\":
        begin = text.rfind("\n", 0, begin)
    return text[begin + 1 : at].lstrip().startswith("#")
