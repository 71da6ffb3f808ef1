"""Batches in slices: what can be sliced, what is, and numbers."""

import random

import numpy as np
import pytest

import whet
from whet.autotune.models import slices
from whet.autotune.models.compiled import compiled
from whet.autotune.models.slices import arranged
from whet.compiler.graph import GraphBuilder
from whet.compiler.graph.fusion import fused
from whet.compiler.graph.passes import optimized
from whet.compiler.graph.passes.slices import batch_of, batched, with_slices

TARGET = "llvm -num_threads=2"
WINDOW = {"strides": [1, 1], "padding": [1] * 4, "dilation": [1, 1]}


def weights(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


@pytest.mark.parametrize(
    ("operator", "attrs", "can"),
    [
        ("relu", {}, True),
        ("softmax", {"axis": -1}, True),
        ("softmax", {"axis": 0}, False),
        ("mean", {"axes": [1, 2]}, True),
        ("transpose", {"axes": (0, 2, 1, 3)}, True),
        ("transpose", {"axes": (1, 0, 2, 3)}, False),
        ("reshape", {"shape": (4, 96)}, True),
        ("slice", {"begin": [1], "end": [3], "step": [1], "axes": [1]}, True),
        ("flip", {"axis": 0}, False),
        ("pad", {"before": [0, 0, 1, 1], "after": [0, 0, 2, 0]}, True),
        ("expand", {"shape": (4, 4, 4, 6)}, True),
        ("cumsum", {"axis": 0}, False),
        ("cumsum", {"axis": 1}, False),
        ("pool", {"kind": "avg", "window": [2, 2], **WINDOW}, True),
    ],
)
def test_what_can_be_sliced(operator, attrs, can):
    g = GraphBuilder()
    x = g.input("x", (4, 4, 4, 6), "float32")
    graph = g.graph([g.add(operator, [x], **attrs)])
    values, nodes = batched(graph)
    assert (len(nodes) == 1, len(values) == 2) == (can, can)


def test_what_depends_on_the_place_itself_is_not_sliced():
    g = GraphBuilder()
    x = g.input("x", (4, 6), "float32")
    graph = g.graph([g.add("trilu", [x], upper=True)])
    assert not batched(graph)[1]


def test_constants_of_the_batch_are_sliced_with_their_nodes():
    g = GraphBuilder()
    x = g.input("x", (4, 3, 5), "float32")
    own = g.constant(weights(4, 3, 5))
    one = g.constant(weights(1, 3, 5))
    rows = g.constant(weights(4, 5))
    graph = g.graph(
        [
            g.add("add", [x, own]),
            g.add("add", [x, one]),
            g.add("matmul", [x, x], transpose_b=True),
            g.add("matmul", [x, rows], transpose_b=True),  # as many rows as images: not theirs
        ]
    )
    found = batched(graph)[1]
    assert [[v.name for v in found[n]] for n in graph.nodes] == [[own.name], [], [], []]
    made = with_slices(graph, [(graph.nodes, 2)])
    made.check()
    assert sorted(v.shape for v in made.constants) == sorted(
        [(2, 3, 5), (2, 3, 5), (1, 3, 5), (4, 5)]
    )


def test_equal_slices_of_a_constant_are_one():
    g = GraphBuilder()
    x = g.input("x", (4, 3, 5), "float32")
    token = g.constant(np.broadcast_to(weights(1, 1, 5), (4, 1, 5)).copy())
    graph = g.graph([g.add("concat", [token, x], axis=1)])
    made = with_slices(graph, [(graph.nodes, 1)])
    assert [v.shape for v in made.constants] == [(1, 1, 5)]


def large(batch, size=64):
    """Convolutions whose images are large; then a pool and a product, whose weights are."""
    g = GraphBuilder()
    y = g.input("x", (batch, 32, size, size), "float32")
    for _ in range(3):
        own = {**WINDOW, "padding": [0] * 4}
        y = g.add("relu", [g.add("conv", [y, g.constant(weights(32, 32, 1, 1))], **own)])
    y = g.add("reshape", [g.add("global_pool", [y], kind="avg")], shape=(batch, 32))
    return g.graph([g.add("gemm", [y, g.constant(weights(32, 40000))])])


def test_large_images_are_computed_one_by_one():
    """A product that reads large weights is not; nor is anything of one image, or on a GPU."""
    wide = "llvm -mcpu=x86-64-v3 -num_threads=2"  # narrow vectors: arithmetic outweighs memory
    made = arranged(optimized(large(8)), whet.Target(wide).canonical())
    convs = [n for n in made.nodes if n.operator == "conv"]
    assert {n.output.shape[0] for n in convs} < {1, 2, 4}
    assert [n.output.shape for n in made.nodes if n.operator == "gemm"] == [(8, 40000)]
    for graph, target in (
        (large(1), TARGET),
        (large(8), "cuda -arch=sm_80"),
        (large(8, 4), TARGET),
    ):
        graph = optimized(graph)
        made = arranged(graph, whet.Target(target).canonical())
        assert not any(n.operator in ("slice", "concat") for n in made.nodes)


def test_the_sizes_are_the_cheapest(seeds):
    """Of all choices, by the same costs."""
    import itertools

    class Drawn:
        def __init__(self, rng):
            self.batch, self.groups = 4, range(rng.randrange(1, 6))
            self.own = [{b: rng.randrange(9) for b in (1, 2, 4)} for _ in self.groups]
            self.change = [rng.randrange(6) for _ in self.groups]

        def cycles(self, k, b):
            return self.own[k][b]

        def border(self, k, a, b):
            return self.change[k] if a != b else 0

        total = slices._Work.total

    for seed in seeds(20):
        work = Drawn(random.Random(seed))
        every = itertools.product((1, 2, 4), repeat=len(work.groups))
        found = slices._cheapest(work, [1, 2, 4])
        assert work.total(found) == min(map(work.total, every)), seed


def drawn(rng):
    """Nodes of a batch, some of which cannot be sliced."""
    g = GraphBuilder()
    batch = rng.choice((2, 3, 4, 6))
    x = g.input("x", (batch, 4, 6, 8), "float32")
    known = [x, g.input("y", (batch, 4, 6, 8), "float32")]
    for _ in range(rng.randrange(3, 10)):
        way = rng.choice(("conv", "tanh", "add", "softmax", "constant", "flip", "roll", "turn"))
        v = rng.choice(known)
        if way == "conv":
            w = weights(4, 4, 3, 3) / 6
            made = g.add("conv", [v, g.constant(w)], **WINDOW)
        elif way == "add":
            made = g.add("add", [v, rng.choice(known)])
        elif way == "softmax":
            made = g.add("softmax", [v], axis=rng.choice((0, 1, -1)))
        elif way == "constant":
            made = g.add("multiply", [v, g.constant(weights(rng.choice((1, batch)), 4, 6, 8))])
        elif way == "flip":
            made = g.add("flip", [v], axis=rng.choice((0, 2)))
        elif way == "roll":
            flat = g.add("reshape", [v], shape=(batch, 24, 8))
            made = g.add("reshape", [g.add("tanh", [flat])], shape=v.shape)
        elif way == "turn":
            there = g.add("transpose", [v], axes=(0, 3, 2, 1))
            made = g.add("transpose", [g.add("tanh", [there])], axes=(0, 3, 2, 1))
        else:
            made = g.add("tanh", [v])
        known.append(made)
    return g.graph(g.apart([known[-1], rng.choice(known[2:])], ["a", "b"]))


def sliced(graph, rng):
    """The graph with sizes drawn for runs of its groups."""
    batch, (values, free) = batch_of(graph), batched(graph)
    sizes = [b for b in range(1, batch) if batch % b == 0]
    runs = []
    for group in fused(graph):
        can = all(n in free or values.isdisjoint(n.reads) for n in group.nodes)
        size = rng.choice([*sizes, runs[-1][1] if runs else batch]) if can else batch
        if not runs or runs[-1][1] != size:
            runs.append(([], size))
        runs[-1][0].extend(group.nodes)
    return with_slices(graph, runs)


def convolved(x, w):
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    seen = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    return np.einsum("ncyxij,ocij->noyx", seen, w)


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


NUMPY = {
    "add": np.add,
    "concat": lambda *x, axis: np.concatenate(x, axis),
    "conv": lambda x, w, **window: convolved(x, w),
    "flip": np.flip,
    "identity": lambda x: x,
    "multiply": np.multiply,
    "reshape": np.reshape,
    "slice": lambda x, begin, end, step, axes: x[begin[0] : end[0]],
    "softmax": softmax,
    "tanh": np.tanh,
    "transpose": np.transpose,
}


def evaluated(graph, arrays):
    """The outputs, in float64."""
    known = {v: a.astype("float64") for v, a in graph.constants.items()}
    known |= dict(zip(graph.inputs, arrays))
    for n in graph.nodes:
        known[n.output] = NUMPY[n.operator](*(known[v] for v in n.reads), **n.attrs)
        assert known[n.output].shape == n.output.shape
    return [known[v] for v in graph.outputs]


def test_slices_compute_the_same(seeds):
    many = 0
    for seed in seeds(40):
        rng, numbers = random.Random(seed), np.random.default_rng(seed)
        graph = drawn(rng)
        made = sliced(graph, rng)
        made.check()
        many += made is not graph and len(made.nodes) > len(graph.nodes)
        given = [numbers.standard_normal(v.shape) for v in graph.inputs]
        for a, b in zip(evaluated(graph, given), evaluated(made, given)):
            np.testing.assert_allclose(a, b, rtol=1e-12, err_msg=str(seed))
    assert many > 10


def test_numbers_of_compiled_slices(seeds):
    for seed in seeds(1):
        rng, numbers = random.Random(seed), np.random.default_rng(seed)
        graph = drawn(rng)
        model = compiled(sliced(optimized(graph), rng), whet.Target(TARGET).canonical())
        given = [numbers.standard_normal(v.shape).astype("float32") for v in graph.inputs]
        model._memory[:] = 0xFF
        for a, b in zip(evaluated(graph, given), model(*given)):
            np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5, err_msg=str(seed))


def test_a_batch_that_no_memory_holds_is_no_work():
    """Each slice is a sixteenth of the batch at least: few sizes are tried, however many images."""
    g = GraphBuilder()
    x = g.input("x", (1 << 30, 1 << 30), "float32")
    graph = g.graph([g.add("relu", [x])])
    assert arranged(graph, whet.Target(TARGET).canonical()).nodes == graph.nodes
