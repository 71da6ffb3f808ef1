"""Running the passes of :mod:`table`: those of ``lower()``, and those of ``build()`` after them."""

from __future__ import annotations

from collections.abc import Iterator

from whet.compiler.passes.authoring import Pass, build_pass, changed_functions, run_pass
from whet.compiler.passes.context import PassContext
from whet.compiler.passes.features import Features, features_of
from whet.compiler.passes.names import PassInfo
from whet.compiler.passes.table import BUILD_PASSES, LOWER_INTRIN, PASSES, Step
from whet.compiler.passes.threads.axes import resolve_thread_axes
from whet.compiler.target import Target
from whet.compiler.tir.function import IRModule, PrimFunc
from whet.compiler.tir.ops.intrinsics import LOWERINGS
from whet.compiler.tir.visit.renew import defined_once


def run_passes(mod: IRModule, target: Target, simple_mode: bool = False) -> IRModule:
    """The module after all passes that the current :class:`PassContext` leaves in.

    Functions that have been lowered already (their attribute ``lowered`` is true) stay as they are.
    """
    if any(f.attrs.get("lowered") for f in mod.functions.values()):
        todo = {name: f for name, f in mod.functions.items() if not f.attrs.get("lowered")}
        done = run_passes(IRModule(todo), target, simple_mode).functions if todo else {}
        return IRModule({name: done.get(name, f) for name, f in mod.functions.items()})
    context = PassContext.current()
    contains: dict[str, Features] = {}
    for step in _steps(context, simple_mode):
        if isinstance(step, Pass):
            mod = step(mod).map(defined_once).map(resolve_thread_axes)
            contains = {}  # a custom pass may bring in anything
            continue
        if step.when is not None and not contains:
            contains = {name: features_of(f) for name, f in mod.functions.items()}
        mod = _run(step, mod, target, context, contains)
    return mod


def _steps(context: PassContext, simple_mode: bool) -> Iterator[Step | Pass]:
    """The steps that run, in order, each phase's custom passes behind it."""
    custom = [(at, p) for at, p in context.config["tir.add_lower_pass"] if context.enabled(p.info)]
    for phase in range(4):
        for step in PASSES:
            left_out = step.name in context.disabled_pass or (
                simple_mode and not step.in_simple_mode
            )
            if step.phase == phase and not left_out:
                yield step
        yield from (p for at, p in custom if at == phase)


def _run(
    step: Step,
    mod: IRModule,
    target: Target,
    context: PassContext,
    contains: dict[str, Features],
) -> IRModule:
    always = step.when is None or step.name in context.required_pass

    def change(name: str, func: PrimFunc) -> PrimFunc:
        if step.moves_loads and func.may_overlap:
            return func
        if always or step.when(contains[name], context.config):  # type: ignore[misc]
            return step.run(func, target, context.config)
        return func

    info = PassInfo(f"tir.{step.name}")
    return run_pass(info, mod, context, lambda m, _: changed_functions(m, change))


def run_build_passes(mod: IRModule, target: Target) -> IRModule:
    """The lowered module after the passes of :data:`BUILD_PASSES` for the target's kind."""
    context = PassContext.current()
    own = [LOWER_INTRIN] if LOWERINGS else []
    for step in (*own, *BUILD_PASSES.get(str(target.kind), ())):
        if step.name not in context.disabled_pass:
            mod = build_pass(step, target)(mod)
    return mod
