"""Random programs of fixed seeds, drawn and scheduled by the helpers of the tree's own tests."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from typing import Any

from same_entry import CUDA, LLVM, C, Entry, Texts, helper, program

CPU, GPU, EXPRESSIONS, QUICK = 60, 48, 24, 8
WAYS: tuple[dict[str, bool], ...] = ({}, {"symbolic": True}, {"edges": True}, {"strides": True})


def on_cpu(seed: int) -> Texts:
    """A program, its graph and its trace, for LLVM and, of some, for C."""
    from whet import te, tir

    way = WAYS[seed % len(WAYS)]
    programs = helper("random_programs")
    pick = random.Random(seed).randint
    sizes = programs.EDGES if "edges" in way else programs.SIZES
    graph = programs.Graph(pick, symbolic="symbolic" in way, sizes=sizes)
    made = helper("random_schedules").RandomSchedule(graph, pick)
    options: dict[str, Any] = {"binds": _strided(te, tir, made.args)} if "strides" in way else {}
    yield "graph", te.graph_text(graph.outputs)
    yield "trace", str(made.s.trace)
    yield from program(made.s, made.args, list(LLVM.values())[seed % 3], **options)
    if seed % 3 == 0:
        yield from program(made.s, made.args, C, **options)


def _strided(te: Any, tir: Any, args: list[Any]) -> dict[Any, Any]:
    """Buffers with strides of the caller's for every other argument."""
    return {
        t: tir.decl_buffer(
            t.shape, t.dtype, f"{t.name}_buffer", strides=[te.var(f"s{k}") for k in range(t.ndim)]
        )
        for t in args[::2]
    }


def on_gpu(seed: int) -> Texts:
    """A program of kernels."""
    from whet import te

    drawn = helper("random_gpu")
    pick = drawn.evenly(seed)
    graph = drawn.GpuGraph(pick)
    made = drawn.GpuSchedule(graph, pick)
    yield "graph", te.graph_text(graph.outputs)
    yield "trace", str(made.s.trace)
    yield from program(made.s, made.args, list(CUDA.values())[seed % 2])


def expressions(seed: int) -> Texts:
    """Expressions of elements, in vectors and on a GPU."""
    from whet import te

    pick = random.Random(seed).randint
    size = (1, 7, 37, 64)[pick(0, 3)]
    drawn = helper("random_expressions").Expressions(pick, size)
    args, lanes = [*drawn.inputs, *drawn.outputs], pick(1, 8)
    for target in (list(LLVM.values())[seed % 3], CUDA["sm_90"], C):
        if target == C and seed % 3:
            continue
        s = te.create_schedule(drawn.outputs[0].op)
        stage = s[drawn.outputs[0]]
        outer, inner = stage.split(stage.op.axis[0], factor=lanes)
        if target.startswith("cuda"):
            stage.bind(outer, te.thread_axis("threadIdx.x"))
        else:
            stage.vectorize(inner)
        yield from program(s, args, target)


def entries() -> Iterator[Entry]:
    """All seeds; the first ones in a quick run, too."""
    for kind, make, count in (
        ("cpu", on_cpu, CPU),
        ("gpu", on_gpu, GPU),
        ("expressions", expressions, EXPRESSIONS),
    ):
        for seed in range(count):
            yield Entry(f"random {kind}/{seed}", partial(make, seed))
            if seed < QUICK:
                yield Entry(f"quick random {kind}/{seed}", partial(make, seed), quick=True)
