"""VerifyEach: every pass must leave correct loop IR behind; names the one that does not."""

from __future__ import annotations

from whet.compiler.errors import LowerError
from whet.compiler.instrument.base import PassInstrument
from whet.compiler.passes.names import PassInfo
from whet.compiler.tir.analysis.types import type_errors
from whet.compiler.tir.analysis.well_formed import ssa_errors, well_formed_errors
from whet.compiler.tir.function import IRModule


class VerifyEach(PassInstrument):
    """Checks every function after every pass, and before the first one.

    Each variable is defined once and used only inside its definition, each buffer is a parameter
    or made around its use, types agree.

    Raises:
        LowerError: by ``run_after_pass``, naming the pass and what is wrong.
    """

    def __init__(self) -> None:
        self._checked: IRModule | None = None

    def enter_pass_ctx(self) -> None:
        """Begin anew."""
        self._checked = None

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Check what comes in, unless the last pass left it."""
        if mod is not self._checked:
            self._check(mod, f"what {info.name} is given", "")

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Check what comes out."""
        if mod is not self._checked:
            self._check(mod, f"the pass {info.name}", "it is broken afterwards")

    def _check(self, mod: IRModule, request: str, where: str) -> None:
        for name, func in mod.functions.items():
            errors = [*ssa_errors(func), *well_formed_errors(func), *type_errors(func)]
            if errors:
                said = f"{name}: {errors[0]}"
                raise LowerError(request, f"{where}: {said}" if where else said, func.script)
        self._checked = mod
