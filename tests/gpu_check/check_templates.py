"""A template one of whose configs reads where there is no memory: a fault that costs one trial."""

from __future__ import annotations

from typing import Any

import whet
from whet import te

CONFIGS = ((64, False), (128, True), (128, False), (256, False))
"""Threads of a block, and whether elements are read wherever the indices point."""


@whet.template("check/strays")
def strays(n: int) -> Any:
    """``C[i] = A[I[i]]`` of n elements, for indices that go far beyond them."""
    cfg = whet.get_config()
    cfg.define_knob("config", list(range(len(CONFIGS))))
    threads, stray = CONFIGS[cfg["config"].val]
    A = te.placeholder((n,), name="A")
    I = te.placeholder((n,), "int32", name="I", value_range=(1 << 28, 1 << 29))
    C = te.compute((n,), lambda i: A[I[i] if stray else I[i] % n], name="C")
    s = te.create_schedule(C.op)
    block, thread = s[C].split(C.op.axis[0], factor=threads)
    s[C].bind(block, te.thread_axis("blockIdx.x"))
    s[C].bind(thread, te.thread_axis("threadIdx.x"))
    return s, [A, I, C]
