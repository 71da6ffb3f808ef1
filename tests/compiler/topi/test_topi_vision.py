"""Detection beside numpy, written out box by box."""

import numpy as np
import pytest
from topi_check import results, topi

from whet.compiler import te
from whet.compiler.errors import ArgumentError

vision = topi.vision


@pytest.fixture
def rng(seeds):
    (seed,) = seeds(1)
    return np.random.default_rng(seed)


def boxes_of(rng, *shape):
    """Boxes of corners in any order, many of which overlap."""
    corner = rng.uniform(0, 1, (*shape, 2))
    sides = rng.uniform(-0.5, 0.7, (*shape, 2))
    return np.concatenate([corner, corner + sides], -1)


def overlap(a, b, pixel=0.0):
    (x, y), (x2, y2) = (np.minimum(t[:2], t[2:]) for t in (a, b))
    (u, v), (u2, v2) = (np.maximum(t[:2], t[2:]) for t in (a, b))
    w = max(0, min(u, u2) - max(x, x2) + pixel)
    h = max(0, min(v, v2) - max(y, y2) + pixel)
    union = (u - x + pixel) * (v - y + pixel) + (u2 - x2 + pixel) * (v2 - y2 + pixel) - w * h
    return 0 if union <= 0 else w * h / union


def suppressed(data, count, top_k, most, least, force, ids):
    """The kept rows of one image, by place; the others None."""
    order = np.argsort(-data[:count, 1], kind="stable")[: top_k if top_k > 0 else None]
    kept = []
    for place in order:
        row = data[place]
        same = [
            k for k in kept
            if data[k, 1] > 0 and (not ids or (data[k, 0] >= 0 and (force or data[k, 0] == row[0])))
        ]  # fmt: skip
        if row[1] <= 0:
            kept.append(place)  # as it stands: it is no box
            continue
        full = most >= 0 and sum(data[k, 1] > 0 for k in kept) >= most
        if not full and all(overlap(row[2:], data[k, 2:]) < least for k in same):
            kept.append(place)
    return kept


def test_boxes_that_count(rng):
    x = rng.uniform(-1, 1, (2, 6, 6)).astype("float32")
    count, rows, places = results(lambda t: vision.get_valid_counts(t, 0.1, 0, 1), x)
    for b in range(2):
        good = np.flatnonzero((x[b, :, 1] > 0.1) & (x[b, :, 0] >= 0))
        many = len(good)
        assert count[b] == many
        np.testing.assert_array_equal(
            rows[b], np.concatenate([x[b, good], np.full((6 - many, 6), -1)])
        )
        np.testing.assert_array_equal(places[b], [*good, *[-1] * (6 - many)])


@pytest.mark.parametrize(
    ("top_k", "most", "force", "ids"),
    [(-1, -1, False, True), (8, 3, True, True), (-1, 4, False, False)],
)
def test_suppression(top_k, most, force, ids, rng):
    x = np.concatenate(
        [rng.integers(0, 2, (2, 12, 1)), rng.uniform(0.1, 1, (2, 12, 1)), boxes_of(rng, 2, 12)], -1
    )
    count = np.array([12, 7], "int32")
    place = rng.permuted(np.tile(np.arange(12, dtype="int32"), (2, 1)), axis=1)
    options = {
        "iou_threshold": 0.3, "force_suppress": force, "top_k": top_k, "id_index": 0 if ids else -1,
        "max_output_size": most,
    }  # fmt: skip
    made, many = results(lambda *t: vision.non_max_suppression(*t, **options), x, count, place)
    first = {**options, "return_indices": False, "invalid_to_bottom": True}
    moved = results(lambda *t: vision.non_max_suppression(*t, **first), x, count, place)
    for b in range(2):
        kept = suppressed(x[b], count[b], top_k, most, 0.3, force, ids)
        assert many[b, 0] == len(kept)
        np.testing.assert_array_equal(made[b], [*place[b, kept], *[-1] * (12 - len(kept))])
        np.testing.assert_array_equal(moved[b, : len(kept)], x[b, kept])
        assert (moved[b, len(kept) :] == -1).all()


