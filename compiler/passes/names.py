"""The names of passes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PassInfo:
    """The name of a pass (``"tir.Simplify"``), its level, and the passes it needs before it."""

    name: str
    opt_level: int = 0
    required: tuple[str, ...] = ()

    @property
    def short(self) -> str:
        """The name without ``tir.``."""
        return self.name.removeprefix("tir.")


#: names of all passes made so far without ``tir.``, a user's own among them
PASS_NAMES: set[str] = set()
