"""Nanoseconds of a call with three numpy arrays of 16 floats, all checks on."""

from __future__ import annotations

import harness

import timeit

import numpy as np

import whet
from whet import te


def main() -> None:
    """Print the table."""
    harness.pin()
    A = te.placeholder((16,), name="A")
    B = te.placeholder((16,), name="B")
    C = te.compute((16,), lambda i: A[i] + B[i], name="C")
    s = te.create_schedule(C.op)
    s[C].vectorize(s[C].op.axis[0])
    f = whet.build(s, [A, B, C])
    n = te.size_var("n")
    D = te.placeholder((n,), name="D")
    E = te.placeholder((n,), name="E")
    F = te.compute((n,), lambda i: D[i] + E[i], name="F")
    g = whet.build(te.create_schedule(F.op), [D, E, F])
    a, b, c = (np.ones(16, "float32") for _ in range(3))
    f(a, b, c)
    g(a, b, c)
    names = {"f": f, "g": g, "add": np.add, "a": a, "b": b, "c": c}
    contestants = {
        "whet, n = 16": timeit.Timer("f(a, b, c)", globals=names),
        "whet, symbolic n": timeit.Timer("g(a, b, c)", globals=names),
        "numpy add(out=)": timeit.Timer("add(a, b, out=c)", globals=names),
        "an empty loop": timeit.Timer("pass", globals=names),
    }
    best: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(21):
        for name, timer in contestants.items():
            best[name].append(timer.timeit(20_000) / 20_000 * 1e9)
    empty = min(best.pop("an empty loop"))
    data = {name: {"min": min(v), "median": sorted(v)[10]} for name, v in best.items()}
    lines = [
        f"{name}: {v['min']:.0f} ns min, {v['median']:.0f} ns median" for name, v in data.items()
    ]
    lines.append(f"(of which {empty:.0f} ns are the loop's own)")
    harness.report("call_overhead", lines, {"ns": data, "empty_ns": empty})


if __name__ == "__main__":
    main()
