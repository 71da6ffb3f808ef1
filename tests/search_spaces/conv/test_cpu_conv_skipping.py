"""Convolutions that skip the taps which lie in the padding for a whole tile."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from cpu_conv_checks import check
from cpu_gemm_checks import built

import whet
from whet.compiler.target import Target
from whet.search_spaces.operators.conv_arguments import conv_shape
from whet.search_spaces.rules.cpu.conv.algorithms import cost_of
from whet.search_spaces.rules.cpu.conv.estimate.costs import Work
from whet.search_spaces.rules.cpu.conv.estimate.kept import kept_along, kept_in_runs

# N, CI, H, W, CO, KH, KW, strides, padding, dilation, groups
LAST = [
    (1, 6, 9, 8, 20, 3, 3, 1, 4, 4),
    (3, 4, 5, 7, 9, 3, 2, 2, (2, 0, 3, 1)),
    (2, 8, 5, 4, 12, 5, 3, 1, (0, 3, 4, 0), (2, 1), 2),
    (2, 3, 3, 3, 5, 3, 3, 1, 6, 5),
]


@pytest.mark.parametrize("skip", ["rows", "columns"])
@pytest.mark.parametrize("case", LAST, ids=str)
def test_channels_last(case, skip):
    """Tiles that end inside of rows, of columns and of images; padding wider than the image."""
    check("conv2d_nhwc", case, skip=skip, packed=True, count=1, algorithm="direct")


def test_im2col_blocks_threads_and_float64():
    for skip in ("rows", "columns"):
        check("conv2d_nhwc", LAST[0], skip=skip, algorithm="im2col", count=1)
        check("conv2d_nchwc", (2, 8, 6, 5, 8, 3, 3, 1, 2, 2), skip=skip, block=4, count=1)
    check("conv2d_nhwc", LAST[0], skip="rows", target="llvm -num_threads=2", count=1)
    check("conv2d_nhwc", LAST[1], skip="rows", dtype="float64", count=1, algorithm="direct")


@pytest.mark.parametrize(
    ("operator", "case"),
    [
        ("conv2d_nchw", (2, 5, 9, 8, 7, 3, 3, 1, 4, 4)),
        ("conv2d_nchw", (1, 4, 9, 13, 6, 3, 2, 2, (3, 0, 0, 1), 1, 2)),
        ("conv3d_ncdhw", (1, 3, 4, 5, 6, 5, 3, 3, 3, 1, 2, (2, 1, 1))),
    ],
    ids=str,
)
def test_channels_first(operator, case):
    check(operator, case, skip=True, algorithm="direct", count=2)


def test_rows_with_the_channels_last():
    """A row of pixels is an image of one row, whose columns have the padding."""
    case, count = (2, 3, 11, 9, 4, 1, 3, 3), 2
    check("conv1d_ncw", case, skip="columns", algorithm="channels_last", count=count)


def _conv(*args: Any, operator: str = "conv2d_nhwc", **chosen: Any) -> tuple[Any, Any]:
    """A task and its default config with other choices."""
    task = whet.create_task(operator, args=args, target="llvm -num_threads=1")
    space = task.config_space
    config = space.from_choices({**space.default.as_dict(), "algorithm": "direct", **chosen})
    return task, config


@pytest.mark.parametrize(("skip", "axis"), [("rows", 0), ("columns", 1)])
def test_a_skipped_tap_is_not_multiplied(skip, axis):
    """Weights of infinity make NaN of the zeros that they meet, and only of those."""
    sizes = (1, 2, 12, 12, 16, 3, 3, 1, 2, 2)
    space = _conv(*sizes)[0].config_space
    tile = next(t for t in space.space_map["tile"].choices if 12 % t[0] == 0)
    data = np.ones((1, 12, 12, 2), "float32")
    weight = np.ones((3, 3, 2, 16), "float32")
    weight[(slice(None),) * axis + (0,)] = np.inf
    for one, rows in ((skip, 0), ("none", 2)):
        f, _ = built(*_conv(*sizes, tile=tile, block=1, skip=one))
        out = np.full((1, 12, 12, 16), 7.0, "float32")
        f(data, weight, out)
        bad = np.isnan(np.moveaxis(out, axis + 1, 0)).all(axis=(1, 2, 3))
        assert bad.tolist() == [True] * rows + [False] * (12 - rows), one


def test_planes_and_rows_are_skipped():
    """One test a plane of the window, outside of the loops over the channels."""
    args = (1, 2, 4, 6, 8, 16, 3, 3, 3, 1, 1)
    task, config = _conv(*args, operator="conv3d_ncdhw", skip=True)
    with task.target:
        text = str(whet.lower(*task.instantiate(config)))
    test = text.index("if likely(max(")
    assert text.rindex("for rz", 0, test) < text.index("for rc", test)


@pytest.mark.parametrize(("skip", "loop"), [("rows", "for ry"), ("columns", "for rx")])
def test_a_tile_has_one_test_of_each_tap(skip, loop):
    """The last tile, too, whose reads are clamped."""
    task, _ = _conv(1, 8, 7, 9, 16, 3, 3, 1, 2, 2)
    tiles = task.config_space.space_map["tile"].choices
    tile = next(t for t in tiles if 1 < t[0] < 6 and 63 % t[0])
    task, config = _conv(1, 8, 7, 9, 16, 3, 3, 1, 2, 2, skip=skip, tile=tile, block=1)
    with task.target:
        lines = str(whet.lower(*task.instantiate(config))).splitlines()
    tests = [k for k, line in enumerate(lines) if "if likely(max(" in line]
    assert tests
    for k in tests:
        assert loop in lines[k - 1] and "min(" not in lines[k]
        assert "for " in lines[k + 1] and "unrolled" not in lines[k + 1]


@pytest.mark.parametrize("tile", [1, 4, 5, 9, 16])
@pytest.mark.parametrize("skip", ["rows", "columns"])
def test_the_estimate_counts_the_taps_of_each_tile(skip, tile):
    sizes = (1, 4, (37, 41), 8, (3, 5), (1, 2), (2, 3, 1, 4), (3, 2))
    shape = conv_shape("conv", "NHWC", *sizes, 1, "float32")
    line = 1 if skip == "columns" else 0
    across, lines = shape.out[1 - line], shape.out[line]
    met = total = 0
    for first in range(0, across * lines, tile):
        last = min(first + tile, across * lines) - 1
        places = [y * shape.strides[line] for y in range(first // across, last // across + 1)]
        for tap in range(shape.window[line]):
            at = [y + tap * shape.dilation[line] - shape.before[line] for y in places]
            met += max(at) >= 0 and min(at) < shape.image[line]
            total += 1
    kept = kept_in_runs(shape, skip, tile, False)
    assert kept == pytest.approx(met / total, abs=0.01)
    assert kept < 0.99


def test_the_share_of_one_dimension_is_exact():
    shape = conv_shape("conv", "NCHW", 1, 4, (7, 10), 8, (3, 3), 1, 2, 2, 1, "float32")
    met = [[0 <= y + 2 * r - 2 < 7 for r in range(3)] for y in range(7)]
    assert kept_along(shape, 0, 1, 1) == sum(map(sum, met)) / 21
    pairs = [met[y : y + 2] for y in range(0, 7, 2)]
    wide = sum(any(row[r] for row in rows) for rows, r in product(pairs, range(3)))
    assert kept_along(shape, 0, 2, 2) == wide / 12


def test_what_is_skipped_costs_nothing_and_is_the_default():
    target = Target("llvm -mcpu=x86-64-v3 -num_threads=1")
    sizes = (1, 96, (41, 41), 96, (3, 3), 1, 4, 4)
    shape = conv_shape("conv", "NHWC", *sizes, 1, "float32")
    cost = cost_of("direct", Work(shape, 8, True, 16))
    knobs = {"tile": (6, 16), "order": "pixels", "block": 8, "unroll": 2}
    assert cost({**knobs, "skip": "rows"}) < 0.96 * cost({**knobs, "skip": "none"})
    for padding, choices in ((0, 1), ((4, 0), 2), (4, 3)):
        task = whet.create_task(
            "conv2d_nhwc", args=(1, 96, 41, 41, 96, 3, 3, 1, padding, 4), target=target
        )
        space = task.config_space
        assert len(space.space_map["skip"].choices) == choices
        assert (space.default["skip"].val == "none") == (choices == 1)
