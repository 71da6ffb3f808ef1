"""The rule for depthwise convolutions of images: each channel with windows of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from whet.compiler import te
from whet.compiler.target import Target
from whet.compiler.te import Schedule, Tensor
from whet.compiler.te.lang.tensor import Operation
from whet.search_spaces.forms.conv import ConvOperands
from whet.search_spaces.forms.conv_shape import ConvShape
from whet.search_spaces.graph.rule import Rule
from whet.search_spaces.graph.stages import Group
from whet.search_spaces.knobs.prefixed import Prefixed
from whet.search_spaces.rules.cpu.conv import depthwise_nchw, depthwise_nhwc
from whet.search_spaces.rules.cpu.conv.estimate.costs import costs_of
from whet.search_spaces.rules.cpu.conv.rule import form_of, is_depthwise, producers_inside
from whet.search_spaces.rules.producers import schedule_staged
from whet.search_spaces.rules.threads import Threads, define_threads
from whet.search_spaces.rules.vectors import lanes_of


@dataclass(frozen=True, eq=False)
class _Note:
    """The note of ``rewrite`` for ``schedule``.

    Attributes:
        taps: the weights, a window for each channel of the result.
        stages: what computes the convolution.
        inlined: the producers that copies compute.
        ahead: whether the weights are packed ahead of the kernel's calls.
        threads: whether the outer loops run on the target's threads.
    """

    taps: Tensor
    stages: depthwise_nchw.ChannelsFirst | depthwise_nhwc.ChannelsLast
    inlined: Sequence[Operation]
    ahead: bool
    threads: Threads


class Depthwise(Rule):
    """Depthwise convolutions with the channels first, or last."""

    def applies(self, group: Group) -> bool:
        """A convolution in which every input channel is a group of its own."""
        form = form_of(group)
        return form is not None and is_depthwise(form)

    def rewrite(self, group: Group) -> Tensor | None:
        """The result from a padded copy, or from the image as it is."""
        form, op, target = form_of(group), group.anchor.op, group.target
        assert form is not None
        cfg, shape, given = Prefixed(group.cfg, group.prefix), form.shape, form.operands(op)
        taps = _taps(given)
        stages: depthwise_nchw.ChannelsFirst | depthwise_nhwc.ChannelsLast
        if shape.channels_last:
            depthwise_nhwc.define(cfg, shape, target)
            stages = depthwise_nhwc.ChannelsLast.of(cfg, given, taps, op.name, target)
        else:
            inside, _ = producers_inside(group, given, copied=True)
            plain, _ = producers_inside(group, given, copied=False)
            computed = len(inside) > len(plain) or given.data.op in group.inlined
            depthwise_nchw.define(cfg, shape, target, computed)
            stages = depthwise_nchw.ChannelsFirst.of(cfg, given, taps, op.name, target)
        threads = define_threads(cfg, target, shape.flop // 2)
        copied = not shape.channels_last and cfg["copy"].val != "none"
        inlined, ahead = producers_inside(group, given, copied=copied)
        group.note(_Note(taps, stages, inlined, ahead, threads))
        return stages.conv

    def schedule(self, s: Schedule, group: Group) -> None:
        """Schedule the stages, and what computes the operands."""
        note = group.noted(_Note)
        lanes = lanes_of(group.target, note.taps.dtype)
        schedule_staged(s, group, note.inlined, lanes, note.threads.parallel)
        if note.ahead:
            s[note.taps].compute_ahead()
        else:  # as they come, which is in order already
            s[note.taps].compute_inline()
        if group.consumers and not group.anchor.op.reduce_axis:
            s[group.anchor.op].compute_inline()
        note.stages.schedule(s, s[group.last.op], note.threads)


def cycles_of_depthwise(shape: ConvShape, target: Target) -> float:
    """An estimate of the default config's cycles, to compare the layouts.

    Args:
        shape: of images, whose channels are groups of their own.
    """
    lanes, (oh, ow) = lanes_of(target, shape.dtype), shape.out
    costs, taps = costs_of(target), prod(shape.window)
    if shape.channels_last:
        vectors = shape.batch * oh * ow * -(-shape.co // lanes)
        return vectors * (taps * costs.wide + costs.store)
    rows = shape.batch * shape.co * oh
    each = taps * (costs.wide + costs.split)
    if shape.strides[1] > 1:  # the pixels of a row are sorted
        each += shape.window[0] * 2 * costs.copy
    ragged = costs.ragged if ow % lanes else 0.0
    return rows * (-(-ow // lanes) * (each + costs.store) + ragged + costs.loop)


def _taps(given: ConvOperands) -> Tensor:
    """The weights with a channel's number in the result as one index.

    Returns:
        (KH, KW, C * multiplier), or channels first: (C * multiplier, KH, KW).
    """
    shape = given.form.shape

    def last(ry: Any, rx: Any, o: Any) -> Any:
        return given.weight(o, 0, ry, rx)

    def first(o: Any, ry: Any, rx: Any) -> Any:
        return given.weight(o, 0, ry, rx)

    if shape.channels_last:
        return te.compute((*shape.window, shape.co), last, name="taps")
    return te.compute((shape.co, *shape.window), first, name="taps")
