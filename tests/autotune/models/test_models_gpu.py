"""Models compiled for GPUs, run in the emulator, beside numpy in float64."""

import json

import numpy as np
import pytest

import whet
from whet.compiler import driver
from whet.compiler.emulator.driver import EmulatedGraph
from whet.compiler.errors import ArgumentError, ArtifactError, TargetError
from whet.compiler.graph import GraphBuilder
from whet.compiler.graph.executor import CONSTANTS
from whet.compiler.runtime.package import container

TARGET = "cuda -arch=sm_80"
ROWS, WIDTH = 3, 6


def network(seed):
    """Three products with two weights, a residual, a reshape, a softmax; and their reference."""
    rng = np.random.default_rng(seed)
    w = [rng.standard_normal((WIDTH, WIDTH)).astype("float32") for _ in range(2)]
    b = rng.standard_normal(WIDTH).astype("float32")
    g = GraphBuilder()
    x = g.input("x", (ROWS, WIDTH), "float32")
    y = x
    for k in (0, 1, 0):
        y = g.add("relu", [g.add("add", [g.add("gemm", [y, g.constant(w[k])]), g.constant(b)])])
    y = g.add("reshape", [y], shape=(WIDTH, ROWS))
    z = g.add("softmax", [y], axis=1)

    def reference(a):
        a = a.astype("float64")
        for k in (0, 1, 0):
            a = np.maximum(a @ w[k] + b, 0)
        a = a.reshape(WIDTH, ROWS)
        e = np.exp(a - a.max(1, keepdims=True))
        return a, e / e.sum(1, keepdims=True)

    return g.graph([y, z]), reference


def agree(found, wanted):
    for f, w in zip(found, wanted, strict=True):
        np.testing.assert_allclose(f, w, rtol=1e-4, atol=1e-5)


def test_a_network_in_the_emulator(seeds):
    (seed,) = seeds(1)
    graph, reference = network(seed)
    model = whet.compile(graph, target=TARGET, device="cuda-emulator")
    rng = np.random.default_rng(seed + 1)
    a, b = (rng.standard_normal((ROWS, WIDTH)).astype("float32") for _ in range(2))
    for x in (a, b, a):
        found = model(x)
        assert all(isinstance(f, np.ndarray) for f in found)
        agree(found, reference(x))
    device = whet.device("cuda-emulator")
    held = whet.nd.array(b, device)
    found = model(x=held)
    assert all(f.device == device for f in found)
    agree([f.numpy() for f in found], reference(b))
    out = [whet.nd.array(np.full((WIDTH, ROWS), 77, "float32"), device) for _ in range(2)]
    model.run([whet.nd.array(a, device)], out)
    agree([f.numpy() for f in out], reference(a))
    made = model.dump(b)
    agree([made[model.outputs[1].name]], reference(b)[1:])
    timed = model.profile(held, rounds=2)
    assert [c for c, _ in timed] == list(model.calls) and all(s > 0 for _, s in timed)
    with pytest.raises(ArgumentError, match=r"the array is float32\[3, 5\], the input %x"):
        model(np.zeros((ROWS, 5), "float32"))
    with pytest.raises(ArgumentError, match=r"an output is filled on cuda-emulator\(0\)"):
        model.run([a], [np.empty((WIDTH, ROWS), "float32")] * 2)
    with pytest.raises(ArgumentError, match="it takes 1, and gives 2"):
        model.run([a], out[:1])


