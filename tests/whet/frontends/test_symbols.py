"""Sizes that stay symbols: one model for all sizes of a range."""

import threading
import warnings

import click
import numpy as np
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

import whet
from whet.autotune.models.untuned import shape_words
from whet.commands.bench import command as bench
from whet.commands.words import shapes_of
from whet.compiler import driver
from whet.compiler.abi.extent import evaluate
from whet.compiler.errors import ArgumentError, TargetError, WhetError

TARGET = "llvm -num_threads=2"
WIDTH = 24


def made(nodes, arrays, shape, dtype=TensorProto.FLOAT, outputs=("y",)):
    """A model of one input x."""
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node(*n[:3], **dict(n[3:])) for n in nodes],
        "g",
        [tensor("x", dtype, shape)],
        [tensor(o, dtype, None) for o in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def drawn(*shape, dtype="float32", seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def attention(dtype="float32"):
    """Attention with one head and a table of places; and what numpy makes of it in float64."""
    w, table = drawn(WIDTH, WIDTH, dtype=dtype), drawn(70, WIDTH, dtype=dtype, seed=2)
    nodes = [
        ("Shape", ["x"], ["sizes"]),
        ("Gather", ["sizes", "one"], ["length"]),
        ("Slice", ["table", "zero", "length", "zero"], ["places"]),
        ("Add", ["x", "places"], ["h"]),
        ("Transpose", ["h"], ["t"], ("perm", [0, 2, 1])),
        ("MatMul", ["h", "t"], ["scores"]),
        ("Softmax", ["scores"], ["p"]),
        ("MatMul", ["p", "h"], ["u"]),
        ("MatMul", ["u", "w"], ["y"]),
    ]
    arrays = {"w": w, "table": table, "one": np.array([1]), "zero": np.array([0])}
    kind = TensorProto.FLOAT if dtype == "float32" else TensorProto.DOUBLE
    model = made(nodes, arrays, ["batch", "length", WIDTH], kind)

    def exact(x):
        h = x.astype("float64") + table[: x.shape[1]]
        scores = h @ h.transpose(0, 2, 1)
        p = np.exp(scores - scores.max(-1, keepdims=True))
        return p / p.sum(-1, keepdims=True) @ h @ w.astype("float64")

    return model, exact


@pytest.fixture(scope="module")
def model():
    """Of two symbols."""
    shapes = {"batch": whet.dynamic(1, 5), "length": whet.dynamic(1, 70)}
    return whet.compile(attention()[0], shapes, TARGET, cache=False)


def test_a_range_from_1_to_2():
    model = whet.compile(attention()[0], {"batch": whet.dynamic(1, 2), "length": 3}, TARGET)
    for batch in (1, 2):
        x = drawn(batch, 3, WIDTH)
        np.testing.assert_allclose(model(x), attention()[1](x), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("low, high", [(1, 2), (1, 3), (1, 4), (2, 3)])
def test_short_ranges_and_a_length_that_is_a_square(low, high):
    nodes = [
        ("Reshape", ["x", "flat"], ["f"]),
        ("ReduceSum", ["x", "zero"], ["r"], ("keepdims", 0)),
        ("Concat", ["f", "r"], ["y"], ("axis", 0)),
    ]
    arrays = {"flat": np.array([-1]), "zero": np.array([0])}
    square = made(nodes, arrays, ["n", "n"])
    model = whet.compile(square, {"n": whet.dynamic(low, high)}, TARGET, cache=False)
    for n in range(low, high + 1):
        x = drawn(n, n)
        np.testing.assert_allclose(model(x), [*x.reshape(-1), *x.sum(0)], rtol=1e-5, atol=1e-5)


def test_what_a_model_does_beyond_a_short_range_does_not_count():
    nodes = [("Slice", ["x", "zero", "two", "zero"], ["s"]), ("Relu", ["s"], ["y"])]
    arrays = {"zero": np.array([0]), "two": np.array([2])}
    model = whet.compile(
        made(nodes, arrays, ["n", 6]), {"n": whet.dynamic(1, 2)}, TARGET, cache=False
    )
    for n in (1, 2):
        np.testing.assert_array_equal(model(drawn(n, 6)), np.maximum(drawn(n, 6), 0))
    table = made([("Shape", ["x"], ["s"], ("end", 1)), ("Slice", ["t", "zero", "s"], ["p"]),
                  ("Add", ["x", "p"], ["y"])], {"t": drawn(9, 6), "zero": np.array([0])},
                 ["n", 6])  # fmt: skip
    model = whet.compile(table, {"n": whet.dynamic(1, 2)}, TARGET, cache=False)
    for n in (1, 2):
        np.testing.assert_array_equal(model(drawn(n, 6)), drawn(n, 6) + drawn(9, 6)[:n])


SIZES = [(1, 1), (1, 70), (5, 1), (2, 7), (3, 16), (5, 70), (4, 33)]


@pytest.mark.parametrize("batch, length", SIZES)
def test_any_size_in_the_ranges(model, batch, length):
    exact = attention()[1]
    x = drawn(batch, length, WIDTH, seed=batch * length)
    model._memory[:] = 255
    out = np.full(x.shape, np.nan, "float32")
    model.run([x], [out])
    for found in (out, model(x), model(x=x)):
        np.testing.assert_allclose(found, exact(x), rtol=1e-3, atol=1e-3)
    assert model.sizes(x) == {"batch": batch, "length": length}


def test_a_call_compiles_nothing(model, monkeypatch):
    monkeypatch.setattr(driver, "build", None)
    monkeypatch.setattr(driver, "compile_module", None)
    x = drawn(4, 50, WIDTH)
    np.testing.assert_allclose(model(x), attention()[1](x), rtol=1e-3, atol=1e-3)


def test_what_each_group_does_is_said(model):
    how = {g.name: g.how for g in model.groups}
    assert "matmul" in how
    assert any(h.startswith("blocks of") for h in how.values())
    assert any(h == "a kernel for any batch, length: it has no rows" for h in how.values())


def test_float64():
    graph, exact = attention("float64")
    shapes = {"batch": 1, "length": whet.dynamic(3, 70)}
    model = whet.compile(graph, shapes, TARGET, cache=False)
    for length in (3, 16, 70):
        x = drawn(1, length, WIDTH, dtype="float64")
        np.testing.assert_allclose(model(x), exact(x), rtol=1e-10, atol=1e-10)
    with pytest.raises(ArgumentError, match=r"length=2.*from 3 to 70"):
        model(drawn(1, 2, WIDTH, dtype="float64"))


def test_sizes_outside_are_errors(model):
    for shape, why in (
        ((6, 3, WIDTH), "batch=6: the model is for batch from 1 to 5, and a call compiles nothing"),
        ((1, 71, WIDTH), "length=71: the model is for length from 1 to 70"),
        ((0, 7, WIDTH), "batch=0"),
        ((1, 7, WIDTH + 1), "the array is"),
        ((7, WIDTH), "the model is for|the array is"),
        ((), "the array is"),
    ):
        x = drawn(*shape)
        for call in (lambda x=x: model(x), lambda x=x: model.run([x], [x])):
            with pytest.raises(ArgumentError, match=why):
                call()
    with pytest.raises(WhetError, match="shape"):
        model.run([drawn(2, 3, WIDTH)], [drawn(2, 4, WIDTH)])
    with pytest.raises(ArgumentError, match="float64"):
        model(drawn(2, 3, WIDTH, dtype="float64"))


def test_inputs_that_share_a_symbol_have_one_size():
    size = whet.dynamic(1, 9)
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["y"])],
        "g",
        [tensor(n, TensorProto.FLOAT, [None, 3]) for n in "ab"],
        [tensor("y", TensorProto.FLOAT, None)],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    model = whet.compile(made, {"a": (size, 3), "b": (size, 3)}, TARGET, cache=False)
    a, b = drawn(9, 3), drawn(9, 3, seed=2)
    np.testing.assert_array_equal(model(a, b), a + b)
    with pytest.raises(ArgumentError, match=r"dimension 0 is 'a\[0\]', and is 1: another one is 9"):
        model(a, b[:1])


TABLE = drawn(6, 40, seed=5)
MOVING = {  # rows that depend on others, or on their number
    "Trilu": ([("Trilu", ["x"], ["y"])], np.triu),
    "Mean": ([("ReduceMean", ["x", "zeros"], ["y"], ("keepdims", 0))], lambda x: x.mean(0)),
    "First": ([("Slice", ["x", "ones", "far", "zeros"], ["y"])], lambda x: x[1:]),
    "Twice": ([("Concat", ["x", "x"], ["y"], ("axis", 0))], lambda x: np.concatenate([x, x])),
    "Product": (
        [("Transpose", ["x"], ["t"]), ("MatMul", ["t", "x"], ["y"])],
        lambda x: x.T @ x,
    ),
    "Table": (
        [("Shape", ["x"], ["s"], ("end", 1)), ("Slice", ["table", "zeros", "s", "ones"], ["part"]),
         ("Transpose", ["part"], ["t"]), ("Add", ["x", "t"], ["y"])],
        lambda x: x + TABLE[:, : len(x)].T,
    ),
    "Shape": ([("Shape", ["x"], ["s"]), ("Expand", ["row", "s"], ["y"])],
              lambda x: np.broadcast_to(np.arange(6, dtype="float32"), x.shape)),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVING)
def test_what_moves_rows(name):
    nodes, exact = MOVING[name]
    arrays = {"zeros": np.array([0]), "ones": np.array([1]),
              "far": np.array([1 << 62]), "row": np.arange(6, dtype="float32"),
              "table": TABLE}  # fmt: skip
    model = whet.compile(made(nodes, arrays, ["n", 6]), {"n": whet.dynamic(2, 40)}, TARGET)
    for n in (2, 3, 17, 40):
        x = drawn(n, 6)
        found = model(x)
        assert found.shape == exact(x).shape
        np.testing.assert_allclose(found, exact(x), rtol=1e-4, atol=1e-4)


REFUSED = {
    "a part that one row does not have": (
        [("Slice", ["x", "zeros", "two", "zeros"], ["y"])], "at n=40 and at n=2 .* not the same"
    ),
    "an operator that needs numbers": (
        [("TopK", ["x", "two", ], ["y", "i"], ("axis", 0))],
        r"a kernel for any n of: .*TopK .*not a constant", 2,
    ),
    "a constant that depends on it": (
        [
            ("Shape", ["x"], ["s"], ("end", 1)), ("Cast", ["s"], ["f"], ("to", TensorProto.FLOAT)),
            ("Div", ["x", "f"], ["y"]),
        ],
        "constant .* has other elements at n=",
    ),
    "another graph": (
        [
            ("Shape", ["x"], ["s"], ("end", 1)), ("Cast", ["s"], ["f"], ("to", TensorProto.FLOAT)),
            ("Less", ["s", "nine"], ["few"]), ("Squeeze", ["few"], ["is"]),
            ("If", ["is"], ["y"],
             ("then_branch", helper.make_graph([helper.make_node("Relu", ["x"], ["a"])], "t", [],
              [helper.make_tensor_value_info("a", TensorProto.FLOAT, None)])),
             ("else_branch", helper.make_graph([helper.make_node("Tanh", ["x"], ["b"])], "e", [],
              [helper.make_tensor_value_info("b", TensorProto.FLOAT, None)]))),
        ],
        "the model is not the same.*(Relu|Tanh)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_one_model_is_refused(name):
    nodes, why, *low = REFUSED[name]
    arrays = {"zeros": np.array([0]), "two": np.array([2]), "nine": np.array([9])}
    with pytest.raises(ArgumentError, match=why):
        whet.compile(made(nodes, arrays, ["n", 6]), {"n": whet.dynamic(*low or [1], 40)}, TARGET)


def test_ranges_and_places_where_none_may_be(model):
    for bounds in ((0, 3), (4, 3), (1, True), (1.5, 3)):
        with pytest.raises(ArgumentError, match="dynamic"):
            whet.dynamic(*bounds)
    graph, size = attention()[0], whet.dynamic(1, 3)
    with pytest.raises(ArgumentError, match="a size of a bucket is a number"):
        whet.compile(graph, [{"batch": size, "length": 3}])
    with pytest.raises(ArgumentError, match="a graph has numbers for all sizes"):
        whet.from_onnx(graph, {"batch": size, "length": 3})
    with pytest.raises(ArgumentError, match="a graph has its sizes"):
        whet.compile(whet.from_onnx(graph, {"batch": 1, "length": 3}), {"batch": size})
    with pytest.raises(ArgumentError, match="no input and no dimension"):
        whet.compile(graph, {"batches": size, "batch": 1, "length": 3})
    with pytest.raises(TargetError, match="sizes stay symbols in models for llvm and cuda"):
        whet.compile(graph, {"batch": size, "length": 3}, "c")
    for calls in ({"batch": 1}, {"batch": 1, "length": 1, "more": 1}):
        with pytest.raises(ArgumentError, match="symbols are batch, length\n  calls_at"):
            model.calls_at(**calls)
    with pytest.raises(ArgumentError, match="the model is for batch from"):
        model.calls_at(batch=1 << 20, length=1)
    with pytest.raises(ArgumentError, match=r"length=4\.0\): a size is an int"):
        model.calls_at(batch=1, length=4.0)


def test_kernels_one_by_one(model):
    """The values between kernels, and their times, at any sizes: what the function computes."""
    exact = attention()[1]
    for batch, length in ((1, 1), (3, 7), (2, 41)):
        x = drawn(batch, length, WIDTH, seed=length)
        found = model.dump(x)
        assert {name for g in model.groups for name in g.outputs} == found.keys()
        (out,) = (v.name for v in model.outputs)
        assert found[out].tobytes() == model(x).tobytes()
        np.testing.assert_allclose(found[out], exact(x), rtol=1e-3, atol=1e-3)
        shapes = {name: s for g in model.groups for name, s in zip(g.outputs, g.shapes)}
        for name, array in found.items():
            assert array.shape == tuple(evaluate(d, model.sizes(x)) for d in shapes[name])
        timed = model.profile(x, rounds=2)
        assert tuple(c for c, _ in timed) == model.calls_at(batch=batch, length=length)
        assert all(0 < seconds < 10 for _, seconds in timed)
        assert {c.kernel for c, _ in timed} <= {k for g in model.groups for k in g.kernels}
        assert all(c.moved > 0 for c, _ in timed)
    few, many = (model.calls_at(batch=1, length=n) for n in (1, 41))
    assert sum(c.flop for c in few) < sum(c.flop for c in many)


def test_threads_call_one_model_with_different_sizes(model):
    exact, failed = attention()[1], []

    def call(seed):
        for length in (3 + seed, 41, 1):
            x = drawn(1 + seed, length, WIDTH, seed=seed)
            if not np.allclose(model(x), exact(x), rtol=1e-3, atol=1e-3):
                failed.append((seed, length))

    threads = [threading.Thread(target=call, args=(k,)) for k in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed


def test_a_program_of_pytorch_keeps_its_open_sizes():
    torch = pytest.importorskip("torch")

    class Small(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(6, 5)

        def forward(self, x, bias):
            return torch.softmax(self.inner(x).reshape(-1, 5), 0) + bias

    module, dim = Small().eval(), torch.export.Dim("batch", min=2, max=12)
    inputs = torch.zeros(3, 4, 6), torch.zeros(12, 5)
    program = torch.export.export(module, inputs, dynamic_shapes=({0: dim}, {0: 4 * dim}))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", category=FutureWarning)
        model = whet.compile(program, target=TARGET, cache=False)
    assert {n: (r.low, r.high) for n, r in model.ranges.items()} == {"batch": (2, 12)}
    for n in (2, 7, 12):
        x, bias = torch.randn(n, 4, 6), torch.randn(4 * n, 5)
        wanted = module(x, bias).detach().numpy()
        np.testing.assert_allclose(model(x, bias), wanted, rtol=1e-4, atol=1e-5)
    with pytest.raises(ArgumentError, match="from 2 to 12"):
        model(torch.randn(13, 4, 6), bias)
    with pytest.raises(ArgumentError, match=r"the input %bias: float32\[48, 5\]"):
        model(x, bias[:-1])


def test_commands_take_ranges(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(attention()[0].SerializeToString())
    shapes = shapes_of(("batch=1..5", "length=7"))
    assert repr(shapes) == "{'batch': whet.dynamic(1, 5), 'length': 7}"
    assert shape_words(shapes) == ["--shape", "batch=1..5", "--shape", "length=7"]
    rows = {t.args[-1] for t, _ in whet.model_tasks(path, shapes, TARGET)}
    assert rows
    words = ["--shape", "batch=1..5", "--shape", "length=7", "--at", "batch=2", "--rounds", "2"]
    found = CliRunner().invoke(bench, [str(path), *words, "--target", TARGET])
    assert found.exit_code == 0, found.output
    assert "default, any size" in found.output
    with pytest.raises(click.UsageError, match=r"batch=1\.\.64"):
        shapes_of(["batch=1...4"])
