"""Names that a module or a class does not have: why, where they are, what is written alike."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial

from whet.compiler import late

#: where a name that is asked for in the wrong place may be
_PLACES = {
    "te": "whet.compiler.te",
    "tir": "whet.compiler.tir",
    "topi": "whet.compiler.topi",
    "topi.nn": "whet.compiler.topi.nn",
    "ir": "whet.ir",
    "transform": "whet.transform",
    "tir.analysis": "whet.compiler.tir.analysis",
    "arith": "whet.compiler.arith",
}


class AbsentName(AttributeError):
    """A module or an object does not have a name; the text says what to use instead.

    Python asks packages for names that turn out to be modules, so making it must cost nothing: the
    text is made when it is read.
    """

    def __init__(self, name: str, text: Callable[[], str]) -> None:
        super().__init__(name)
        self._text = text

    def __str__(self) -> str:
        return self._text()


def missing(module: str, short: str, name: str) -> AttributeError:
    """The error for a name that a module does not have.

    Args:
        module: the module's full name.
        short: its name for users, e.g. ``"tir"``.
        name: the name that was asked for.
    """
    return AbsentName(name, partial(_text, module, short, name))


def missing_member(owner: type, name: str, room: str = "te") -> AttributeError:
    """The error for a name that the objects of a class of ``te`` or ``tir`` do not have."""
    return AbsentName(name, partial(_member_text, owner, name, room))


def _member_text(owner: type, name: str, room: str) -> str:
    why = late.ways_out(f"{room}.{owner.__name__}")
    request = f"{owner.__name__} has no {name!r}"
    if name in why:
        return f"{request}: {why[name]}"
    return _alike(request, name, [n for n in dir(owner) if not n.startswith("_")], "name")


def _text(module: str, short: str, name: str) -> str:
    request = f"{short} has no {name!r}"
    why = late.ways_out(short)
    if name in why:
        return f"{request}: {why[name]}"
    home = _home(module, name)
    if home:
        return f"{request}: it is {home}.{name}"
    return _alike(request, name, _names(module), "pass" if short.endswith("transform") else "name")


def _alike(request: str, name: str, known: Sequence[str], what: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, known, 3, 0.7)
    if near:
        return f"{request}: did you mean {' or '.join(near)}?"
    return f"{request}: there is no such {what}; docs/checklist.toml lists TVM's names"


def _names(module: str) -> list[str]:
    given = vars(sys.modules[module])
    return [n for n in given.get("__all__", given) if not n.startswith("_")]


def _home(module: str, name: str) -> str:
    """The module that has the name, "" for none."""
    from importlib import import_module

    for short, full in _PLACES.items():
        if full != module and name in vars(import_module(full)) and not name.startswith("_"):
            return short
    return ""
