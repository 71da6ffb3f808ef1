"""Models for GPUs with sizes that stay symbols, run in the emulator, beside numpy in float64."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import whet
from whet.compiler import driver
from whet.compiler.errors import ArgumentError

TARGET, EMULATOR = "cuda -arch=sm_80", "cuda-emulator"
RANGES = {"batch": (1, 5), "length": (2, 20)}
SIZES = [(1, 2), (2, 7), (5, 20), (3, 16)]


def drawn(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def made(nodes, weights, shape):
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node(op, reads, makes, **more) for op, reads, makes, more in nodes],
        "g",
        [tensor("x", TensorProto.FLOAT, shape)],
        [tensor("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(a, name) for name, a in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def proto():
    """Rows times weights, attention over them, and a mean over the length."""
    nodes = [
        ("MatMul", ["x", "w"], ["h"], {}),
        ("Transpose", ["h"], ["t"], {"perm": [0, 2, 1]}),
        ("MatMul", ["h", "t"], ["scores"], {}),
        ("Softmax", ["scores"], ["p"], {}),
        ("MatMul", ["p", "h"], ["u"], {}),
        ("ReduceMean", ["u", "one"], ["y"], {"keepdims": 0}),
    ]
    return made(nodes, {"w": drawn(8, 8), "one": np.array([1])}, ["batch", "length", 8])


def exact(x):
    h = x.astype("float64") @ drawn(8, 8)
    scores = h @ h.transpose(0, 2, 1)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return (p / p.sum(-1, keepdims=True) @ h).mean(1)


@pytest.fixture(scope="module")
def model():
    ranges = {name: whet.dynamic(*r) for name, r in RANGES.items()}
    return whet.compile(proto(), ranges, TARGET, device=EMULATOR, cache=False)


def test_any_size_in_the_ranges(model, monkeypatch):
    monkeypatch.setattr(driver, "build", None)
    monkeypatch.setattr(driver, "compile_module", None)
    for size in SIZES:
        x = drawn(*size, 8, seed=sum(size))
        found = model(x)
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found, exact(x), rtol=1e-3, atol=1e-3)
    assert model.sizes(x) == dict(zip(RANGES, SIZES[-1]))


def test_arrays_of_the_device(model):
    device = whet.device(EMULATOR)
    for size in SIZES * 2:  # the second time from a graph of launches
        x = drawn(*size, 8)
        held, out = whet.nd.array(x, device), whet.nd.empty((size[0], 8), "float32", device)
        found = model(x=held)
        model.run([held], [out])
        for y in (found, out):
            assert y.device == device
            np.testing.assert_allclose(y.numpy(), exact(x), rtol=1e-3, atol=1e-3)


def test_launches_follow_the_sizes(model):
    few, many = (model.launches_at(batch=n, length=20) for n in (1, 5))
    blocks = [sum(x.grid[0] * x.grid[1] * x.grid[2] for x in each) for each in (few, many)]
    assert blocks[0] < blocks[1]
    of_rows = next(g for g in model.groups if g.how.startswith("blocks of"))
    own = of_rows.kernels
    at = {n: model.launches_at(batch=1, length=n) for n in (4, 5, 15, 16)}
    # blocks of 4 rows, of which the last reaches back; then one of 16
    calls = {n: len({id(x.call) for x in many if x.call.kernel in own}) for n, many in at.items()}
    assert calls == {4: 1, 5: 2, 15: 4, 16: 1}
    with pytest.raises(ArgumentError, match="symbols are batch, length\n  launches_at"):
        model.launches_at(batch=1)
    with pytest.raises(ArgumentError, match="the model is for length from 2 to 20"):
        model.launches_at(batch=1, length=21)


def test_what_does_not_fit_is_refused(model):
    for x, why in (
        (drawn(6, 3, 8), "batch=6: the model is for batch from 1 to 5"),
        (drawn(1, 3, 9), r"the array is float32\[1, 3, 9\], the input %x: float32\[1, 3, 8\]"),
        (drawn(3, 8), "to as many dimensions"),
        (drawn(1, 3, 8).astype("float64"), "the array is float64"),
    ):
        with pytest.raises(ArgumentError, match=why):
            model(x)
    out = whet.nd.empty((2, 8), "float32", whet.device(EMULATOR))
    with pytest.raises(ArgumentError, match=r"the array is float32\[2, 8\]"):
        model.run([drawn(3, 4, 8)], [out])


def test_packages_and_the_cache_hold_it(model, tmp_path, monkeypatch):
    model.export(tmp_path / "m.whet")
    ranges = {name: whet.dynamic(*r) for name, r in RANGES.items()}
    given = {"device": EMULATOR, "cache": tmp_path / "cache"}
    file = tmp_path / "model.onnx"
    file.write_bytes(proto().SerializeToString())
    whet.compile(file, ranges, TARGET, **given)
    monkeypatch.setattr(driver, "build", None)
    monkeypatch.setattr(driver, "compile_module", None)
    loaded = whet.load(tmp_path / "m.whet", device=EMULATOR)
    loaded.export(tmp_path / "again.whet")
    others = (
        loaded,
        whet.load(tmp_path / "again.whet", device=EMULATOR),
        whet.compile(file, ranges, TARGET, **given),
    )
    for other in others:
        assert other.groups == model.groups and repr(other) == repr(model)
        for size in SIZES:
            x = drawn(*size, 8)
            assert np.asarray(other(x)).tobytes() == np.asarray(model(x)).tobytes()
            sizes = dict(zip(RANGES, size))
            assert other.launches_at(**sizes) == model.launches_at(**sizes)
    with pytest.raises(ArgumentError, match="the model is for batch from 1 to 5"):
        loaded(drawn(6, 3, 8))


def test_buckets_are_packed_and_kept(tmp_path, monkeypatch):
    """In one file, their weights once; from the cache without a build."""
    shapes = [dict(zip(RANGES, sizes)) for sizes in ((1, 4), (3, 16))]
    given = {"target": TARGET, "device": EMULATOR, "cache": tmp_path / "cache"}
    built = whet.compile(proto(), shapes, **given)
    built.export(tmp_path / "both.whet")
    monkeypatch.setattr(driver, "build", None)
    again = whet.compile(proto(), shapes, **given)
    loaded = whet.load(tmp_path / "both.whet", device=EMULATOR)
    assert list(loaded.buckets) == list(built.buckets) == [((1, 4, 8),), ((3, 16, 8),)]
    for sizes in ((1, 4), (3, 16)):
        x = drawn(*sizes, 8)
        wanted = built(x)
        np.testing.assert_allclose(wanted, exact(x), rtol=1e-4, atol=1e-5)
        assert again(x).tobytes() == loaded(x).tobytes() == wanted.tobytes()
    (held,) = {one.constants for one in loaded.buckets.values()}
    assert held.size == next(iter(built.buckets.values())).constants.size
    with pytest.raises(ArgumentError, match="no bucket has these sizes"):
        loaded(drawn(2, 4, 8))


def test_kernels_one_by_one(model):
    x = drawn(3, 16, 8)
    found = model.dump(x)
    assert {name for g in model.groups for name in g.outputs} == found.keys()
    assert found["y"].tobytes() == np.asarray(model(x)).tobytes()
    timed = model.profile(x, rounds=1)
    assert tuple(c for c, _ in timed) == model.calls_at(batch=3, length=16)
    assert all(seconds >= 0 for _, seconds in timed)


@pytest.mark.parametrize("size", [6, 5])
def test_images_of_any_batch(size):
    """A convolution, a pool and a product; more rows than the largest block, and a rest.

    Images of 5 x 5 pixels begin where no kernel reads four numbers at once.
    """
    nodes = [
        ("Conv", ["x", "k"], ["c"], {"pads": [1, 1, 1, 1]}),
        ("Relu", ["c"], ["r"], {}),
        ("GlobalAveragePool", ["r"], ["g"], {}),
        ("Flatten", ["g"], ["f"], {}),
        ("MatMul", ["f", "w"], ["y"], {}),
    ]
    weights = {"k": drawn(4, 3, 3, 3), "w": drawn(4, 2)}
    graph = made(nodes, weights, ["n", 3, size, size])
    model = whet.compile(graph, {"n": whet.dynamic(1, 18)}, TARGET, device=EMULATOR, cache=False)
    wanted = whet.compile(graph, {"n": whet.dynamic(1, 18)}, "llvm", cache=False)
    blocks = [g.how.startswith("blocks of 16, 4, 1") for g in model.groups]
    assert blocks.count(True) == (2 if size == 6 else 1), blocks
    for n in (1, 3, 4, 18):
        x = drawn(n, 3, size, size, seed=n)
        np.testing.assert_allclose(model(x), wanted(x), rtol=1e-4, atol=1e-5)
