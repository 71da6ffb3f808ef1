"""The passes on loop IR by TVM's names, each a function that makes the pass, and writing one.

    >>> from whet import tir
    >>> tir.transform.Simplify()
    Pass(tir.Simplify)

They run for the current target, outside ``lower`` as inside it.
"""

from __future__ import annotations

from typing import Any

from whet.compiler.absent import missing
from whet.compiler.errors import LowerError
from whet.compiler.passes.authoring import (
    Apply,
    Filter,
    Pass,
    PassInfo,
    changed_functions,
    prim_func_pass,
)
from whet.compiler.passes.context import PassContext
from whet.compiler.passes.options import OPTIONS, checked
from whet.compiler.passes.pipeline import lowering_pass
from whet.compiler.target import Target
from whet.compiler.tir.function import IRModule, PrimFunc

__all__ = [
    "Apply",
    "CommonSubexprElimTIR",
    "Filter",
    "FlattenBuffer",
    "HoistIfThenElse",
    "InjectDoubleBuffer",
    "InjectVirtualThread",
    "InstrumentBoundCheckers",
    "LoopPartition",
    "LowerIntrin",
    "LowerThreadAllreduce",
    "MergeDynamicSharedMemoryAllocations",
    "NarrowDataType",
    "PrivatizeShared",
    "RegisterAccumulators",
    "RemoveNoOp",
    "RewriteUnsafeSelect",
    "Simplify",
    "SkipAssert",
    "SplitHostDevice",
    "StorageRewrite",
    "ThreadSync",
    "UnrollLoop",
    "VectorizeLoop",
    "VerifyMemory",
    "prim_func_pass",
]


def Simplify() -> Pass:
    """Canonical indices, decided conditions, no loops of one step or none."""
    return lowering_pass("Simplify")


def LoopPartition() -> Pass:
    """One loop of each nest split so that its main part needs no guard."""
    return lowering_pass("LoopPartition")


def FlattenBuffer() -> Pass:
    """One index for each access, strides and offsets put in."""
    return lowering_pass("FlattenBuffer")


def InjectVirtualThread() -> Pass:
    """Virtual threads as loops around the statements that depend on them."""
    return lowering_pass("InjectVirtualThread")


def StorageRewrite() -> Pass:
    """Large buffers that are never needed at the same time share their memory."""
    return lowering_pass("StorageRewrite")


def UnrollLoop() -> Pass:
    """Short loops unrolled, as the configuration says."""
    return lowering_pass("UnrollLoop")


def RegisterAccumulators() -> Pass:
    """What a loop adds up in memory added up in registers (Whet's own)."""
    return lowering_pass("RegisterAccumulators")


def RewriteUnsafeSelect() -> Pass:
    """Choices between values that may not both be read become branches."""
    return lowering_pass("RewriteUnsafeSelect")


def InstrumentBoundCheckers() -> Pass:
    """Accesses outside their buffers become errors; before FlattenBuffer, to name dimensions."""
    return lowering_pass("InstrumentBoundCheckers")


def RemoveNoOp() -> Pass:
    """No loops, branches or buffers that nothing needs."""
    return lowering_pass("RemoveNoOp")


def SkipAssert() -> Pass:
    """Assertions taken for granted."""
    return lowering_pass("SkipAssert")


def VectorizeLoop(enable_vectorize: bool = True) -> Pass:
    """Vectorised loops become vector operations, or serial loops; after FlattenBuffer."""
    return _with("VectorizeLoop", {"tir.disable_vectorize": not enable_vectorize})


def CommonSubexprElimTIR(enable_cse_tir: bool = True, identify_equiv_terms: bool = False) -> Pass:
    """What a statement computes twice, it computes once."""
    if not enable_cse_tir:
        return Apply(lambda func: func)
    return _with(
        "CommonSubexprElimTIR", {"tir.enable_equiv_terms_in_cse_tir": identify_equiv_terms}
    )


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
    if variant == "basic":
        return _with("HoistIfThenElse", {"tir.HoistIfThenElse": {}})
    return lowering_pass("HoistIfThenElse")


