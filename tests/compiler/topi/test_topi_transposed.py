"""Transposed convolutions of drawn ranks, strides, paddings and dilations, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

import whet
from whet import te
from whet.compiler.topi.nn.transposed import transposed_convolution


def _spread(x, w, strides, padding, more, dilation):
    """Each element spreads its window."""
    ends = [
        (n - 1) * s + (k - 1) * d + 1 + m
        for n, s, k, d, m in zip(x.shape[2:], strides, w.shape[2:], dilation, more)
    ]
    full = np.zeros((len(x), w.shape[1], *ends))
    for place in np.ndindex(*w.shape[2:]):
        at = [
            slice(p * d, p * d + (n - 1) * s + 1, s)
            for p, d, n, s in zip(place, dilation, x.shape[2:], strides)
        ]
        full[(..., *at)] += np.einsum("nc...,co->no...", x, w[(..., *place)])
    return full[(..., *(slice(c, n - c) for c, n in zip(padding, ends)))]


def _drawn(rng, dilated):
    """Sizes whose result has elements."""
    while True:
        rank = int(rng.integers(1, 4))
        strides, window, image, padding = (
            [int(x) for x in rng.integers(low, high, rank)]
            for low, high in ((1, 4), (1, 5), (1, 7), (0, 4))
        )
        dilation = [int(x) for x in rng.integers(1, 4 if dilated else 2, rank)]
        more = [int(rng.integers(0, s)) for s in strides]
        each = zip(image, strides, padding, window, dilation, more)
        if min((n - 1) * s - 2 * c + (k - 1) * d + 1 + m for n, s, c, k, d, m in each) > 0:
            return strides, window, image, padding, dilation, more


@pytest.mark.parametrize("dilated", [False, True])
def test_drawn_transposed_convolutions(seeds, dilated):
    for seed in seeds(8):
        rng = np.random.default_rng(seed)
        strides, window, image, padding, dilation, more = _drawn(rng, dilated)
        batch, ci, co = (int(x) for x in rng.integers(1, 5, 3))
        x, w = rng.standard_normal((batch, ci, *image)), rng.standard_normal((ci, co, *window))
        right = _spread(x, w, strides, padding, more, dilation)
        X, W = te.placeholder(x.shape, "float64"), te.placeholder(w.shape, "float64")
        name = f"conv{len(image)}d_transpose_nc{'dhw'[-len(image) :]}"
        Y = transposed_convolution(X, W, strides, padding, more, None, name, dilation)
        f = whet.build(whet.create_task(args=[X, W, Y], outputs=[Y], target="llvm -num_threads=1"))
        out = np.full(right.shape, np.nan)
        f(x, w, out)
        what = f"{seed=} {image=} {window=} {strides=} {padding=} {more=} {dilation=}"
        np.testing.assert_allclose(out, right, rtol=1e-10, atol=1e-10, err_msg=what)
