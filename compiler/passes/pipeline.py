"""The passes, in the order in which they run, with a word on why where the order matters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from whet.compiler.passes.context import PassConfig, PassContext
from whet.compiler.passes.flatten_buffer import flatten_buffer
from whet.compiler.passes.loop_partition import loop_partition
from whet.compiler.passes.register_accumulators import register_accumulators
from whet.compiler.passes.remove_no_op import remove_no_op
from whet.compiler.passes.simplify import simplify, simplify_loops
from whet.compiler.passes.vectorize_loop import vectorize_loop
from whet.compiler.target import Target
from whet.compiler.tir.function import PrimFunc


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass: ``run(func, target, config) -> func``, and why it stands where it stands."""

    name: str
    run: Callable[[PrimFunc, Target, PassConfig], PrimFunc]
    why: str
    in_simple_mode: bool = True


PASSES: tuple[Pass, ...] = (
    Pass("Simplify", simplify, "indices become canonical, guards that always hold go"),
    Pass(
        "LoopPartition",
        loop_partition,
        "while accesses are multi-dimensional and loops whole; splits off tails, so that the "
        "main part has no guards",
        in_simple_mode=False,
    ),
    Pass("Simplify", simplify, "the loops of a tail get their own length, before they are vectors"),
    Pass("FlattenBuffer", flatten_buffer, "strides come in; one index an access from here on"),
    Pass(
        "VectorizeLoop",
        vectorize_loop,
        "on flat indices, where a lane's step is one number; unrolled loops stay loops until "
        "a generator writes them out",
    ),
    Pass(
        "SimplifyLoops",
        simplify_loops,
        "takes what vectors' guards have become around loops; their indices are canonical already",
    ),
    Pass(
        "RegisterAccumulators",
        register_accumulators,
        "after guards are decided, since a guarded store is left alone, and on vectors",
    ),
    Pass("RemoveNoOp", remove_no_op, "last: removes what the others emptied"),
)


def run_passes(func: PrimFunc, target: Target, simple_mode: bool = False) -> PrimFunc:
    """The function after all passes that the current :class:`PassContext` leaves in."""
    context = PassContext.current()
    for p in PASSES:
        if p.name in context.disabled_pass or (simple_mode and not p.in_simple_mode):
            continue
        for i in context.instruments:
            i.run_before_pass(p.name, func)
        func = p.run(func, target, context.config)
        for i in context.instruments:
            i.run_after_pass(p.name, func)
    return func
