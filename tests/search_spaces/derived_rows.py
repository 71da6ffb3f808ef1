"""Memory-bound graphs with numpy's answers, for the tests of spaces derived from a graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from whet import te
from whet.compiler import topi
from whet.compiler.te import Tensor


@dataclass(frozen=True)
class Graph:
    """A graph and its answer.

    Attributes:
        inputs: its placeholders, in the order in which the reference takes them.
        outputs: what is computed.
        reference: numpy's answers from float64 inputs (integers as they are), one an output.
        tolerance: relative and absolute.
    """

    inputs: list[Tensor]
    outputs: list[Tensor]
    reference: Callable[..., tuple]
    tolerance: float = 2e-4


def layernorm(n: int, m: int) -> Graph:
    X = te.placeholder((n, m), name="X")
    g, b = te.placeholder((m,), name="g"), te.placeholder((m,), name="b")
    k, r = te.reduce_axis((0, m), name="k"), te.reduce_axis((0, m), name="r")
    total = te.compute((n,), lambda i: te.sum(X[i, k], axis=k), name="total")
    mean = te.compute((n,), lambda i: total[i] / float(m), name="mean")
    square = te.compute(
        (n,), lambda i: te.sum((X[i, r] - mean[i]) * (X[i, r] - mean[i]), axis=r), name="square"
    )
    Y = te.compute(
        (n, m),
        lambda i, j: (X[i, j] - mean[i]) * te.rsqrt(square[i] / float(m) + 1e-5) * g[j] + b[j],
        name="Y",
    )

    def expected(x, g, b):
        centred = x - x.mean(1, keepdims=True)
        return (centred / np.sqrt(x.var(1, keepdims=True) + 1e-5) * g + b,)

    return Graph([X, g, b], [Y], expected)


def product_of_a_part(n: int, m: int) -> Graph:
    """A matmul whose sum does not begin at 0: no rule for tiles takes it."""
    A, B = te.placeholder((n, 40), name="A"), te.placeholder((40, m), name="B")
    k = te.reduce_axis((3, 17), name="k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    D = te.compute((n, m), lambda i, j: C[i, j] + 1.0, name="D")
    return Graph([A, B], [D], lambda a, b: (a[:, 3:17] @ b[3:17] + 1,))


def logsumexp(n: int, m: int, axis: int) -> Graph:
    X = te.placeholder((n, m), name="X")
    kept, gone = (n, m) if axis == 1 else (m, n)

    def at(i, k):
        return X[i, k] if axis == 1 else X[k, i]

    k, r = te.reduce_axis((0, gone), name="k"), te.reduce_axis((0, gone), name="r")
    top = te.compute((kept,), lambda i: te.max(at(i, k), axis=k), name="top")
    total = te.compute((kept,), lambda i: te.sum(te.exp(at(i, r) - top[i]), axis=r), name="total")
    Y = te.compute((kept,), lambda i: te.log(total[i]) + top[i], name="Y")
    return Graph([X], [Y], lambda x: (np.log(np.exp(x).sum(axis)),))


def gelu(n: int, m: int) -> Graph:
    X, b = te.placeholder((n, m), name="X"), te.placeholder((m,), name="b")
    H = te.compute((n, m), lambda i, j: X[i, j] + b[j], name="H")
    Y = te.compute(
        (n, m), lambda i, j: H[i, j] * 0.5 * (te.erf(H[i, j] * 0.70710678) + 1.0), name="Y"
    )

    def expected(x, b):
        from math import erf

        h = x + b
        return (h * 0.5 * (np.vectorize(erf)(h / np.sqrt(2)) + 1),)

    return Graph([X, b], [Y], expected)


def batchnorm_relu(n: int, c: int, h: int, w: int) -> Graph:
    X = te.placeholder((n, c, h, w), name="X")

    def axes():
        return [te.reduce_axis((0, d), name=f"r{d}") for d in (n, h, w)]

    count = float(n * h * w)
    a, b = axes(), axes()
    total = te.compute((c,), lambda k: te.sum(X[a[0], k, a[1], a[2]], axis=a), name="total")

    def away(k, i, y, x):
        return X[i, k, y, x] - total[k] / count

    square = te.compute((c,), lambda k: te.sum(away(k, *b) * away(k, *b), axis=b), name="square")
    normal = te.compute(
        (n, c, h, w),
        lambda i, k, y, x: away(k, i, y, x) * te.rsqrt(square[k] / count + 1e-5),
        name="normal",
    )
    Y = topi.nn.relu(normal)

    def expected(x):
        m, v = (f(x, axis=(0, 2, 3), keepdims=True) for f in (np.mean, np.var))
        return (np.maximum((x - m) / np.sqrt(v + 1e-5), 0),)

    return Graph([X], [Y], expected)


def moments(n: int, m: int) -> Graph:
    """Two outputs that share the exponentials of a row."""
    X = te.placeholder((n, m), name="X")
    E = te.compute((n, m), lambda i, j: te.exp(X[i, j]), name="E")
    k, r = te.reduce_axis((0, m), name="k"), te.reduce_axis((0, m), name="r")
    first = te.compute((n,), lambda i: te.sum(E[i, k], axis=k), name="first")
    second = te.compute((n,), lambda i: te.sum(E[i, r] * E[i, r], axis=r), name="second")
    return Graph([X], [first, second], lambda x: (np.exp(x).sum(1), (np.exp(x) ** 2).sum(1)))


def resize(n: int, m: int) -> Graph:
    """Bilinear, twice as large."""
    X = te.placeholder((n, m), name="X")

    def between(i, size):
        return te.min(i // 2 + i % 2, size - 1)

    Y = te.compute(
        (2 * n, 2 * m),
        lambda i, j: (
            (
                X[i // 2, j // 2]
                + X[between(i, n), j // 2]
                + X[i // 2, between(j, m)]
                + X[between(i, n), between(j, m)]
            )
            * 0.25
        ),
        name="Y",
    )

    def expected(x):
        i, j = np.arange(2 * n), np.arange(2 * m)
        a, b = np.minimum(i // 2 + i % 2, n - 1), np.minimum(j // 2 + j % 2, m - 1)
        whole = np.ix_
        parts = (x[whole(p, q)] for p in (i // 2, a) for q in (j // 2, b))
        return (sum(parts) * 0.25,)

    return Graph([X], [Y], expected)


def one_input(
    shape: tuple, make: Callable[[Tensor], Tensor], reference: Callable, dtype: str = "float32"
) -> Graph:
    """A graph of one input and one output."""
    X = te.placeholder(shape, dtype, name="X")
    loose = {"float16": 2e-2, "bfloat16": 5e-2}
    Y = make(X)
    return Graph([X], [Y], lambda x: (reference(x),), loose.get(dtype, 2e-4))


def _softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def _pooled(x: np.ndarray) -> np.ndarray:
    p = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(p, (3, 3), axis=(2, 3))
    return windows[:, :, ::2, ::2].max((4, 5))


def _concatenated(n: int) -> Graph:
    A, B = te.placeholder((n, 30), name="A"), te.placeholder((n, 17), name="B")
    Y = topi.concatenate([A, B], axis=1)
    return Graph([A, B], [Y], lambda a, b: (np.concatenate([a, b], 1),))


GRAPHS: dict[str, Callable[[], Graph]] = {
    "softmax": lambda: one_input((37, 61), topi.nn.softmax, lambda x: _softmax(x, 1)),
    "softmax of columns": lambda: one_input(
        (37, 61), lambda X: topi.nn.softmax(X, axis=0), lambda x: _softmax(x, 0)
    ),
    "softmax of one row": lambda: one_input((1, 999), topi.nn.softmax, lambda x: _softmax(x, 1)),
    "log-softmax": lambda: one_input(
        (16, 100), topi.nn.log_softmax, lambda x: np.log(_softmax(x, 1))
    ),
    "softmax float64": lambda: one_input(
        (11, 40), topi.nn.softmax, lambda x: _softmax(x, 1), "float64"
    ),
    "layernorm": lambda: layernorm(33, 65),
    "logsumexp": lambda: logsumexp(20, 99, 1),
    "logsumexp of columns": lambda: logsumexp(99, 40, 0),
    "gelu": lambda: gelu(31, 45),
    "batchnorm, relu": lambda: batchnorm_relu(2, 5, 9, 11),
    "two outputs": lambda: moments(19, 70),
    "transpose": lambda: one_input((45, 70), topi.transpose, lambda x: x.T),
    "layout": lambda: one_input(
        (5, 33, 17), lambda X: topi.transpose(X, (1, 2, 0)), lambda x: x.transpose(1, 2, 0)
    ),
    "sum over rows": lambda: one_input((130, 45), lambda X: topi.sum(X, 0), lambda x: x.sum(0)),
    "sum over columns": lambda: one_input((45, 130), lambda X: topi.sum(X, 1), lambda x: x.sum(1)),
    "sum of all": lambda: one_input((75, 80), lambda X: topi.sum(X), lambda x: x.sum()),
    "long sum": lambda: one_input((10007,), lambda X: topi.sum(X, 0), lambda x: x.sum()),
    "sum of the middle": lambda: one_input(
        (5, 70, 9), lambda X: topi.sum(X, 1), lambda x: x.sum(1)
    ),
    "product of a part": lambda: product_of_a_part(20, 23),
    "sum of integers": lambda: one_input(
        (20, 300), lambda X: topi.sum(X, 1), lambda x: x.sum(1), "int32"
    ),
    "maximum": lambda: one_input(
        (15, 7, 29), lambda X: topi.max(X, (0, 2)), lambda x: x.max((0, 2))
    ),
    "argmax": lambda: one_input((20, 77), lambda X: topi.argmax(X, 1), lambda x: x.argmax(1)),
    "argmax of columns": lambda: one_input(
        (77, 20), lambda X: topi.argmax(X, 0), lambda x: x.argmax(0)
    ),
    "pooling": lambda: one_input(
        (1, 5, 15, 19),
        lambda X: topi.nn.pool2d(X, [3, 3], [2, 2], [1, 1], [1, 1, 1, 1], "max"),
        _pooled,
    ),
    "global pooling": lambda: one_input(
        (2, 9, 7, 7), lambda X: topi.sum(X, (2, 3)), lambda x: x.sum((2, 3))
    ),
    "concatenate": lambda: _concatenated(5),
    "resize": lambda: resize(9, 13),
    "pad": lambda: one_input(
        (13, 19), lambda X: topi.nn.pad(X, (1, 2), (2, 1)), lambda x: np.pad(x, ((1, 2), (2, 1)))
    ),
    "reshape": lambda: one_input(
        (12, 35), lambda X: topi.reshape(X, (35, 12)), lambda x: x.reshape(35, 12)
    ),
    "float16": lambda: one_input((11, 40), topi.nn.relu, lambda x: np.maximum(x, 0), "float16"),
    "bool": lambda: one_input(
        (20, 50), lambda X: te.compute((20, 50), lambda i, j: X[i, j] > 0.5), lambda x: x > 0.5
    ),
    "no axes": lambda: one_input(
        (7,), lambda X: te.compute((), lambda: X[3] * 2.0), lambda x: x[3] * 2
    ),
    "one element": lambda: one_input((1, 1), topi.nn.softmax, lambda x: np.ones((1, 1))),
}
