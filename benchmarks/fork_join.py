"""Nanoseconds that a parallel loop costs beyond the same loop run serially, on all threads."""

from __future__ import annotations

import harness

import numpy as np

import whet
from whet import te
from whet.compiler.target.machine import host


def kernel(parallel: bool) -> whet.runtime.Module:
    """An addition to 64 floats in two halves."""
    A = te.placeholder((64,), name="A")
    C = te.compute((64,), lambda i: A[i] + 1.0, name="C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(s[C].op.axis[0], factor=32)
    s[C].vectorize(inner)
    if parallel:
        s[C].parallel(outer)
    return whet.build(s, [A, C])


def main() -> None:
    """Print the table; the process is not pinned, since its threads need their cores."""
    a, c = np.ones(64, "float32"), np.empty(64, "float32")
    data = {}
    for name, parallel in (("serial", False), ("parallel", True)):
        f = kernel(parallel)
        timed = f.time_evaluator(f.entry_name, whet.cpu(0), number=20_000, repeat=21)(a, c)
        data[name] = {"min": timed.min * 1e9, "median": timed.median * 1e9}
    cost = {k: data["parallel"][k] - data["serial"][k] for k in ("min", "median")}
    line = f"fork-join: {cost['min']:.0f} ns min, {cost['median']:.0f} ns median"
    harness.report("fork_join", [line], {"ns": data}, f"{host.num_threads()} threads")


if __name__ == "__main__":
    main()
