"""Non-maximum suppression: of boxes that overlap, the one with the highest score stays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute, extern
from whet.compiler.tir import Buffer, Stmt, ir_builder
from whet.compiler.tir.ops.ops import all_of, cast, const, minimum
from whet.compiler.topi.indexed.sorting import argsort
from whet.compiler.topi.shapes import check_integers, static
from whet.compiler.topi.tag import INJECTIVE
from whet.compiler.topi.vision.boxes import fill, overlap


def get_valid_counts(
    data: Tensor, score_threshold: float = 0, id_index: int = 0, score_index: int = 1
) -> list[Tensor]:
    """The boxes whose score is above a threshold, moved to the front.

    Args:
        data: (batch, boxes, numbers of a box), floating point.
        score_threshold: a box counts if its score is larger,
        id_index: and the class at this place is not negative; -1 for no classes.
        score_index: the place of the score.

    Returns:
        How many count (batch,) int32; the boxes, those behind all -1; the place that each had
        (batch, boxes) int32, those behind -1.

    Raises:
        ArgumentError: the data have not three dimensions.
    """
    request = f"get_valid_counts({data})"
    if data.ndim != 3:
        raise ArgumentError(request, "data are (batch, boxes, numbers of a box)")
    n, boxes, size = (static(d, request) for d in data.shape)

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        ib = ir_builder.create()
        given = ib.buffer_ptr(ins[0])
        count, made, places = (ib.buffer_ptr(b) for b in outs)
        with ib.for_range(0, n, name="i", kind="parallel") as i:
            count[i] = const(0)
            with ib.for_range(0, boxes, name="j") as j:
                good = given[i, j, score_index] > const(score_threshold, data.dtype)
                if id_index >= 0:
                    good = all_of(good, given[i, j, id_index] >= const(0, data.dtype))
                with ib.if_scope(good):
                    fill(made, (i, count[i]), [given[i, j, k] for k in range(size)])
                    places[i, count[i]] = j
                    count[i] = count[i] + 1
            with ib.for_range(count[i], boxes, name="j") as j:
                fill(made, (i, j), [const(-1, data.dtype)] * size)
                places[i, j] = const(-1)
        return ib.get()

    shapes, kinds = [(n,), (n, boxes, size), (n, boxes)], ["int32", data.dtype, "int32"]
    said = {"said": (score_threshold, id_index, score_index)}
    return list(extern(shapes, [data], body, "T_valid_counts", kinds, attrs=said))


def non_max_suppression(
    data: Tensor,
    valid_count: Tensor,
    indices: Tensor,
    max_output_size: Any = -1,
    iou_threshold: float = 0.5,
    force_suppress: bool = False,
    top_k: int = -1,
    coord_start: int = 2,
    score_index: int = 1,
    id_index: int = 0,
    return_indices: bool = True,
    invalid_to_bottom: bool = False,
) -> Tensor | list[Tensor]:
    """Leave out the boxes that overlap one of a higher score.

    Args:
        data: (batch, boxes, numbers of a box), floating point, such as
            :func:`get_valid_counts` returns.
        valid_count: (batch,), how many of them count.
        indices: (batch, boxes), the place that each had; returned with ``return_indices``.
        max_output_size: the most that stay; a number or a tensor of one; negative for all.
        iou_threshold: what overlaps as much or more goes; none does for 0 or less, and the order
            stays.
        force_suppress: boxes of other classes, too.
        top_k: the most that are looked at; -1 for all.
        coord_start: the place of the first of four coordinates.
        score_index, id_index: the places of the score and the class; -1 for no classes.
        return_indices: return places instead of boxes.
        invalid_to_bottom: boxes that stay come first.

    Returns:
        The places of those that stay, then -1, (batch, boxes), and how many (batch, 1), int32; or
        the boxes, -1 for those that went.

    Raises:
        ArgumentError: the shapes do not fit.
    """
    request = f"non_max_suppression({data}, {valid_count}, {indices})"
    check_integers(valid_count, request)
    if data.ndim != 3:
        raise ArgumentError(request, "data are (batch, boxes, numbers of a box)")
    n, boxes, size = (static(d, request) for d in data.shape)
    score = compute((n, boxes), lambda i, j: data(i, j, score_index), "T_score", INJECTIVE)
    order = argsort(score, valid_count, 1, False, "int32")
    limit = [max_output_size] if isinstance(max_output_size, Tensor) else []
    places_of = coord_start, score_index, id_index
    rule = _Rule((n, boxes, size), data.dtype, iou_threshold, force_suppress, top_k, *places_of)
    most = None if limit else max_output_size
    made, places = extern(
        [(n, boxes, size), (n, boxes)], [data, order, valid_count, *limit],
        lambda ins, outs: rule.loops(ins, outs, most), "T_nms", [data.dtype, "int32"],
        attrs={"rule": str(rule), "most": str(most)},
    )  # fmt: skip
    if return_indices:
        return _places_first(places, indices)
    return _boxes_first(made) if invalid_to_bottom else made


@dataclass(frozen=True)
class _Rule:
    """Conditions of suppression; fields as the arguments of :func:`non_max_suppression`."""

    shape: tuple[int, int, int]
    dtype: str
    threshold: float
    force: bool
    top_k: int
    coord: int
    score: int
    id: int

    def loops(self, ins: list[Buffer], outs: list[Buffer], most: int | None) -> Stmt:
        """The boxes in order, then those that go set to -1; ``most`` None: it is an input."""
        n, boxes, size = self.shape
        ib = ir_builder.create()
        given, by_score, count, *limit = (ib.buffer_ptr(b) for b in ins)
        made, places = (ib.buffer_ptr(b) for b in outs)
        last = const(most) if most is not None else limit[0][(const(0),) * len(ins[3].shape)]

        def drop(i: Any, j: Any) -> None:
            fill(made, (i, j), [const(-1, self.dtype)] * size)
            places[i, j] = const(-1)

        with ib.for_range(0, n, name="i", kind="parallel") as i:
            total = ib.let("total", cast("int32", count[i]))
            looked_at: Any = total
            if self.top_k > 0 and self.threshold > 0:
                looked_at = minimum(total, self.top_k)
            with ib.for_range(0, boxes, name="j") as j:
                with ib.if_scope(j < looked_at):
                    place = ib.let("place", by_score[i, j] if self.threshold > 0 else j)
                    fill(made, (i, j), [given[i, place, k] for k in range(size)])
                    places[i, j] = place
                with ib.else_scope():
                    drop(i, j)
            if self.threshold > 0:
                self.suppress(ib, (i, total), made, drop, cast("int32", last))
        return ib.get()

    def suppress(self, ib: Any, image: tuple[Any, Any], made: Any, drop: Any, last: Any) -> None:
        """Drops each box that overlaps one before it, and those behind the ``last``."""
        i, total = image
        state = ib.allocate("int32", 2, name="state", scope="local")  # kept, and whether one is
        zero = const(0, self.dtype)
        state[0] = 0
        with ib.for_range(0, total, name="j") as j:
            with ib.if_scope(state[0].equal(last)):
                drop(i, j)
            with ib.else_scope(), ib.if_scope(made[i, j, self.score] > zero):
                state[1] = 1
                own = [made[i, j, self.coord + c] for c in range(4)]
                with ib.for_range(0, j, name="k") as k:
                    meets = [state[1].equal(1), made[i, k, self.score] > zero]
                    if self.id >= 0:
                        meets.append(made[i, k, self.id] >= zero)
                    if self.id >= 0 and not self.force:
                        meets.append(made[i, j, self.id].equal(made[i, k, self.id]))
                    with ib.if_scope(all_of(*meets)):
                        other = [made[i, k, self.coord + c] for c in range(4)]
                        part = overlap(own, other, self.dtype)
                        with ib.if_scope(part >= const(self.threshold, self.dtype)):
                            state[1] = 0
                with ib.if_scope(state[1].equal(1)):
                    state[0] = state[0] + 1
                with ib.else_scope():
                    drop(i, j)


def _places_first(places: Tensor, indices: Tensor) -> list[Tensor]:
    """The places before the ones that are -1, as ``indices`` have them, and how many."""
    n, boxes = (int(d) for d in places.shape)

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        ib = ir_builder.create()
        given, index = (ib.buffer_ptr(b) for b in ins)
        made, count = (ib.buffer_ptr(b) for b in outs)
        with ib.for_range(0, n, name="i", kind="parallel") as i:
            count[i, 0] = const(0)
            with ib.for_range(0, boxes, name="j") as j:
                made[i, j] = const(-1)
                with ib.if_scope(given[i, j] >= 0):
                    made[i, count[i, 0]] = cast("int32", index[i, given[i, j]])
                    count[i, 0] = count[i, 0] + 1
        return ib.get()

    shapes = [(n, boxes), (n, 1)]
    return list(extern(shapes, [places, indices], body, "T_nms_places", ["int32", "int32"]))


def _boxes_first(boxes: Tensor) -> Tensor:
    """The boxes before those whose first number is negative, which become -1."""
    n, many, size = (int(d) for d in boxes.shape)

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        ib = ir_builder.create()
        given, made = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, n, name="i", kind="parallel") as i:
            count = ib.allocate("int32", 1, name="count", scope="local")
            count[0] = 0
            with ib.for_range(0, many, name="j") as j:
                fill(made, (i, j), [const(-1, boxes.dtype)] * size)
                with ib.if_scope(given[i, j, 0] >= const(0, boxes.dtype)):
                    fill(made, (i, count[0]), [given[i, j, k] for k in range(size)])
                    count[0] = count[0] + 1
        return ib.get()

    return extern((n, many, size), [boxes], body, "T_nms_boxes", boxes.dtype)
