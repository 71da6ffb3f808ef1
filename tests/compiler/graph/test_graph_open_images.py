"""Passes for images of open sizes: squares of pixels, transposed convolutions as single pixels."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import whet
from whet.compiler import driver, te
from whet.compiler.errors import ArgumentError
from whet.compiler.graph import GraphBuilder
from whet.compiler.graph.passes.channels_last import images_of, with_channels_last
from whet.compiler.graph.passes.tiles import conv_by_tiles, worth_tiles
from whet.compiler.graph.passes.transposed import is_apart, transposed_as_conv
from whet.compiler.topi.image.blocks import image_tiles, tiles_image

CONV = {"strides": [1, 1], "padding": [1] * 4, "dilation": [1, 1]}


def numbers(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


def made_by(graph, x):
    return whet.compile(graph, target="llvm -num_threads=1", cache=False)(x)


@pytest.mark.parametrize("shape", [(1, 8, 8, 3), (2, 9, 6, 5), (1, 1, 2, 4), (3, 7, 13, 1)])
@pytest.mark.parametrize("before, after", [((1, 1), (1, 1)), ((0, 2), (1, 0)), ((2, 0), (2, 3))])
def test_squares_cover_an_image(shape, before, after):
    size, step = 6, 4
    x = numbers(*shape)
    rows, columns = (d + b + a - 2 for d, b, a in zip(shape[1:3], before, after))
    if min(rows, columns) < 1:
        pytest.skip("no window fits")
    X = te.placeholder(shape, "float32", "X")
    T = image_tiles(X, size, step, before, after)
    P = te.compute((*T.shape[:3], step, step, shape[3]), lambda *i: T(*i))
    Y = tiles_image(P, rows, columns)
    outs = [np.full([int(d) for d in t.shape], np.nan, "float32") for t in (T, Y)]
    driver.build(te.create_schedule([T.op, Y.op]), [X, T, Y], "llvm")(x, *outs)
    _, high, wide, *_ = outs[0].shape
    assert (high, wide) == (-(-rows // step), -(-columns // step))
    around = np.zeros((shape[0], high * step + 2, wide * step + 2, shape[3]), "float32")
    part = around[:, before[0] : before[0] + shape[1], before[1] : before[1] + shape[2]]
    part[:] = x[:, : part.shape[1], : part.shape[2]]
    for i in range(high):
        for j in range(wide):
            square = around[:, i * step : i * step + size, j * step : j * step + size]
            np.testing.assert_array_equal(outs[0][:, i, j], square)
    np.testing.assert_array_equal(outs[1], around[:, :rows, :columns])


def test_squares_that_do_not_meet_are_refused():
    X = te.placeholder((1, 8, 8, 3), "float32", "X")
    for size, step in ((3, 4), (6, 0)):
        with pytest.raises(ArgumentError, match="a step is from 1 to the size"):
            image_tiles(X, size, step, (0, 0), (0, 0))


@pytest.mark.parametrize("image", [(16, 24), (13, 11), (5, 30)])
@pytest.mark.parametrize("bias", [False, True])
def test_convolutions_by_squares(image, bias):
    g = GraphBuilder()
    x = g.input("x", (2, 16, *image), "float32")
    more = [g.constant(numbers(20))] if bias else []
    y = g.add("conv", [x, g.constant(numbers(20, 16, 3, 3)), *more], **CONV)
    graph = g.graph([g.add("relu", [y])])
    last = with_channels_last(graph, [n for n in graph.nodes if images_of(graph, n) is not None])
    (conv,) = (n for n in last.nodes if n.operator == "conv")
    made = conv_by_tiles(last, {conv.output.name})
    made.check()
    operators = [n.operator for n in made.nodes]
    assert operators.count("image_tiles") == operators.count("tiles_image") == 1
    given = numbers(*x.shape)
    wanted = made_by(graph, given)
    np.testing.assert_allclose(made_by(made, given), wanted, atol=2e-5 * np.abs(wanted).max())


@pytest.mark.parametrize(
    ("why", "change"),
    [("it is", {}), ("strides", {"strides": (2, 2)}), ("dilation", {"dilation": (2, 2)}),
     ("few channels", {"channels": 8}), ("many weights", {"channels": 512, "out": 512}),
     ("a small image", {"size": 5}), ("a window", {"window": 5}), ("type", {"dtype": "float64"}),
     ("groups", {"groups": 2})],
)  # fmt: skip
def test_which_are_worth_squares(why, change):
    size, window, groups = change.get("size", 32), change.get("window", 3), change.get("groups", 1)
    channels, dtype = change.get("channels", 64), change.get("dtype", "float32")
    g = GraphBuilder()
    x = g.input("x", (1, size, size, channels), dtype)
    shape = (window, window, channels // groups, change.get("out", 64))
    weights = g.constant(numbers(*shape).astype(dtype))
    attrs = {**CONV, "strides": (1, 1), "dilation": (1, 1), "channels_last": True, "groups": groups}
    attrs |= {k: v for k, v in change.items() if k in attrs}
    graph = g.graph([g.add("conv", [x, weights], **attrs)])
    assert worth_tiles(graph, graph.nodes[-1]) == (why == "it is")


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("block", [2, 3])
def test_transposed_convolutions_of_single_pixels(block, bias):
    g = GraphBuilder()
    x = g.input("x", (2, 6, 5, 7), "float32")
    more = [g.constant(numbers(4))] if bias else []
    inputs = [x, g.constant(numbers(6, 4, block, block)), *more]
    plain = {"padding": [0, 0], "output_padding": [0, 0]}
    graph = g.graph([g.add("conv_transpose", inputs, strides=[block] * 2, **plain)])
    made = transposed_as_conv(graph, {graph.outputs[0].name})
    made.check()
    assert [n.operator for n in made.nodes] == ["conv", "depth_to_space"]
    given = numbers(*x.shape)
    np.testing.assert_allclose(made_by(made, given), made_by(graph, given), rtol=1e-5, atol=1e-5)


def test_transposed_convolutions_whose_windows_meet_stay():
    g = GraphBuilder()
    x, weights = g.input("x", (2, 6, 5, 7), "float32"), g.constant(numbers(6, 4, 3, 3))
    for attrs in ({"strides": [2, 2]}, {"strides": [3, 3], "padding": [1, 0]},
                  {"strides": [3, 2]}, {"strides": [3, 3], "output_padding": [1, 1]},
                  {"strides": [3, 3], "dilation": [2, 2]}):  # fmt: skip
        whole = {"padding": [0, 0], "output_padding": [0, 0], **attrs}
        graph = g.graph([g.add("conv_transpose", [x, weights], **whole)])
        assert not is_apart(graph, graph.nodes[-1]), attrs
        assert transposed_as_conv(graph, {graph.outputs[0].name}).nodes == graph.nodes


def network(ci, co, pads=(1, 1, 1, 1)):
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w", "c"], ["a"], pads=pads),
         helper.make_node("Relu", ["a"], ["y"])],
        "g",
        [tensor("x", TensorProto.FLOAT, ["b", ci, "h", "w"])],
        [tensor("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(numbers(co, ci, 3, 3) / 12, "w"),
         numpy_helper.from_array(numbers(co), "c")],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.mark.parametrize("low", [4, 9, 17])
@pytest.mark.parametrize("pads", [(1, 1, 1, 1), (0, 0, 0, 0), (2, 0, 1, 2)])
@pytest.mark.parametrize("threads", [1, 2])
def test_open_images_run_by_blocks_of_squares(low, pads, threads):
    proto, d = network(16, 33, pads), whet.dynamic
    ranges = {"b": d(1, 3), "h": d(low, 50), "w": d(low, 47)}
    model = whet.compile(proto, ranges, f"llvm -num_threads={threads}", cache=False)
    (conv,) = (g for g in model.groups if g.name.startswith("conv"))
    assert conv.how.startswith("blocks of 16, "), conv
    exact = ReferenceEvaluator(proto)
    for b, h, w in ((1, low, low), (3, 50, 47), (2, low + 1, 46), (1, 21, low), (3, 19, 22)):
        x = numbers(b, 16, h, w)
        (wanted,) = exact.run(None, {"x": x})
        out = np.full(wanted.shape, np.nan, "float32")
        model.run([x], [out])
        np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max())
        assert sum(c.flop > 0 for c in model.calls_at(b=b, h=h, w=w)) >= 1
