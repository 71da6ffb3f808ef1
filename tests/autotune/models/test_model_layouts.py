"""The choice of layouts: the cut against all choices, and what models become."""

import itertools
import random

import numpy as np

import whet
from whet.autotune.models.cut import Cut
from whet.autotune.models.layouts import laid_out
from whet.compiler.graph import GraphBuilder
from whet.compiler.graph.passes import optimized

TARGET = "llvm -mcpu=x86-64-v3 -num_threads=1"


def total(costs, edges, there):
    """The cost of a choice: each thing's own, and the edges that it cuts."""
    own = sum(cost[k in there] for k, cost in enumerate(costs))
    return own + sum(
        c for one, others, c in edges if any((o in there) != (one in there) for o in others)
    )


def test_a_cut_costs_least(seeds):
    for seed in seeds(30):
        rng = random.Random(seed)
        many = rng.randrange(2, 8)
        cut, edges = Cut(), []
        costs = [(rng.randrange(9), rng.randrange(9)) for _ in range(many)]
        for k, (here, there) in enumerate(costs):
            cut.cost(k, here=here, there=there)
        cut.keep(0)
        for _ in range(rng.randrange(9)):
            one, *others = rng.sample(range(many), rng.randrange(2, many + 1))
            edges.append((one, others, rng.randrange(9)))
            cut.any_apart(*edges[-1])
        choices = itertools.product((False, True), repeat=many - 1)
        sets = [{k for k, one in enumerate(c, 1) if one} for c in choices]
        found = cut.there()
        assert 0 not in found, seed
        assert total(costs, edges, found) == min(total(costs, edges, s) for s in sets), seed


def weights(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


def test_depthwise_convolutions_of_strides_have_the_channels_last():
    g = GraphBuilder()
    y = x = g.input("x", (1, 64, 28, 28), "float32")
    for stride in (2, 1):
        own = {"strides": [stride] * 2, "dilation": [1, 1]}
        y = g.add("conv", [y, g.constant(weights(64, 1, 3, 3))], padding=[1] * 4, groups=64, **own)
        y = g.add("relu", [y])
        own["strides"] = [1, 1]
        y = g.add("conv", [y, g.constant(weights(64, 64, 1, 1))], padding=[0] * 4, **own)
    made = laid_out(optimized(g.graph([y])), whet.Target(TARGET).canonical())
    last = [n for n in made.nodes if n.attrs.get("channels_last")]
    assert len(last) == 4 and sum(n.operator == "transpose" for n in made.nodes) == 2
    assert made.inputs == (x,) and made.outputs[0].shape == y.shape


def test_a_model_without_images_stays_as_it_is():
    g = GraphBuilder()
    x = g.input("x", (1, 4, 8, 8), "float32")
    graph = g.graph([g.add("relu", [g.add("transpose", [x], axes=(0, 2, 3, 1))])])
    assert laid_out(graph, whet.Target(TARGET).canonical()) is graph


def test_for_gpus_nothing_changes():
    g = GraphBuilder()
    x = g.input("x", (1, 64, 28, 28), "float32")
    own = {"strides": [2, 2], "padding": [1] * 4, "dilation": [1, 1], "groups": 64}
    graph = g.graph([g.add("conv", [x, g.constant(weights(64, 1, 3, 3))], **own)])
    assert laid_out(graph, whet.Target("cuda -arch=sm_80").canonical()) is graph
