"""What models with symbols say: refusals, ways out, and what they are."""

import warnings

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

import whet
from whet.cli import main
from whet.commands.package import command as package
from whet.commands.show import command as show
from whet.compiler.abi.extent import Operation, Symbol
from whet.compiler.errors import ArgumentError, ArtifactError, OutOfMemoryError
from whet.compiler.graph.symbolic.sizes import Dynamic, most_elements
from whet.db.apply import UntunedWarning

TARGET = "llvm -num_threads=2"


def made(nodes, arrays, shape):
    """A model of one input x and one output y."""
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node(*n[:3], **dict(n[3:])) for n in nodes],
        "g",
        [tensor("x", TensorProto.FLOAT, shape)],
        [tensor("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def ones(*shape):
    return np.ones(shape, "float32")


DENSE = made([("MatMul", ["x", "w"], ["y"])], {"w": ones(6, 3)}, ["n", 6])
DEEP = made([("Relu", ["x"], ["h"]), ("MatMul", ["h", "w"], ["y"])], {"w": ones(6, 3)}, ["n", 6])
SUMS = made([("Trilu", ["x"], ["u"]), ("MatMul", ["u", "w"], ["y"])], {"w": ones(6, 3)}, ["n", 6])


@pytest.fixture(scope="module")
def model():
    return whet.compile(DENSE, {"n": whet.dynamic(2, 9)}, TARGET, cache=False)


def test_what_it_is_and_what_it_has_not(model):
    assert repr(model) == "<whet model: x: float32[n, 6] -> y: float32[n, 3]; n from 2 to 9>"
    for name in ("calls", "launches"):
        with pytest.raises(
            ArgumentError, match=rf"(?s){name}: n of .*symbols.*groups.*calls_at\(n=9\)"
        ):
            getattr(model, name)
        assert not hasattr(model, name)
    with pytest.raises(AttributeError, match="nothing"):
        _ = model.nothing


def test_calls_that_do_not_fit_have_a_way_out(model):
    fixed = whet.compile(DENSE, {"n": 4}, TARGET, cache=False)
    assert repr(fixed) == "<whet model: x: float32[4, 6] -> y: float32[4, 3]>"
    for own in (model, fixed):
        for call in (lambda m: m(), lambda m: m(z=1), lambda m: m(ones(4, 6), z=1)):
            with pytest.raises(ArgumentError, match=r"\n  .*model\(x\)"):
                call(own)
    with pytest.raises(ArgumentError, match=r"\n  x.astype\('float32'\)"):
        fixed(np.ones((4, 6)))
    with pytest.raises(ArgumentError, match=r"\n  .*shapes="):
        fixed(ones(5, 6))
    with pytest.raises(ArgumentError, match=r"shape \[4\], the input x: float32\[n, 6\]\n"):
        model(ones(4))
    with pytest.raises(ArgumentError, match=r"n=0: .*\n  no range has 0"):
        model(ones(0, 6))
    with pytest.raises(ArgumentError) as found:
        model(ones(10, 6))
    assert str(found.value).count("compiles nothing") == 1
    with pytest.raises(ArtifactError, match=r"more=\[model\]"):
        fixed.export("unwritten.whet", more=fixed)


def test_a_range_of_one_size_is_a_number():
    assert whet.dynamic(4, 4) == 4
    found = whet.compile(DENSE, {"n": whet.dynamic(4, 4)}, TARGET, cache=False)
    assert len(found.calls) == 1
    np.testing.assert_array_equal(found(ones(4, 6)), 6 * ones(4, 3))


@pytest.mark.parametrize(
    ("shapes", "instead"),
    [
        ({"b": [1, 2], "n": whet.dynamic(1, 4)}, (1, 2)),
        ({"b": (1, 2), "n": whet.dynamic(1, 4)}, (1, 2)),
        ({"b": (1, whet.dynamic(4, 8)), "n": 3}, (1, 8)),
        ({"b": [whet.dynamic(4, 8)], "n": 3}, (4, 8)),
    ],
)
def test_several_sizes_beside_a_range(shapes, instead):
    graph = made([("Relu", ["x"], ["y"])], {}, ["b", "n"])
    why = rf"compiled by itself, .*\n  shapes={{'b': whet.dynamic\({instead[0]}, {instead[1]}\)}}"
    with pytest.raises(ArgumentError, match=why):
        whet.compile(graph, shapes)


def test_a_number_is_the_shape_of_a_vector():
    graph = made([("Relu", ["x"], ["y"])], {}, ["n"])
    assert whet.compile(graph, {"x": 4}, TARGET, cache=False).inputs[0].shape == (4,)
    model = whet.compile(graph, {"x": whet.dynamic(1, 4)}, TARGET, cache=False)
    np.testing.assert_array_equal(model(-ones(3)), 0 * ones(3))


def test_shapes_that_came_before_are_checked_no_less(model, monkeypatch):
    from whet.compiler.graph.symbolic import model as of_symbols

    monkeypatch.setattr(of_symbols, "_MOST_KNOWN", 3)
    rng = np.random.default_rng(3)
    for n in (4, 4, 2, 9, 3, 4, 9, 9, 5, 2):
        x = rng.standard_normal((n, 6)).astype("float32")
        out = np.full((n, 3), np.nan, "float32")
        model.run([x], [out])
        np.testing.assert_allclose(out, x @ ones(6, 3), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(model(x), out)
        np.testing.assert_array_equal(model(x=np.asfortranarray(x)), out)
        model.sizes(x)["n"] = 7
        assert model.sizes(x) == {"n": n}
        for wrong, why in ((x.astype("float64"), "float64"), (ones(10, 6), "from 2 to 9")):
            with pytest.raises(ArgumentError, match=why):
                model(wrong)
        with pytest.raises(ArgumentError, match=r"shape\[0\]"):
            model.run([x], [ones(n - 1, 3)])


NO_RANGE = {
    "LSTM": (
        [("LSTM", ["x", "w", "r"], ["y"], ("hidden_size", 4))],
        {"w": ones(1, 16, 3), "r": ones(1, 16, 4)}, ["n", 2, 3],
    ),
    "Resize": (
        [("Resize", ["x", "", "s"], ["y"], ("coordinate_transformation_mode", "align_corners"))],
        {"s": np.array([1, 1, 3], "float32")}, [1, 2, "n"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_RANGE)
@pytest.mark.parametrize("low", [3, 11])
def test_where_no_range_helps(name, low):
    with pytest.raises(ArgumentError) as found:
        whet.compile(made(*NO_RANGE[name]), {"n": whet.dynamic(low, 12)}, TARGET, cache=False)
    said = str(found.value)
    assert said.count(name) == 1
    assert "no narrower range helps\n  buckets, a model for each size: shapes={'n': [" in said


def test_a_narrower_range_where_it_helps():
    graph = made([("Slice", ["x", "a", "b"], ["y"])], {"a": np.array([0]), "b": np.array([2])},
                 ["n", 6])  # fmt: skip
    with pytest.raises(ArgumentError, match="\n  a narrower range; or buckets"):
        whet.compile(graph, {"n": whet.dynamic(1, 40)}, TARGET, cache=False)
    assert whet.compile(graph, {"n": whet.dynamic(39, 40)}, TARGET, cache=False).ranges


def test_sizes_below_which_there_is_no_model():
    graph = made([("Conv", ["x", "w"], ["y"])], {"w": ones(4, 3, 5)}, ["b", 3, "n"])
    sizes = {"b": whet.dynamic(1, 3), "n": whet.dynamic(1, 40)}
    why = r"(?s)at b=\d, n=\d: .*window is larger .*Conv \(y\)\n  a range from 5 on"
    with pytest.raises(ArgumentError, match=why):
        whet.compile(graph, sizes, TARGET, cache=False)
    assert whet.from_onnx(graph, {"b": 1, "n": 5})
    with pytest.raises(ArgumentError, match="window is larger"):
        whet.from_onnx(graph, {"b": 1, "n": 4})
    assert whet.compile(graph, {**sizes, "n": whet.dynamic(5, 40)}, TARGET, cache=False).ranges


@pytest.mark.parametrize("graph", [DEEP, SUMS])
def test_ranges_that_no_memory_holds(graph):
    with pytest.raises(OutOfMemoryError, match=r"[\d,]{15,} bytes, (?s:.*)\n  ranges that end at"):
        whet.compile(graph, {"n": whet.dynamic(1, 10**15)}, TARGET, cache=False)


def test_the_most_elements_of_sizes_that_are_subtracted():
    n, ranges = Symbol("n"), {"n": Dynamic(1, 30)}
    humped = Operation("*", n, Operation("-", 21, n))
    assert most_elements((humped, 2), ranges) == 2 * 10 * 11
    assert most_elements((Operation("-", n, 4), 3), {"n": Dynamic(5, 10**12)}) == 3 * (10**12 - 4)


def test_commands(tmp_path, monkeypatch):
    path = tmp_path / "model.onnx"
    path.write_bytes(SUMS.SerializeToString())
    words = [str(path), "--shape", "n=2..9", "--target", TARGET]
    monkeypatch.chdir(tmp_path)  # where no whet.db is
    found = CliRunner().invoke(show, words)
    assert found.exit_code == 0, found.output
    assert "a kernel for any n" in found.output and "not tuned" in found.output
    assert "n from 2 to 9" in found.output
    assert CliRunner().invoke(show, [*words, "--measure"]).exit_code == 2
    given = [str(path), "--shape", "n=0", "-o", str(tmp_path / "m.whet")]
    found = CliRunner().invoke(package, given)
    assert found.exit_code == 2 and "has a size of 0" in found.output


def test_tune_counts_the_groups_that_no_task_is_of(tmp_path, capsys):
    """Sums along the symbol have no rows; the product behind them has."""
    file = tmp_path / "m.onnx"
    file.write_bytes(SUMS.SerializeToString())
    with pytest.warns(UntunedWarning, match="^1 of 2 groups keeps .* for any n: trilu; ") as w:
        found = whet.model_tasks(file, {"n": whet.dynamic(1, 64)}, TARGET)
    assert len(w) == 1 and w[0].filename == __file__
    assert found and "\n" not in str(w[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(whet.model_tasks(file, {"n": 6}, TARGET)) == 2
    words = ["tune", str(file), "--shape", "n=1..64", "--trials", "1", "--quiet"]
    assert main([*words, "--log", str(tmp_path / "l.db"), "--target", TARGET]) == 1  # too few
    assert "1 of 2 groups keeps" in capsys.readouterr().err
