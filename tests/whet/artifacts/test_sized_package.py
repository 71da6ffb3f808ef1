"""Models of several sizes in packages: symbols and buckets, in Python and in C."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from packaged import LEVELS, compiled, compiler, environment, index_and_blobs, python, sealed

import whet
from whet.compiler.errors import ArgumentError, ArtifactError
from whet.compiler.runtime.package import container

pytestmark = pytest.mark.skipif(not compiler(), reason="no C compiler here, or no ELF")

TARGET = "llvm -num_threads=2"
RANGES = {"batch": (1, 5), "length": (1, 40)}
SIZES = [(1, 1), (5, 40), (2, 7), (3, 16), (4, 33)]
BUCKETS = [{"batch": 1, "length": 8}, {"batch": 3, "length": 17}]


def drawn(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def proto(seed=1):
    """Rows times weights, and attention over them; its input has the name of a symbol in code."""
    nodes = [
        ("MatMul", ["s0", "w"], ["h"], {}),
        ("Transpose", ["h"], ["t"], {"perm": [0, 2, 1]}),
        ("MatMul", ["h", "t"], ["scores"], {}),
        ("Softmax", ["scores"], ["p"], {}),
        ("MatMul", ["p", "h"], ["y"], {}),
    ]
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node(op, reads, makes, **more) for op, reads, makes, more in nodes],
        "g",
        [tensor("s0", TensorProto.FLOAT, ["batch", "length", 8])],
        [tensor("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(drawn(8, 8, seed=seed), "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def exact(x):
    h = x.astype("float64") @ drawn(8, 8)
    scores = h @ h.transpose(0, 2, 1)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ h


def of_ranges(target=TARGET, **other):
    ranges = {name: whet.dynamic(*r) for name, r in (RANGES | other).items()}
    return whet.compile(proto(), ranges, target, cache=False)


@pytest.fixture(scope="module")
def built():
    return {"ranges": of_ranges(), "buckets": whet.compile(proto(), BUCKETS, TARGET, cache=False)}


@pytest.fixture(scope="module")
def packages(built, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sized")
    for name, model in built.items():
        model.export(folder / f"{name}.whet")
    return {name: folder / f"{name}.whet" for name in built}


@pytest.fixture(scope="module")
def main(tmp_path_factory):
    source = Path(__file__).with_name("model_sizes_main.c")
    return compiled(source, tmp_path_factory.mktemp("main") / "main")


def in_c(main, package, x, out_shape=None):
    """The output of a package's model as a C program gets it, and what it says."""
    folder = package.parent
    x.tofile(folder / "in")
    shape = x.shape if out_shape is None else out_shape
    sizes = [str(n) for one in (x.shape, shape) for n in (len(one), *one)]
    command = [main, package, package.stem, folder / "in", folder / "out", *sizes]
    done = subprocess.run(command, capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stdout + done.stderr
    return np.fromfile(folder / "out", "float32").reshape(shape), done.stdout.strip()


WITHOUT_COMPILER = """
import numpy as np, whet
model = whet.load(sys.argv[1])
with np.load(sys.argv[2]) as arrays:
    for k in range(len(arrays) // 2):
        x, y = arrays[f"x{k}"], arrays[f"y{k}"]
        assert model(x).tobytes() == y.tobytes()
        out = np.full_like(y, np.nan)
        model.run([x], [out])
        assert out.tobytes() == y.tobytes()
assert not {"llvmlite", "onnx"} & sys.modules.keys()
print(repr(model))
"""


@pytest.mark.parametrize("name", ["ranges", "buckets"])
def test_without_a_compiler(name, built, packages, tmp_path):
    sizes = SIZES if name == "ranges" else [tuple(b.values()) for b in BUCKETS]
    given = [drawn(*size, 8, seed=k) for k, size in enumerate(sizes)]
    arrays = {f"x{k}": x for k, x in enumerate(given)}
    arrays |= {f"y{k}": built[name](x) for k, x in enumerate(given)}
    np.savez(tmp_path / "arrays.npz", **arrays)
    said = python(WITHOUT_COMPILER, packages[name], tmp_path / "arrays.npz")
    assert said.strip() == repr(built[name])
    for k, x in enumerate(given):
        np.testing.assert_allclose(arrays[f"y{k}"], exact(x), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["ranges", "buckets"])
def test_in_c(name, built, packages, main):
    for size in SIZES if name == "ranges" else [tuple(b.values()) for b in BUCKETS]:
        x = drawn(*size, 8, seed=7)
        found, said = in_c(main, packages[name], x)
        assert said == "ok" and found.tobytes() == built[name](x).tobytes()


def test_sizes_outside_are_refused_in_words(packages, main):
    ranges, buckets = (whet.load(packages[name]) for name in ("ranges", "buckets"))
    for size, why in (
        ((6, 3), "batch is from 1 to 5"),
        ((2, 41), "length is from 1 to 40"),
        ((0, 3), "batch is from 1 to 5"),
    ):
        _, said = in_c(main, packages["ranges"], drawn(*size, 8))
        assert said == f"the model is for other sizes: {why}"
        with pytest.raises(ArgumentError, match=r"the model is for .* from 1 to"):
            ranges(drawn(*size, 8))
    _, said = in_c(main, packages["ranges"], drawn(2, 3, 8), out_shape=(2, 4, 8))
    assert said == "argument 1: shape[1] is not what the kernel wants"
    for size in ((1, 17), (3, 8), (2, 2)):
        _, said = in_c(main, packages["buckets"], drawn(*size, 8))
        assert said == "no bucket of the model has the sizes of these inputs"
        with pytest.raises(ArgumentError, match="no bucket has these sizes"):
            buckets(drawn(*size, 8))
    _, said = in_c(main, packages["buckets"], drawn(8, 1), out_shape=(1, 8, 8))
    assert said == "no bucket of the model has the sizes of these inputs"


def test_names_of_symbols_that_c_does_not_take_as_they_are(tmp_path, main):
    model = proto()
    name = 'b\U0001f600\x01"\\n??/'
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = name
    built = whet.compile(model, {name: whet.dynamic(2, 5), "length": 4}, TARGET, cache=False)
    built.export(tmp_path / "net.whet")
    x = drawn(3, 4, 8)
    assert whet.load(tmp_path / "net.whet")(x).tobytes() == built(x).tobytes()
    assert in_c(main, tmp_path / "net.whet", x)[0].tobytes() == built(x).tobytes()
    _, said = in_c(main, tmp_path / "net.whet", drawn(6, 4, 8))
    assert said == f"the model is for other sizes: {name} is from 2 to 5"


def test_what_a_package_says_of_its_groups(built, packages):
    loaded = whet.load(packages["ranges"])
    assert loaded.groups == built["ranges"].groups
    assert loaded.shapes == built["ranges"].shapes
    with pytest.raises(ArtifactError, match="was loaded from a package\n  copy that file"):
        loaded.export(packages["ranges"].with_name("again.whet"))
    each = whet.load(packages["buckets"]).buckets
    assert list(each) == list(built["buckets"].buckets)
    x = drawn(3, 17, 8)
    dumps = [m.dump(x) for m in (built["buckets"], whet.load(packages["buckets"]))]
    dumps += [m.dump(x) for m in (built["ranges"], loaded)]
    bytes_of = [{k: v.tobytes() for k, v in one.items()} for one in dumps]
    assert bytes_of[0] == bytes_of[1] and bytes_of[2] == bytes_of[3]
    at = {"batch": 4, "length": 33}
    assert loaded.calls_at(**at) == built["ranges"].calls_at(**at)


@pytest.mark.skipif(len(LEVELS) < 2, reason="one level runs here")
def test_each_processor_takes_its_level(tmp_path, monkeypatch):
    targets = {level: f"{TARGET} -mcpu={level}" for level in (LEVELS[0], LEVELS[-1])}
    narrow, wide = (of_ranges(target) for target in targets.values())
    narrow.export(tmp_path / "net.whet", more=[wide])
    x = drawn(3, 9, 8)
    for level, model in zip(targets, (narrow, wide)):
        monkeypatch.setenv("WHET_CPU", level)
        assert whet.load(tmp_path / "net.whet")(x).tobytes() == model(x).tobytes()
    other = of_ranges(targets[LEVELS[-1]], batch=(1, 6))
    with pytest.raises(ArtifactError, match="its models are not one model"):
        narrow.export(tmp_path / "other.whet", more=[other])


def changes(name):
    """Wrong descriptions of a model."""
    if name.startswith("buckets"):
        yield lambda m: m["buckets"].append(m["buckets"][0])
        yield lambda m: m["buckets"][1].update(buckets=m["buckets"][:1])
        yield lambda m: m["buckets"][1].update(ranges=[["batch", 1, 5]])
        yield lambda m: m["buckets"][1]["arena"].update(size=-64)
        for key, at, other in (("inputs", 0, "z"), ("inputs", 2, "float64"), ("outputs", 0, "z")):
            yield lambda m, k=key, a=at, o=other: m["buckets"][1][k][0].__setitem__(a, o)
        yield lambda m: m["buckets"][1]["inputs"][0].__setitem__(1, [8 * 8 * 8])
        if name == "buckets":
            yield lambda m: m["buckets"].reverse()
        else:
            yield lambda m: m["uploads"].update(size=0)
            yield lambda m: m["buckets"][1]["calls"][0].update(kernel="nothing")
            yield lambda m: m["buckets"][1].update(calls=[])
            yield lambda m: m["buckets"][1]["outputs"].append(["z", [4], "float32"])
        yield lambda m: m.update(buckets=7)
        size = 1 << 50 if name == "buckets" else 0
        yield lambda m: m["buckets"][1]["arena"].update(size=size)
        return
    length = ["length", 1, 40]
    code = (  # what a CPU's checks in each call
        [["batch", 2, 5], length], [["batch", 1, 5], ["length", 2, 40]],
        [["batch", 1, 5, 2], length],
    )  # fmt: skip
    for ranges in (
        None, 7, [], [["batch", 1, 5]], [["batch", 0, 5], length],
        [["batch", 1, 5], ["length", 1, 41]], [["batch", 1, 1 << 63], length],
        [length, ["batch", 1, 5]], [["batch", 1, 5], ["batch", 1, 40]], [["batch", 1.0, 5], length],
        [["batch", 1, 5, 0], length], [["batch", 1, 5, 3], length], [["batch", 1, 5, 1.0], length],
        [["batch", 1, 5, 1, 1], length],
        *(code if name == "ranges" else ()),
    ):  # fmt: skip
        yield lambda m, r=ranges: m.update(ranges=r)
    for extents in (["s0", "s1", 9], ["s0", "s2", 8], ["s1", "s0", 8], ["s0", ["**", "s1", 9], 8],
                    ["s0", "s1"], ["__import__('os')", "s1", 8], 7, None):  # fmt: skip
        yield lambda m, e=extents: m["shapes"][0].__setitem__(1, e)
    deep = "s0"
    for _ in range(300):
        deep = ["*", deep, "s1"]
    yield lambda m: m["shapes"][0].__setitem__(1, [deep, "s1", 8])
    yield lambda m: m.update(shapes=[])
    yield lambda m: m["groups"][0].update(kernels=["nothing"])
    yield lambda m: m["groups"][0].pop("how")
    yield lambda m: m["groups"][0].update(shapes=[["s9"]])
    yield lambda m: m.update(steps=m["steps"][1:])
    yield lambda m: m.update(scaled=not m["scaled"], arena={**m["arena"], "size": 64})
    for key, wrong in (("kernel", "nothing"), ("places", [["whet.arena", 1 << 50]]), ("flop", "x")):
        yield lambda m, k=key, w=wrong: m["steps"][0].get("blocks", m["steps"])[0].update({k: w})
    yield lambda m: m["inputs"][0].__setitem__(1, [5, 39, 8])
    for size in (0, 1, -64, "x", *(() if name == "device" else (1 << 50,))):
        yield lambda m, s=size: m["arena"].update(size=s)


@pytest.mark.parametrize("name", ["ranges", "buckets", "device", "buckets on a device"])
def test_hostile_indices_are_refused(name, packages, tmp_path):
    if name.endswith("device"):
        ranges = {n: whet.dynamic(*r) for n, r in RANGES.items()}
        sizes = ranges if name == "device" else BUCKETS
        model = whet.compile(proto(), sizes, "cuda -arch=sm_80", cache=False)
        packages = {name: tmp_path / "net.whet"}
        model.export(packages[name])
    data = packages[name].read_bytes()
    index, blobs = index_and_blobs(data)
    moved = index["libraries"][0]["offset"] - container.unpacked("", data)["libraries"][0]["offset"]
    index["models"][0]["constants"]["offset"] += moved
    path = tmp_path / "hostile.whet"
    path.write_bytes(sealed(index, blobs))
    whet.load(path)
    for change in changes(name):
        other = json.loads(json.dumps(index))
        change(other["models"][0])
        path.write_bytes(sealed(other, blobs))
        with pytest.raises(ArtifactError):
            whet.load(path)


def test_the_command(tmp_path):
    from click.testing import CliRunner

    from whet.commands.package import command

    (tmp_path / "small.onnx").write_bytes(proto().SerializeToString())
    words = [str(tmp_path / "small.onnx"), "-o", str(tmp_path / "m.whet"), "--target", TARGET]
    x = drawn(2, 8, 8)
    for shapes, said, shown in (
        (["batch=1..2", "length=8"], " groups, 0 of them tuned, ", "  batch: from 1 to 2\n"),
        (["batch=1,2", "length=8"], "2 buckets of ", "  bucket 1: input s0: float32[2, 8, 8]\n"),
    ):
        more = [word for one in shapes for word in ("--shape", one)]
        done = CliRunner().invoke(command, [*words, *more])
        assert done.exit_code == 0 and said in done.output, done.output
        done = CliRunner().invoke(command, ["--show", str(tmp_path / "m.whet")])
        assert done.exit_code == 0 and shown in done.output, done.output
        np.testing.assert_allclose(
            whet.load(tmp_path / "m.whet")(x), exact(x), rtol=1e-3, atol=1e-3
        )
