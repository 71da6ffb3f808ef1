"""Graphs whose nodes compute with the channels last, as the pass makes them."""

import numpy as np

from whet.compiler.graph import GraphBuilder
from whet.compiler.graph.passes.channels_last import images_of, with_channels_last

WINDOW = {"strides": [1, 1], "padding": [1] * 4, "dilation": [1, 1]}


def numbers(*shape):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype("float32")


def operators(graph):
    return [n.operator for n in graph.nodes]


def turned(graph):
    """The graph with the channels last in all nodes that can compute so."""
    return with_channels_last(graph, [n for n in graph.nodes if images_of(graph, n) is not None])


def test_transposes_stand_where_layouts_meet_only():
    g = GraphBuilder()
    x = g.input("x", (1, 3, 8, 9), "float32")
    y = g.add("conv", [x, g.constant(numbers(5, 3, 3, 3)), g.constant(numbers(5))], **WINDOW)
    y = g.add("relu", [g.add("add", [y, g.constant(numbers(5, 1, 1))])])
    z = g.add("pool", [y], kind="max", window=[3, 3], **WINDOW)
    y = g.add("concat", [y, z], axis=1, name="joined")
    made = turned(g.graph([y]))
    made.check()
    assert operators(made) == [
        "transpose", "conv", "add", "relu", "pool", "concat", "transpose",
    ]  # fmt: skip
    assert made.outputs[0].name == "joined" and made.outputs[0].shape == (1, 10, 8, 9)
    assert made.producers[made.outputs[0]].reads[0].name == "joined.nhwc"
    assert {a.shape for a in made.constants.values()} == {(3, 3, 3, 5), (5,), (1, 1, 1, 5)}


def test_transposes_of_a_model_go():
    g = GraphBuilder()
    x = g.add("transpose", [g.input("x", (1, 8, 9, 3), "float32")], axes=(0, 3, 1, 2))
    y = g.add("conv", [x, g.constant(numbers(5, 3, 3, 3))], **WINDOW)
    made = turned(g.graph([g.add("transpose", [y], axes=(0, 2, 3, 1))]))
    assert operators(made) == ["conv"]


def test_sums_whose_axes_keep_their_order():
    g = GraphBuilder()
    x = g.input("x", (2, 3, 8, 9), "float32")
    makes = {(2, 3): True, (1,): True, (1, 2, 3): True, (2,): False, (3,): False}
    for axes, able in makes.items():
        y = g.add("sum", [x], axes=axes, keepdims=False)
        graph = g.graph([y])
        assert (images_of(graph, graph.nodes[-1]) is not None) == able, axes
        assert turned(graph).outputs[0].shape == y.shape


def test_what_has_one_layout_only():
    g = GraphBuilder()
    x, w = g.input("x", (1, 3, 8, 8), "float32"), g.input("w", (5, 3, 3, 3), "float32")
    v = g.input("v", (8,), "float32")
    y = g.add("conv", [x, w], **WINDOW)
    z = g.add("add", [y, v])
    p = g.add("pool", [z], kind="max", window=[2, 2], ceil_mode=True, **WINDOW)
    graph = g.graph([g.add("softmax", [p], axis=1)])
    assert all(images_of(graph, n) is None for n in graph.nodes)
