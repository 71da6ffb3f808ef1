"""Symbols of a kernel's functions: none that C's library, Whet or what the kernel calls has."""

from __future__ import annotations

from collections.abc import Container

from whet.compiler.codegen.c_library import is_of_the_library

ENTRY = "__entry"
#: what stands behind a kernel's name in the symbols of its other functions
_OWN = ("__raw", "__repeat", "__release", "__assert_values", ENTRY)


def entry_symbol(name: str, called: Container[str] = ()) -> str:
    """The symbol of a kernel's checked entry: its name, or ``name__entry``.

    The latter where C's library has a function of this name (``exp``, ``free``), where Whet has
    one, where the kernel calls one, and where another kernel's function could be called so.

    Args:
        name: the kernel's.
        called: the functions that its module calls.
    """
    taken = name in called or name.startswith("whet_") or name.endswith(_OWN)
    return name + ENTRY if taken or is_of_the_library(name) else name
