"""The rule for convolutions of images on a GPU: implicit GEMM, Winograd's algorithm and the direct
one compete in one space; of int8 they are GEMMs of packed int8x4, by the rule of contractions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from whet.compiler.target import Target
from whet.compiler.te import Schedule, Tensor
from whet.compiler.te.lang.tensor import Operation
from whet.search_spaces.forms.conv import ConvForm, conv_form
from whet.search_spaces.forms.conv_shape import ConvShape
from whet.search_spaces.graph.rule import Rule
from whet.search_spaces.graph.stages import REDUCTION, TILED, Group
from whet.search_spaces.knobs.prefixed import Prefixed
from whet.search_spaces.rules.cpu.conv.algorithms import KnobsOf
from whet.search_spaces.rules.cpu.tiling.tiled import computed_as_read
from whet.search_spaces.rules.gpu.contraction.gemm_plan import GemmShape, cheapest, plan_of
from whet.search_spaces.rules.gpu.conv.direct import Direct
from whet.search_spaces.rules.gpu.conv.implicit import (
    Implicit,
    define_steps,
    implicit_gemm_shape,
    implicit_tiles,
)
from whet.search_spaces.rules.gpu.conv.operands import GpuConv
from whet.search_spaces.rules.gpu.conv.rectangle import cheapest_rectangle, define_direct
from whet.search_spaces.rules.gpu.conv.winograd import Transforms, Winograd, winograds
from whet.search_spaces.rules.gpu.hardware.threads import bind_fused, schedule_staged

# Fewer output channels than this (a group's) leave most of a GEMM's tile empty.
_FEW = 16
# Of so many windows over one channel, what they read is worth copying.
_FEWEST = 4
Stages = Direct | Implicit | Transforms
"""The stages of an algorithm."""


@dataclass(frozen=True, eq=False)
class _Note:
    """The note of ``rewrite`` for ``schedule``.

    Attributes:
        stages: what computes the convolution.
        inlined: producers that are computed where they are read.
        packed: the copy of the weights that is made ahead of the calls, if it is one.
    """

    stages: Stages
    inlined: Sequence[Operation]
    packed: Tensor | None


class GpuConvolution(Rule):
    """Convolutions of images, channels first or last."""

    def applies(self, group: Group) -> bool:
        """A convolution of floats; windows over one channel alone are another rule's."""
        form = form_of(group)
        if form is None or form.shape.layout not in ("NCHW", "NHWC"):
            return False
        shape, (channels, *_) = form.shape, form.steps
        if channels is None and (shape.groups > 1 or shape.co < _FEWEST):
            return False
        return bool(implicit_tiles(shape)) or cheapest_rectangle(shape, group.target)[0] < inf

    def rewrite(self, group: Group) -> Tensor | None:
        """The result from the stages of the algorithm in force."""
        form, op = form_of(group), group.anchor.op
        assert form is not None
        of = GpuConv(form.operands(op), op.name, op.output_dtype(0))
        stages, packed = _stages(Prefixed(group.cfg, group.prefix), of, group.target)
        group.note(_Note(stages, computed_as_read(group), packed))
        return stages.conv

    def schedule(self, s: Schedule, group: Group) -> None:
        """Schedule the stages, and what computes the operands."""
        note = group.noted(_Note)
        schedule_staged(s, group, note.inlined)
        if note.packed is not None:
            bind_fused(s[note.packed])
            s[note.packed].compute_ahead()
        if group.consumers:
            s[group.anchor.op].compute_inline()
        note.stages.schedule(s, s[group.last.op])


def form_of(group: Group) -> ConvForm | None:
    """The convolution that a group is about; None: it is none."""
    if group.role not in (TILED, REDUCTION) or group.members:
        return None
    zeros = [node.op for node in group.staged if not node.is_output]
    return group.once((ConvForm, "half"), lambda: conv_form(group.anchor.op, zeros, half=True))


def _stages(cfg: Prefixed, of: GpuConv, target: Target) -> tuple[Stages, Tensor | None]:
    """The stages of the algorithm in force, and the copy of the weights that is made ahead.

    All knobs are defined whatever the algorithm is.
    """
    shape = of.shape
    if not implicit_tiles(shape):
        cfg.define_knob("algorithm", ["direct"])
        rectangle = define_direct(cfg, shape, target)
        of, packed = of.copied() if of.is_packed else (of, None)
        return Direct.stages(of, rectangle), packed
    transformed = {w.name: w for w in winograds(shape)}
    gemms = {
        "implicit": implicit_gemm_shape(shape),
        **{n: w.gemm_shape for n, w in transformed.items()},
    }
    names = ["implicit", "direct", *transformed]
    default = _default(shape, gemms, transformed, target, of.is_packed)
    chosen = cfg.choose("algorithm", names, default)

    def knobs_of(*readers: str) -> Prefixed:
        return Prefixed(KnobsOf(cfg, readers, default))

    plan = plan_of(
        knobs_of(*gemms), target, gemms["implicit"], implicit_tiles(shape), gemms.get(default)
    )
    order = define_steps(knobs_of("implicit"), shape)
    rectangle = define_direct(knobs_of("direct"), shape, target)
    if chosen in transformed:
        return Transforms.stages(of, transformed[chosen], plan.of(gemms[chosen], target)), None
    of, packed = of.copied() if of.is_packed else (of, None)
    if chosen == "direct":
        return Direct.stages(of, rectangle), packed
    return Implicit.stages(of, plan, order), packed


def _default(
    shape: ConvShape,
    gemms: dict[str, GemmShape],
    transformed: dict[str, Winograd],
    target: Target,
    packed: bool,
) -> str:
    """The algorithm that takes the least time, roughly."""
    direct = cheapest_rectangle(shape, target)[0]
    if shape.co_group < _FEW and direct < inf:
        return "direct"

    def cycles(name: str) -> float:
        if name == "direct":
            return direct
        gemm = gemms[name]
        tiles = gemm.tiles(implicit_tiles(shape))
        found, *_ = cheapest(gemm, target, tiles, gemm.parts)
        if name not in transformed:
            return found
        return found + transformed[name].transforms(target, packed)

    return min((*gemms, "direct"), key=cycles)
