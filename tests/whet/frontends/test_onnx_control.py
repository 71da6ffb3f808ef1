"""Branches, loops and sequences of tensors, unrolled at import; NaN."""

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from test_onnx_import import FLOAT, info, model

from whet.compiler.errors import ArgumentError
from whet.frontends.compile import compile
from whet.frontends.onnx import from_onnx

TARGET = "llvm -num_threads=2"
BOOL, INT64 = TensorProto.BOOL, TensorProto.INT64
node = helper.make_node


def body(nodes, inputs, outputs):
    return helper.make_graph(nodes, "body", inputs, outputs)


def same(made, *arrays, known=()):
    """Assert that a model gives what the reference implementation does."""
    given = dict(zip((i.name for i in made.graph.input), arrays))
    wanted = ReferenceEvaluator(made).run(None, given)
    whole = compile(from_onnx(made, constants={k: given[k] for k in known}), target=TARGET)
    found = whole(**{v.name: given[v.name] for v in whole.inputs})
    for one, want in zip(found if isinstance(found, tuple) else (found,), wanted):
        np.testing.assert_allclose(one, want, rtol=1e-5, atol=5e-6)


def branches(*shapes):
    then = body([node("Mul", ["x", "two"], ["a"])], [], [info("a", shapes[0])])
    other = body([node("Sub", ["x", "two"], ["b"])], [], [info("b", shapes[0])])
    if len(shapes) > 1:
        other = body([node("Flatten", ["x"], ["b"], axis=0)], [], [info("b", shapes[1])])
    chosen = node("If", ["c"], ["y"], then_branch=then, else_branch=other)
    inputs = [info("x", (2, 3)), info("c", (), BOOL)]
    return model([chosen], inputs, [info("y", None)], {"two": np.float32(2).reshape(())})


@pytest.mark.parametrize("condition", [True, False])
def test_branches(condition):
    x, c = np.arange(6, dtype="float32").reshape(2, 3), np.asarray(condition)
    same(branches((2, 3)), x, c)
    same(branches((2, 3)), x, c, known=["c"])
    same(branches((2, 3), (1, 6)), x, c, known=["c"])
    assert len(from_onnx(branches((2, 3)), constants={"c": c}).nodes) == 1
    with pytest.raises(ArgumentError, match="its branches give other types"):
        from_onnx(branches((2, 3), (1, 6)))


def looped(stops):
    """A sum that doubles, rows of it, and what is outside: ``stops`` after so many turns."""
    nodes = [
        node("Add", ["sum", "x"], ["more"]),
        node("Add", ["more", "sum"], ["next"]),
        node("Less", ["i", "last"], ["goes_on"]),
        node("Mul", ["next", "x"], ["row"]),
    ]
    one = body(
        nodes,
        [info("i", (), INT64), info("c", (), BOOL), info("sum", (3,))],
        [info("goes_on", (), BOOL), info("next", (3,)), info("row", (3,))],
    )
    loop = node("Loop", ["m", "true", "x"], ["y", "rows"], body=one)
    inputs = [info("x", (3,)), info("m", (), INT64)]
    constants = {"last": np.asarray(stops, "int64"), "true": np.asarray(True)}
    return model([loop], inputs, [info("y", None), info("rows", None)], constants)


def test_loops():
    x = np.float32([1, -2, 3])
    for turns, last in ((4, 99), (1, 99), (9, 2)):
        same(looped(last), x, np.int64(turns), known=["m"])
    with pytest.raises(ArgumentError, match="shapes would depend on data"):
        from_onnx(looped(9))
    with pytest.raises(ArgumentError, match="unrolled it would be more than"):
        from_onnx(looped(10**9), constants={"m": np.int64(10**6)})
    with pytest.raises(ArgumentError, match="it runs no time"):
        from_onnx(looped(9), constants={"m": np.int64(0)})
    depends = body(
        [node("ReduceMax", ["v"], ["top"], keepdims=0), node("Less", ["top", "nine"], ["d"]),
         node("Add", ["v", "v"], ["w"])],
        [info("i", (), INT64), info("c", (), BOOL), info("v", (3,))],
        [info("d", (), BOOL), info("w", (3,))],
    )  # fmt: skip
    made = model(
        [node("Loop", ["", "", "x"], ["y"], body=depends)], [info("x", (3,))],
        [info("y", None)], {"nine": np.float32(9).reshape(())},
    )  # fmt: skip
    with pytest.raises(ArgumentError, match="how often it runs is computed when the model runs"):
        from_onnx(made)


