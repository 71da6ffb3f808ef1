"""Models in packages: the same bits in Python without a compiler, and in C; damage in words."""

import json
import random
import subprocess
from pathlib import Path

import numpy as np
import pytest
from models_in_onnx import SHAPE, TARGET, expected, inputs, proto
from packaged import (
    BASE,
    LEVELS,
    compiled,
    compiler,
    environment,
    index_and_blobs,
    python,
    sealed,
)

import whet
from whet.compiler.errors import ArtifactError
from whet.compiler.graph.package import _source
from whet.compiler.runtime.package import container

pytestmark = pytest.mark.skipif(not compiler(), reason="no C compiler here, or no ELF")

WITHOUT_COMPILER = """
import numpy as np, whet
model = whet.load(sys.argv[1])
x, y = np.load(sys.argv[2]), np.load(sys.argv[3])
assert model(x).tobytes() == y.tobytes()
out = np.full_like(y, np.nan)
model.run([x], [out])
assert out.tobytes() == y.tobytes()
assert sorted(model.dump(x)) == sys.argv[4].split()
assert not {"llvmlite", "onnx"} & sys.modules.keys()
print(model.inputs[0], len(model.calls), model._constants.flags.owndata)
"""


@pytest.fixture(scope="module")
def built():
    return whet.compile(proto(), target=TARGET)


@pytest.fixture(scope="module")
def package(built, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "small-net.whet"
    built.export(path)
    return path


def test_without_a_compiler(built, package, tmp_path, seeds):
    (x,) = inputs(1, next(iter(seeds(1))))
    y = built(x)
    np.testing.assert_allclose(y, expected(proto(), x), rtol=1e-3, atol=1e-4)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    names = " ".join(sorted(built.dump(x)))
    said = python(WITHOUT_COMPILER, package, tmp_path / "x.npy", tmp_path / "y.npy", names)
    assert said == f"%x: float32{list(SHAPE)} {len(built.calls)} False\n"


def test_two_threads_in_c(built, package, tmp_path, seeds):
    main = compiled(Path(__file__).with_name("model_main.c"), tmp_path / "main", "-pthread")
    many = inputs(64, next(iter(seeds(1))))
    many.tofile(tmp_path / "in")
    command = [main, package, "small_net", tmp_path / "in", tmp_path / "out"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment())
    said = "ok\nthe number of arguments is wrong\n1 small_net\n"
    assert (done.returncode, done.stdout) == (0, said), done.stderr
    wanted = np.stack([built(x) for x in many])
    assert (tmp_path / "out").read_bytes() == wanted.tobytes()


def test_weights_of_another_model_with_the_same_code_stay_apart(built, package, tmp_path):
    other = whet.compile(proto(seed=1), target=TARGET)
    assert _source(other) != _source(built)
    other.export(tmp_path / "other.whet")
    (x,) = inputs(1, 0)
    both = whet.load(package), whet.load(tmp_path / "other.whet")
    assert [m(x).tobytes() for m in both] == [m(x).tobytes() for m in (built, other)]


def test_what_was_loaded_is_copied_as_a_file(package, tmp_path):
    with pytest.raises(ArtifactError, match="was loaded from a package\n  copy that file"):
        whet.load(package).export(tmp_path / "again.whet")
    with pytest.raises(ArtifactError, match="there is no folder"):
        whet.load(package).export(tmp_path / "none" / "again.whet")


@pytest.mark.skipif(len(LEVELS) < 2, reason="one level runs here")
def test_each_processor_takes_its_level(tmp_path, monkeypatch, seeds):
    targets = {level: f"{TARGET} -mcpu={level}" for level in (LEVELS[0], LEVELS[-1])}
    models = {level: whet.compile(proto(), target=target) for level, target in targets.items()}
    narrow, *wider = models.values()
    narrow.export(tmp_path / "net.whet", more=wider)
    main = compiled(Path(__file__).with_name("model_main.c"), tmp_path / "main", "-pthread")
    many = inputs(64, next(iter(seeds(1))))
    many.tofile(tmp_path / "in")
    for level, model in models.items():
        monkeypatch.setenv("WHET_CPU", level)
        loaded = whet.load(tmp_path / "net.whet")
        wide = loaded._function.artifact.target["vector_bytes"]
        assert wide == whet.Target(targets[level]).vector_bytes
        assert loaded(many[0]).tobytes() == model(many[0]).tobytes()
        command = [main, tmp_path / "net.whet", "net", tmp_path / "in", tmp_path / "out"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment())
        assert done.returncode == 0, done.stderr
        wanted = np.stack([model(x) for x in many])
        assert (tmp_path / "out").read_bytes() == wanted.tobytes()
    with pytest.raises(ArtifactError, match="two of its models are for one processor"):
        narrow.export(tmp_path / "twice.whet", more=[narrow])
    other = whet.compile(proto(batch=3), target=TARGET)
    with pytest.raises(ArtifactError, match="its models are not one model"):
        narrow.export(tmp_path / "other.whet", more=[other])


def parts(package):
    index, blobs = index_and_blobs(package.read_bytes())
    data = package.read_bytes()
    moved = index["libraries"][0]["offset"] - container.unpacked("", data)["libraries"][0]["offset"]
    index["models"][0]["constants"]["offset"] += moved
    return index, blobs


def test_damage_is_said(package, tmp_path):
    data, path = package.read_bytes(), tmp_path / "damaged.whet"
    for _ in range(40):
        at = random.randrange(len(data))
        cut = random.random() < 0.3
        flipped = data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]
        path.write_bytes(data[:at] if cut else flipped)
        with pytest.raises(ArtifactError):
            whet.load(path)


