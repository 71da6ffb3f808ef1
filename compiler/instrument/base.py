"""The interface of an instrument: six methods, each of which does nothing by default."""

from __future__ import annotations

from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.passes.names import PassInfo
from whet.compiler.tir.function import IRModule


class PassInstrument:
    """Looks on while passes run."""

    def enter_pass_ctx(self) -> None:
        """Called when the context is entered."""

    def exit_pass_ctx(self) -> None:
        """Called when the context is left."""

    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        """True if a pass may run; required passes run in any case."""
        return True

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Called with the module that a pass is given."""

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Called with the module that a pass gave back."""


_METHODS = [name for name in vars(PassInstrument) if not name.startswith("_")]


def pass_instrument(pi_cls: Any = None) -> Any:
    """A class decorator: a class with some of the methods becomes an instrument.

    >>> from whet.compiler.instrument import pass_instrument
    >>> @pass_instrument
    ... class Names:
    ...     def run_before_pass(self, mod, info):
    ...         print(info.name)

    Raises:
        ArgumentError: for anything but a class that has at least one of the methods.
    """

    def wrap(cls: Any) -> Any:
        if not isinstance(cls, type):
            raise ArgumentError(f"pass_instrument({cls!r})", f"a {type(cls).__name__} is no class")
        if issubclass(cls, PassInstrument):
            return cls
        if not any(hasattr(cls, m) for m in _METHODS):
            raise ArgumentError(
                f"pass_instrument({cls.__name__})",
                "it has no method that is called",
                "methods: " + ", ".join(_METHODS),
            )
        names = {"__doc__": cls.__doc__, "__module__": cls.__module__}
        return type(cls.__name__, (cls, PassInstrument), names)

    return wrap if pi_cls is None else wrap(pi_cls)
