"""The rule for convolutions: direct, im2col and Winograd's algorithms compete in one space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from whet.compiler.te import Schedule, Tensor
from whet.compiler.te.lang.tensor import Operation
from whet.search_spaces.forms.conv import ConvForm, ConvOperands, conv_form
from whet.search_spaces.graph.cost import EXPENSIVE
from whet.search_spaces.graph.rule import Rule
from whet.search_spaces.graph.stages import REDUCTION, TILED, Group, is_ahead
from whet.search_spaces.knobs.prefixed import Prefixed
from whet.search_spaces.rules.cpu.conv.algorithms import Stages, define_algorithm, stages_of
from whet.search_spaces.rules.cpu.conv.weights import Storing
from whet.search_spaces.rules.producers import schedule_staged, staged_behind
from whet.search_spaces.rules.threads import Threads, define_threads
from whet.search_spaces.rules.vectors import lanes_of


@dataclass(frozen=True, eq=False)
class _Note:
    """The note of ``rewrite`` for ``schedule``.

    Attributes:
        form, stages: the convolution, and what computes it.
        inlined: the producers that its copies compute.
        ahead: whether the weights are packed ahead of the kernel's calls.
        threads: whether the outer loops run on the target's threads.
    """

    form: ConvForm
    stages: Stages
    inlined: Sequence[Operation]
    ahead: bool
    threads: Threads


class Convolution(Rule):
    """Convolutions of images, signals and volumes, channels first, last or in blocks."""

    def applies(self, group: Group) -> bool:
        """A convolution in float32 or float64 whose channels are summed over."""
        form = form_of(group)
        return form is not None and not is_depthwise(form)

    def rewrite(self, group: Group) -> Tensor | None:
        """The result from the stages of the algorithm in force."""
        form, op = form_of(group), group.anchor.op
        assert form is not None
        cfg, shape = Prefixed(group.cfg, group.prefix), form.shape
        given = form.operands(op)
        ahead = is_ahead(given.load.producer.op)
        worth = define_algorithm(cfg, shape, group.target, form.block, ahead)
        threads = define_threads(cfg, group.target, shape.flop // 2, worth)
        stages = stages_of(cfg, given, op.name, group.target)
        inlined, ahead = producers_inside(group, given, stages.copied)
        group.note(_Note(form, stages, inlined, ahead, threads))
        return stages.conv

    def schedule(self, s: Schedule, group: Group) -> None:
        """Schedule the stages, and what computes the operands."""
        note = group.noted(_Note)
        lanes = lanes_of(group.target, note.form.shape.dtype)
        schedule_staged(s, group, note.inlined, lanes, note.threads.parallel)
        if group.consumers and not group.anchor.op.reduce_axis:
            s[group.anchor.op].compute_inline()
        note.stages.schedule(s, Storing(s[group.last.op], note.ahead, note.threads, lanes))


def form_of(group: Group) -> ConvForm | None:
    """The convolution that a group is about; None: it is none."""
    if group.role not in (TILED, REDUCTION) or group.members:
        return None
    zeros = [node.op for node in group.staged if not node.is_output]
    return group.once(ConvForm, lambda: conv_form(group.anchor.op, zeros))


def is_depthwise(form: ConvForm) -> bool:
    """True for images in which every input channel is a group of its own."""
    shape = form.shape
    return shape.ci_group == 1 and shape.groups > 1 and shape.layout in ("NCHW", "NHWC")


def producers_inside(
    group: Group, given: ConvOperands, copied: bool
) -> tuple[list[Operation], bool]:
    """The producers that copies of the operands compute, and whether the weights are packed ahead.

    Args:
        group: of the convolution.
        given: its operands.
        copied: whether the image is copied; the weights are.
    """
    weights, data = given.load.producer.op, given.data.op
    ahead = is_ahead(weights)
    of_weights = {node.op for node in staged_behind(group, weights)}
    of_data = {node.op: node for node in staged_behind(group, data)}
    inlined = [op for op in of_weights - of_data.keys() if op is weights or not is_ahead(op)]
    if copied:
        inlined += [
            op for op, node in of_data.items()
            if node.cost < EXPENSIVE and op not in of_weights and not is_ahead(op)
        ]  # fmt: skip
    return inlined, ahead