def test_scans_in_both_directions():
    one = body(
        [node("Add", ["s", "a"], ["t"]), node("Mul", ["t", "b"], ["u"])],
        [info("s", (2,)), info("a", (2,)), info("b", (2,))],
        [info("t", (2,)), info("u", (2,))],
    )
    scan = node(
        "Scan", ["s0", "a", "b"], ["s", "u"], body=one, num_scan_inputs=2,
        scan_input_directions=[1, 0], scan_input_axes=[1, 0], scan_output_axes=[1],
        scan_output_directions=[1],
    )  # fmt: skip
    inputs = [info("s0", (2,)), info("a", (2, 4)), info("b", (4, 2))]
    made = model([scan], inputs, [info("s", None), info("u", None)])
    rng = np.random.default_rng()
    s, a, b = (rng.standard_normal(n).astype("float32") for n in (2, (2, 4), (4, 2)))
    found = compile(made, target=TARGET)(s, a, b)
    rows = []
    for k in range(4):
        s = s + a[:, 3 - k]
        rows.append(s * b[k])
    np.testing.assert_allclose(found[0], s, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[1], np.stack(rows[::-1], 1), rtol=1e-5, atol=1e-6)


def test_sequences():
    nodes = [
        node("SplitToSequence", ["x", "two"], ["parts"], axis=0),
        node("SequenceInsert", ["parts", "z", "at"], ["more"]),
        node("SequenceErase", ["more", "at2"], ["less"]),
        node("SequenceAt", ["less", "minus"], ["last"]),
        node("ConcatFromSequence", ["less"], ["all"], axis=0),
        node("SequenceLength", ["less"], ["n"]),
    ]
    constants = {"two": 2, "at": -1, "at2": 0, "minus": -1}
    constants = {k: np.asarray(v, "int64") for k, v in constants.items()}
    made = model(
        nodes, [info("x", (5, 3)), info("z", (4, 3))],
        [info("last", None), info("all", None), info("n", None, INT64)], constants,
    )  # fmt: skip
    x, z = np.arange(15, dtype="float32").reshape(5, 3), -np.ones((4, 3), "float32")
    found = compile(made, target=TARGET)(x, z)
    np.testing.assert_array_equal(found[0], x[4:])
    np.testing.assert_array_equal(found[1], np.concatenate([x[2:4], z, x[4:]]))
    assert int(found[2]) == 3
    whole = helper.make_tensor_sequence_value_info("s", FLOAT, None)
    made = model([node("SequenceConstruct", ["x"], ["s"])], [info("x", (2,))], [whole])
    with pytest.raises(ArgumentError, match="an output of the model is a sequence"):
        from_onnx(made)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nan_stays(dtype):
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [
        node("Relu", ["x"], ["relu"]),
        node("Clip", ["x", "low", "high"], ["clip"]),
        node("Max", ["x", "z"], ["max"]),
        node("Min", ["z", "x"], ["min"]),
    ]
    names = ["relu", "clip", "max", "min"]
    constants = {"low": np.asarray(-0.5, dtype), "high": np.asarray(0.5, dtype)}
    made = model(
        nodes, [info(n, (67,), kind) for n in "xz"], [info(n, None, kind) for n in names],
        constants,
    )  # fmt: skip
    rng = np.random.default_rng()
    x, z = (np.where(rng.random(67) < 0.3, np.nan, rng.standard_normal(67)) for _ in "xz")
    x, z = x.astype(dtype), z.astype(dtype)
    wanted = [np.maximum(x, 0), np.clip(x, -0.5, 0.5), np.maximum(x, z), np.minimum(x, z)]
    for one, want in zip(compile(made, target=TARGET)(x, z), wanted):
        np.testing.assert_array_equal(one, want)


