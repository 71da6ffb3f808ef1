"""Bytes that stay for each module that is built, called and dropped, after the first 200."""

from __future__ import annotations

import harness

import gc
import tracemalloc
from pathlib import Path

import numpy as np

import whet
from whet import te

FIRST, MODULES = 200, 2000


def main() -> None:
    """Print resident bytes and Python's own, for kernels without and with local arrays."""
    harness.pin()
    lines, data = [], {}
    for name, local in (("an element-wise sum", False), ("a matmul with a local tile", True)):
        for k in range(FIRST):
            build_and_drop(k, local)
        before = resident()
        for k in range(FIRST, FIRST + MODULES):
            build_and_drop(k, local)
        whole = (resident() - before) / MODULES
        python = traced(range(FIRST + MODULES, 2 * FIRST + MODULES), local)
        lines.append(f"{name}: {whole:.0f} bytes a module resident, {python:.0f} of Python's")
        data[name] = {"resident": whole, "python": python}
    harness.report("dropped_modules", lines, data)


def traced(numbers: range, local: bool) -> float:
    """Bytes of Python's own that stay for each module."""
    tracemalloc.start()
    for k in numbers:
        build_and_drop(k, local)
    gc.collect()
    stays = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return stays / len(numbers)


def build_and_drop(k: int, local: bool) -> None:
    """Build a kernel that is like no other, and call it."""
    n = 16 + k % 7
    A = te.placeholder((n, n), name="A")
    r = te.reduce_axis((0, n), name="r")
    if local:
        C = te.compute((n, n), lambda i, j: te.sum(A[i, r] * A[r, j] * float(k), r), name="C")
    else:
        C = te.compute((n, n), lambda i, j: A[i, j] + float(k), name="C")
    s = te.create_schedule(C.op)
    if local:
        tile = s.cache_write(C, "local")
        s[tile].compute_at(s[C], s[C].op.axis[0])
    a, c = (np.ones((n, n), "float32") for _ in range(2))
    whet.build(s, [A, C])(a, c)


def resident() -> int:
    """Bytes of this process in memory, without garbage."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


if __name__ == "__main__":
    main()
