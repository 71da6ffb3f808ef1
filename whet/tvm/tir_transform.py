"""The passes on loop IR by TVM's names, each a function that makes the pass, and writing one.

    >>> from whet import tir
    >>> tir.transform.Simplify()
    Pass(tir.Simplify)

They run for the current target, outside ``lower`` as inside it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from whet.compiler.absent import missing
from whet.compiler.errors import LowerError
from whet.compiler.passes.authoring import (
    Apply,
    Filter,
    Pass,
    build_pass,
    lowering_pass,
    prim_func_pass,
)
from whet.compiler.passes.context import PassContext as PassContext
from whet.compiler.passes.table import BUILD_PASSES, LOWER_INTRIN, PASSES


def VectorizeLoop(enable_vectorize: bool = True) -> Pass:
    """Vectorised loops become vector operations, or serial loops; after FlattenBuffer."""
    return lowering_pass("VectorizeLoop", disable_vectorize=not enable_vectorize)


def CommonSubexprElimTIR(enable_cse_tir: bool = True, identify_equiv_terms: bool = False) -> Pass:
    """Expressions that a statement computes twice are computed once."""
    if not enable_cse_tir:
        return Apply(lambda func: func)
    return lowering_pass("CommonSubexprElimTIR", enable_equiv_terms_in_cse_tir=identify_equiv_terms)


def NarrowDataType(target_bits: int = 32) -> Pass:
    """Loops that count in 64 bits count in 32, where no index needs more.

    Raises:
        LowerError: for another number of bits.
    """
    if target_bits != 32:
        raise LowerError(
            f"NarrowDataType({target_bits})", "indices are of 64 or 32 bits", "NarrowDataType(32)"
        )
    return lowering_pass("NarrowDataType")


def HoistIfThenElse(variant: str | None = None) -> Pass:
    """A condition that is the same in each step of a loop is tested once.

    Args:
        variant: ``"basic"`` leaves out what the configuration adds.
    """
    given: dict[str, Any] = {"HoistIfThenElse": {}} if variant == "basic" else {}
    return lowering_pass("HoistIfThenElse", **given)


def ThreadSync(storage_scope: str = "shared") -> Pass:
    """Barriers in kernels, where threads need what others wrote.

    Args:
        storage_scope: ``"shared"`` or ``"shared.dyn"``, which are one here.

    Raises:
        LowerError: for another scope.
    """
    if storage_scope not in ("shared", "shared.dyn"):
        raise LowerError(
            f"ThreadSync({storage_scope!r})",
            "only the threads of a block can wait for each other",
            'ThreadSync("shared")',
        )
    return build_pass(next(p for p in BUILD_PASSES["cuda"] if p.name == "ThreadSync"))


def _factory(name: str, does: str, make: Callable[[], Pass]) -> Callable[[], Pass]:
    """The function of a row that takes no arguments."""

    def factory() -> Pass:
        return make()

    factory.__name__ = factory.__qualname__ = name
    factory.__doc__ = does
    return factory


FACTORIES: dict[str, Callable[..., Pass]] = {
    **{p.name: _factory(p.name, p.does, partial(lowering_pass, p.name)) for p in PASSES if p.does},
    **{
        p.name: _factory(p.name, p.does, partial(build_pass, p))
        for p in (LOWER_INTRIN, *BUILD_PASSES["cuda"])
        if p.does
    },
    "VectorizeLoop": VectorizeLoop,
    "CommonSubexprElimTIR": CommonSubexprElimTIR,
    "NarrowDataType": NarrowDataType,
    "HoistIfThenElse": HoistIfThenElse,
    "ThreadSync": ThreadSync,
}
"""TVM's name of a pass -> the function that makes it; all are names of this module."""
globals().update(FACTORIES)
__all__ = ["Apply", "Filter", "prim_func_pass", *FACTORIES]


def __getattr__(name: str) -> Any:
    """An error that says why a pass of TVM's is not here."""
    raise missing(__name__, "tir.transform", name)
