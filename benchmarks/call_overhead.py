"""Nanoseconds of a call with three arrays of 16 floats, all checks on: numpy's, ours, PyTorch's.

And of a call of a whole model of ten kernels.
"""

from __future__ import annotations

import harness

import importlib.util
import timeit
from typing import Any

import numpy as np

import whet
from whet import nd, te


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
    arrays = [np.ones(16, "float32") for _ in range(3)]
    contestants = {
        "whet, n = 16": timer("f(a, b, c)", arrays, f=f),
        "whet, symbolic n": timer("f(a, b, c)", arrays, f=g),
        "whet, whet.nd arrays": timer("f(a, b, c)", [nd.array(a) for a in arrays], f=f),
        "numpy add(out=)": timer("f(a, b, out=c)", arrays, f=np.add),
        "an empty loop": timeit.Timer("pass"),
        **of_pytorch(f),
        **of_model(),
    }
    best: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(201):  # short samples: one that nothing interrupts is among them
        for name, one in contestants.items():
            best[name].append(one.timeit(500) / 500 * 1e9)
    empty = min(best.pop("an empty loop"))
    data = {name: {"min": min(v), "median": sorted(v)[100]} for name, v in best.items()}
    lines = [
        f"{name}: {v['min']:.0f} ns min, {v['median']:.0f} ns median" for name, v in data.items()
    ]
    lines.append(f"(of which {empty:.0f} ns are the loop's own)")
    harness.report("call_overhead", lines, {"ns": data, "empty_ns": empty})


def of_model() -> dict[str, timeit.Timer]:
    """A compiled model of ten kernels of one element each, into an array and as a new one."""
    from whet.compiler.graph import GraphBuilder

    g = GraphBuilder()
    v = g.input("x", (1, 1), "float32")
    for _ in range(10):
        v = g.add("softmax", [v], axis=1)  # a reduction each: none is fused with another
    model = whet.compile(g.graph([v]), target="llvm -num_threads=1")
    assert len(model.calls) == 10
    given, out = [np.ones((1, 1), "float32")], [np.empty((1, 1), "float32")]
    return {
        "model of 10 kernels, model.run([x], [y])": timeit.Timer(lambda: model.run(given, out)),
        "model of 10 kernels, model(x)": timeit.Timer(lambda: model(given[0])),
    }


def timer(statement: str, arrays: list[Any], **names: Any) -> timeit.Timer:
    """A clock of a statement on three arrays, after one run of it."""
    names.update(zip("abc", arrays, strict=True))
    exec(statement, names)
    return timeit.Timer(statement, globals=names)


def of_pytorch(f: Any) -> dict[str, timeit.Timer]:
    """A call with PyTorch's tensors, what their exchange costs, and PyTorch's own call."""
    if importlib.util.find_spec("torch") is None:
        return {}
    import torch

    torch.set_num_threads(1)
    tensors = [torch.ones(16) for _ in range(3)]
    return {
        "whet, PyTorch tensors": timer("f(a, b, c)", tensors, f=f),
        "their three __dlpack__()": timer("[x.__dlpack__() for x in (a, b, c)]", tensors),
        "torch add(out=)": timer("f(a, b, out=c)", tensors, f=torch.add),
    }


if __name__ == "__main__":
    main()
