"""Members of watched elements, and references to such elements, as C++ would have them.

An element is an object here that stands for a place, and neither has its type's members nor is what
references bind to::

    p[i].x = 1; q->y               WHET_MEMBER(x, p[i]) = 1; WHET_MEMBER(y, *(q))
    float &r = tile[i];            WHET_REFERENCE(float) r = tile[i];
    auto &r = tile[i];             auto &&r = tile[i];
    void inc(float &a) ..          void inc(WHET_REFERENCE(float) a) ..   (given such)
"""

from __future__ import annotations

import re

from whet.compiler.emulator.handwritten.device_code import listed

_WATCHED = re.compile(
    r"\bWHET_(?:POINTER|REFERENCE|GLOBAL)\((?P<type>[^()]*)\)\s*(?:const\s+|__restrict__\s+)*(?P<name>\w+)"
    r"|\bWHET_SHARED_(?:ROWS|ONE|BUFFER|ARENA|FILE_ARENA)\([^()]*?,\s*(?P<shared>\w+)(?=[,)])"
    r"|\bWHET_ROWS_\w+\([^(),]*,\s*(?P<rows>\w+)|\bauto\s*&&\s*(?P<auto>\w+)"
)
_MEMBER = re.compile(r"(?:\.|->)\s*(?P<name>[A-Za-z_]\w*)\b(?!\s*\()")
_BITS = re.compile(r"\b(\w+)\s*:\s*\d+\s*[;,]")
_KEYWORDS = {"if", "while", "for", "switch", "return", "sizeof", "else", "do", "case"}
_PLAIN = {"threadIdx", "blockIdx", "blockDim", "gridDim", "this"}


def watched_names(text: str) -> set[str]:
    """The names whose elements are watched: pointers, shared memory, references."""
    found = set()
    for m in _WATCHED.finditer(text):
        reference = m[0].startswith("WHET_REFERENCE")  # an object also of what is const
        if m["name"] is None or reference or not re.search(r"\bconst\b", m["type"] or ""):
            found.add(m["name"] or m["shared"] or m["rows"] or m["auto"])
    return found


def with_references(text: str, known: str) -> str:
    """A text whose references to watched elements, of its own and of its functions, stand for them.

    Args:
        text: CUDA C, without comments, its pointers and its shared memory recognised.
        known: the types, as alternatives of a pattern.
    """
    kind = rf"(?<![\w:<])(?P<type>(?:const\s+)?(?:{known}|auto)(?:\s+const)?)"
    own = re.compile(
        rf"{kind}\s*&\s*(?P<name>\w+)\s*(?:=(?P<value>[^;{{}}]*)|\{{(?P<held>[^;{{}}]*)\}})\s*;"
    )
    while True:
        names, before = watched_names(text), text

        def local(m: re.Match[str], names: set[str] = names) -> str:
            value = (m["value"] or m["held"] or "").strip()
            if not _stands_for_element(value, names):
                return m[0]
            if "auto" in m["type"]:
                return f"auto &&{m['name']} = {value};"
            return f"WHET_REFERENCE({m['type']}) {m['name']} = {value};"

        text = _parameters(own.sub(local, text), kind, names)
        if text == before:
            return text


def _stands_for_element(value: str, names: set[str]) -> bool:
    """Whether a value is an element of watched memory, as it stands."""
    value = value.strip()
    inner = re.match(r"\*\s*\(?\s*(\w+)", value)
    root = re.match(r"(\w+)", value)
    if inner is not None:
        return inner[1] in names
    if root is None or root[1] not in names:
        return False
    rest = value[root.end() :]
    while rest := rest.strip():
        if rest[0] == "[":
            rest = rest[_closes(rest, 0) + 1 :]
            continue
        member = re.match(r"(?:\.|->)\s*\w+", rest)
        if member is None:
            return False
        rest = rest[member.end() :]
    return True


def _closes(text: str, at: int) -> int:
    """The place of the bracket that closes the one at a place; the last one where none does."""
    depth = 0
    for k in range(at, len(text)):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(text[k], 0)
        if depth == 0:
            return k
    return len(text) - 1


