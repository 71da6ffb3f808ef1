"""The passes, in the order in which they run, with a word on why where the order matters.

``lower()`` runs :data:`PASSES` on what comes from a schedule; what ``build()`` runs afterwards is
in :mod:`build_passes`. A custom pass of phase 0 runs before all of them, one of phase 1, 2 or 3
after the last of ours with this number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from whet.compiler.errors import ArgumentError
from whet.compiler.passes.authoring import LoweringPass, Pass, changed_functions, run_pass
from whet.compiler.passes.context import PassConfig, PassContext
from whet.compiler.passes.features import Features, features_of
from whet.compiler.passes.gpu.inject_virtual_thread import inject_virtual_thread
from whet.compiler.passes.gpu.thread_axes import resolve_thread_axes
from whet.compiler.passes.instrument_bound_checkers import instrument_bound_checkers
from whet.compiler.passes.loops.common_subexpr_elim import common_subexpr_elim
from whet.compiler.passes.loops.flatten_buffer import flatten_buffer
from whet.compiler.passes.loops.hoist_if_then_else import hoist_if_then_else
from whet.compiler.passes.loops.loop_partition import loop_partition
from whet.compiler.passes.loops.narrow_data_type import narrow_data_type
from whet.compiler.passes.loops.register_accumulators import register_accumulators
from whet.compiler.passes.loops.remove_no_op import remove_no_op
from whet.compiler.passes.loops.rewrite_unsafe_select import rewrite_unsafe_select
from whet.compiler.passes.loops.simplify import simplify, simplify_loops
from whet.compiler.passes.loops.storage_rewrite import storage_rewrite
from whet.compiler.passes.loops.transpose_loads import transpose_loads
from whet.compiler.passes.loops.unroll_loop import unroll_loop
from whet.compiler.passes.loops.vectorize_loop import vectorize_loop
from whet.compiler.passes.skip_assert import skip_assert
from whet.compiler.target import Target
from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s
from whet.compiler.tir.function import IRModule, PrimFunc
from whet.compiler.tir.visit.renew import defined_once

Run = Callable[[PrimFunc, Target, PassConfig], PrimFunc]


@dataclass(frozen=True, slots=True)
class Step:
    """A pass at its place.

    Attributes:
        name: TVM's name, where TVM has the pass.
        run: ``run(func, target, config) -> func``.
        why: why it stands where it stands.
        phase: after which custom passes of this phase run.
        in_simple_mode: whether ``lower(simple_mode=True)`` runs it.
        when: whether it has anything to do, by what a function contains and the configuration.
    """

    name: str
    run: Run
    why: str
    phase: int = 1
    in_simple_mode: bool = True
    when: Callable[[Features, PassConfig], bool] | None = None


def _unrolls(has: Features, config: PassConfig) -> bool:
    given = config["tir.UnrollLoop"]
    asked = given["auto_max_step"] or given["auto_max_extent"] or given["explicit_unroll"]
    return bool(asked) or any(key.startswith("pragma_") and "unroll" in key for key in has.keys)


PASSES: tuple[Step, ...] = (
    Step(
        "SkipAssert",
        skip_assert,
        "before the bounds checker, whose assertions are asked for by another key",
        when=lambda has, config: config["tir.disable_assert"] and s.AssertStmt in has.nodes,
    ),
    Step("Simplify", simplify, "indices become canonical, guards that always hold go"),
    Step(
        "InstrumentBoundCheckers",
        instrument_bound_checkers,
        "while accesses have the dimensions that a user knows, and before a loop is split, so "
        "that an access has one assertion in each part",
        when=lambda has, config: config["tir.instrument_bound_checkers"],
    ),
    Step(
        "RewriteUnsafeSelect",
        rewrite_unsafe_select,
        "while accesses can be proved dimension by dimension, and before vectors, whose masks "
        "then guard what may not be read",
        when=lambda has, config: e.Select in has.nodes,
    ),
    Step(
        "LoopPartition",
        loop_partition,
        "while accesses are multi-dimensional and loops whole; splits off tails, so that the "
        "main part has no guards",
        in_simple_mode=False,
    ),
    Step("Simplify", simplify, "the loops of a tail get their own length, before they are vectors"),
    Step("FlattenBuffer", flatten_buffer, "strides come in; one index an access from here on"),
    Step(
        "NarrowDataType",
        narrow_data_type,
        "on flat indices: only now is it known how large they become",
        when=lambda has, config: has.wide_loops,
    ),
    Step(
        "VectorizeLoop",
        vectorize_loop,
        "on flat indices, where a lane's step is one number; unrolled loops stay loops until "
        "a generator writes them out",
        phase=2,
    ),
    Step(
        "TransposeLoads",
        transpose_loads,
        "on vectors, while unrolled loops are loops whose steps are compared",
        phase=2,
        when=lambda has, config: {s.UNROLLED, s.VECTORIZED} <= has.kinds,
    ),
    Step(
        "InjectVirtualThread",
        inject_virtual_thread,
        "after vectors, whose statements it repeats as they are; on flat buffers, which grow by "
        "one factor",
        phase=2,
        when=lambda has, config: not has.threads.isdisjoint(("vthread", "cthread")),
    ),
    Step(
        "StorageRewrite",
        storage_rewrite,
        "when every buffer has its final size",
        phase=2,
        when=lambda has, config: has.large > 1 and not config["tir.disable_storage_rewrite"],
    ),
    Step(
        "UnrollLoop",
        unroll_loop,
        "after the passes that look at loops, of which it leaves fewer",
        phase=2,
        when=_unrolls,
    ),
    Step(
        "SimplifyLoops",
        simplify_loops,
        "takes what vectors' guards have become around loops; their indices are canonical already",
        phase=3,
    ),
    Step(
        "RegisterAccumulators",
        register_accumulators,
        "after guards are decided, since a guarded store is left alone, and on vectors",
        phase=3,
    ),
    Step(
        "HoistIfThenElse",
        hoist_if_then_else,
        "after loops have their final form",
        phase=3,
        when=lambda has, config: has.conditions,
    ),
    Step(
        "CommonSubexprElimTIR",
        common_subexpr_elim,
        "on final indices; only where configuration asks, since generators number values",
        phase=3,
        when=lambda has, config: not config["tir.disable_cse_tir"],
    ),
    Step("RemoveNoOp", remove_no_op, "last: removes what the others emptied", phase=3),
)

#: passes of TVM's that are no passes here, and where their work is done or why there is none
ABSENT: dict[str, str] = {
    "InjectPrefetch": "there is no prefetch yet",
    "TextureFlatten": "there is no texture memory",
    "StorageFlatten": "FlattenBuffer does it",
    "BF16Legalize": "the generator computes bfloat16 in float32",
    "LowerCrossThreadReduction": "it rewrites blocks of TensorIR, which te has none of",
    "LowerInitBlock": "there are no blocks: a schedule's loops have their initialisation",
    "PlanAndUpdateBufferAllocationLocation": "a stage's buffer is allocated where it is attached",
    "ConvertBlocksToOpaque": "there are no blocks",
    "UnifyThreadBinding": "SplitHostDevice gives equal tags one variable",
    "ManifestSharedMemoryLocalStage": "there are no blocks",
    "CompactBufferAllocation": "bound inference allocates the region that is read",
    "LowerMatchBuffer": "there are no blocks",
    "InjectSoftwarePipeline": "there are no blocks",
    "LowerOpaqueBlock": "there are no blocks",
    "LowerAsyncDMA": "no target has it",
    "RenormalizeSplitPattern": "Simplify's affine forms are canonical",
    "InstrumentProfileIntrinsics": "there is no lightweight profiler",
    "MakePackedAPI": "the generator writes a checked entry for each kernel",
    "MakeUnpackedAPI": "the raw kernel is it",
    "LowerTVMBuiltin": "the generator lowers calls",
    "LowerCustomDatatypes": "there are no custom data types",
    "LowerDeviceStorageAccessInfo": "no target has special memory",
    "CombineContextCall": "kernels get no context",
    "AnnotateDeviceRegions": "SplitHostDevice finds the regions",
    "BF16ComputeLegalize": "the generator computes bfloat16 in float32",
    "BF16StorageLegalize": "bfloat16 is stored as it is",
    "BindTarget": "lower and build know the target",
    "ConvertForLoopsToSerial": "a thread-bound loop runs serially on a CPU as it is",
    "ConvertSSA": "variables are single assignments already",
    "DecorateDeviceScope": "SplitHostDevice finds the regions",
    "ExtractPrimFuncConstants": "a constant is part of its function",
    "FP8ComputeLegalize": "there are no 8-bit floats",
    "ForceNarrowIndexToInt32": "NarrowDataType narrows what it can prove",
    "InferFragment": "there are no fragments of tensor cores",
    "InjectCopyIntrin": "a copy is a loop; generators know no copy intrinsics",
    "InjectPTXAsyncCopy": "there are no asynchronous copies",
    "InjectRollingBuffer": "rolling_buffer is planned",
    "LiftAttrScope": "no pass needs attributes in another place",
    "LowerWarpMemory": "there is no warp memory",
    "RemoveWeightLayoutRewriteBlock": "there are no blocks",
    "UnifiedStaticMemoryPlanner": "StorageRewrite shares memory",
}

#: passes of TVM's Relay, which may be disabled like any that does not run
RELAY = frozenset({
    "AlterOpLayout", "AnnotateMemoryScope", "AnnotateSpans", "AnnotateTarget",
    "BackwardFoldScaleAxis", "BatchingOps", "CanonicalizeCast", "CanonicalizeOps",
    "CapturePostDfsIndexInSpans", "CombineParallelBatchMatmul", "CombineParallelConv2D",
    "CombineParallelDense", "CombineParallelOpBatch", "Conv2dToSparse", "Conv2dToSparse2",
    "ConvertLayout", "DeadCodeElimination", "Defunctionalization", "DefuseOps", "DenseToSparse",
    "DivToMul", "DynamicToStatic", "EliminateCommonSubexpr", "EtaExpand",
    "FakeQuantizationToInteger", "FastMath", "FirstOrderGradient", "FlattenAtrousConv",
    "FlattenNestedTuples", "FoldConstant", "FoldExplicitPadding", "FoldScaleAxis",
    "ForwardFoldScaleAxis", "FuseOps", "InferType", "InferTypeLocal", "Inline", "LambdaLift",
    "LazyGradientInit", "Legalize", "ManifestAlloc", "ManifestLifetimes",
    "MergeCompilerRegions", "MergeComposite", "PartialEvaluate", "PartitionGraph",
    "PlanDevices", "RemoveStandaloneReshapes", "RemoveUnusedFunctions", "SimplifyExpr",
    "SimplifyFCTranspose", "SimplifyInference", "SplitArgs", "ToANormalForm",
    "ToBasicBlockNormalForm", "ToGraphNormalForm", "ToMixedPrecision",
})  # fmt: skip

#: names of the passes of lowering, in order, each once
NAMES: tuple[str, ...] = tuple(dict.fromkeys(p.name for p in PASSES))


def run_passes(mod: IRModule, target: Target, simple_mode: bool = False) -> IRModule:
    """The module after all passes that the current :class:`PassContext` leaves in.

    Functions that have been lowered already (their attribute ``lowered`` is true) stay as they are.
    """
    if any(f.attrs.get("lowered") for f in mod.functions.values()):
        todo = {name: f for name, f in mod.functions.items() if not f.attrs.get("lowered")}
        done = run_passes(IRModule(todo), target, simple_mode).functions if todo else {}
        return IRModule({name: done.get(name, f) for name, f in mod.functions.items()})
    context = PassContext.current()
    contains: dict[str, Features] | None = None
    for step in _steps(context, simple_mode):
        if isinstance(step, Pass):
            mod = step(mod).map(defined_once).map(resolve_thread_axes)
            contains = None  # a custom pass may bring in anything
            continue
        if contains is None and step.when is not None:
            contains = {name: features_of(f) for name, f in mod.functions.items()}
        mod = _run(step, mod, target, context, contains or {})
    return mod


def _steps(context: PassContext, simple_mode: bool) -> Iterator[Step | Pass]:
    """What runs, in order, custom passes in between."""
    custom = context.config["tir.add_lower_pass"]

    def of(phase: int) -> Iterator[Pass]:
        for at, p in custom:
            if at == phase and context.enabled(p.info):
                yield p

    phase = 0
    for step in PASSES:
        while custom and phase < step.phase:
            yield from of(phase)
            phase += 1
        if step.name in context.disabled_pass or (simple_mode and not step.in_simple_mode):
            continue
        yield step
    for k in range(phase, 4):
        yield from of(k)


def _run(
    step: Step,
    mod: IRModule,
    target: Target,
    context: PassContext,
    contains: dict[str, Features],
) -> IRModule:
    required = step.name in context.required_pass

    def change(name: str, func: PrimFunc) -> PrimFunc:
        has = contains.get(name)
        if required or step.when is None or has is None or step.when(has, context.config):
            return step.run(func, target, context.config)
        return func

    return run_pass(
        lowering_pass(step.name).info, mod, context, lambda m, _: changed_functions(m, change)
    )


_LOWERING: dict[str, LoweringPass] = {p.name: LoweringPass(p.name, p.run) for p in PASSES}


def lowering_pass(name: str) -> LoweringPass:
    """A pass of lowering by its name, with or without ``tir.``.

    Raises:
        ArgumentError: if there is none.
    """
    short = name.removeprefix("tir.")
    if short not in _LOWERING:
        raise ArgumentError(
            f"the pass {name!r}",
            ABSENT.get(short, "there is no such pass"),
            "passes: " + ", ".join(NAMES),
        )
    return _LOWERING[short]
