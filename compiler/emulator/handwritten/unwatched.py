"""What of a CUDA C text the emulator does not look at: memory that it does not recognise."""

from __future__ import annotations

import re

from whet.compiler.emulator.handwritten.adapt import adapt
from whet.compiler.emulator.handwritten.local_arrays import ARRAY, MORE, head_of, is_function

_DIRECTIVE = re.compile(r"^[ \t]*#[^\n]*$", re.MULTILINE)
_FUNCTION = re.compile(r"(\w+)\s*\(([^(){};]*(?:\([^()]*\)[^(){};]*)*)\)\s*\{")
_WORDS = re.compile(r"^(?:if|for|while|switch|catch|return|sizeof)$")
_MADE = re.compile(r"\b(?:WHET_POINTER|WHET_GLOBAL)\s*\([^()]*\)")
_NAME = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)*$")
_SHARED = re.compile(r"\bWHET_SHARED_PLAIN\([^,;]*, (\w+)")
_POINTER = re.compile(
    r"(?<=[;{}])\s*(?:const\s+)?[A-Za-z_]\w*\s*\*+\s*"
    r"(?:(?:const|__restrict__|__restrict)\s+)*([A-Za-z_]\w*)\s*[=;]"
)


def unwatched(source: str) -> tuple[str, ...]:
    """Arrays and pointers through which accesses are not looked at, each with what it is.

    Args:
        source: CUDA C, as :func:`~whet.compiler.emulator.handwritten.adapt.adapt` takes it.

    Returns:
        E.g. ``("the local array acc", "the pointer p")``, in the order of the text.
    """
    text = _DIRECTIVE.sub("", adapt(source)[0])
    found = [*_arrays(text), *_parameters(text)]
    found += [(m.start(1), f"the pointer {m[1]}") for m in _POINTER.finditer(text)]
    found += [(m.start(1), f"the shared variable {m[1]}") for m in _SHARED.finditer(text)]
    return tuple(dict.fromkeys(said for _, said in sorted(found)))


def _arrays(text: str) -> list[tuple[int, str]]:
    """Arrays of a thread or of the device that stayed as they are declared."""
    found = []
    for first in ARRAY.finditer(text):
        local = is_function(head_of(text, first.start("name")))
        if not local and not re.search("__(?:device|constant)__", first[0]):
            continue
        kind = "local array" if local else "device's array"
        m: re.Match[str] | None = first
        while m is not None:
            found.append((m.start("name"), f"the {kind} {m['name']}"))
            m = MORE.match(text, m.end())
    return found


def _parameters(text: str) -> list[tuple[int, str]]:
    """Parameters that are pointers still."""
    found = []
    for m in _FUNCTION.finditer(text):
        if _WORDS.match(m[1]):
            continue
        for part in _MADE.sub("", m[2]).split(","):
            name = _NAME.search(part.strip())
            if name and ("*" in part or "[" in part):
                found.append((m.start(2), f"the pointer {name[1]}"))
    return found
