"""Small GPU programs for tests of the runtime: one kernel, two with an array between, symbols."""

from __future__ import annotations

from typing import Any

import whet
from whet import te

SM_80 = "cuda -arch=sm_80"


def bound(s: te.Schedule, tensor: te.Tensor, threads: int = 32) -> None:
    """Give each element of a tensor a thread."""
    axis = s[tensor].fuse(*s[tensor].op.axis)
    o, i = s[tensor].split(axis, threads)
    s[tensor].bind(o, te.thread_axis("blockIdx.x"))
    s[tensor].bind(i, te.thread_axis("threadIdx.x"))


def added(n: int | te.Var, dtype: str = "float32", target: str = SM_80) -> Any:
    """``add(A, B, C)``: C = A + B over ``n`` elements."""
    A, B = te.placeholder((n,), dtype, name="A"), te.placeholder((n,), dtype, name="B")
    C = te.compute((n,), lambda i: A[i] + B[i], name="C")
    s = te.create_schedule(C.op)
    bound(s, C)
    return whet.build(s, [A, B, C], target, name="add")


def doubled_twice(n: int | te.Var) -> Any:
    """``twice(A, C)``: T = 2 * A, reversed; C = T + T; two kernels with T between."""
    A = te.placeholder((n,), name="A")
    T = te.compute((n,), lambda i: A[n - 1 - i] * 2, name="T")
    C = te.compute((n,), lambda i: T[n - 1 - i] + T[i], name="C")
    s = te.create_schedule(C.op)
    bound(s, T)
    bound(s, C)
    return whet.build(s, [A, C], SM_80, name="twice")


def scaled(dtype: str) -> Any:
    """``scale(A, k, m, C)``: C = k * A + m, with numbers ``k`` of a dtype and ``m`` of int32."""
    A, k, m = te.placeholder((33,), dtype, name="A"), te.var("k", dtype), te.var("m", "int32")
    C = te.compute((33,), lambda i: A[i] * k + m.astype(dtype), name="C")
    s = te.create_schedule(C.op)
    bound(s, C)
    return whet.build(s, [A, k, m, C], SM_80, name="scale")
