"""Kernels that take sizes: products of rows with rows read vectors, whatever the processor."""

import numpy as np

import whet
from whet.autotune.models.open_kernels import open_kernel
from whet.compiler.graph import GraphBuilder
from whet.compiler.graph.fusion import fused
from whet.compiler.graph.symbolic.family import generalised
from whet.compiler.graph.symbolic.sizes import Dynamic, looked_at

TARGET = whet.Target("llvm -mcpu=x86-64-v2 -num_threads=1").canonical()
RANGES = {"n": Dynamic(1, 20)}


def scores(sizes):
    """Scores of n queries and n keys of 6 numbers, for two heads."""
    n = sizes["n"]
    g = GraphBuilder()
    a, b = g.input("a", (2, n, 6), "float32"), g.input("b", (2, n, 6), "float32")
    return g.graph([g.add("relu", [g.add("matmul", [a, b], transpose_b=True)])])


def test_rows_times_rows():
    sizes = generalised(scores, lambda graph: graph, RANGES)
    (group,) = fused(sizes.graph)
    kernel = open_kernel(sizes, group, looked_at(RANGES), TARGET, "scores")
    ((_, lowered),) = kernel.ir_module_by_target.items()
    summed = [line for line in str(lowered).splitlines() if "] + " in line and "* " in line]
    assert summed and all("ramp(" in line.partition("=")[0] for line in summed), summed
    assert not any(", 6, 4)" in line for line in summed), "keys are read every 6 numbers"
    rng = np.random.default_rng(0)
    for n in (1, 3, 16, 20):
        a, b = (rng.standard_normal((2, n, 6)).astype("float32") for _ in range(2))
        y = np.full((2, n, n), np.nan, "float32")
        kernel(a, b, y, n - RANGES["n"].low)
        wanted = np.maximum(a.astype("float64") @ b.transpose(0, 2, 1), 0)
        np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-5)


def weighed(sizes):
    """Sums of n values of 24 numbers by n weights each, for two heads."""
    n = sizes["n"]
    g = GraphBuilder()
    p, v = g.input("p", (2, n, n), "float32"), g.input("v", (2, n, 24), "float32")
    y = g.add("matmul", [p, v])
    return g.graph([g.add("multiply", [y, g.add("sigmoid", [y])])])


def test_tiles_that_hang_over_have_no_guards_inside():
    """The last row is read again; what is made of the sums is stored from registers."""
    sizes = generalised(weighed, lambda graph: graph, RANGES)
    (group,) = fused(sizes.graph)
    kernel = open_kernel(sizes, group, looked_at(RANGES), TARGET, "weighed")
    ((_, lowered),) = kernel.ir_module_by_target.items()
    lines = [line.strip() for line in str(lowered).splitlines()]
    sums = [k for k, line in enumerate(lines) if "] + broadcast(" in line]
    assert len(sums) == 2, "whole tiles, and the last one"
    assert not any("likely" in lines[k - 1] for k in sums)
    assert any("min(" in lines[k] for k in sums)
    assert [line.split()[2] for line in lines if " = allocate(" in line] == ["allocate([40],"] * 2
    rng = np.random.default_rng(0)
    for n in (1, 2, 6, 7, 13, 20):
        p = rng.standard_normal((2, n, n)).astype("float32")
        v = rng.standard_normal((2, n, 24)).astype("float32")
        y = np.full((2, n, 24), np.nan, "float32")
        kernel(p, v, y, n - RANGES["n"].low)
        wanted = p.astype("float64") @ v
        wanted /= 1 + np.exp(-wanted)
        np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-5)
