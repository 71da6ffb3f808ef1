"""Non-maximum suppression of each class by itself, as ONNX and TensorFlow have it."""

from __future__ import annotations

from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, extern
from whet.compiler.tir import Buffer, Stmt, ir_builder
from whet.compiler.tir.ops.ops import all_of, any_of, cast, const
from whet.compiler.topi.indexed.sorting import argsort
from whet.compiler.topi.shapes import static
from whet.compiler.topi.vision.boxes import fill, overlap


def all_class_non_max_suppression(
    boxes: Tensor,
    scores: Tensor,
    max_output_boxes_per_class: Any,
    iou_threshold: Any,
    score_threshold: Any,
    output_format: str = "onnx",
) -> list[Tensor]:
    """For each image and class the boxes that overlap none of a higher score, in their order.

    Args:
        boxes: (batch, boxes, 4), two opposite corners each, floating point.
        scores: (batch, classes, boxes), of the same type.
        max_output_boxes_per_class: the most that stay; below 1 for all.
        iou_threshold: what overlaps as much or more goes.
        score_threshold: a box counts if its score is larger.
        output_format: ``"onnx"`` or ``"tensorflow"``. The three numbers may be tensors of one
            element.

    Returns:
        ``"onnx"``: (image, class, box) of each, then 0, (batch * classes * boxes, 3), and how many
        (1,), int64. ``"tensorflow"``: (class, box) of each, then 0, (batch, classes * boxes, 2)
        int64; their scores, then 0; and how many of an image (batch,) int64.

    Raises:
        ArgumentError: the shapes, the types or the format do not fit.
    """
    request = f"all_class_non_max_suppression({boxes}, {scores}, {output_format!r})"
    if output_format not in ("onnx", "tensorflow"):
        raise ArgumentError(request, "a format is 'onnx' or 'tensorflow'")
    n, many, four = (static(d, request) for d in boxes.shape)
    n2, classes, many2 = (static(d, request) for d in scores.shape)
    if four != 4 or (n, many) != (n2, many2) or boxes.dtype != scores.dtype:
        raise ArgumentError(request, "boxes are (batch, boxes, 4), scores (batch, classes, boxes)")
    order = argsort(scores, None, 2, False, "int32")
    numbers = [max_output_boxes_per_class, iou_threshold, score_threshold]
    tensors = [t for t in numbers if isinstance(t, Tensor)]
    fixed = [None if isinstance(t, Tensor) else t for t in numbers]
    onnx, kind, rows = output_format == "onnx", boxes.dtype, classes * many
    shapes = [(n * rows, 3), (1,)] if onnx else [(n, rows, 2), (n, rows), (n,)]
    kinds = ["int64", "int64"] if onnx else ["int64", kind, "int64"]
    return list(
        extern(
            shapes, [boxes, scores, order, *tensors],
            lambda ins, outs: _loops((n, classes, many), kind, fixed, ins, outs),
            "T_all_class_nms", kinds, attrs={"said": str((fixed, output_format))},
        )
    )  # fmt: skip


def _loops(
    shape: tuple[int, ...], kind: str, fixed: list[Any], ins: list[Buffer], outs: list[Buffer]
) -> Stmt:
    """All images and classes; numbers that are None in ``fixed`` are the last inputs."""
    n, classes, many = shape
    onnx = len(outs) == 2
    ib = ir_builder.create()
    box, score, by_score, *_ = (ib.buffer_ptr(b) for b in ins)
    made, *found, count = (ib.buffer_ptr(b) for b in outs)
    rest = iter([ib.buffer_ptr(b)[(const(0),) * len(b.shape)] for b in ins[3:]])
    most, overlapping, least = (
        cast(dtype, next(rest)) if t is None else const(t, dtype)
        for t, dtype in zip(fixed, ("int32", kind, kind))
    )
    kept = ib.allocate("int32", many, name="kept", scope="global")
    state = ib.allocate("int32", 2, name="state", scope="local")  # kept, and whether one is
    total = ib.allocate("int32", 1, name="total", scope="local")
    total[0] = 0
    with ib.for_range(0, n, name="i") as i:
        if not onnx:
            total[0] = 0
        with ib.for_range(0, classes, name="c") as c:
            state[0] = 0
            with ib.for_range(0, many, name="j") as j:
                place = ib.let("place", by_score[i, c, j])
                room = any_of(most < 1, state[0] < most)
                with ib.if_scope(all_of(score[i, c, place] > least, room)):
                    state[1] = 1
                    own = [box[i, place, x] for x in range(4)]
                    with ib.for_range(0, state[0], name="k") as k:
                        other = [box[i, kept[k], x] for x in range(4)]
                        with ib.if_scope(overlap(own, other, kind) >= overlapping):
                            state[1] = 0
                    with ib.if_scope(state[1].equal(1)):
                        kept[state[0]] = place
                        state[0] = state[0] + 1
                        row = (total[0],) if onnx else (i, total[0])
                        said = [i, c, place] if onnx else [c, place]
                        fill(made, row, [cast("int64", value) for value in said])
                        for values in found:
                            values[row] = score[i, c, place]
                        total[0] = total[0] + 1
        if not onnx:
            _rest(ib, made, found, (i,), total[0], classes * many)
            count[i] = cast("int64", total[0])
    if onnx:
        _rest(ib, made, found, (), total[0], n * classes * many)
        count[0] = cast("int64", total[0])
    return ib.get()


def _rest(ib: Any, made: Any, found: list[Any], at: tuple[Any, ...], begin: Any, end: int) -> None:
    """Zeros behind what was found."""
    with ib.for_range(begin, end, name="t") as t:
        fill(made, (*at, t), [const(0, "int64")] * (2 if found else 3))
        for values in found:
            values[(*at, t)] = const(0, values.dtype)
