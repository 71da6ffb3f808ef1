"""What each pass makes of a graph; that it computes the same is tested where models run."""

import numpy as np
import pytest

from whet.compiler.graph import GraphBuilder
from whet.compiler.graph.passes import PASSES, optimized

WINDOW = {"strides": [1, 1], "padding": [0] * 4, "dilation": [1, 1]}


def operators(graph):
    return [n.operator for n in graph.nodes]


def numbers(*shape):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype("float32")


def test_each_pass_says_why():
    assert all(p.name and p.why for p in PASSES)
    assert len({p.name for p in PASSES}) == len(PASSES)


def test_a_batch_norm_goes_into_the_convolution():
    g = GraphBuilder()
    x = g.input("x", (1, 3, 8, 8), "float32")
    y = g.add("conv", [x, g.constant(numbers(4, 3, 3, 3))], **WINDOW)
    own = [g.constant(np.abs(numbers(4)) + k) for k in range(4)]
    y = g.add("batch_norm", [y, *own], epsilon=1e-5)
    assert operators(optimized(g.graph([g.add("relu", [y])]))) == ["conv", "relu"]


def test_not_where_others_read_the_convolution():
    g = GraphBuilder()
    x = g.input("x", (1, 3, 8, 8), "float32")
    y = g.add("conv", [x, g.constant(numbers(4, 3, 3, 3))], **WINDOW)
    own = [g.constant(np.abs(numbers(4)) + k) for k in range(4)]
    z = g.add("batch_norm", [y, *own], epsilon=1e-5)
    assert operators(optimized(g.graph([z, y]))) == ["conv", "multiply", "add"]


def test_scales_and_shifts_follow():
    g = GraphBuilder()
    x = g.input("x", (5, 6), "float32")
    y = g.add("matmul", [x, g.constant(numbers(6, 7))])
    y = g.add("multiply", [y, g.constant(numbers(7))])
    y = g.add("add", [y, g.constant(numbers(1, 7))])
    y = g.add("multiply", [y, g.constant(np.float32(3))])
    made = optimized(g.graph([y]))
    assert operators(made).count("multiply") <= 1 and operators(made)[0] == "matmul"


def test_what_is_known_is_computed():
    g = GraphBuilder()
    x = g.input("x", (4, 4), "float32")
    w = g.add("transpose", [g.constant(numbers(4, 4))], axes=(1, 0))
    w = g.add("reshape", [g.add("add", [w, w])], shape=(4, 4))
    made = optimized(g.graph([g.add("matmul", [x, w])]))
    assert operators(made) == ["matmul"]
    (array,) = made.constants.values()
    np.testing.assert_array_equal(array, 2 * numbers(4, 4).T)


@pytest.mark.parametrize(
    "operator", ["abs", "ceil", "cos", "exp", "floor", "log", "rsqrt", "sin", "tanh"]
)
def test_known_floats_are_computed_and_rounded_once(operator):
    g = GraphBuilder()
    x = np.random.default_rng(0).uniform(0.1, 3, (3, 4)).astype("float32")
    made = optimized(g.graph([g.add(operator, [g.constant(x)])]))
    own = getattr(np, operator, lambda v: 1 / np.sqrt(v))
    (array,) = (made.constants[v] for n in made.nodes for v in n.reads)
    assert [n.operator for n in made.nodes] == ["identity"]
    np.testing.assert_array_equal(array, own(x.astype("float64")).astype("float32"))


def test_transposes_go_into_products_and_cancel():
    g = GraphBuilder()
    x = g.input("x", (2, 3, 4), "float32")
    t = g.add("transpose", [x], axes=(0, 2, 1))
    y = g.add("matmul", [x, t])
    z = g.add("transpose", [g.add("transpose", [y], axes=(1, 2, 0))], axes=(2, 0, 1))
    made = optimized(g.graph([g.add("exp", [z])]))
    assert operators(made) == ["matmul", "exp"]
    assert made.nodes[0].attrs["transpose_b"] is True


def test_the_same_is_computed_once():
    g = GraphBuilder()
    x = g.input("x", (4,), "float32")
    both = g.add("add", [g.add("exp", [x]), g.add("exp", [x])])
    assert operators(optimized(g.graph([both]))) == ["exp", "add"]


def test_outputs_stay_apart():
    """Two outputs that are the same value, an input, or a constant have memory of their own."""
    g = GraphBuilder()
    x = g.input("x", (4,), "float32")
    one, two = g.add("exp", [x]), g.add("exp", [x])
    copied = g.add("identity", [x])
    made = optimized(g.graph([one, two, copied, g.add("identity", [g.constant(numbers(4))])]))
    assert len(set(made.outputs)) == 4
    assert not {*made.inputs, *made.constants} & {*made.outputs}