@pytest.mark.parametrize("most", [2, 0])
def test_classes(most, rng):
    boxes, scores = boxes_of(rng, 2, 7).astype("f4"), rng.uniform(0, 1, (2, 3, 7)).astype("f4")
    wanted = []
    for b, c in np.ndindex(2, 3):
        rows = np.concatenate([np.zeros((7, 1)), scores[b, c, :, None], boxes[b]], 1)
        rows[:, 1] *= rows[:, 1] > np.float32(0.2)
        good = int((rows[:, 1] > 0).sum())
        order = np.argsort(-rows[:, 1], kind="stable")[:good]
        kept = suppressed(rows[order], good, -1, most or -1, 0.4, True, False)
        wanted += [(b, c, order[k]) for k in kept]

    def call(form):
        return lambda x, y: vision.all_class_non_max_suppression(x, y, most, 0.4, 0.2, form)

    made, many = results(call("onnx"), boxes, scores)
    assert many[0] == len(wanted)
    np.testing.assert_array_equal(made[: len(wanted)], wanted)
    assert not made[len(wanted) :].any()
    made, found, many = results(call("tensorflow"), boxes, scores)
    for b in range(2):
        own = [w for w in wanted if w[0] == b]
        assert many[b] == len(own)
        np.testing.assert_array_equal(made[b, : len(own)], [w[1:] for w in own])
        np.testing.assert_array_equal(found[b, : len(own)], [scores[w] for w in own])
        assert not made[b, len(own) :].any() and not found[b, len(own) :].any()


def test_anchors(rng):
    made = results(
        lambda t: vision.multibox_prior(t, (0.5, 0.2), (1, 2, 0.5)), np.zeros((1, 1, 2, 3))
    )
    halves = [(0.5, 1), (0.2, 1), (0.5, 2), (0.5, 0.5)]
    for (i, j, k), box in zip(np.ndindex(2, 3, 4), made[0]):
        s, r = halves[k]
        x, y, w, h = (j + 0.5) / 3, (i + 0.5) / 2, s * 2 / 3 * r**0.5 / 2, s / r**0.5 / 2
        np.testing.assert_allclose(box, [x - w, y - h, x + w, y + h], 1e-5, 1e-6)
    likely, moved = rng.random((2, 3, 24)), rng.standard_normal((2, 96))
    anchors = boxes_of(rng, 1, 24)
    boxes, many = results(
        lambda *t: vision.multibox_transform_loc(*t, True, 0.6), likely, moved, anchors
    )
    for b in range(2):
        best = likely[b, 1:].max(0)
        rows = np.flatnonzero(best >= 0.6)
        assert many[b] == len(rows)
        old, d = anchors[0, rows], moved[b].reshape(24, 4)[rows] * [0.1, 0.1, 0.2, 0.2]
        side = old[:, 2:] - old[:, :2]
        centre, half = d[:, :2] * side + (old[:, :2] + old[:, 2:]) / 2, np.exp(d[:, 2:]) * side / 2
        wanted = np.concatenate(
            [likely[b, 1:, rows].argmax(1)[:, None], best[rows, None],
             np.clip(np.concatenate([centre - half, centre + half], 1), 0, 1)], 1
        )  # fmt: skip
        np.testing.assert_allclose(boxes[b, : len(rows)], wanted, 1e-12, 1e-12)
        assert (boxes[b, len(rows) :] == -1).all()
    out = results(lambda *t: vision.multibox_detection(*t, True, 0.6), likely, moved, anchors)
    assert out.shape == boxes.shape and (out[:, :, 0] >= 0).any()


def bilinear(image, y, x):
    """A pixel between four of (C, H, W); 0 far outside."""
    h, w = image.shape[1:]
    if not (-1 <= y <= h and -1 <= x <= w):
        return np.zeros(len(image))
    y, x = (min(max(t, 0), n - 1) for t, n in ((y, h), (x, w)))
    i, j = int(y), int(x)
    k, m = min(i + 1, h - 1), min(j + 1, w - 1)
    top = image[:, i, j] * (1 - x + j) + image[:, i, m] * (x - j)
    bottom = image[:, k, j] * (1 - x + j) + image[:, k, m] * (x - j)
    return top * (1 - y + i) + bottom * (y - i)


@pytest.mark.parametrize(("mode", "ratio"), [("avg", 2), ("max", 3)])
def test_aligned_regions(mode, ratio, rng):
    x = rng.standard_normal((2, 3, 6, 7))
    rois = np.array([[0, 1, 1, 9, 8], [1, 3, 0, 4, 12], [1, -2, 4, 13, 5]], "float64")
    wanted = np.zeros((3, 3, 2, 3))
    for r, (b, *box) in enumerate(rois):
        x0, y0, x1, y1 = (t * 0.5 for t in box)
        h, w = max(y1 - y0, 1) / 2, max(x1 - x0, 1) / 3
        for i, j in np.ndindex(2, 3):
            steps = (np.arange(ratio) + 0.5) / ratio
            places = [(y0 + (i + u) * h, x0 + (j + v) * w) for u in steps for v in steps]
            samples = [bilinear(x[int(b)], *place) for place in places]
            wanted[r, :, i, j] = np.mean(samples, 0) if mode == "avg" else np.max(samples, 0)
    made = results(lambda a, b: vision.roi_align_nchw(a, b, (2, 3), 0.5, mode, ratio), x, rois)
    np.testing.assert_allclose(made, wanted, 1e-12, 1e-12)
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    made = results(lambda a, b: vision.roi_align_nhwc(a, b, (2, 3), 0.5, mode, ratio), last, rois)
    np.testing.assert_allclose(made, wanted.transpose(0, 2, 3, 1), 1e-12, 1e-12)