def VerifyMemory() -> Pass:
    """Refuses host code that touches the memory of a GPU."""
    from whet.compiler.passes.gpu.verify_memory import check_memory

    return _BuildPass(check_memory, PassInfo("tir.VerifyMemory"))


def SplitHostDevice() -> Pass:
    """Regions of thread-bound loops become kernels, functions of their own (lowered code)."""
    from whet.compiler.passes.gpu.split_host_device import split_module

    return _BuildPass(split_module, PassInfo("tir.SplitHostDevice"))


def PrivatizeShared() -> Pass:
    """Shared memory of which each thread uses its own part, in registers; after SplitHostDevice."""
    from whet.compiler.passes.gpu.privatize_shared import privatize_module

    return _BuildPass(privatize_module, PassInfo("tir.PrivatizeShared"))


def InjectDoubleBuffer() -> Pass:
    """Two buffers in turns where ``double_buffer`` asks for them; after SplitHostDevice."""
    from whet.compiler.passes.gpu.inject_double_buffer import double_buffers

    return _BuildPass(double_buffers, PassInfo("tir.InjectDoubleBuffer"))


def LowerThreadAllreduce() -> Pass:
    """Reductions over a block's threads by shuffles of its warps; after SplitHostDevice."""
    from whet.compiler.passes.gpu.lower_thread_allreduce import lower_allreduces

    return _BuildPass(lower_allreduces, PassInfo("tir.LowerThreadAllreduce"))


def MergeDynamicSharedMemoryAllocations() -> Pass:
    """A kernel's shared buffers in one arena; after SplitHostDevice."""
    from whet.compiler.passes.gpu.plan_shared_memory import plan_module

    return _BuildPass(plan_module, PassInfo("tir.MergeDynamicSharedMemoryAllocations"))


def ThreadSync(storage_scope: str = "shared") -> Pass:
    """Barriers in kernels, where threads need what others wrote.

    Args:
        storage_scope: ``"shared"`` or ``"shared.dyn"``, which are one here.

    Raises:
        LowerError: for another scope.
    """
    from whet.compiler.passes.gpu.thread_sync import sync_module

    if storage_scope not in ("shared", "shared.dyn"):
        raise LowerError(
            f"ThreadSync({storage_scope!r})",
            "only the threads of a block can wait for each other",
            'ThreadSync("shared")',
        )
    return _BuildPass(sync_module, PassInfo("tir.ThreadSync"))


def LowerIntrin() -> Pass:
    """Intrinsics of a user's own become what ``ir.register_intrin_lowering`` was told."""
    from whet.compiler.passes.lower_intrin import lower_intrin

    return _BuildPass(lower_intrin, PassInfo("tir.LowerIntrin"))


class _BuildPass(Pass):
    """A pass of ``build``, ``run(mod, target)``."""

    def __init__(self, run: Any, info: PassInfo) -> None:
        super().__init__(info)
        self.run = run

    def transform(self, mod: IRModule, context: PassContext) -> IRModule:
        return self.run(mod, Target.current() or Target("llvm"))


def _with(name: str, values: dict[str, Any]) -> Pass:
    """A pass of lowering with some configuration of its own."""
    given = checked(values)
    run = lowering_pass(name).run

    def change(func: PrimFunc, config: Any) -> PrimFunc:
        target = (Target.current() or Target("llvm")).canonical()
        return run(func, target, {**config, **given})

    class _Configured(Pass):
        def transform(self, mod: IRModule, context: PassContext) -> IRModule:
            return changed_functions(mod, lambda _, f: change(f, context.config))

    assert all(key in OPTIONS for key in given)
    return _Configured(PassInfo(f"tir.{name}"))


def __getattr__(name: str) -> Any:
    """An error that says why a pass of TVM's is not here."""
    from whet.compiler.passes.pipeline import ABSENT

    raise missing(__name__, "tir.transform", name, ABSENT)
