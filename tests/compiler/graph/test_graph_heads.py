"""Products whose columns are heads: which are split, and numbers in float64."""

import random

import numpy as np

from whet.compiler.graph import GraphBuilder
from whet.compiler.graph.passes.heads import split_heads


def drawn(seed):
    """A product with or without a bias and a scale, its heads; and whether it can be split."""
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    batch, rows, heads, width, depth = (rng.randrange(1, 5) for _ in range(5))
    g, can = GraphBuilder(), True
    flat = rng.random() < 0.5
    x = g.input("x", (batch * rows, depth) if flat else (batch, rows, depth), "float32")
    columns = heads * width
    turned = rng.random() < 0.5
    w = numbers.standard_normal((columns, depth) if turned else (depth, columns)).astype("float32")
    bias = numbers.standard_normal(columns).astype("float32")
    attrs = {"transpose_b": turned}
    way = rng.choice(("plain", "add", "add", "gemm", "wrong"))
    if way == "gemm" and flat:
        y = g.add("gemm", [x, g.constant(w), g.constant(bias)], **attrs)
    else:
        y = g.add("matmul", [x, g.constant(w)], **attrs)
        if way == "add":
            y = g.add("add", [y, g.constant(bias)] if rng.random() < 0.5 else [g.constant(bias), y])
        elif way == "wrong":  # differs by row
            can = y.shape[-2] == 1
            more = numbers.standard_normal((y.shape[-2], columns)).astype("float32")
            y = g.add("add", [y, g.constant(more)])
    cut = g.add("reshape", [y], shape=(batch, rows, heads, width))
    axes = rng.choice(((0, 2, 1, 3), (0, 2, 3, 1), (0, 1, 3, 2)))
    can &= axes != (0, 1, 3, 2)
    made = g.add("transpose", [cut], axes=axes)
    if rng.random() < 0.5:
        made = g.add(
            "multiply", [made, g.constant(np.float32([0.3]).reshape(rng.choice(((), (1,)))))]
        )
    outputs = [made]
    if rng.random() < 0.3:
        outputs.append(g.add("exp", [rng.choice((y, cut))]))
        can = False
    return g.graph(outputs), can, numbers.standard_normal(x.shape)


def product(a, b, c=None, transpose_b=False):
    made = a @ (np.swapaxes(b, -1, -2) if transpose_b else b)
    return made if c is None else made + c


NUMPY = {
    "add": np.add,
    "exp": np.exp,
    "gemm": product,
    "matmul": product,
    "multiply": np.multiply,
    "reshape": np.reshape,
    "transpose": np.transpose,
}


def evaluated(graph, x):
    known = {v: a.astype("float64") for v, a in graph.constants.items()} | {graph.inputs[0]: x}
    for n in graph.nodes:
        known[n.output] = NUMPY[n.operator](*(known[v] for v in n.reads), **n.attrs)
        assert known[n.output].shape == n.output.shape
    return [known[v] for v in graph.outputs]


def test_heads_of_drawn_products(seeds):
    many = 0
    for seed in seeds(60):
        graph, can, x = drawn(seed)
        made = split_heads(graph)
        made.check()
        many += made is not graph
        assert made is not graph if can else made is graph, seed
        for a, b in zip(evaluated(graph, x), evaluated(made, x)):
            np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-6, err_msg=str(seed))
    assert many > 5


def test_attention_reads_heads_without_a_transpose():
    g = GraphBuilder()
    x = g.input("x", (2, 5, 12), "float32")

    def part(k):
        w = np.full((12, 12), k, "float32")
        y = g.add("add", [g.add("matmul", [x, g.constant(w)]), g.constant(w[0])])
        return g.add("transpose", [g.add("reshape", [y], shape=(2, 5, 3, 4))], axes=(0, 2, 1, 3))

    scores = g.add("matmul", [g.add("softmax", [part(1)], axis=-1), part(2)], transpose_b=True)
    made = split_heads(g.graph([g.add("matmul", [scores, part(3)])]))
    assert "transpose" not in {n.operator for n in made.nodes}
    weights = [n.inputs[1].shape for n in made.nodes if n.operator == "matmul"]
    assert weights[:1] == [(3, 12, 4)] and weights.count((3, 12, 4)) == 3
