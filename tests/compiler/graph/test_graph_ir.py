"""Graphs as data: building, printing, checking, pruning."""

import numpy as np
import pytest

from whet.compiler.errors import ArgumentError
from whet.compiler.graph import Graph, GraphBuilder, Node, Value


def small():
    g = GraphBuilder()
    x = g.input("x", (2, 3), "float32")
    w = g.constant(np.arange(12, dtype="float32").reshape(3, 4), "w")
    y = g.add("matmul", [x, w], "y")
    return g, x, y, g.add("relu", [y], "z")


def test_it_prints():
    g, _, _, z = small()
    assert str(g.graph([z])) == (
        "graph(%x: float32[2, 3]) {\n"
        "  %w: float32[3, 4] = constant(0, 1, 2, 3, ...)\n"
        "  %y: float32[2, 4] = matmul(%x, %w)\n"
        "  %z: float32[2, 4] = relu(%y)\n"
        "  return %z\n"
        "}"
    )


def test_names_are_made_unique():
    g = GraphBuilder()
    x = g.input("x", (2,), "float32")
    names = [g.add("relu", [x], "x").name for _ in range(3)]
    assert len({*names, "x"}) == 4


def test_equal_constants_are_one_value():
    g = GraphBuilder()
    one, same = (g.constant(np.ones(3, "float32")) for _ in range(2))
    others = [np.ones(3, "float64"), np.ones((3, 1), "float32"), np.zeros(3, "float32")]
    assert one is same and all(g.constant(a) is not one for a in others)


def test_what_no_output_needs_goes():
    g, x, y, _ = small()
    g.constant(np.zeros(5), "unused")
    made = g.graph([y])
    assert [n.output.name for n in made.nodes] == ["y"]
    assert [v.name for v in made.constants] == ["w"]
    assert made.inputs == (x,)


@pytest.mark.parametrize(
    ("operator", "shapes", "why"),
    [
        ("matmull", [(2, 3), (3, 4)], "there is none of this name"),
        ("matmul", [(2, 3), (4, 5)], "3 and 4 elements are multiplied"),
        ("add", [(2, 3), (4,)], "do not go together"),
    ],
)
def test_what_does_not_fit_is_refused(operator, shapes, why):
    g = GraphBuilder()
    given = [g.input(f"x{k}", s, "float32") for k, s in enumerate(shapes)]
    with pytest.raises(ArgumentError, match=why):
        g.add(operator, given)


def test_check():
    g, x, _, z = small()
    graph = g.graph([z])
    graph.check()
    matmul, relu = graph.nodes
    for broken, why in (
        (Graph((x,), (z,), (relu, matmul), graph.constants), "before it is read"),
        (Graph((x,), (Value("a", (2,), "int8"),), (), {}), "nothing makes its output"),
        (Graph((x,), (z,), (*graph.nodes, relu), graph.constants), "are named"),
        (
            Graph((x,), (z,), graph.nodes, {v: np.zeros(1) for v in graph.constants}),
            "its array is float64",
        ),
    ):
        with pytest.raises(ArgumentError, match=why):
            broken.check()


def test_reading_keeps_what_is_not_replaced():
    a, b, c = (Value(n, (2,), "float32") for n in "abc")
    node = Node("where", (a, None, b), (c,))
    assert node.reading({c: a}) is node
    assert node.reading({a: c}).inputs == (c, None, b)
