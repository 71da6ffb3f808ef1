"""Normalisation, activations and adaptive pools against numpy in float64."""

from math import erf

import numpy as np
import pytest
from topi_check import drawn, holds

from whet.compiler import te, topi
from whet.compiler.errors import ArgumentError

X = drawn(3, 5, 7)
D = X.astype("float64")
CLOSE = 1e-6


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


ACTIVATIONS = {
    "gelu": lambda x: x * (1 + np.vectorize(erf)(x / np.sqrt(2))) / 2,
    "gelu_tanh": lambda x: x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2,
    "silu": lambda x: x * sigmoid(x),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name):
    x = np.concatenate([D.ravel(), [0.0, -20.0, 20.0, 1e-20]]).astype("float32")
    holds(getattr(topi.nn, name), ACTIVATIONS[name](x.astype("float64")), x, tolerance=CLOSE)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_prelu_has_one_slope_a_place(axis):
    slope = drawn(X.shape[axis], seed=1)
    by = np.expand_dims(slope, [d for d in range(3) if d != axis % 3])
    wanted = np.where(D > 0, D, D * by)
    holds(lambda x, a: topi.nn.prelu(x, a, axis), wanted, X, slope, tolerance=CLOSE)


@pytest.mark.parametrize("axes", [0, 1, (2,), (-1, 1), (0, 1, 2)])
def test_rms_norm(axes):
    over = tuple(sorted(a % 3 for a in (axes if isinstance(axes, tuple) else (axes,))))
    w = drawn(*(X.shape[k] for k in over), seed=2)
    wide = np.expand_dims(w, [d for d in range(3) if d not in over])
    root = np.sqrt((D * D).mean(over, keepdims=True) + 1e-5)
    holds(lambda x, g: topi.nn.rms_norm(x, g, axes), D / root * wide, X, w, tolerance=CLOSE)
    holds(lambda x: topi.nn.rms_norm(x, None, axes), D / root, X, tolerance=CLOSE)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("center", [True, False])
def test_batch_norm(axis, center):
    n = X.shape[axis]
    gamma, beta, mean = (drawn(n, seed=k) for k in (3, 4, 5))
    var = np.abs(drawn(n, seed=6)) + np.float32(0.1)
    other = [d for d in range(3) if d != axis % 3]
    g, b, m, v = (np.expand_dims(t.astype("float64"), other) for t in (gamma, beta, mean, var))
    wanted = (D - m) / np.sqrt(v + 1e-5) * (g if center else 1) + (b if center else 0)

    def make(*t):
        return topi.nn.batch_norm(*t, axis=axis, center=center, scale=center)[0]

    holds(make, wanted, X, gamma, beta, mean, var, tolerance=1e-5)


def adaptive(x, size, how):
    n, c, h, w = x.shape
    out = np.empty((n, c, *size))
    for y in range(size[0]):
        for z in range(size[1]):
            rows = slice(y * h // size[0], -(-(y + 1) * h // size[0]))
            columns = slice(z * w // size[1], -(-(z + 1) * w // size[1]))
            out[:, :, y, z] = how(x[:, :, rows, columns], axis=(2, 3))
    return out


@pytest.mark.parametrize("size", [(1, 1), (3, 4), (2, 7), (5, 3), (9, 8)])
def test_adaptive_pools(size):
    x = drawn(2, 3, 6, 8, seed=7)
    for kind, how in (("avg", np.mean), ("max", np.max)):
        wanted = adaptive(x.astype("float64"), size, how)
        holds(lambda t, k=kind: topi.nn.adaptive_pool(t, size, k), wanted, x, tolerance=CLOSE)


def test_what_does_not_fit():
    x, w = te.placeholder((3, 5), name="x"), te.placeholder((4,), name="w")
    image = te.placeholder((1, 2, 0, 4), name="image")
    for make, text in (
        (lambda: topi.nn.rms_norm(x, w, -1), "has not the shape of the axes"),
        (lambda: topi.nn.rms_norm(x, None, ()), "no axis is named"),
        (lambda: topi.nn.batch_norm(x, w, w, w, w), "not one number for each of 5"),
        (lambda: topi.nn.batch_norm(x, w, w, w, w, training=True), "training is not here"),
        (lambda: topi.nn.prelu(x, w), "one slope for each of 5"),
        (lambda: topi.nn.adaptive_pool(image, 2, "avg"), "0x4 have no pixels for 2x2 windows"),
        (lambda: topi.nn.adaptive_pool(x, 2, "avg"), r"images are \(N, C, H, W\)"),
    ):
        with pytest.raises(ArgumentError, match=text):
            make()
