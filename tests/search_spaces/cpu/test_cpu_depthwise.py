"""The depthwise templates in both layouts: windows, strides, padding, edges, drawn configs."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from cpu_gemm_checks import ONE, TWO, built
from cpu_image_checks import check

import whet
from whet import te, topi
from whet.compiler.errors import ArgumentError
from whet.search_spaces.template import get_template

LAYOUTS = ("nhwc", "nchw")


def _four(value: Any) -> tuple[int, int, int, int]:
    """Padding as (top, left, bottom, right)."""
    sides = (value, value) if isinstance(value, int) else value
    return (*sides, *sides) if len(sides) == 2 else sides


def _two(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else value


def _reference(strides: Any = 1, padding: Any = 0, dilation: Any = 1) -> Any:
    """Of data (N, H, W, C) and weights (KH, KW, C, multiplier)."""
    (sh, sw), (dh, dw), (top, left, bottom, right) = _two(strides), _two(dilation), _four(padding)

    def of(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        kh, kw, c, each = w.shape
        p = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
        oh = (p.shape[1] - (kh - 1) * dh - 1) // sh + 1
        ow = (p.shape[2] - (kw - 1) * dw - 1) // sw + 1
        out = np.zeros((x.shape[0], oh, ow, c, each))
        for i in range(kh):
            for j in range(kw):
                rows = p[:, i * dh :][:, : (oh - 1) * sh + 1 : sh]
                part = rows[:, :, j * dw :][:, :, : (ow - 1) * sw + 1 : sw]
                out += part[..., None] * w[i, j]
        return out.reshape(*out.shape[:3], c * each)

    return of


def _check(layout: str, args: tuple, *, target: str = ONE, count: int = 2, **options: Any) -> None:
    """``args``: N, C, H, W, KH, KW, then strides, padding, dilation, multiplier as far as given."""
    task = whet.create_task(f"depthwise_conv2d_{layout}", args=args, target=target)
    last = layout == "nhwc"
    of = _reference(*args[6:9])

    def reference(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        if last:
            return of(x, w)
        return np.moveaxis(of(np.moveaxis(x, 1, -1), w.transpose(2, 3, 0, 1)), -1, 1)

    check(task, reference, last, count=count, **options)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "args",
    [
        (1, 16, 14, 14, 3, 3, 1, 1),
        (1, 24, 15, 13, 3, 3, 2, 1),
        (2, 5, 9, 11, 3, 3, 1, (0, 2)),
        (1, 17, 8, 19, 3, 3, (2, 1), (1, 0, 0, 1)),
        (1, 8, 11, 12, 3, 3, 1, 2, 2),
        (1, 9, 13, 7, 5, 4, (1, 3), 2, (2, 1)),
        (1, 1, 1, 1, 1, 1),
        (1, 1, 1, 1, 3, 3, 1, 1),
        (1, 3, 6, 5, 2, 2, 2),
    ],
    ids=str,
)
def test_windows(layout: str, args: tuple) -> None:
    _check(layout, args)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_several_results_a_channel(layout: str) -> None:
    _check(layout, (1, 6, 9, 10, 3, 3, 1, 1, 1, 3))
    _check(layout, (2, 3, 7, 7, 3, 3, 2, 1, 1, 2), seed=1)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "epilogue", [("bias", ("clip", 0, 6)), ("bias", "residual", "silu"), ("relu",)], ids=str
)
def test_epilogues(layout: str, epilogue: tuple) -> None:
    args = (1, 12, 7, 9, 3, 3, 1, 1, 1, 1, "float32", epilogue)
    _check(layout, args, epilogue=epilogue)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_packed_weights_and_double(layout: str) -> None:
    args = (1, 10, 8, 9, 3, 3, 1, 1, 1, 2, "float64", (), True)
    _check(layout, args, packed=True, near=1e-13)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("target", [TWO, "llvm -mcpu=x86-64 -num-threads=1", "c"])
def test_targets(layout: str, target: str) -> None:
    _check(layout, (2, 9, 10, 11, 3, 3, 1, 1), target=target)


@pytest.mark.parametrize("args", [(1, 40, 7, 9), (3, 33, 5, 29), (2, 16, 1, 4)])
@pytest.mark.parametrize("threads", [2, 3, 5])
def test_threads_share_bands_of_rows(args: tuple, threads: int) -> None:
    _check("nhwc", (*args, 3, 3, 1, 1), target=f"llvm -num_threads={threads}", count=3)


@pytest.mark.parametrize(
    ("images", "threads", "bands"), [(1, 2, 2), (2, 2, 1), (8, 4, 1), (3, 2, 2), (1, 64, 28)]
)
def test_as_many_bands_as_threads_need(images: int, threads: int, bands: int) -> None:
    """And no strips, whose first and last tile must be told from the others by their loop."""
    target = f"llvm -mcpu=x86-64-v4 -num_threads={threads}"
    args = (images, 192, 28, 28, 3, 3, 1, 1)
    task = whet.create_task("depthwise_conv2d_nhwc", args=args, target=target)
    assert task.config_space.default["strip"].val == 1
    with task.target:
        loops = str(whet.lower(*task.instantiate()))
    assert f"in parallel({images * bands * 3}):" in loops  # 12 vectors in blocks of 4
    assert "x_outer" not in loops.split(" in parallel(")[0]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_outside_the_image_is_not_multiplied(layout: str) -> None:
    """A window that reaches infinite pixels gives infinity, and not NaN from zero times it."""
    task = whet.create_task(f"depthwise_conv2d_{layout}", args=(1, 8, 5, 5, 3, 3, 1, 1), target=ONE)
    f, tensors = built(task, task.config_space.default)
    shapes = [tuple(int(d) for d in t.shape) for t in tensors]
    data, weight, out = (np.full(s, v, "float32") for s, v in zip(shapes, (np.inf, 1.0, np.nan)))
    f(data, weight, out)
    assert np.isposinf(out).all()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("args", [(0, 4, 5, 5, 3, 3), (1, 0, 5, 5, 3, 3)], ids=str)
def test_nothing_to_do(layout: str, args: tuple) -> None:
    _check(layout, args, count=0)


def test_one_workload_for_all_spellings() -> None:
    t = get_template("depthwise_conv2d_nhwc")
    a = t.workload(1, 8, 5, 5, 3, 3, 1, 1)
    b = t.workload(1, 8, 5, 5, 3, 3, (1, 1), (1, 1, 1, 1), (1, 1), 1, "float32", None)
    assert a == b


def test_flop_are_those_of_the_sums() -> None:
    task = whet.create_task("depthwise_conv2d_nhwc", args=(1, 8, 6, 6, 3, 3, 1, 1), target=ONE)
    assert task.flop == 2 * 9 * 8 * 36


@pytest.mark.parametrize(
    "args, words",
    [
        ((1, 8, 5, 5, 3, 3, 0), "strides is 0; it must be an int, at least 1"),
        (
            (1, 8, 5, 5, 3, 3, 1, -1),
            r"_n\w+\(1, 8, 5, 5, 3, 3, 1, -1, 1, 1, 'float32', \(\), False\): padding is -1",
        ),
        ((1, 8, "5", 5, 3, 3), "H is '5'; it must be an int, at least 0\n  give H as 5"),
        ((1, 8, 5, 5, 3, 3, 1, 0, 1, 1, "float32", (), "yes"), "packed is 'yes'; it must be"),
        ((1, 8, 5, 5, 3, 3, 1, 0, 0), "dilation is 0; it must be an int, at least 1"),
        ((1, 8, 5, 5, 3, 3, 1, 0, 1, 0), "multiplier is 0; it must be an int, at least 1\n  give"),
        (
            (1, 8, 5, 5, 7, 7),
            r"\(N=1, C=8, image.*multiplier=1\): the 7x7 window is larger than",
        ),
        ((1, 8, 5, 5, 3, 3, 1, 0, 1, 1, "int16"), "dtype 'int16' is not one of"),
        ((1, -8, 5, 5, 3, 3), r"C is -8; it must be an int, at least 0"),
    ],
    ids=str,
)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_errors(layout: str, args: tuple, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        whet.create_task(f"depthwise_conv2d_{layout}", args=args, target=ONE)


@pytest.mark.parametrize("copy", ["plane", "rows", "none"])
@pytest.mark.parametrize(
    ("image", "window", "strides", "padding", "dilation"),
    [
        ((13, 29), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
        ((31, 57), (3, 3), (2, 2), (0, 1, 1, 0), (1, 1)),
        ((18, 70), (5, 4), (2, 3), (2, 1, 2, 2), (1, 1)),
        ((21, 33), (3, 3), (1, 2), (2, 2, 2, 2), (2, 1)),
        ((9, 40), (2, 3), (1, 1), (0, 0, 0, 0), (1, 2)),
    ],
    ids=str,
)
@pytest.mark.parametrize("relu", [False, True])
def test_tiles_of_copies_and_of_the_image_itself(
    image: tuple,
    window: tuple,
    strides: tuple,
    padding: tuple,
    dilation: tuple,
    copy: str,
    relu: bool,
) -> None:
    """Also where the image is what a cheap stage computes: relu(x + 1)."""
    rng = np.random.default_rng()
    x = rng.standard_normal((2, 3, *image)).astype("f")
    w = rng.standard_normal((6, 1, *window)).astype("f")
    X, W = te.placeholder(x.shape, name="X"), te.placeholder(w.shape, name="W")
    before = topi.nn.relu(topi.add(X, 1.0)) if relu else X
    top, left, bottom, right = padding
    sides = [top, left, bottom, right]
    R = topi.nn.group_conv2d_nchw(before, W, strides, sides, dilation, 3)
    task = whet.create_task(outputs=[R], args=[X, W, R], target=TWO)
    seen = np.maximum(x.astype("d") + 1, 0) if relu else x.astype("d")
    given = w.astype("d").reshape(3, 2, *window).transpose(2, 3, 0, 1)
    of = _reference(strides, padding, dilation)
    right_one = np.moveaxis(of(np.moveaxis(seen, 1, -1), given), -1, 1)
    space = task.config_space
    (name,) = (k for k in space.knobs if k.endswith("copy"))
    known = {k: space.default[k].val for k in space.knobs}
    assert known[name] != "none" or not relu
    for tile in rng.permutation(len(space.knobs[name.replace("copy", "tile")].choices))[:3]:
        choice = space.knobs[name.replace("copy", "tile")].choices[tile]
        config = space.from_choices(known | {name: copy, name.replace("copy", "tile"): choice})
        s, args = task.instantiate(config)
        out = np.full(right_one.shape, np.nan, "f")
        whet.build(s, args, task.target)(x, w, out)
        np.testing.assert_allclose(out, right_one, rtol=1e-4, atol=1e-4, err_msg=str(config))


@pytest.mark.parametrize(
    ("width", "vectors"), [(28, "<16 x float>"), (14, "<16 x float>"), (24, "<8 x float>")]
)
def test_the_end_of_a_row_is_a_whole_vector(width: int, vectors: str) -> None:
    """12 lanes are one vector of 16 with a mask, not 8 and 4; 8 lanes are one of 8."""
    target = "llvm -mcpu=x86-64-v4 -num_threads=1"
    args = (1, 4, width, width, 5, 5, 1, 2)
    task = whet.create_task("depthwise_conv2d_nchw", args=args, target=target)
    assert task.config_space.default["copy"].val == "none"
    text = whet.build(*task.instantiate(), task.target).get_source()
    kinds = set(re.findall(r"call (<\d+ x float>) @llvm\.fmuladd", text))
    assert kinds == {"<16 x float>", vectors}, kinds


@pytest.mark.parametrize(
    ("args", "usual", "block"),
    [
        ((1, 240, 29, 29, 5, 5, 2, 2), 8, 3),  # what a tile reads stays in the L1 cache
        ((1, 144, 56, 56, 3, 3, 1, 1), 7, 0),
        ((1, 192, 28, 28, 3, 3, 2, 1), 7, 4),
        ((1, 96, 56, 56, 7, 7, 1, 3), 7, 0),
        (
            (1, 64, 57, 57, 3, 3, 1, 2, 2),
            3,
            0,
        ),  # strips of tiles, without a last one that has tests
        ((1, 144, 53, 53, 3, 3, 1, 1), 7, 0),  # a prime number of pixels is not tiles of one
        ((1, 64, 1, 1, 3, 3, 1, 1), 1, 0),
    ],
)
def test_the_default_of_channels_last(args: tuple, usual: int, block: int) -> None:
    """Few tiles of many pixels, and no more channels than the L1 cache holds with their taps."""
    task = whet.create_task("depthwise_conv2d_nhwc", args=args, target="llvm -mcpu=x86-64-v4")
    default = task.config_space.default
    assert (default["tile"].val, default["block"].val) == ((usual, 1), block)
