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


def test_a_cut_costs_least(seeds):
    for seed in seeds(30):
        rng = random.Random(seed)
        things = list(range(rng.randrange(2, 8)))
        cut, costs, edges = Cut(), {}, []
        for k in things:
            costs[k] = rng.randrange(9), rng.randrange(9)
            cut.cost(k, here=costs[k][0], there=costs[k][1])
        cut.keep(0)
        for _ in range(rng.randrange(9)):
            one, *others = rng.sample(things, rng.randrange(2, len(things) + 1))
            edges.append((one, others, rng.randrange(9)))
            cut.any_apart(*edges[-1])

        def total(there):
            own = sum(costs[k][k in there] for k in things)
            return own + sum(
                c for one, others, c in edges if any((o in there) != (one in there) for o in others)
            )

        choices = itertools.product((False, True), repeat=len(things) - 1)
        least = min(total({k for k, one in enumerate(c, 1) if one}) for c in choices)
        found = cut.there()
        assert 0 not in found and total(found) == least, seed


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
