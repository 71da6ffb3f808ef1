"""SSD's boxes: the anchors, and what a network says of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute, extern
from whet.compiler.tir import Buffer, Stmt, ir_builder
from whet.compiler.tir.ops import mathematics as m
from whet.compiler.tir.ops.ops import all_of, cast, const, floordiv, floormod, select
from whet.compiler.topi.elementwise import clip as clipped
from whet.compiler.topi.shapes import static
from whet.compiler.topi.tag import INJECTIVE
from whet.compiler.topi.vision.boxes import fill
from whet.compiler.topi.vision.nms import non_max_suppression


def multibox_prior(
    data: Tensor,
    sizes: Sequence[float] = (1,),
    ratios: Sequence[float] = (1,),
    steps: Sequence[float] = (-1, -1),
    offsets: Sequence[float] = (0.5, 0.5),
    clip: bool = False,
) -> Tensor:
    """Anchors around each pixel: every size, and the first size with every further ratio.

    Args:
        data: images (N, C, H, W), of which the shape counts.
        sizes: by the image's.
        ratios: of widths to heights.
        steps: from one centre to the next, vertical and horizontal; those of pixels for -1.
        offsets: of the first centres, in steps.
        clip: corners lie inside.

    Returns:
        (1, H * W * (sizes + ratios - 1), 4) float32: x, y, x, y, from 0 to 1.

    Raises:
        ArgumentError: the data are no images, or there is no size or ratio.
    """
    request = f"multibox_prior({data}, {sizes}, {ratios})"
    if data.ndim != 4 or not sizes or not ratios:
        raise ArgumentError(request, "give images of four dimensions, a size and a ratio")
    h, w = (static(d, request) for d in data.shape[2:])
    halves = [(s * h / w / 2, s / 2) for s in sizes]
    halves += [
        (sizes[0] * h / w * math.sqrt(r) / 2, sizes[0] / math.sqrt(r) / 2) for r in ratios[1:]
    ]
    step = [s if s > 0 else 1 / n for s, n in zip(steps, (h, w))]
    each, kind = len(halves), "float32"

    def element(_: Any, box: Any, corner: Any) -> Any:
        pixel, which = floordiv(box, each), floormod(box, each)
        x, y = floormod(pixel, w), floordiv(pixel, w)
        centre = [
            (cast(kind, at) + const(offsets[k], kind)) * const(step[k], kind)
            for k, at in ((1, x), (0, y))
        ]
        vertical = floormod(corner, 2).equal(1)
        half: Any = const(0, kind)
        for k, (a, b) in enumerate(halves):
            own = select(vertical, const(b, kind), const(a, kind))
            half = select(which.equal(k), own, half)
        return select(vertical, centre[1], centre[0]) + select(corner < 2, -half, half)

    made = compute((1, h * w * each, 4), element, "T_multibox_prior", INJECTIVE)
    return clipped(made, 0, 1) if clip else made


def multibox_transform_loc(
    cls_prob: Tensor,
    loc_pred: Tensor,
    anchor: Tensor,
    clip: bool = True,
    threshold: float = 0.01,
    variances: Sequence[float] = (0.1, 0.1, 0.2, 0.2),
) -> list[Tensor]:
    """The anchors with a class, moved as a network says, before those without.

    Args:
        cls_prob: (batch, classes, anchors), class 0 is the background.
        loc_pred: (batch, anchors * 4): by how much x, y, width and height change.
        anchor: (1, anchors, 4): x, y, x, y.
        clip: corners lie from 0 to 1.
        threshold: of the probability, below which an anchor is background.
        variances: factors of the changes.

    Returns:
        (batch, anchors, 6): class from 0 on, probability, x, y, x, y, then -1; and how many
        (batch,) int32.

    Raises:
        ArgumentError: the shapes do not fit.
    """
    request = f"multibox_transform_loc({cls_prob}, {loc_pred})"
    n, classes, many = (static(d, request) for d in cls_prob.shape)
    if [static(d, request) for d in loc_pred.shape] != [n, many * 4]:
        raise ArgumentError(request, f"loc_pred is not ({n}, {many * 4})")
    kind = loc_pred.dtype

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        ib = ir_builder.create()
        likely, moved, boxes = (ib.buffer_ptr(b) for b in ins)
        made, count = (ib.buffer_ptr(b) for b in outs)
        with ib.for_range(0, n, name="i", kind="parallel") as i:
            score = ib.allocate(cls_prob.dtype, 1, name="score", scope="local")
            which = ib.allocate("int32", 1, name="which", scope="local")
            count[i] = const(0)
            with ib.for_range(0, many, name="j") as j:
                score[0], which[0] = const(-1, cls_prob.dtype), const(0)
                with (
                    ib.for_range(1, classes, name="k") as k,
                    ib.if_scope(likely[i, k, j] > score[0]),
                ):
                    score[0], which[0] = likely[i, k, j], k
                good = score[0] >= const(threshold, cls_prob.dtype)
                with ib.if_scope(all_of(which[0] > 0, good)):
                    first = [cast(kind, which[0] - 1), cast(kind, score[0])]
                    old = [cast(kind, boxes[0, j, c]) for c in range(4)]
                    by = [moved[i, j * 4 + c] * const(v, kind) for c, v in enumerate(variances)]
                    fill(made, (i, count[i]), [*first, *_moved(old, by, kind, clip)])
                    count[i] = count[i] + 1
            with ib.for_range(count[i], many, name="j") as j:
                fill(made, (i, j), [const(-1, kind)] * 6)
        return ib.get()

    given, said = [cls_prob, loc_pred, anchor], {"said": (clip, threshold, tuple(variances))}
    shapes = [(n, many, 6), (n,)]
    return list(extern(shapes, given, body, "T_multibox_loc", [kind, "int32"], attrs=said))


def _moved(old: list[Any], change: list[Any], kind: str, clip: bool) -> list[Any]:
    """A box whose centre is moved by shares of its sides, and whose sides grow by powers of e."""
    two, corners = const(2, kind), {}
    for k in (0, 1):
        side = old[k + 2] - old[k]
        centre = change[k] * side + (old[k] + old[k + 2]) / two
        half = m.exp(change[k + 2]) * side / two
        corners[k], corners[k + 2] = centre - half, centre + half
    ends = [corners[k] for k in range(4)]
    zero, one = const(0, kind), const(1, kind)
    return [select(x < zero, zero, select(x > one, one, x)) for x in ends] if clip else ends


def multibox_detection(
    cls_prob: Tensor,
    loc_pred: Tensor,
    anchor: Tensor,
    clip: bool = True,
    threshold: float = 0.01,
    nms_threshold: float = 0.5,
    force_suppress: bool = False,
    variances: Sequence[float] = (0.1, 0.1, 0.2, 0.2),
    nms_topk: int = -1,
) -> Tensor:
    """:func:`multibox_transform_loc`, then :func:`non_max_suppression` of its boxes.

    Returns:
        (batch, anchors, 6); -1 for boxes that went.
    """
    boxes, count = multibox_transform_loc(cls_prob, loc_pred, anchor, clip, threshold, variances)
    kept = non_max_suppression(
        boxes, count, count, -1, nms_threshold, force_suppress, nms_topk, return_indices=False
    )
    assert isinstance(kept, Tensor)
    return kept
