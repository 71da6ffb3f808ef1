"""Graphs of GEMMs and other contractions, with numpy's answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from whet import te
from whet.compiler.te import Tensor

Reference = Callable[..., np.ndarray]


@dataclass(frozen=True)
class Case:
    """A graph: the kernel's tensors, the result last, and the result in numpy from float64s."""

    args: list[Tensor]
    reference: Reference


def matmul(
    n: int, k: int, m: int, dtype: str = "float32", turn: str = "", epilogue: bool = False
) -> Case:
    """``C = A @ B``; ``turn`` names the operands that are given transposed."""
    A = te.placeholder((k, n) if "A" in turn else (n, k), dtype, name="A")
    B = te.placeholder((m, k) if "B" in turn else (k, m), dtype, name="B")
    r = te.reduce_axis((0, k), name="k")

    def element(i, j):
        a = A[r, i] if "A" in turn else A[i, r]
        b = B[j, r] if "B" in turn else B[r, j]
        return te.sum(a * b, axis=r)

    C = te.compute((n, m), element, name="C")

    def expected(a, b):
        return (a.T if "A" in turn else a) @ (b.T if "B" in turn else b)

    if not epilogue:
        return Case([A, B, C], expected)
    bias = te.placeholder((m,), dtype, name="bias")
    rest = te.placeholder((n, m), dtype, name="rest")
    D = te.compute((n, m), lambda i, j: C[i, j] + bias[j], name="D")
    E = te.compute((n, m), lambda i, j: te.max(D[i, j] + rest[i, j], 0), name="E")
    return Case([A, B, bias, rest, E], lambda a, b, v, r: np.maximum(expected(a, b) + v + r, 0))


def gated_matmul(n: int, k: int, m: int) -> Case:
    """``x * sigmoid(x)`` of a GEMM with a bias, which reads x twice."""
    A, B = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    bias = te.placeholder((m,), name="bias")
    r = te.reduce_axis((0, k), name="k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    D = te.compute((n, m), lambda i, j: C[i, j] + bias[j], name="D")
    gate = te.compute((n, m), lambda i, j: te.sigmoid(D[i, j]), name="gate")
    E = te.compute((n, m), lambda i, j: D[i, j] * gate[i, j], name="E")

    def expected(a, b, v):
        x = a @ b + v
        return x / (1 + np.exp(-x))

    return Case([A, B, bias, E], expected)


def batch_matmul(b: int, n: int, k: int, m: int) -> Case:
    """A GEMM for each batch."""
    A = te.placeholder((b, n, k), name="A")
    B = te.placeholder((b, k, m), name="B")
    r = te.reduce_axis((0, k), name="k")
    C = te.compute((b, n, m), lambda x, i, j: te.sum(A[x, i, r] * B[x, r, j], axis=r), name="C")
    return Case([A, B, C], lambda a, b: a @ b)


def contraction(n: int, m: int, p: int, q: int) -> Case:
    """``C[i, j, l] = sum over a, b of A[i, a, b] * B[b, a, j, l]``."""
    A = te.placeholder((n, p, q), name="A")
    B = te.placeholder((q, p, m, 5), name="B")
    a = te.reduce_axis((0, p), name="a")
    b = te.reduce_axis((0, q), name="b")
    C = te.compute(
        (n, m, 5), lambda i, j, l: te.sum(A[i, a, b] * B[b, a, j, l], axis=[a, b]), name="C"
    )
    return Case([A, B, C], lambda x, y: np.einsum("iab,bajl->ijl", x, y))


def largest_sum(n: int, k: int, m: int) -> Case:
    """A contraction in the semiring of maxima and sums."""
    A = te.placeholder((n, k), name="A")
    B = te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="k")
    C = te.compute((n, m), lambda i, j: te.max(A[i, r] + B[r, j], axis=r), name="C")
    return Case([A, B, C], lambda a, b: (a[:, :, None] + b[None]).max(axis=1))


def expensive_operand(n: int, k: int, m: int) -> Case:
    """A GEMM with an operand that is computed first: ``exp(A) @ B``."""
    A = te.placeholder((n, k), name="A")
    B = te.placeholder((k, m), name="B")
    E = te.compute((n, k), lambda i, j: te.exp(A[i, j]), name="E")
    r = te.reduce_axis((0, k), name="k")
    C = te.compute((n, m), lambda i, j: te.sum(E[i, r] * B[r, j], axis=r), name="C")
    return Case([A, B, C], lambda a, b: np.exp(a) @ b)


def looked_up(rows: int, n: int, k: int, m: int) -> Case:
    """A GEMM with rows of a table that another input names: ``T[rows] @ B``."""
    table = te.placeholder((rows, k), name="table")
    row = te.placeholder((n,), "int32", name="row")
    B = te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="k")

    def element(i, j):
        place = te.max(0, te.min(row[i], rows - 1))
        return te.sum(table[place, r] * B[r, j], axis=r)

    C = te.compute((n, m), element, name="C")

    def expected(t, i, b):
        return t[np.clip(i.astype(int), 0, rows - 1)] @ b

    return Case([table, row, B, C], expected)


def attention_scores(b: int, h: int, n: int, d: int) -> Case:
    """Scaled attention scores: a contraction of four axes with an epilogue."""
    Q = te.placeholder((b, n, h, d), name="Q")
    K = te.placeholder((b, n, h, d), name="K")
    r = te.reduce_axis((0, d), name="d")
    S = te.compute(
        (b, h, n, n), lambda x, y, i, j: te.sum(Q[x, i, y, r] * K[x, j, y, r], axis=r), name="S"
    )
    T = te.compute(S.shape, lambda *p: S(*p) * 0.125, name="T")
    return Case([Q, K, T], lambda q, k: np.einsum("xiyd,xjyd->xyij", q, k) * 0.125)