def _opens(text: str, at: int) -> int:
    """The place of the bracket that opens the one at a place."""
    depth = 0
    for k in range(at, -1, -1):
        depth += {")": 1, "]": 1, "(": -1, "[": -1}.get(text[k], 0)
        if depth == 0:
            return k
    return 0


def _parameters(text: str, kind: str, names: set[str]) -> str:
    """Parameters by reference of functions that are given watched elements for them."""
    one = re.compile(rf"\s*{kind}\s*&\s*(?P<name>\w+)\s*")
    for head in list(re.finditer(r"\b(?P<name>\w+)\s*\(", text))[::-1]:
        opened, closed = head.end() - 1, _closes(text, head.end() - 1)
        if not re.match(r"\s*[{;]", text[closed + 1 :]) or "&" not in text[opened:closed]:
            continue
        before = re.split(r"[;{}]", text[: head.start()])[-1]
        if "template" in before or not re.search(r"\w[\s*&]*$", before) or "=" in before:
            continue
        parameters = _split(text[opened + 1 : closed])
        made = [
            f" WHET_REFERENCE({m['type']}) {m['name']}"
            if (m := one.fullmatch(p))
            and "auto" not in m["type"]
            and _given(text, head["name"], k, names)
            else p
            for k, p in enumerate(parameters)
        ]
        if made != parameters:
            text = f"{text[: opened + 1]}{','.join(made)}{text[closed:]}"
    return text


def _split(text: str) -> list[str]:
    parts, depth = [""], 0
    for c in text:
        depth += {"(": 1, "[": 1, "<": 1, "{": 1, ")": -1, "]": -1, ">": -1, "}": -1}.get(c, 0)
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return parts


def _given(text: str, function: str, number: int, names: set[str]) -> bool:
    """Whether some call of a function has a watched element as an argument."""
    for call in re.finditer(rf"\b{re.escape(function)}\s*\(", text):
        arguments = listed(text[call.end() : _closes(text, call.end() - 1)])
        if number < len(arguments) and _stands_for_element(arguments[number], names):
            return True
    return False


def with_members(text: str) -> str:
    """A text that names members of watched elements by ``WHET_MEMBER``."""
    names, bits = watched_names(text), set(_BITS.findall(text))
    at = 0
    while (m := _MEMBER.search(text, at)) is not None:
        at = m.end()
        if m["name"] in bits or _in_text(text, m.start()):
            continue
        begin = _base(text, m.start())
        base = text[begin : m.start()].strip()
        roots = set(re.findall(r"\b[A-Za-z_]\w*", base.partition("[")[0]))
        if not base or not roots & names or roots & _PLAIN or base.startswith(("::", ".")):
            continue
        if _declares(text, m.start(), begin):
            continue
        element = f"*({base})" if text[m.start()] == "-" else base
        made = f"WHET_MEMBER({m['name']}, {element})"
        text = f"{text[:begin]}{made}{text[m.end() :]}"
        at = begin + len(made)
    return text


def _in_text(text: str, at: int) -> bool:
    """Whether a place is in a string, or in a line for the preprocessor that defines nothing."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line.count('"') % 2 == 1 or bool(re.match(r"\s*#\s*(?!define)", line))


def _declares(text: str, at: int, begin: int) -> bool:
    """Whether a dot is that of a number, or of a designated initial value."""
    return begin == at


def _base(text: str, at: int) -> int:
    """Where the expression begins whose member is named at a place."""
    end = at
    while True:
        while end > 0 and text[end - 1].isspace():
            end -= 1
        if end > 0 and text[end - 1] in ")]":
            end = _opens(text, end - 1)
            while end > 0 and text[end - 1].isspace():
                end -= 1
            word = re.search(r"[A-Za-z_]\w*$", text[:end])
            if word is None:
                if end > 0 and text[end - 1] in ")]":
                    continue
                return _past_spaces(text, end)
            if word[0] in _KEYWORDS:
                return _past_spaces(text, end)
            end = word.start()
        else:
            word = re.search(r"\w+$", text[:end])
            if word is None or word[0][0].isdigit():
                return at
            end = word.start()
        link = re.search(r"(?:\.|->|::)\s*$", text[:end])
        if link is None:
            return end
        end = link.start()


def _past_spaces(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at
