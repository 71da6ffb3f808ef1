"""The cache of compiled models: hits, each part of the key, damage, limits, two writers."""

import os
import random
import subprocess
import sys

import numpy as np
import pytest
from models_in_onnx import TARGET, expected, inputs, proto
from onnx import TensorProto, helper, numpy_helper

import whet
from whet.autotune.models import cache as cache_module
from whet.autotune.models import compiled as compiled_module
from whet.autotune.models.cache import CacheWarning, ModelCache, kernel_key, model_key
from whet.compiler import driver, settings
from whet.search_spaces.template.config_scope import using_resolver

FILE = proto().SerializeToString()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache of its own, also for processes that the test starts."""
    monkeypatch.setenv("WHET_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


@pytest.fixture
def builds(monkeypatch):
    """How often a model and a kernel were built: ``[models, kernels]``."""
    counts = [0, 0]
    groups, build = compiled_module.group_tasks, driver.build

    def of_groups(*args, **named):
        counts[0] += 1
        return groups(*args, **named)

    def of_kernels(*args, **named):
        counts[1] += 1
        return build(*args, **named)

    monkeypatch.setattr(compiled_module, "group_tasks", of_groups)
    monkeypatch.setattr(driver, "build", of_kernels)
    return counts


def entries(folder, suffix="*"):
    return sorted(p for p in folder.glob("*/*") if p.match(f"*.{suffix}"))


def check(model, seed=0):
    (x,) = inputs(1, seed)
    np.testing.assert_allclose(model(x), expected(proto(), x), rtol=1e-3, atol=1e-4)
    return model(x).tobytes()


def test_what_was_built_is_found(folder, builds):
    first = whet.compile(FILE, target=TARGET)
    kernels = builds[1]
    assert builds[0] == 1 and kernels == len(entries(folder, "kernel")) > 1
    assert len(entries(folder, "model")) == 1
    second = whet.compile(FILE, target=TARGET)
    assert builds == [1, kernels]
    assert check(first) == check(second)
    assert [c.places for c in first.calls] == [c.places for c in second.calls]
    (x,) = inputs(1, 3)
    dumps = first.dump(x), second.dump(x)
    assert {k: v.tobytes() for k, v in dumps[0].items()} == {
        k: v.tobytes() for k, v in dumps[1].items()
    }
    assert second._kernels.keys() == first._kernels.keys()
    for name, module in first._kernels.items():
        assert second._kernels[name].artifact == module.artifact
    # a model as an object has no file to be known by: its kernels are found
    third = whet.compile(whet.from_onnx(FILE), target=TARGET)
    assert builds == [2, kernels] and check(third) == check(first)


def test_a_path_and_its_bytes_are_one(folder, builds, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(FILE)
    whet.compile(path, target=TARGET)
    whet.compile(str(path), target=TARGET)
    whet.compile(FILE, target=TARGET)
    assert builds[0] == 1


def test_ranges_and_buckets_are_found(folder, monkeypatch):
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Softmax", ["x"], ["p"]), helper.make_node("MatMul", ["p", "w"], ["y"])],
        "g",
        [tensor("x", TensorProto.FLOAT, ["n", 6])],
        [tensor("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.eye(6, 3, dtype="float32"), "w")],
    )
    file = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]).SerializeToString()
    x = np.random.default_rng(0).standard_normal((4, 6)).astype("float32")
    given = ({"n": whet.dynamic(1, 9)}, {"n": [2, 4]}, [{"n": 4}, {"n": 5}])
    first = [whet.compile(file, shapes, TARGET)(x) for shapes in given]
    assert len(entries(folder, "model")) == len(given)
    monkeypatch.setattr(driver, "compile_module", None)
    monkeypatch.setattr(compiled_module, "group_tasks", None)
    again = [whet.compile(file, shapes, TARGET) for shapes in given]
    assert [m(x).tobytes() for m in again] == [y.tobytes() for y in first]
    assert repr(again[0]).endswith("; n from 1 to 9>") and len(again[1].buckets) == 2


def test_symbols_that_are_one_have_a_key_of_their_own():
    target, n = whet.Target(TARGET).canonical(), whet.dynamic(1, 4)
    given = [
        {"x": (n, n)}, {"x": (n, whet.dynamic(1, 4))}, {"x": (n, whet.dynamic(1, 5))},
        {"x": (n, 4)}, {"x": [1, 4]}, [{"x": (1, 4)}], {"a": n, "b": n}, {"b": n, "a": n},
    ]  # fmt: skip
    assert len({model_key(FILE, one, target, None, None) for one in given} - {None}) == len(given)


def test_a_program_is_not_traced_again(folder, monkeypatch):
    torch = pytest.importorskip("torch")
    from whet.frontends.torch import importer

    def program(module, x):
        return torch.export.export(module.eval(), (x,))

    x = torch.randn(2, 6)
    module = torch.nn.Sequential(torch.nn.Linear(6, 3), torch.nn.GELU()).requires_grad_(False)
    y = whet.compile(program(module, x), target=TARGET)(x)
    plain, traced = importer.from_torch, []
    monkeypatch.setattr(importer, "from_torch", lambda *a: traced.append(a) or plain(*a))
    again = [
        whet.compile(program(module, x), target=TARGET),
        whet.compile(module, target=TARGET, inputs=(x,)),
    ]
    assert not traced and all((m(x) == y).all() for m in again)
    others = (
        (module, torch.randn(3, 6)),
        (torch.nn.Sequential(module[0], torch.nn.GELU(approximate="tanh")), x),
        (torch.nn.Sequential(module[0], torch.nn.ReLU()), x),
    )
    for k, (other, given) in enumerate(others, 1):
        found = whet.compile(program(other, given), target=TARGET)(given)
        np.testing.assert_allclose(found, other(given).numpy(), rtol=1e-4, atol=1e-5)
        assert len(traced) == k
    with torch.no_grad():
        module[0].weight[1, 2] += 1
    found = whet.compile(program(module, x), target=TARGET)(x)
    np.testing.assert_allclose(found, module(x).numpy(), rtol=1e-4, atol=1e-5)
    assert len(traced) == 1 + len(others)


def test_programs_whose_sizes_have_other_names_and_ranges(folder):
    torch = pytest.importorskip("torch")
    module, x = torch.nn.ReLU(), torch.randn(3, 6)
    for name, most in (("batch", 9), ("many", 9), ("many", 8), ("batch", 9)):
        dim = torch.export.Dim(name, min=2, max=most)
        program = torch.export.export(module, (x,), dynamic_shapes=({0: dim},))
        found = whet.compile(program, target=TARGET)
        assert {n: (r.low, r.high) for n, r in found.ranges.items()} == {name: (2, most)}
        assert (found(x) == module(x).numpy()).all()
    assert len(entries(folder, "model")) == 3


def test_each_part_of_the_key_counts(folder, tmp_path, monkeypatch):
    target = whet.Target(TARGET).canonical()
    log, other_log = tmp_path / "a.db", tmp_path / "b.db"
    log.write_bytes(b"one")
    other_log.write_bytes(b"one")
    given = {"shapes": {"x": (1, 2)}, "target": target, "log": str(log), "constants": None}
    base = {"model": FILE, **given}
    assert model_key(**base) == model_key(**base)
    keys = {model_key(**base)}
    changes = [
        {"model": proto(seed=1).SerializeToString()},
        {"shapes": {"x": (2, 2)}},
        {"shapes": {"y": (1, 2)}},
        {"shapes": {"x": 1}},
        {"shapes": None},
        {"target": whet.Target("llvm -num_threads=1").canonical()},
        {"target": whet.Target(f"{TARGET} -mcpu=x86-64-v2").canonical()},
        {"log": None},
        {"log": str(other_log)},
        {"constants": {"s": np.int64([1])}},
        {"constants": {"s": np.int32([1])}},
        {"constants": {"s": np.int64([2])}},
        {"constants": {"s": np.int64([[1]])}},
    ]
    keys |= {model_key(**base | change) for change in changes}
    log.write_bytes(b"two")
    keys.add(model_key(**base))
    (tmp_path / "a.db-wal").write_bytes(b"three")
    keys.add(model_key(**base))
    monkeypatch.setattr(cache_module, "_built_by", lambda: "another version")
    keys.add(model_key(**base))
    assert None not in keys and len(keys) == 4 + len(changes)


def test_what_is_not_known_by_its_bytes_has_no_key(tmp_path):
    target = whet.Target(TARGET).canonical()
    assert model_key(FILE + b"location", None, target, None, None) is None  # weights elsewhere
    assert model_key(proto(), None, target, None, None) is None
    assert model_key(tmp_path / "none", None, target, None, None) is None
    assert model_key(FILE, None, target, "postgresql://here/log", None) is None
    assert model_key(FILE, {"x": "what"}, target, None, None) is None
    with whet.compiler.passes.PassContext(disabled_pass=["tir.Simplify"]):
        assert model_key(FILE, None, target, None, None) is None
        assert kernel_key("task", "config") is None
    with whet.compiler.passes.PassContext():
        assert model_key(FILE, None, target, None, None) is not None
    with using_resolver(lambda workload: None):
        assert model_key(FILE, None, target, None, None) is None


def test_kernels_of_other_configs_and_code(monkeypatch):
    keys = {kernel_key("a", "b"), kernel_key("ab", ""), kernel_key("a", "c"), kernel_key("c", "b")}
    monkeypatch.setattr(cache_module, "_built_by", lambda: "another version")
    assert len(keys | {kernel_key("a", "b")}) == 5


def test_damage_is_a_miss_and_is_mended(folder, builds, seeds):
    wanted = check(whet.compile(FILE, target=TARGET))
    (entry,) = entries(folder, "model")
    whole = entry.read_bytes()
    for seed in seeds(12):
        rng = random.Random(seed)
        for path in entries(folder):
            data = bytearray(path.read_bytes())
            at = rng.randrange(len(data))
            data[at] ^= 1 << rng.randrange(8)
            path.unlink()  # models that were loaded have the old file
            path.write_bytes(data if rng.random() < 0.7 else data[:at])
        before = builds[0]
        kept = ModelCache.of(True)
        assert kept.model(entry.stem) is None
        assert all(kept.kernel(p.stem) is None for p in entries(folder, "kernel"))
        if seed % 4 == 0:
            assert check(whet.compile(FILE, target=TARGET)) == wanted
            assert builds[0] == before + 1 and entry.read_bytes() == whole
    assert check(whet.compile(FILE, target=TARGET)) == wanted


def test_a_foreign_file_is_a_miss(folder):
    whet.compile(FILE, target=TARGET)
    (model,) = entries(folder, "model")
    kernels = entries(folder, "kernel")
    kept = ModelCache.of(True)
    model.unlink()
    model.write_bytes(kernels[0].read_bytes())  # whole, and no model
    assert kept.model(model.stem) is None
    for data in (b"", b"x", os.urandom(9999)):
        kernels[0].write_bytes(data)
        assert kept.kernel(kernels[0].stem) is None


def test_the_least_recently_used_goes(folder):
    whet.compile(FILE, target=TARGET)
    (model,), size = entries(folder, "model"), sum(p.stat().st_size for p in entries(folder))
    for path in entries(folder):
        os.utime(path, (1, 1))
    kept = ModelCache(folder.parent, size)
    assert kept.model(model.stem) is not None  # used now
    least = min(entries(folder, "kernel"), key=lambda p: p.stat().st_size)
    kept.keep_kernel("ab" * 32, kept.kernel(least.stem))  # one that is not used makes room
    left = entries(folder)
    assert model in left and sum(p.stat().st_size for p in left) <= size
    assert f"{'ab' * 32}.kernel" in {p.name for p in left}
    ModelCache(folder.parent, 0).keep_kernel("cd" * 32, kept.kernel("ab" * 32))
    assert entries(folder) == []


def test_off_and_elsewhere(folder, builds, tmp_path, monkeypatch):
    whet.compile(FILE, target=TARGET, cache=False)
    assert not folder.exists()
    whet.compile(FILE, target=TARGET, cache=tmp_path / "mine")
    whet.compile(FILE, target=TARGET, cache=str(tmp_path / "mine"))
    assert builds[0] == 2 and not folder.exists()
    assert entries(tmp_path / "mine" / "models", "model")
    monkeypatch.setenv("WHET_CACHE", "0")
    monkeypatch.setenv("WHET_CACHE_DIR", str(tmp_path / "all"))
    assert settings.model_cache_dir() is None and ModelCache.of(True) is None
    monkeypatch.delenv("WHET_CACHE")
    assert settings.model_cache_dir() == tmp_path / "all"


def test_a_folder_that_cannot_be_written_is_warned_of_once(tmp_path, builds):
    place = tmp_path / "file"
    place.write_text("in the way")
    with pytest.warns(CacheWarning, match="it is a file; nothing is kept") as caught:
        check(whet.compile(FILE, target=TARGET, cache=place))
        check(whet.compile(FILE, target=TARGET, cache=place))
    assert builds[0] == 2 and len(caught) == 1 and caught[0].filename == __file__


WRITER = """
import sys
sys.path.insert(0, sys.argv[1])
import whet
from models_in_onnx import TARGET, inputs, proto
(x,) = inputs(1, 0)
file = proto().SerializeToString()
for _ in range(2):
    sys.stdout.write(whet.compile(file, target=TARGET)(x).tobytes().hex())
"""


def test_two_processes_at_once(folder):
    here = next(p for p in sys.path if os.path.exists(os.path.join(p, "models_in_onnx.py")))
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", WRITER, here]
    running = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE) for _ in range(2)]
    said = [p.communicate(timeout=300)[0].decode() for p in running]
    assert [p.returncode for p in running] == [0, 0]
    assert said[0] == said[1] == check(whet.compile(FILE, target=TARGET)).hex() * 2
    assert len(entries(folder, "model")) == 1
    assert not [p for p in folder.rglob(".*")]  # nothing half written
