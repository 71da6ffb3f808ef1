"""Nanoseconds that a parallel loop costs beyond the same loop run serially, on all threads.

And the first calls of a GEMM after a pause, when its workers sleep: microseconds of each, on all
threads and on one.
"""

from __future__ import annotations

import harness

import time

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


PAUSE, CALLS, ROUNDS = 0.04, 10, 15
"""Seconds without a call; calls after it; how often."""


def after_a_pause(threads: int) -> list[float]:
    """Medians of the microseconds that each of the first calls takes."""
    args, target = (256, 1152, 320), f"llvm -num_threads={threads}"
    task = whet.create_task("matmul", args=args, target=target)
    f = whet.build(*task.instantiate(), task.target)
    rng = np.random.default_rng(0)
    n, k, m = args
    given = [whet.nd.array(rng.random(s, "float32")) for s in ((n, k), (k, m), (n, m))]
    times = []
    for _ in range(ROUNDS):
        time.sleep(PAUSE)
        moments = [time.perf_counter()]
        for _ in range(CALLS):
            f(*given)
            moments.append(time.perf_counter())
        times.append(np.diff(moments))
    return [round(1e6 * t) for t in np.median(times, axis=0)]


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
    first = {n: after_a_pause(n) for n in (1, host.num_threads())}
    lines = [line]
    for n, us in first.items():
        lines.append(f"calls after {PAUSE * 1e3:.0f} ms, {n} threads: {', '.join(map(str, us))} us")
    found = {"ns": data, "after_a_pause_us": first}
    harness.report("fork_join", lines, found, f"{host.num_threads()} threads")


if __name__ == "__main__":
    main()
