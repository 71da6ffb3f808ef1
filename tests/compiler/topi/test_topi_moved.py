"""Gather, layouts, paddings, running sums and resized images against numpy."""

from functools import partial

import numpy as np
import pytest
from topi_check import drawn, holds

from whet.compiler import te, topi
from whet.compiler.errors import ArgumentError

X = drawn(3, 5, 7)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("kind", ["int32", "int64", "uint8"])
def test_gather_along_each_axis(axis, kind):
    shape = [2, 4, 6]
    shape[axis] = 9
    i = np.random.default_rng(1).integers(0, X.shape[axis], shape).astype(kind)
    own = X[tuple(slice(None) if d == axis % 3 else slice(0, n) for d, n in enumerate(shape))]
    wanted = np.take_along_axis(own, i.astype("int64"), axis)
    holds(lambda x, k: topi.gather(x, axis, k), wanted, X, i)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_gather_nd(count):
    rng = np.random.default_rng(2)
    i = np.stack([rng.integers(0, n, (4, 2)) for n in X.shape[:count]]).astype("int32")
    holds(topi.gather_nd, X[tuple(i)], X, i)


def test_layouts_there_and_back():
    x = drawn(2, 12, 3, 5)
    blocks = x.reshape(2, 3, 4, 3, 5).transpose(0, 1, 3, 4, 2)
    other = x.reshape(2, 2, 6, 3, 5).transpose(0, 1, 3, 4, 2)
    for array, source, wanted, target in (
        (x, "NCHW", x.transpose(0, 2, 3, 1), "NHWC"),
        (x, "NCHW", blocks, "NCHW4c"),
        (blocks, "NCHW4c", x, "NCHW"),
        (blocks, "NCHW4c", other, "NCHW6c"),
        (blocks, "NCHW4c", blocks.transpose(0, 2, 3, 1, 4), "NHWC4c"),
        (x, "NCHW", x, "NCHW"),
    ):
        given = np.ascontiguousarray(array)
        holds(lambda t, a=source, b=target: topi.layout_transform(t, a, b), wanted, given)


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric", "wrap"])
def test_padding_modes_are_those_of_numpy(mode):
    before, after = (1, 0, 4), (2, 3, 0)
    wanted = np.pad(X, list(zip(before, after)), mode)
    holds(lambda x: topi.pad(x, before, after, mode=mode), wanted, X)


def test_paddings_by_their_names():
    both = [(2, 2)] * 3
    for make, mode in (
        (topi.nn.reflect_pad, "reflect"),
        (topi.nn.replicate_pad, "edge"),
        (topi.nn.circular_pad, "wrap"),
        (topi.nn.mirror_pad, "symmetric"),
    ):
        holds(lambda x, f=make: f(x, (2, 2, 2)), np.pad(X, both, mode), X)


host = partial(holds, gpu=False)  # the loops of running sums are written by hand, for a CPU


@pytest.mark.parametrize("axis", [0, 1, -1, None])
@pytest.mark.parametrize("shape", [(3, 5, 7), (1, 1, 1), (2, 40, 1), (2, 3, 37), (4, 1, 9)])
def test_running_sums(axis, shape):
    x = drawn(*shape)
    d = x.astype("float64")
    host(lambda t: topi.cumsum(t, axis), np.cumsum(d, axis), x, tolerance=1e-6)
    ints = drawn(*shape, dtype="int32")
    host(lambda t: topi.cumsum(t, axis, "int64"), np.cumsum(ints, axis), ints)
    host(lambda t: topi.cumprod(t, axis), np.cumprod(d, axis), x, tolerance=1e-6)
    sums = np.cumsum(d, axis) - (d.ravel() if axis is None else d)
    host(lambda t: topi.cumsum(t, axis, exclusive=True), sums, x, tolerance=1e-6)


def test_a_running_sum_wider_than_a_block():
    x = drawn(3, 2100, seed=4)
    host(lambda t: topi.cumsum(t, 0), np.cumsum(x.astype("float64"), 0), x, tolerance=1e-6)
    host(lambda t: topi.cumsum(t, 1), np.cumsum(x.astype("float64"), 1), x, tolerance=1e-6)


def places(mode, have, want):
    y = np.arange(want)
    if mode == "half_pixel":
        return (y + 0.5) * have / want - 0.5
    if mode == "asymmetric":
        return y * have / want
    return y * (have - 1) / max(want - 1, 1)


