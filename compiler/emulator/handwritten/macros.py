"""Macros before a text of CUDA C, as by ``nvcc -D``; its lines keep their numbers."""

from __future__ import annotations

from collections.abc import Mapping

_BEHIND = "#line 1\n"


def with_macros(source: str, defines: Mapping[str, str]) -> str:
    """A text behind definitions.

    Args:
        source: CUDA C.
        defines: what each name stands for.
    """
    lines = "".join(f"#define {name} {value}\n" for name, value in defines.items())
    return f"{lines}{_BEHIND}{source}" if lines else source


def own_lines(source: str) -> list[str]:
    """The lines of a text, without what :func:`with_macros` has put before them."""
    return (source.partition(_BEHIND)[2] or source).splitlines()
