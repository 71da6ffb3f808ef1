"""Schedules that are good enough for what is made of loops over data, and for plain reductions."""

from __future__ import annotations

from whet.compiler import te
from whet.compiler.target import Target
from whet.compiler.te import ComputeOp, Schedule, Tensor
from whet.compiler.te.lang.relations import ROOT
from whet.compiler.tir import IntImm, IterVar
from whet.compiler.tir import dtype as dt

PARALLEL_FROM = 1 << 16
"""Elements from which on the threads of a CPU are worth waking."""


def generic_injective(outs: list[Tensor]) -> Schedule:
    """One loop nest: what the outputs are made of is computed in them."""
    return _inlined(outs)


def generic_reduce(outs: list[Tensor]) -> Schedule:
    """The reductions as they are, what they read computed in them."""
    return _inlined(outs)


def generic_extern(outs: list[Tensor]) -> Schedule:
    """Everything at its default."""
    return te.create_schedule([t.op for t in outs])


def x86_injective(outs: list[Tensor]) -> Schedule:
    """The innermost loop in vectors; the outer ones in threads where there is much to do."""
    s = _inlined(outs)
    for t in outs:
        _vectorize(s, t)
    return s


def x86_reduce(outs: list[Tensor]) -> Schedule:
    """The outer loop over data in threads where there is much to do."""
    s = _inlined(outs)
    for t in outs:
        if not s[t].op.reduce_axis:
            _vectorize(s, t)
        elif t.ndim and _many(t):
            s[t].parallel(s[t].op.axis[0])
    return s


def cuda_injective(outs: list[Tensor]) -> Schedule:
    """All loops fused, an element a thread."""
    s = _inlined(outs)
    for t in outs:
        _bind(s, t)
    return s


def cuda_reduce(outs: list[Tensor]) -> Schedule:
    """A result a thread, which sums it up alone."""
    s = _inlined(outs)
    for stage in s.stages:
        if isinstance(stage.op, ComputeOp) and stage.attach_type == ROOT:
            _bind(s, stage.op.output(0))
    return s


def _inlined(outs: list[Tensor]) -> Schedule:
    """A schedule in which element-wise operations are computed where they are read."""
    s = te.create_schedule([t.op for t in outs])
    for stage in s.stages:
        op = stage.op
        plain = isinstance(op, ComputeOp) and not op.reduce_axis and op.num_outputs == 1
        if plain and not stage.is_output:
            stage.compute_inline()
    return s


def _vectorize(s: Schedule, t: Tensor) -> None:
    axes = list(s[t].op.axis)
    if not axes:
        return
    target = Target.current() or Target("llvm")
    lanes = max(1, target.vector_bytes // dt.itemsize(t.dtype))
    _, inner = s[t].split(axes[-1], factor=lanes)
    s[t].vectorize(inner)
    if len(axes) > 1 and _many(t):
        s[t].parallel(s[t].fuse(*axes[:-1]))


def _many(t: Tensor) -> bool:
    count = 1
    for d in t.shape:
        count *= d.value if isinstance(d, IntImm) else 0
    return count >= PARALLEL_FROM


def _bind(s: Schedule, t: Tensor) -> None:
    axes: list[IterVar] = list(s[t].op.axis)
    target = Target.current() or Target("cuda")
    threads = target.max_num_threads if target.device == "cuda" else 1024
    fused = s[t].fuse(*axes) if axes else s[t].fuse()
    threads = min(threads, 256) if s[t].op.reduce_axis else threads
    outer, inner = s[t].split(fused, factor=threads)
    s[t].bind(outer, te.thread_axis("blockIdx.x"))
    s[t].bind(inner, te.thread_axis("threadIdx.x"))