def test_pooled_regions(rng):
    x = rng.standard_normal((2, 3, 6, 7))
    rois = np.array([[0, 0, 0, 9.2, 7.3], [1, 4.7, 3, 8, 12], [1, 30, 30, 40, 40]])
    wanted = np.zeros((3, 3, 2, 3))
    for r, (b, *box) in enumerate(rois):
        x0, y0, x1, y1 = (int(np.floor(t * 0.5 + 0.5)) for t in box)
        h, w = max(y1 - y0 + 1, 1) / 2, max(x1 - x0 + 1, 1) / 3
        for i, j in np.ndindex(2, 3):
            ends = [
                np.clip(
                    [int(np.floor(k * s + 1e-5)) + o, int(np.ceil((k + 1) * s - 1e-5)) + o], 0, n
                )
                for k, s, o, n in ((i, h, y0, 6), (j, w, x0, 7))
            ]
            part = x[int(b), :, slice(*ends[0]), slice(*ends[1])]
            if part.size:
                wanted[r, :, i, j] = part.max((1, 2))
    made = results(lambda a, b: vision.roi_pool_nchw(a, b, (2, 3), 0.5), x, rois)
    np.testing.assert_array_equal(made, wanted)


@pytest.mark.parametrize("by_corner", [False, True])
def test_proposals(by_corner, rng):
    n, h, w, stride = 2, 3, 4, 16
    scales, ratios = (1, 2), (0.5, 1)
    scores, change = rng.random((n, 8, h, w)), rng.standard_normal((n, 16, h, w)) * 0.3
    info = np.array([[48, 64, 1], [40, 60, 1.5]])
    args = (scales, ratios, stride, 0.4, 20, 9, 12, by_corner)
    made = results(lambda *t: vision.proposal(*t, *args), scores, change, info)
    for b in range(n):
        rows = []
        for y, x, k in np.ndindex(h, w, 4):
            ratio, scale = ratios[k // 2], scales[k % 2]
            width = np.floor(np.sqrt(stride**2 // ratio) + 0.5)
            size = np.array([width, np.floor(width * ratio + 0.5)]) * scale
            centre = 7.5 + np.array([x, y]) * stride
            d = change[b, k * 4 : k * 4 + 4, y, x]
            low, high = centre - (size - 1) / 2, centre + (size - 1) / 2
            if by_corner:
                low, high = low + d[:2], high + d[2:]
            else:
                centre, size = d[:2] * size + centre, np.exp(d[2:]) * size
                low, high = centre - (size - 1) / 2, centre + (size - 1) / 2
            edge = info[b, 1::-1] - 1
            low, high = np.clip(low, 0, edge), np.clip(high, 0, edge)
            score, least = scores[b, k + 4, y, x], info[b, 2] * 12
            if y >= int(info[b, 0] / stride) or x >= int(info[b, 1] / stride):
                score = -1
            if (high - low + 1 < least).any():
                low, high, score = low - least / 2, high + least / 2, -1
            rows.append([*low, *high, score])
        rows = np.array(rows)
        rows = rows[np.argsort(-rows[:, 4], kind="stable")[:20], :4]
        kept = []
        for row in rows:
            if all(overlap(row, k, 1.0) <= 0.4 for k in kept):
                kept.append(row)
        wanted = [[b, *kept[t % len(kept)]] for t in range(9)]
        np.testing.assert_allclose(made[b * 9 : b * 9 + 9], wanted, 1e-9, 1e-9)


def test_what_does_not_fit():
    x, rois = te.placeholder((1, 2, 5, 5)), te.placeholder((3, 4))
    for make, text in (
        (lambda: vision.get_valid_counts(x), "data are"),
        (lambda: vision.roi_align_nchw(x, rois, 2, 1.0, "avg"), "regions are"),
        (lambda: vision.roi_pool_nchw(x, rois, 2, 1.0), "regions are"),
        (lambda: vision.multibox_prior(x, ()), "a size and a ratio"),
        (
            lambda: vision.proposal(x, x, rois, (1,), (1, 2), 1, 0.5, 1, 1, 1, False),
            "1 scales and 2",
        ),
    ):
        with pytest.raises(ArgumentError, match=text):
            make()
    b, s = te.placeholder((1, 5, 4)), te.placeholder((1, 2, 5))
    with pytest.raises(ArgumentError, match="a format is"):
        vision.all_class_non_max_suppression(b, s, 1, 0.5, 0.5, "torch")