def lerped(x, axis, at):
    low = np.floor(at).astype(int)
    n = x.shape[axis]
    first, second = (np.take(x, np.clip(low + k, 0, n - 1), axis) for k in (0, 1))
    part = np.expand_dims(at - low, [d for d in range(4) if d != axis])
    return first + (second - first) * part


@pytest.mark.parametrize("mode", ["half_pixel", "asymmetric", "align_corners"])
@pytest.mark.parametrize("size", [(10, 14), (3, 5), (1, 1), (5, 7), (13, 4)])
def test_resized_images(mode, size):
    x = drawn(2, 3, 5, 7)
    d = x.astype("float64")
    at = [places(mode, n, m) for n, m in zip((5, 7), size)]
    wanted = lerped(lerped(d, 2, at[0]), 3, at[1])
    options = {"coordinate_transformation_mode": mode}
    holds(lambda t: topi.image.resize2d(t, None, size, **options), wanted, x, tolerance=1e-6)
    nhwc = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    holds(
        lambda t: topi.image.resize2d(t, None, size, "NHWC", **options),
        wanted.transpose(0, 2, 3, 1),
        nhwc,
        tolerance=1e-6,
    )
    for rounding, how in (("floor", np.floor), ("ceil", np.ceil)):
        if rounding == "ceil" and mode != "asymmetric":
            continue  # floats are not exact where it matters
        rows, columns = (
            np.clip(how(a + 1e-9 * (1 if rounding == "floor" else -1)).astype(int), 0, n - 1)
            for a, n in zip(at, (5, 7))
        )
        nearest = {**options, "method": "nearest_neighbor", "rounding_method": rounding}
        holds(
            lambda t, o=nearest: topi.image.resize2d(t, None, size, **o),
            x[:, :, rows][:, :, :, columns],
            x,
        )


def test_halves_go_down_or_up():
    x = drawn(1, 1, 4, 4)
    options = {"method": "nearest_neighbor", "rounding_method": "round_prefer_floor"}
    holds(lambda t: topi.image.resize2d(t, None, (2, 2), **options), x[:, :, ::2, ::2], x)
    options["rounding_method"] = "round_prefer_ceil"
    holds(lambda t: topi.image.resize2d(t, None, (2, 2), **options), x[:, :, 1::2, 1::2], x)


def test_what_does_not_fit():
    x = te.placeholder((3, 5), name="x")
    f, i = te.placeholder((3, 5), name="f"), te.placeholder((4, 5), "int32", name="i")
    image = te.placeholder((1, 3, 6, 8), name="image")
    pixels = te.placeholder((1, 3, 6, 8), "uint8", name="pixels")

    def resize(data, size=(2, 2), **options):
        return topi.image.resize2d(data, None, size, **options)

    for make, text in (
        (lambda: topi.gather(x, 0, f), "not integers"),
        (lambda: topi.gather(x, 1, i), "dimension 0 has 4 indices for 3 elements"),
        (lambda: topi.gather_nd(x, i), "4 indices for 2 dimensions"),
        (lambda: topi.layout_transform(x, "NCHW", "NHWC"), "has 4 dimensions"),
        (lambda: topi.layout_transform(image, "NCHW", "NCHW2c"), "no number of blocks 2c"),
        (lambda: topi.layout_transform(image, "NCHW", "NCWD"), "lacks D, which 'NCWD' has"),
        (lambda: topi.layout_transform(image, "NCHW", "NCHw"), "is no layout"),
        (lambda: topi.layout_transform(image, "NCHW", "NHW4c"), "does not have C once"),
        (lambda: topi.pad(x, (3, 0), mode="reflect"), "dimension 0 of 3 elements has no 3"),
        (lambda: topi.pad(x, (1, 1), mode="mirror"), "there is no such mode"),
        (lambda: topi.nn.mirror_pad(x, (1, 1), mode="EDGE"), "'REFLECT' and 'SYMMETRIC'"),
        (lambda: topi.cumsum(x, 2), "there is no axis 2"),
        (lambda: topi.cumsum(x, 0, "bool"), "one bit does not hold a sum"),
        (lambda: resize(x), "images are"),
        (lambda: resize(image, method="area"), "there is no method 'area'"),
        (lambda: resize(image, coordinate_transformation_mode="x"), "no coordinate_trans"),
        (lambda: resize(image, rounding_method="even"), "no rounding_method 'even'"),
        (lambda: resize(pixels), "a mean of uint8 is a fraction"),
        (lambda: resize(image, (2,)), r"a size is \(height, width\)"),
    ):
        with pytest.raises(ArgumentError, match=text):
            make()
