"""Computations that tests of blocks schedule, what they give, and both ways to run their blocks."""

from __future__ import annotations

import numpy as np

import whet
from whet import te, tir

TARGET = "llvm -num_threads=2"


def matmul_relu(n=17, m=13, reduced=9, dtype="float32"):
    """``[A, B, bias, C]``: a product Y, a bias E, and what is above 0 of it."""
    a = te.placeholder((n, reduced), dtype, name="A")
    b = te.placeholder((reduced, m), dtype, name="B")
    bias = te.placeholder((m,), dtype, name="bias")
    k = te.reduce_axis((0, reduced), name="k")
    y = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="Y")
    e = te.compute((n, m), lambda i, j: y[i, j] + bias[j], name="E")
    return [a, b, bias, te.compute((n, m), lambda i, j: te.max(e[i, j], 0.0), name="C")]


def inputs(args, rng):
    """Arrays for a computation's inputs."""
    shapes = [tuple(int(d) for d in t.shape) for t in args[:-1]]
    return [rng.standard_normal(s).astype(t.dtype) for s, t in zip(shapes, args)]


def expected(a, b, bias):
    """What ``matmul_relu`` gives, in float64."""
    a, b, bias = (x.astype("float64") for x in (a, b, bias))
    return np.maximum(a @ b + bias, 0)


def by_hand(func):
    """The same blocks in a function that knows nothing of its schedule."""
    return func.with_body(tir.BlockRealize([], True, func.body.block))


def run(func, given, shape, dtype="float32"):
    """The result of a function, poisoned before."""
    out = np.full(shape, np.nan, dtype)
    whet.build(func, target=TARGET)(*given, out)
    return out


def check(func, given, want, dtype="float32"):
    """Compare the numbers of a function with ``want``, by its schedule and by its blocks alone."""
    error = 1e-4 if dtype == "float32" else 1e-11
    for f in (func, by_hand(func)):
        np.testing.assert_allclose(run(f, given, want.shape, dtype), want, error, error)
