"""Convolutions of all ranks and layouts as compute definitions, against numpy in float64."""

from __future__ import annotations

import emulated
import numpy as np
import pytest

import whet
from whet import te
from whet.compiler import topi
from whet.compiler.errors import ArgumentError


def _convolved(x, w, strides, sides, dilation, groups):
    """(N, C, ...) with (O, C / groups, ...), place by place of the window."""
    x = np.pad(x, [(0, 0), (0, 0), *sides])
    (co, per), window = w.shape[:2], w.shape[2:]
    out = [
        (n - (k - 1) * d - 1) // s + 1 for n, k, d, s in zip(x.shape[2:], window, dilation, strides)
    ]
    y = np.zeros((len(x), co, *out))
    for place in np.ndindex(*window):
        at = [
            slice(p * d, p * d + (n - 1) * s + 1, s)
            for p, d, n, s in zip(place, dilation, out, strides)
        ]
        part, own = x[(..., *at)], w[(..., *place)]
        for g in range(groups):
            o = slice(g * co // groups, (g + 1) * co // groups)
            y[:, o] += np.einsum("nc...,oc->no...", part[:, g * per : (g + 1) * per], own[o])
    return y


def _run(make, x, w):
    A, B = (
        te.placeholder(x.shape, "float32", name="A"),
        te.placeholder(w.shape, "float32", name="B"),
    )
    C = make(A, B)
    f = whet.build(te.create_schedule(C.op), [A, B, C])
    out = np.full([int(d) for d in C.shape], np.nan, np.float32)
    f(x, w, out)
    emulated.too(te.create_schedule(C.op), [A, B, C], [x, w], out)
    return out


def _arrays(x, w, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal(x, dtype=np.float32), rng.standard_normal(w, dtype=np.float32)


CASES = [
    # operator, data, weights, strides, padding, sides, dilation, groups
    ("conv1d_ncw", (2, 3, 11), (5, 3, 3), 2, (1, 2), [(1, 2)], 1, 1),
    ("conv1d_ncw", (1, 6, 9), (4, 3, 2), 1, 0, [(0, 0)], 3, 2),
    ("group_conv2d_nchw", (1, 6, 7, 5), (9, 2, 3, 2), (2, 1), (1, 0), [(1, 1), (0, 0)], 1, 3),
    ("conv2d_nhwc", (2, 7, 6, 3), (3, 2, 3, 4), (1, 2), (1, 0, 2, 1), [(1, 2), (0, 1)], 2, 1),
    ("conv2d_nhwc", (1, 5, 5, 4), (3, 3, 2, 6), 1, "SAME", [(1, 1), (1, 1)], 1, 2),
    ("conv3d_ncdhw", (1, 2, 4, 5, 6), (3, 2, 2, 3, 3), (1, 2, 1), 1, [(1, 1)] * 3, 1, 1),
    ("conv3d_ncdhw", (1, 4, 3, 3, 3), (4, 1, 1, 1, 1), 1, "VALID", [(0, 0)] * 3, 1, 4),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_convolutions(case):
    operator, data, weights, strides, padding, sides, dilation, groups = case
    x, w = _arrays(data, weights)
    of = getattr(topi.nn, operator)
    got = _run(lambda a, b: of(a, b, strides, padding, dilation=dilation, groups=groups), x, w)
    last, rank = operator.endswith("nhwc"), len(sides)
    first = np.moveaxis(x, -1, 1) if last else x
    own = np.moveaxis(w, (3, 2), (0, 1)) if last else w
    steps, spread = (v if isinstance(v, tuple) else (v,) * rank for v in (strides, dilation))
    right = _convolved(first.astype(float), own.astype(float), steps, sides, spread, groups)
    np.testing.assert_allclose(
        np.moveaxis(got, -1, 1) if last else got, right, rtol=1e-5, atol=1e-5
    )


def test_conv2d_goes_by_the_layout():
    x, w = _arrays((1, 5, 6, 3), (3, 3, 3, 2))
    got = _run(lambda a, b: topi.nn.conv2d(a, b, 1, 1, 1, "NHWC"), x, w)
    np.testing.assert_array_equal(got, _run(lambda a, b: topi.nn.conv2d_nhwc(a, b, 1, 1), x, w))


@pytest.mark.parametrize(
    ("strides", "padding", "more"), [(2, 1, 1), ((3, 1), (0, 1), (2, 0)), (1, 0, 0)], ids=str
)
def test_transposed(strides, padding, more):
    x, w = _arrays((2, 3, 4, 5), (3, 2, 3, 3))
    got = _run(
        lambda a, b: topi.nn.conv2d_transpose_nchw(a, b, strides, padding, output_padding=more),
        x,
        w,
    )
    (sh, sw), (ph, pw), (mh, mw) = (
        v if isinstance(v, tuple) else (v, v) for v in (strides, padding, more)
    )
    full = np.zeros((2, 2, 3 * sh + 3 + mh, 4 * sw + 3 + mw))
    for i in range(4):
        for j in range(5):
            part = np.einsum("nc,cokl->nokl", x[:, :, i, j].astype(float), w.astype(float))
            full[:, :, i * sh : i * sh + 3, j * sw : j * sw + 3] += part
    right = full[:, :, ph : full.shape[2] - ph, pw : full.shape[3] - pw]
    np.testing.assert_allclose(got, right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda a, b: topi.nn.conv2d_nhwc(a, b, 0), "strides must be at least 1"),
        (lambda a, b: topi.nn.conv2d_nhwc(a, b, 1, -1), "padding must be at least 0"),
        (lambda a, b: topi.nn.conv2d_nhwc(a, b, 1, "ODD"), "words for paddings"),
        (lambda a, b: topi.nn.conv2d_nhwc(a, b, 1, 0, 3), "larger than the padded image"),
        (lambda a, b: topi.nn.conv2d_nhwc(a, b, groups=3), "3 groups do not divide"),
        (lambda a, b: topi.nn.group_conv2d_nchw(a, b, groups=0), "groups=0 must be an int"),
        (lambda a, b: topi.nn.conv2d_nchw(a, b), "input channels of data and weight differ"),
        (lambda a, b: topi.nn.conv1d_ncw(a, b), "three dimensions"),
        (lambda a, b: topi.nn.conv3d_ncdhw(a, b), "five dimensions"),
        (lambda a, b: topi.nn.conv2d_nhwc(a, b, (1, 2, 3)), "give an int, or 2 ints"),
        (lambda a, b: topi.nn.conv2d_transpose_nchw(b, b, 1, 1, None, 1), "output padding"),
    ],
)  # fmt: skip
def test_errors(make, says):
    a = te.placeholder((1, 4, 4, 3), name="a")
    b = te.placeholder((3, 3, 3, 4), name="b")
    with pytest.raises(ArgumentError, match=says):
        make(a, b)
