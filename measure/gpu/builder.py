"""A builder's worker for GPUs: a cubin, which needs no GPU, and the model's prediction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from whet.measure.gpu.pruning import check_alignment, check_resources, check_unrolled, facts_of
from whet.measure.stage.builder import Built, build_candidate, imports
from whet.measure.values import Json, MeasureInput

if TYPE_CHECKING:
    from whet.compiler.abi.artifact import Artifact, Resources
    from whet.compiler.target import Target
    from whet.compiler.tir.function import IRModule

EMULATED = 1.5e8
"""Instructions of threads up to which the emulator runs a candidate for its numbers: about two
seconds, all accesses checked."""
LINES = 600
"""Lines of text up to which the emulator's compiler is done in time: it takes 6 to 11 ms a line."""
_QUICK = 2e7
"""Up to which code that compiles fast is soon done, too."""


def build_for_gpu(inp: MeasureInput) -> Built:
    """Build a candidate down to machine code, and refuse what cannot be launched.

    Args:
        inp: the candidate.
    """
    return build_candidate(inp, _to_cubin)


def build_for_emulator(inp: MeasureInput) -> Built:
    """Build a candidate to text, and predict its cost; a compiler, if there is one, refines that.

    Args:
        inp: the candidate.
    """
    return build_candidate(inp, _to_prediction)


build_for_gpu.imports = build_for_emulator.imports = imports  # type: ignore[attr-defined]


def _to_cubin(
    inp: MeasureInput, module: IRModule, target: Target, artifact: Artifact
) -> tuple[Artifact, Json]:
    from whet.compiler.codegen.cuda.nvrtc import compile_cubin

    if not artifact.kernels:  # a function whose result has no elements
        return artifact, {}
    check_unrolled(inp, module)
    check_alignment(inp, artifact)
    compiled = compile_cubin(artifact.source, str(target.attrs["arch"]))
    check_resources(artifact, compiled.resources)
    return replace(artifact, object=compiled.cubin), facts_of(compiled.resources)


def _to_prediction(
    inp: MeasureInput, module: IRModule, target: Target, artifact: Artifact
) -> tuple[Artifact, Json]:
    from whet.compiler.codegen.cuda import nvrtc
    from whet.compiler.emulator.compile import compile_emulated
    from whet.measure.gpu.cost.predicted import predicted

    check_unrolled(inp, module)
    check_alignment(inp, artifact)
    resources: Mapping[str, Resources] = {}
    if artifact.kernels and nvrtc.available():
        resources = nvrtc.compile_cubin(artifact.source, str(target.attrs["arch"])).resources
    check_resources(artifact, resources)
    model = predicted(module, target, artifact, resources)
    model["lines"] = artifact.source.count("\n")
    facts = facts_of(resources) if resources else {}
    facts["compiled"] = bool(resources)
    if artifact.kernels and not too_much(model):
        # Here, beside other builds, so that the measurer finds it in the cache.
        compile_emulated(artifact.source, checks=True, quick=model["instructions"] <= _QUICK)
    return artifact, facts | {"model": model}


def too_much(model: Mapping[str, Any]) -> str:
    """The reason for which the emulator does not run a candidate; "" where it does.

    Args:
        model: the static model's prediction, and ``lines`` of the text.
    """
    for what, most in (("instructions", EMULATED), ("lines", LINES)):
        count = float(model.get(what, 0.0))
        if count > most:
            return f"too much for the emulator: {count:.4g} {what}, and {most:.4g} are the most"
    return ""
