"""The names of passes: those that there are, and those of TVM's that there are not."""

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