def hostile(index):
    """Wrong indices of a model, each with a right checksum."""

    def changed(change):
        other = json.loads(json.dumps(index))
        change(other["models"][0])
        return other

    first, size = index["libraries"][0]["offset"], index["models"][0]["constants"]["size"]
    yield changed(lambda m: m.update(library=1))
    yield changed(lambda m: m.update(library=-1))
    yield changed(lambda m: m.pop("constants"))
    yield changed(lambda m: m.update(name="a b"))
    for offset in (0, 1, first, first + 1, 2**40, 2**62, -4096, "4096", 1.5):
        yield changed(lambda m, o=offset: m["constants"].update(offset=o))
    for bytes_ in (0, size + 1, size - 1, 2**40, 2**63, -1, None):
        yield changed(lambda m, b=bytes_: m["constants"].update(size=b))
    for bytes_ in (0, 1, 2**50, -64, "x", None):
        yield changed(lambda m, b=bytes_: m["arena"].update(size=b))
    for shape in ([2, 3, 8], [2, 3, 8, 9], [2**40] * 4, [-1], "x", None):
        yield changed(lambda m, s=shape: m["inputs"][0].__setitem__(1, s))
    for key in ("inputs", "outputs", "calls", "arena"):
        for value in (None, 7, [], {}, "x", [7], [[]]):
            if (key, value) not in (("calls", []), ("calls", {}), ("calls", "")):
                yield changed(lambda m, k=key, v=value: m.update({k: v}))
    yield changed(lambda m: m["calls"][0].update(kernel="nothing"))


def test_hostile_indices_are_refused(package, tmp_path):
    index, blobs = parts(package)
    path, count = tmp_path / "hostile.whet", 0
    path.write_bytes(sealed(index, blobs))
    assert index["libraries"][0]["offset"] == BASE
    (x,) = inputs(1, 0)
    assert np.isfinite(whet.load(path)(x)).all()
    for one in hostile(index):
        path.write_bytes(sealed(one, blobs))
        with pytest.raises(ArtifactError):
            whet.load(path)
        count += 1
    assert count > 50


def test_a_processor_that_lacks_what_it_needs(package, tmp_path):
    index, blobs = parts(package)
    index["libraries"][0]["needs"] = ["amx-fp16", "avx512f"]
    path = tmp_path / "wide.whet"
    path.write_bytes(sealed(index, blobs))
    from whet.compiler.runtime.package.processor import features

    if "amx-fp16" in features():
        pytest.skip("this processor has it")
    with pytest.raises(ArtifactError, match="does not run on this CPU: it needs amx-fp16"):
        whet.load(path)


def test_the_command(tmp_path):
    from click.testing import CliRunner

    from whet.commands.package import command

    (tmp_path / "small.onnx").write_bytes(proto().SerializeToString())
    words = [str(tmp_path / "small.onnx"), "-o", str(tmp_path / "m.whet"), "--target", TARGET]
    done = CliRunner().invoke(command, words)
    assert done.exit_code == 0 and " calls, 0 of them tuned, " in done.output, done.output
    done = CliRunner().invoke(command, ["--show", str(tmp_path / "m.whet")])
    assert done.exit_code == 0 and f"  input x: float32{list(SHAPE)}\n" in done.output
    assert "default config" in done.output and "\nm for " in done.output
    done = CliRunner().invoke(command, [*words, "--level", "own", "--untuned"])
    assert done.exit_code == 2 and "--target and --level alone are a model's" in done.output
    done = CliRunner().invoke(command, [*words, "--level", LEVELS[0]])
    assert done.exit_code == 0, done.output
    levels = [
        one["level"] for one in container.unpacked("", Path(words[2]).read_bytes())["libraries"]
    ]
    assert levels == [LEVELS[0]]
    done = CliRunner().invoke(command, ["x.py:tasks", "-o", "m", "--shape", "batch=1"])
    assert done.exit_code == 2 and "--shape and --target are for a model" in done.output