def test_a_rectifier_is_one_instruction():
    from whet.compiler import te, topi
    from whet.compiler.driver import build

    x = te.placeholder((64,), name="x")
    y = topi.clip(topi.nn.relu(x), -1.0, 6.0)
    s = te.create_schedule(y.op)
    s[y.op.input_tensors[0]].compute_inline()
    s[y].vectorize(y.op.axis[0])
    text = build(s, [x, y], "llvm -mcpu=x86-64-v3").get_source("asm")
    assert "vmaxps" in text and "vminps" in text
    assert "vcmp" not in text and "vblendv" not in text and "vandps" not in text


def test_what_is_read_at_places_that_are_data(seeds):
    """Random grids, offsets, windows and transforms beside the reference implementation."""
    for seed in seeds(3):
        rng = np.random.default_rng(seed)

        def drawn(*shape, rng=rng):
            return rng.standard_normal(shape).astype("float32")

        h, w = (int(n) for n in rng.integers(2, 7, 2))
        mode = str(rng.choice(["linear", "nearest", "cubic"]))
        # Cubic at borders: the reference takes the weights of the place that was brought in;
        # PyTorch and onnxruntime those of the place outside, and so does whet.
        paddings = ["zeros", "reflection"] + ["border"] * (mode != "cubic")
        padding = str(rng.choice(paddings))
        how = {"mode": mode, "padding_mode": padding, "align_corners": int(rng.integers(2))}
        x, grid = drawn(2, 3, h, w), drawn(2, 4, 5, 2)
        inputs = [info("x", x.shape), info("g", grid.shape)]
        same(model([node("GridSample", ["x", "g"], ["y"], **how)], inputs, [info("y", None)]),
             x, grid)  # fmt: skip

        length, parts = int(rng.integers(3, 12)), int(rng.integers(1, 3))
        signal, inverse = drawn(2, length, 3, parts), int(rng.integers(2)) if parts == 2 else 0
        size = length + int(rng.integers(-2, 3))
        made = model(
            [node("DFT", ["x", "n", "a"], ["y"], inverse=inverse)], [info("x", signal.shape)],
            [info("y", None)], {"n": np.int64(size).reshape(()), "a": np.int64(1).reshape(())},
        )  # fmt: skip
        same(made, signal)

        kernel = [int(k) for k in rng.integers(1, 4, 2)]
        order = int(rng.integers(2))
        pool = node("MaxPool", ["x"], ["y", "i"], kernel_shape=kernel, storage_order=order)
        x = drawn(2, 3, 5, 6)
        made = model([pool], [info("x", x.shape)], [info("y", None), info("i", None, INT64)])
        values, places = compile(made, target=TARGET)(x)
        flat = x.transpose(0, 1, 3, 2).reshape(-1) if order else x.reshape(-1)
        np.testing.assert_array_equal(flat[places], values)


def test_dilated_transposed_convolutions():
    rng = np.random.default_rng()
    x, w = (rng.standard_normal(s).astype("float32") for s in ((1, 4, 3, 4), (4, 2, 3, 2)))
    conv = node(
        "ConvTranspose", ["x", "w"], ["y"], dilations=[2, 3], strides=[2, 1], group=2,
        pads=[1, 0, 2, 1],
    )  # fmt: skip
    made = model([conv], [info("x", x.shape)], [info("y", None)], {"w": w})
    wanted = np.zeros((1, 4, 2 * 2 + 2 * 2 + 1, 3 + 3 + 1))
    for i, j in np.ndindex(3, 4):
        for u, v in np.ndindex(3, 2):
            for g in range(2):
                part = x[:, 2 * g : 2 * g + 2, i, j] @ w[2 * g : 2 * g + 2, :, u, v]
                wanted[:, 2 * g : 2 * g + 2, 2 * i + 2 * u, j + 3 * v] += part
    found = compile(made, target=TARGET)(x)
    np.testing.assert_allclose(found, wanted[:, :, 1:-2, :-1], rtol=1e-4, atol=1e-4)