def test_addresses_that_come_again_are_replayed(seeds, monkeypatch):
    (seed,) = seeds(1)
    graph, reference = network(seed)
    model = whet.compile(graph, target=TARGET, device="cuda-emulator")
    rng, device, replayed = np.random.default_rng(seed + 1), whet.device("cuda-emulator"), []
    launch = EmulatedGraph.launch
    monkeypatch.setattr(
        EmulatedGraph, "launch", lambda self, s=None: replayed.append(1) or launch(self, s)
    )

    def arrays():
        x = whet.nd.array(np.zeros((ROWS, WIDTH), "float32"), device)
        return x, [whet.nd.array(np.zeros((WIDTH, ROWS), "float32"), device) for _ in range(2)]

    def run(x, out, graphs):
        given = rng.standard_normal((ROWS, WIDTH)).astype("float32")
        x.copyfrom(given)
        for o in out:
            o.copyfrom(np.full((WIDTH, ROWS), np.nan, "float32"))
        replayed.clear()
        model.run([x], out)
        assert len(replayed) == graphs
        agree([o.numpy() for o in out], reference(given))

    (x, out), (y, more) = arrays(), arrays()
    for given, results, graphs in (
        (x, out, 0), (x, out, 1), (y, more, 0), (x, more, 0), (x, out, 1), (x, out[::-1], 0),
        (x, more, 1), (y, more, 1), (x, out[::-1], 1), (x, out, 1),
    ):  # fmt: skip
        run(given, results, graphs)
    kept = [arrays() for _ in range(12)]  # more than there are graphs for
    for _ in range(2):
        for given, results in kept:
            run(given, results, _)
    run(x, out, 0)
    run(x, out, 1)


def test_equal_kernels_and_weights_are_there_once():
    model = whet.compile(network(0)[0], target=TARGET)
    products = [c for c in model.calls if "gemm" in c.name]
    assert len(products) == 3 and len({c.kernel for c in products}) == 1
    of = [{p.offset for p in c.places if p.argument == CONSTANTS} for c in products]
    assert of[0] == of[2] != of[1] and len(of[0] | of[1]) == 3  # two weights and the bias


def test_what_is_known_without_a_gpu():
    model = whet.compile(network(0)[0], target="cuda -arch=sm_90")
    launches = model.launches
    assert [x.call for x in launches if x.call.name == "softmax"] == [model.calls[-1]]
    assert len(launches) >= len(model.calls)
    for x in launches:
        assert min(*x.grid, *x.block) >= 1 and x.moved > 0
    text = model.get_source()
    assert all(x.kernel in text for x in launches)
    resources = model.resources()
    assert all(resources[x.kernel].registers > 0 for x in launches)


def test_without_a_gpu_it_is_an_error_that_says_so():
    if whet.cuda(0).exist:
        pytest.skip("there is a GPU")
    model = whet.compile(network(0)[0], target=TARGET)
    with pytest.raises(TargetError, match=r"(?s)no such device.*model\.launches.*cuda-emulator"):
        model(np.zeros((ROWS, WIDTH), "float32"))


@pytest.mark.parametrize(
    ("target", "device", "why"),
    [
        (TARGET, "cpu", "code for cuda does not run on cpu"),
        ("llvm", "cuda-emulator", "code for llvm does not run on cuda-emulator"),
    ],
)
def test_targets_and_devices_that_do_not_fit(target, device, why):
    with pytest.raises(TargetError, match=why):
        whet.compile(network(0)[0], target=target, device=device)


def test_a_package_of_a_model_for_gpus(tmp_path, seeds):
    (seed,) = seeds(1)
    graph, reference = network(seed)
    built = whet.compile(graph, target=TARGET, device="cuda-emulator")
    x = np.random.default_rng(seed + 1).standard_normal((ROWS, WIDTH)).astype("float32")
    built.export(tmp_path / "before.whet")
    agree(built(x), reference(x))
    built.export(tmp_path / "after.whet")  # the host has let the weights go
    for name in ("before", "after"):
        loaded = whet.load(tmp_path / f"{name}.whet", device="cuda-emulator")
        assert [c.places for c in loaded.calls] == [c.places for c in built.calls]
        loaded.export(tmp_path / "again.whet")
        agree(loaded(x), reference(x))
        agree(whet.load(tmp_path / "again.whet", device="cuda-emulator")(x), reference(x))
    assert loaded.device == whet.device("cuda-emulator")
    assert whet.load(tmp_path / "again.whet").device == whet.cuda(0)
    with pytest.raises(TargetError, match="it holds a model for cuda"):
        whet.load(tmp_path / "again.whet", device="cpu")
    with pytest.raises(ArtifactError, match="a GPU's model stands alone"):
        built.export(tmp_path / "two.whet", more=[loaded])


