"""Compute graphs that only compile time is measured on: many stages, a long chain."""

from __future__ import annotations

from whet import te

Program = tuple[te.Schedule, list[te.Tensor]]


def _block(x: te.Tensor, n: int, k: int) -> te.Tensor:
    b = te.compute((n, n), lambda i, j: te.tanh(x[i, j]) * 2.0 + 1.0, name=f"B{k}")
    c = te.compute((n, n), lambda i, j: b[i, j] + x[i, j], name=f"C{k}")
    r = te.reduce_axis((0, n), name=f"r{k}")
    d = te.compute((n,), lambda i: te.max(c[i, r], axis=r), name=f"D{k}")
    return te.compute((n, n), lambda i, j: c[i, j] - d[i], name=f"X{k}")


def graph(n: int) -> Program:
    """Forty stages of n by n: elementwise ones, of which some are inlined, and reductions."""
    a = x = te.placeholder((n, n), name="A")
    for k in range(10):
        x = _block(x, n, k)
    s = te.create_schedule(x.op)
    for stage in s.stages:
        if stage.op.name.startswith("B"):
            stage.compute_inline()
        elif len(stage.op.axis) == 2:
            _, inner = stage.split(stage.op.axis[1], factor=8)
            stage.vectorize(inner)
    return s, [a, x]


def _halved(x: te.Tensor, k: int) -> te.Tensor:
    return te.compute((64,), lambda i: x[i] * 0.5 + float(k), name=f"S{k}")


def chain(stages: int) -> Program:
    """Inlined stages, each of which reads the one before: lowering is linear in them."""
    a = x = te.placeholder((64,), name="A")
    for k in range(stages):
        x = _halved(x, k)
    s = te.create_schedule(x.op)
    for stage in s.stages[1:-1]:
        stage.compute_inline()
    return s, [a, x]
