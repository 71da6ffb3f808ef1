"""PassContext: how the passes run here: their configuration, which are left out, who looks on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar, Token
from typing import Any, Protocol

from whet.compiler.errors import ArgumentError
from whet.compiler.tir.function import PrimFunc

#: every configuration key with its default
KEYS: dict[str, Any] = {
    "tir.disable_vectorize": False,
    "tir.LoopPartition": {"enabled": True},
}

PassConfig = Mapping[str, Any]


class Instrument(Protocol):
    """Looks at each function before and after each pass."""

    def run_before_pass(self, name: str, func: PrimFunc) -> None:
        """Called with the function that the pass is given."""

    def run_after_pass(self, name: str, func: PrimFunc) -> None:
        """Called with the function that the pass returned."""


class PassContext:
    """Within ``with PassContext(...)``, lowering follows it.

    Args:
        config: values for keys of :data:`KEYS`.
        disabled_pass: names of passes to leave out.
        instruments: observers between the passes.

    Raises:
        ArgumentError: for a configuration key or a pass that does not exist.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        disabled_pass: Sequence[str] = (),
        instruments: Sequence[Instrument] = (),
    ) -> None:
        for key in config or {}:
            if key not in KEYS:
                import difflib

                near = difflib.get_close_matches(key, KEYS, 1)
                hint = f"did you mean {near[0]!r}?" if near else "keys: " + ", ".join(KEYS)
                raise ArgumentError(f"PassContext(config={{{key!r}: ...}})", "unknown key", hint)
        self.config: dict[str, Any] = {**KEYS, **(config or {})}
        self.disabled_pass = tuple(disabled_pass)
        self.instruments = tuple(instruments)
        from whet.compiler.passes.pipeline import PASSES

        known = [p.name for p in PASSES]
        for name in self.disabled_pass:
            if name not in known:
                raise ArgumentError(
                    f"PassContext(disabled_pass=[{name!r}])",
                    "there is no such pass",
                    "passes: " + ", ".join(dict.fromkeys(known)),
                )
        self._tokens: list[Token] = []

    @staticmethod
    def current() -> PassContext:
        """The context in force; the default one outside any."""
        return _CURRENT.get() or PassContext()

    def __enter__(self) -> PassContext:
        self._tokens.append(_CURRENT.set(self))
        return self

    def __exit__(self, *exc: object) -> None:
        _CURRENT.reset(self._tokens.pop())


_CURRENT: ContextVar[PassContext | None] = ContextVar("whet_pass_context", default=None)
