"""Slices and concatenations that are parts of other values' memory: which are, and numbers."""

import random

import numpy as np

import whet
from whet.autotune.models.compiled import compiled
from whet.compiler.graph import GraphBuilder
from whet.compiler.graph.passes import optimized
from whet.compiler.graph.views import views

TARGET = "llvm -num_threads=2"


def run(graph):
    """The names of a model's kernels, an input, and the outputs for it."""
    model = compiled(graph, whet.Target(TARGET).canonical())
    model._memory[:] = 0xFF
    x = np.random.default_rng().standard_normal(graph.inputs[0].shape).astype("float32")
    made = model(x)
    return [c.name for c in model.calls], x.astype("float64"), made


def test_a_slice_of_rows_is_read_where_it_is():
    g = GraphBuilder()
    x = g.input("x", (6, 16, 16), "float32")
    y = g.add("exp", [x])
    first, last = (
        g.add("slice", [y], begin=[b], end=[b + 3], step=[1], axes=[0]) for b in (0, -3 + 6)
    )
    graph = g.graph([g.add("matmul", [first, last])])
    names, a, made = run(graph)
    assert names == ["exp", "matmul"]
    np.testing.assert_allclose(made, np.exp(a[:3]) @ np.exp(a[3:]), rtol=1e-5)
    assert {v: (p.base, p.offset) for v, p in views(graph).places.items()} == {
        first: (y, 0),
        last: (y, 3 * 16 * 16 * 4),
    }


def test_slices_that_are_fused_or_apart_are_no_views():
    g = GraphBuilder()
    x = g.input("x", (6, 16, 16), "float32")
    cut = {"begin": [1], "end": [4], "step": [1]}
    fused = g.add("slice", [g.add("exp", [x])], axes=[0], **cut)
    columns = g.add("slice", [x], axes=[1], **cut)
    odd = g.add("slice", [x], begin=[0], end=[6], step=[2], axes=[0])
    uneven = g.add("reshape", [x], shape=(6 * 256,))
    uneven = g.add("slice", [uneven], begin=[1], end=[17], step=[1], axes=[0])
    products = [g.add("matmul", [columns, columns], transpose_a=True), g.add("matmul", [odd, odd])]
    sums = g.add("softmax", [uneven], axis=0)
    graph = g.graph([g.add("relu", [fused]), *products, sums])
    assert {n.operator for n in views(graph).nodes} == {"reshape"}


def test_concatenated_parts_are_computed_in_their_places():
    """Those that an input, an output or a constant is, or that two read, are copied."""
    g = GraphBuilder()
    x = g.input("x", (2, 64, 32), "float32")
    w = g.constant(np.ones((2, 32, 64), "float32"))
    first, second = g.add("exp", [x]), g.add("matmul", [x, w], transpose_b=False)
    flat = g.add("reshape", [second], shape=(4, 64, 32))
    both = g.add("concat", [first, flat], axis=0)
    more = g.add("concat", [both, g.add("tanh", [first])], axis=0)
    copied = [g.add("concat", parts, axis=0) for parts in ([first, both], [x, x])]
    graph = g.graph([more, *copied])
    names, a, made = run(graph)
    assert names == ["exp", "matmul", "tanh", "concat", "concat"]
    e, p = np.exp(a), (a @ np.ones((2, 32, 64))).reshape(4, 64, 32)
    wanted = [[e, p, np.tanh(e)], [e, e, p], [a, a]]
    for b, parts in zip(made, wanted, strict=True):
        np.testing.assert_allclose(b, np.concatenate(parts), rtol=1e-4, atol=1e-5)
    seen = views(graph)
    assert [seen[v].base for v in (first, flat, both)] == [more] * 3
    assert seen[flat].offset == first.bytes and second in seen.places


def drawn(seed):
    """A graph of products, slices, concatenations and reshapes; and numpy's, in float64."""
    rng = random.Random(seed)
    numbers = np.random.default_rng(seed)
    g = GraphBuilder()
    size = rng.choice((16, 24, 32))
    x = g.input("x", (rng.randrange(4, 9), 16, size), "float32")
    array = numbers.standard_normal(x.shape).astype("float32")
    known = [(x, array.astype("float64"))]
    weight = numbers.standard_normal((size, size)).astype("float32") / size**0.5
    for _ in range(rng.randrange(4, 16)):
        v, a = rng.choice(known)
        way = rng.choice(("exp", "matmul", "slice", "slice", "concat", "concat", "reshape"))
        if way == "exp":
            made = g.add("tanh", [v]), np.tanh(a)
        elif way == "matmul":
            made = g.add("matmul", [v, g.constant(weight)]), a @ weight.astype("float64")
        elif way == "slice":
            n = rng.randrange(1, len(a) + 1)
            b = rng.randrange(len(a) - n + 1)
            b -= rng.choice((0, len(a)))
            end = b + n if b >= 0 else b + n or len(a)
            part = g.add("slice", [v], begin=[b], end=[end], step=[1], axes=[0])
            made = part, a[b : b + n] if b >= 0 else a[len(a) + b : len(a) + b + n]
        elif way == "concat":
            u, other = rng.choice(known)
            made = g.add("concat", [v, u], axis=0), np.concatenate([a, other])
        else:
            flat = g.add("reshape", [v], shape=(1, *a.shape))
            made = g.add("reshape", [g.add("tanh", [flat])], shape=a.shape), np.tanh(a)
        if made[1].shape[0] <= 64:
            known.append(made)
    chosen = rng.sample(known[1:], min(len(known) - 1, 4)) or [
        (g.add("exp", [x]), np.exp(known[0][1]))
    ]
    outputs = g.apart([v for v, _ in chosen], [f"out{k}" for k in range(len(chosen))])
    return g.graph(outputs), array, [a for _, a in chosen]


def test_numbers(seeds):
    for seed in seeds(3):
        graph, array, wanted = drawn(seed)
        graph.check()
        model = compiled(optimized(graph) if seed % 2 else graph, whet.Target(TARGET).canonical())
        model._memory[:] = 0xFF
        made = model(array)
        for a, b in zip(made if isinstance(made, tuple) else (made,), wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5, err_msg=str(seed))