def hostile(index):
    """Wrong indices of a model for GPUs, each with a right checksum."""
    size = index["models"][0]["uploads"]["size"]
    changes = [
        lambda m: m["uploads"].update(size=size - 64),
        lambda m: m["uploads"].update(size="x"),
        lambda m: m["uploads"].pop("each"),
        lambda m: m["uploads"]["each"][0].update(offsets=[size]),
        lambda m: m["uploads"]["each"][0].update(offsets=[-64]),
        lambda m: m["uploads"]["each"][0].update(offsets=[]),
        lambda m: m["uploads"]["each"][-1].update(packs="nothing"),
        lambda m: m["uploads"]["each"][0]["sources"][0].__setitem__(0, 2**40),
        lambda m: m["uploads"]["each"][0]["sources"][0].__setitem__(0, -64),
        lambda m: m["uploads"]["each"][0]["sources"][0].__setitem__(1, [2**40]),
        lambda m: m["uploads"]["each"][0]["sources"][0].__setitem__(2, "void"),
        lambda m: m["arena"].update(size=0),
        lambda m: m["calls"][0]["places"][0].__setitem__(0, "nowhere"),
        lambda m: m["calls"][0]["places"][0].__setitem__(1, 4),
        lambda m: m["calls"][0]["places"].pop(),
        lambda m: m["calls"][0].update(kernel="nothing"),
    ]
    for change in changes:
        other = json.loads(json.dumps(index))
        change(other["models"][0])
        yield other


def test_what_a_package_tells_of_a_gpus_memory_is_checked(tmp_path):
    path = tmp_path / "model.whet"
    whet.compile(network(0)[0], target=TARGET).export(path)
    data = path.read_bytes()
    index = container.unpacked("test", data)
    places = [index["libraries"][0], index["models"][0].pop("constants")]
    blobs = [data[p["offset"] : p["offset"] + p["size"]] for p in places]
    path.write_bytes(container.packed(index, blobs))
    whet.load(path)
    for k, wrong in enumerate(hostile(index)):
        path.write_bytes(container.packed(wrong, blobs))
        with pytest.raises(ArtifactError, match="its model is damaged"):
            pytest.fail(f"change {k}: {whet.load(path)}")


def test_what_was_built_for_gpus_is_found(tmp_path, monkeypatch, seeds):
    (seed,) = seeds(1)
    onnx = pytest.importorskip("onnx")
    w = np.random.default_rng(seed).standard_normal((WIDTH, WIDTH)).astype("float32")
    tensor, floats = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["m"])]
    nodes += [onnx.helper.make_node("Relu", ["m"], ["y"])]
    graph = onnx.helper.make_graph(
        nodes, "small", [tensor("x", floats, [ROWS, WIDTH])], [tensor("y", floats, [ROWS, WIDTH])],
        [onnx.numpy_helper.from_array(w, "w")],
    )  # fmt: skip
    opset = onnx.helper.make_opsetid("", 20)
    file = onnx.helper.make_model(graph, opset_imports=[opset]).SerializeToString()
    given = {"target": TARGET, "device": "cuda-emulator", "cache": tmp_path}
    first = whet.compile(file, **given)
    build, counts = driver.build, [0]

    def counted(*args, **named):
        counts[0] += 1
        return build(*args, **named)

    monkeypatch.setattr(driver, "build", counted)
    second = whet.compile(file, **given)
    kernels_only = whet.compile(whet.from_onnx(file), **given)
    assert counts == [0]
    x = np.random.default_rng(seed + 1).standard_normal((ROWS, WIDTH)).astype("float32")
    for model in (first, second, kernels_only):
        np.testing.assert_allclose(model(x), np.maximum(x @ w, 0), rtol=1e-4, atol=1e-5)
    assert [x.kernel for x in second.launches] == [x.kernel for x in first.launches]
    whet.compile(file, **given | {"target": "cuda -arch=sm_90"})
    assert counts[0] > 0


def test_a_constant_of_rank_0():
    g = GraphBuilder()
    x = g.input("x", (3, 4), "float32")
    one = g.constant(np.float32(0.75).reshape(()))
    model = whet.compile(g.graph([g.add("add", [x, one])]), target=TARGET, device="cuda-emulator")
    a = np.random.default_rng().standard_normal((3, 4)).astype("float32")
    np.testing.assert_array_equal(model(a), a + np.float32(0.75))
