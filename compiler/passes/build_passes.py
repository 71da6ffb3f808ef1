"""The passes between ``lower()`` and a generator, for each kind of target.

The CPU kinds have none: their generators write the checked entry, calls and types themselves.
Before them, for each kind, LowerIntrin applies the rules of a user's own intrinsics, if there are
any.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from whet.compiler.passes.authoring import PASS_NAMES, PassInfo, run_pass
from whet.compiler.passes.context import PassContext
from whet.compiler.passes.lower_intrin import lower_intrin
from whet.compiler.target import Target
from whet.compiler.tir.function import IRModule
from whet.compiler.tir.ops.intrinsics import LOWERINGS

_HERE = "whet.compiler.passes"
#: kind of target -> (name, ``module:function``), in order; a function maps a module and the target
#: to a module. A kind that is not here has none; a third party adds a row.
BUILD_PASSES: dict[str, tuple[tuple[str, str], ...]] = {
    "cuda": (
        # before a scope that no GPU has is taken for a thread's own
        ("VerifyScopes", f"{_HERE}.gpu.verify_scopes:check_scopes"),
        # while the loops that are bound to threads still show what the host would run itself
        ("VerifyMemory", f"{_HERE}.gpu.verify_memory:check_memory"),
        # equal thread tags become one variable; the others look at kernels alone
        ("SplitHostDevice", f"{_HERE}.gpu.split_host_device:split_module"),
        # before anything is done about shared memory that no two threads share
        ("PrivatizeShared", f"{_HERE}.gpu.privatize_shared:privatize_module"),
        # while a stage's stores are where its attribute is
        ("InjectDoubleBuffer", f"{_HERE}.gpu.inject_double_buffer:double_buffers"),
        # before shared memory is planned, of which shuffles need less
        ("LowerThreadAllreduce", f"{_HERE}.gpu.lower_thread_allreduce:lower_allreduces"),
        # when every shared buffer has its final size
        ("MergeDynamicSharedMemoryAllocations", f"{_HERE}.gpu.plan_shared_memory:plan_module"),
        # when it is known which buffers share their bytes
        ("ThreadSync", f"{_HERE}.gpu.thread_sync:sync_module"),
        ("VerifyGPUCode", f"{_HERE}.gpu.verify_gpu_code:verify_module"),
    ),
}
PASS_NAMES.add("tir.LowerIntrin")
PASS_NAMES.update(f"tir.{name}" for steps in BUILD_PASSES.values() for name, _ in steps)


def run_build_passes(mod: IRModule, target: Target) -> IRModule:
    """The lowered module after the passes of :data:`BUILD_PASSES` for the target's kind."""
    context = PassContext.current()
    if LOWERINGS and "LowerIntrin" not in context.disabled_pass:
        mod = run_pass(PassInfo("tir.LowerIntrin"), mod, context, _bound(lower_intrin, target))
    for name, home in BUILD_PASSES.get(str(target.kind), ()):
        if name in context.disabled_pass:
            continue
        module, function = home.split(":")
        mod = run_pass(
            PassInfo(f"tir.{name}"),
            mod,
            context,
            _bound(getattr(import_module(module), function), target),
        )
    return mod


def _bound(run: Any, target: Target) -> Callable[[IRModule, PassContext], IRModule]:
    return lambda mod, _: run(mod, target)
