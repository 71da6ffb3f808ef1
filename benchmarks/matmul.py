"""Matmul: hand-scheduled, default and tuned, against numpy and the FMA peak, on one core.

python benchmarks/matmul.py [--save] [--trials 200] [--log bench.db]
"""

from __future__ import annotations

import harness

import argparse
import tempfile
import time
from typing import Any

import numpy as np

import whet
from whet import te
from whet.compiler.target.machine import host


def hand_scheduled(n: int, rows: int, columns: int, block: int) -> whet.runtime.Module:
    """A square matmul scheduled by hand: packed B, a register tile, a block of rows."""
    A = te.placeholder((n, n), name="A")
    B = te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    P = te.compute(
        (-(-n // columns), n, columns),
        lambda p, k, c: te.if_then_else(p * columns + c < n, B[k, p * columns + c], 0.0),
        name="P",
    )
    C = te.compute(
        (n, n),
        lambda i, j: te.sum(A[i, k] * P[j // columns, k, j % columns], axis=k),
        name="C",
    )
    s = te.create_schedule(C.op)
    acc = s.cache_write(C, "local")
    i, j = s[C].op.axis
    io, it = s[C].split(i, factor=block)
    it, ii = s[C].split(it, factor=rows)
    jo, ji = s[C].split(j, factor=columns)
    s[C].reorder(io, jo, it, ii, ji)
    s[C].unroll(ii)
    s[C].vectorize(ji)
    s[acc].compute_at(s[C], it)
    ai, aj = s[acc].op.axis
    s[acc].reorder(k, ai, aj)
    s[acc].unroll(ai)
    s[acc].vectorize(aj)
    s[P].vectorize(s[P].op.axis[2])
    return whet.build(s, [A, B, C])


def compare(n: int, kernels: dict[str, whet.runtime.Module], rounds: int) -> dict[str, Any]:
    """Kernels and numpy interleaved, with the FMA peak measured in each round."""
    rng = np.random.default_rng(n)
    a, b = (rng.standard_normal((n, n), dtype=np.float32) for _ in range(2))
    c = np.empty((n, n), np.float32)
    right = a.astype(np.float64) @ b.astype(np.float64)
    contestants: dict[str, Any] = {}
    for name, f in kernels.items():
        c[:] = np.nan
        f(a, b, c)
        error = float(np.abs(c - right).max())
        if not error < 1e-5 * n:
            raise SystemExit(f"{name}: wrong by {error}")
        contestants[name] = lambda f=f: f(a, b, c)
    contestants["numpy"] = lambda: np.matmul(a, b, out=c)
    peaks: list[float] = []
    contestants["peak"] = lambda: peaks.append(host.fma_peak(seconds=0.02))
    samples = harness.interleaved(contestants, rounds)
    peak = float(np.median(peaks))
    flop = 2 * n**3
    return {
        name: {
            "gflops": flop / s.best / 1e9,
            "gflops_median": flop / s.median / 1e9,
            "share_of_peak": flop / s.best / peak,
            "share_of_peak_median": flop / s.median / peak,
            "against_numpy": samples["numpy"].best / s.best,
            "against_numpy_median": samples["numpy"].median / s.median,
        }
        for name, s in samples.items()
        if name != "peak"
    } | {"peak_gflops": peak / 1e9}


def main() -> None:
    """Tune, compare, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--log")
    parser.add_argument("--rounds", type=int, default=25)
    options, _ = parser.parse_known_args()
    log = options.log or tempfile.mkdtemp() + "/bench.db"
    task = whet.create_task("matmul", args=(1024, 1024, 1024), target="llvm")
    start = time.perf_counter()
    result = whet.tune(task, trials=options.trials, log=log, seed=0)
    spent = time.perf_counter() - start
    print(result, flush=True)
    harness.pin()
    rows, columns = task.config_space["tile"].val
    data: dict[str, Any] = {}
    lines: list[str] = []
    for n in (1024, 1001):
        kernels = {"hand-scheduled": hand_scheduled(n, rows, columns, rows * 16)}
        if n == 1024:
            kernels["default"] = whet.build(task)
            kernels["tuned"] = whet.build(task, log=log)
        found = compare(n, kernels, options.rounds)
        data[str(n)] = found
        lines.append(f"{n}^3: FMA peak {found.pop('peak_gflops'):.1f} GFLOP/s")
        for name, row in found.items():
            lines.append(
                f"  {name:15s} {row['gflops']:5.1f} GFLOP/s, {row['gflops_median']:5.1f} median"
                f"; of peak {row['share_of_peak']:.3f}, {row['share_of_peak_median']:.3f}"
                f"; against numpy {row['against_numpy']:.3f} / {row['against_numpy_median']:.3f}"
            )
    lines.append(
        f"tuning: {options.trials} trials in {spent:.1f} s, {options.trials / spent:.1f} a second "
        f"(finalists included); best config {result.best.config}"
    )
    data["trials_per_second"] = options.trials / spent
    harness.report("matmul", lines, data)


if __name__ == "__main__":
    main()
