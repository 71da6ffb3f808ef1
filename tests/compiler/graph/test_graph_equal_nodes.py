"""What is worked out once for equal nodes, and what tells nodes apart."""

import numpy as np
import pytest

from whet.compiler import te, topi
from whet.compiler.errors import ArgumentError
from whet.compiler.graph import GraphBuilder
from whet.compiler.graph.kinds import Kind, kind_of, stores_all
from whet.compiler.graph.operators import equal


def graph_of(operator, shapes, dtype="float32", **attrs):
    g = GraphBuilder()
    values = [g.input(f"x{k}", shape, dtype) for k, shape in enumerate(shapes)]
    return g.graph([g.add(operator, values, **attrs)]).nodes[-1]


def test_equal_nodes_are_computed_once(monkeypatch):
    equal._known.clear()
    computed, asked = equal.computed, []
    monkeypatch.setattr(
        equal, "computed", lambda name, *rest: asked.append(name) or computed(name, *rest)
    )
    for _ in range(3):
        node = graph_of("add", [(2, 3), (3,)])
        assert kind_of(node) is Kind.BROADCAST and not stores_all(node)
    assert asked == ["add"] * 3  # its type, its kind, what it stores


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("add", [(2, 3), (3,)], "float32"), ("add", [(2, 3), (2, 3)], "float32")),
        (("add", [(2, 3), (3,)], "float32"), ("add", [(2, 3), (3,)], "float64")),
        (("add", [(2, 3), (3,)], "float32"), ("multiply", [(2, 3), (3,)], "float32")),
    ],
)
def test_other_nodes_are_told_apart(one, other):
    found = [graph_of(*each) for each in (one, other, one)]
    for node, (_, shapes, dtype) in zip(found, (one, other, one)):
        assert node.output.shape == shapes[0] and node.output.dtype == dtype
    same = found[1].inputs[1].shape == found[1].output.shape
    assert kind_of(found[1]) is (Kind.ELEMENTWISE if same else Kind.BROADCAST)


def test_attributes_tell_nodes_apart():
    for axes, keepdims in (((1,), True), ((0,), True), ((1,), False), ((0, 1), True)):
        wanted = np.zeros((4, 5)).sum(axes, keepdims=keepdims).shape
        assert graph_of("sum", [(4, 5)], axes=axes, keepdims=keepdims).output.shape == wanted


def test_mistakes_are_told_each_time():
    for _ in range(2):
        with pytest.raises(ArgumentError):
            graph_of("add", [(2, 3), (4,)])


def test_a_concatenation_asks_for_its_part_in_halves():
    def depth(e):
        args = getattr(e, "args", ())
        own = getattr(e, "name", "") == "if_then_else" or len(args) == 3
        return own + max(map(depth, args), default=0)

    for count, most in ((2, 1), (3, 2), (4, 2), (64, 6), (100, 7)):
        parts = [te.placeholder((2, 4), name=f"x{k}") for k in range(count)]
        (body,) = topi.concatenate(parts, 0).op.body
        assert depth(body) == most
