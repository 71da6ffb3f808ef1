"""Regions that a network proposes: anchors moved, sorted by score, without those that overlap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute, extern
from whet.compiler.tir import Buffer, Stmt, ir_builder
from whet.compiler.tir.ops import mathematics as m
from whet.compiler.tir.ops.ops import (
    any_of,
    cast,
    const,
    floordiv,
    floormod,
    maximum,
    minimum,
    select,
)
from whet.compiler.topi.indexed.sorting import argsort
from whet.compiler.topi.shapes import static
from whet.compiler.topi.tag import INJECTIVE
from whet.compiler.topi.vision.boxes import overlap


def proposal(
    cls_prob: Tensor,
    bbox_pred: Tensor,
    im_info: Tensor,
    scales: Sequence[float],
    ratios: Sequence[float],
    feature_stride: int,
    threshold: float,
    rpn_pre_nms_top_n: int,
    rpn_post_nms_top_n: int,
    rpn_min_size: int,
    iou_loss: bool,
) -> Tensor:
    """The regions of a region proposal network, by their scores.

    Args:
        cls_prob: (batch, 2 * anchors, H, W): the second half are the scores.
        bbox_pred: (batch, 4 * anchors, H, W): how each anchor is moved.
        im_info: (batch, 3): height, width and scale of each image.
        scales, ratios: of the anchors, scales * ratios of them around each pixel.
        feature_stride: pixels of the image for one of ``cls_prob``.
        threshold: what overlaps more goes.
        rpn_pre_nms_top_n: regions that are looked at; below 1 for all.
        rpn_post_nms_top_n: regions that are returned of each image; those that stay come again
            where there are fewer.
        rpn_min_size: smaller sides, times the image's scale, get a score of -1.
        iou_loss: the changes are of the corners, not of centre and sides.

    Returns:
        (batch * rpn_post_nms_top_n, 5): image, x, y, x, y.

    Raises:
        ArgumentError: the shapes or the types do not fit.
    """
    request = f"proposal({cls_prob}, {bbox_pred}, {im_info})"
    n, both, h, w = (static(d, request) for d in cls_prob.shape)
    each, kind = len(scales) * len(ratios), bbox_pred.dtype
    want = [n, 4 * each, h, w]
    if both != 2 * each or [static(d, request) for d in bbox_pred.shape] != want:
        raise ArgumentError(request, f"{len(scales)} scales and {len(ratios)} ratios are {each}")
    if {cls_prob.dtype, kind, im_info.dtype} != {kind}:
        raise ArgumentError(request, "the types differ", "cast them")
    many = h * w * each
    top = min(rpn_pre_nms_top_n, many) if rpn_pre_nms_top_n > 0 else many
    anchors = [_anchor(r, s, feature_stride) for r in ratios for s in scales]
    boxes = _regions(
        (cls_prob, bbox_pred, im_info), anchors, feature_stride, rpn_min_size, iou_loss
    )
    score = compute((n, many), lambda b, t: boxes(b, t, 4), "T_region_scores", INJECTIVE)
    order = argsort(score, None, 1, False, "int32")
    best = compute((n, top, 4), lambda b, t, k: boxes(b, order(b, t), k), "T_best", INJECTIVE)
    return _kept(best, n, top, rpn_post_nms_top_n, threshold)


def _regions(
    given: Sequence[Tensor], anchors: list[list[float]], stride: int, least: int, by_corner: bool
) -> Tensor:
    """The anchors as they are moved, and their scores: (batch, H * W * anchors, 5)."""
    cls_prob, bbox_pred, im_info = given
    n, _, h, w = (int(d) for d in cls_prob.shape)
    each, kind = len(anchors), bbox_pred.dtype

    def region(b: Any, t: Any, part: Any) -> Any:
        k, at = floormod(t, each), floordiv(t, each)
        y, x = floordiv(at, w), floormod(at, w)
        change = [bbox_pred(b, k * 4 + c, y, x) for c in range(4)]
        old: list[Any] = [const(0, kind)] * 4
        for a, anchor in enumerate(anchors):
            old = [select(k.equal(a), const(v, kind), u) for v, u in zip(anchor, old)]
        shift = [cast(kind, (x if c % 2 == 0 else y) * stride) for c in range(4)]
        old = [u + s for u, s in zip(old, shift)]
        sizes = [im_info(b, 1), im_info(b, 0)]
        score = cls_prob(b, k + each, y, x)
        ends = [cast("int32", size / const(stride, kind)) for size in sizes]
        outside = any_of(x >= ends[0], y >= ends[1])
        values = _moved(old, change, sizes, by_corner, kind)
        side = im_info(b, 2) * const(least, kind)
        return _picked(part, values, side, select(outside, const(-1, kind), score), kind)

    return compute((n, h * w * each, 5), region, "T_regions", INJECTIVE)


def _anchor(ratio: float, scale: float, base: int) -> list[float]:
    """A box around the first pixel: x, y, x, y."""
    centre = 0.5 * (base - 1.0)
    width = math.floor(math.sqrt(math.floor(base * base / ratio)) + 0.5)
    height = math.floor(width * ratio + 0.5)
    halves = [0.5 * (width * scale - 1.0), 0.5 * (height * scale - 1.0)]
    return [centre - halves[0], centre - halves[1], centre + halves[0], centre + halves[1]]


def _moved(old: list[Any], change: list[Any], sizes: list[Any], by_corner: bool, kind: str) -> Any:
    """An anchor with its changes, inside the image."""
    one, half = const(1, kind), const(0.5, kind)
    new: list[Any] = [o + d for o, d in zip(old, change)]
    if not by_corner:
        for k in (0, 1):
            side = old[k + 2] - old[k] + one
            centre = change[k] * side + old[k] + half * (side - one)
            reach = half * (m.exp(change[k + 2]) * side - one)
            new[k], new[k + 2] = centre - reach, centre + reach
    return [maximum(minimum(x, sizes[k % 2] - one), const(0, kind)) for k, x in enumerate(new)]


def _picked(part: Any, box: list[Any], least: Any, score: Any, kind: str) -> Any:
    """One number of a box and its score; one that is too small grows, with a score of -1."""
    one, half = const(1, kind), const(0.5, kind)
    small = any_of(*(box[k + 2] - box[k] + one < least for k in (0, 1)))
    more = select(small, least * half, const(0, kind))
    found: Any = select(small, const(-1, kind), score)
    for k, x in enumerate(box):
        found = select(part.equal(k), x - more if k < 2 else x + more, found)
    return found


def _kept(best: Tensor, n: int, top: int, most: int, threshold: float) -> Tensor:
    """The boxes that overlap none before them, again and again until there are ``most``."""
    kind = best.dtype

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        ib = ir_builder.create()
        box, made = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, n, name="b", kind="parallel") as b:
            kept = ib.allocate("int32", top, name="kept", scope="global")
            state = ib.allocate("int32", 2, name="state", scope="local")  # kept, whether one is
            state[0] = 0
            with ib.for_range(0, top, name="t") as t:
                state[1] = 1
                own = [box[b, t, c] for c in range(4)]
                with ib.for_range(0, state[0], name="k") as k:
                    other = [box[b, kept[k], c] for c in range(4)]
                    with ib.if_scope(overlap(own, other, kind, 1.0) > const(threshold, kind)):
                        state[1] = 0
                with ib.if_scope(state[1].equal(1)):
                    kept[state[0]] = t
                    state[0] = state[0] + 1
            with ib.for_range(0, most, name="t") as t:
                made[b * most + t, 0] = cast(kind, b)
                place = ib.let("place", kept[floormod(t, state[0])])
                for c in range(4):
                    made[b * most + t, c + 1] = box[b, place, c]
        return ib.get()

    said = {"threshold": float(threshold)}
    return extern((n * most, 5), [best], body, "T_proposal", kind, attrs=said)
