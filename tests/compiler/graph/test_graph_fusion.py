"""Which nodes become one kernel."""

import random

import numpy as np
import pytest

from whet.compiler.graph import GraphBuilder
from whet.compiler.graph.fusion import fused
from whet.compiler.graph.kinds import Kind, kind_of
from whet.compiler.graph.views import views


def conv(g, x, channels, **more):
    w = g.constant(np.ones((channels, x.shape[1], 3, 3), "float32") * len(g._nodes), "w")
    window = {"strides": [1, 1], "padding": [1] * 4, "dilation": [1, 1]}
    return g.add("conv", [x, w], **window, **more)


def image():
    g = GraphBuilder()
    return g, g.input("x", (1, 8, 6, 6), "float32")


def names(g, *outputs):
    graph = g.graph(outputs)
    seen = views(graph).nodes
    return [one.name for one in fused(graph) if one.nodes[0] not in seen]


@pytest.mark.parametrize(
    ("operator", "attrs", "kind"),
    [
        ("relu", {}, Kind.ELEMENTWISE),
        ("transpose", {"axes": (0, 2, 3, 1)}, Kind.INJECTIVE),
        ("expand", {"shape": (2, 8, 6, 6)}, Kind.BROADCAST),
        ("softmax", {"axis": -1}, Kind.REDUCTION),
        ("global_pool", {"kind": "avg"}, Kind.REDUCTION),
        ("lrn", {"size": 3, "alpha": 1.0, "beta": 0.5, "bias": 1.0}, Kind.REDUCTION),
    ],
)
def test_kinds(operator, attrs, kind):
    g, x = image()
    node = g.graph([g.add(operator, [x], **attrs)]).nodes[-1]
    assert kind_of(node) is kind


def test_contractions_are_seen():
    g, x = image()
    assert kind_of(g.graph([conv(g, x, 4)]).nodes[0]) is Kind.CONTRACTION
    assert kind_of(g.graph([g.add("matmul", [x, x])]).nodes[0]) is Kind.CONTRACTION


def test_an_epilogue_joins_its_convolution():
    g, x = image()
    assert names(g, g.add("relu", [conv(g, x, 8)])) == ["conv_relu"]


def test_a_residual_joins_the_last_convolution():
    g, x = image()
    skip = conv(g, x, 8)
    other = conv(g, g.add("relu", [skip]), 8)
    out = g.add("relu", [g.add("add", [other, skip])])
    assert names(g, out) == ["conv", "relu", "conv_add_relu"]


def test_two_contractions_stay_apart():
    g, x = image()
    both = g.add("add", [conv(g, x, 8), conv(g, x, 8)])
    assert sorted(names(g, both)) == ["conv", "conv_add"]


def test_what_others_read_ends_a_group():
    g, x = image()
    y = conv(g, x, 8)
    assert names(g, g.add("relu", [y]), y) == ["conv", "relu"]


def test_elementwise_joins_the_reduction_behind_it():
    g, x = image()
    assert names(g, g.add("softmax", [g.add("exp", [x])], axis=-1)) == ["exp_softmax"]


def test_nothing_else_joins_what_contracts():
    g, x = image()
    assert names(g, conv(g, g.add("exp", [x]), 8)) == ["exp", "conv"]


def test_reshapes_are_views():
    g, x = image()
    flat = g.add("reshape", [g.add("exp", [x])], shape=(1, 288))
    assert names(g, g.add("exp", [flat])) == ["exp", "exp"]


def test_a_reshape_to_an_output():
    """What is reshaped to an output is computed there; a reshaped input is copied."""
    g, x = image()
    y = g.add("exp", [x])
    out, again = (g.add("reshape", [v], shape=(288,)) for v in (y, x))
    graph = g.graph([out, again])
    assert set(views(graph).places) == {out}
    assert names(g, out, again) == ["exp", "reshape"]


def random_graph(seed):
    """Elementwise nodes, products and reductions of earlier values."""
    rng = random.Random(seed)
    g = GraphBuilder()
    values = [g.input("x", (4, 4), "float32")]
    for _ in range(rng.randrange(3, 25)):
        way = rng.choice(("relu", "add", "matmul", "softmax", "transpose", "reshape"))
        a, b = rng.choice(values[-6:]), rng.choice(values)
        attrs = {
            "softmax": {"axis": 1},
            "transpose": {"axes": (1, 0)},
            "reshape": {"shape": (4, 4)},
        }
        given = [a, b] if way in ("add", "matmul") else [a]
        values.append(g.add(way, given, **attrs.get(way, {})))
    outputs = {rng.randrange(1, len(values)) for _ in range(rng.randrange(1, 3))}
    return g.graph([values[k] for k in outputs])


def test_groups_can_run_one_after_the_other(seeds):
    for seed in seeds(150):
        graph = random_graph(seed)
        groups = fused(graph)
        assert sorted(n.output.name for g in groups for n in g.nodes) == sorted(
            n.output.name for n in graph.nodes
        )
        known = {*graph.inputs, *graph.constants}
        for one in groups:
            assert known.issuperset(one.inputs), (seed, str(graph))
            known.update(one.outputs)
            heavy = [n for n in one.nodes if kind_of(n) >= Kind.REDUCTION]
            assert len(heavy) <= 1
        assert known.issuperset(graph.outputs)
