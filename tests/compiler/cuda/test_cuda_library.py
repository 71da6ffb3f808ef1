"""Code for GPUs in exported libraries: what they hold, and what runs where nothing compiles."""

import json
import shutil
import subprocess
import sys
import tarfile
import textwrap
from dataclasses import replace

import numpy as np
import pytest
from device_programs import SM_80, added, bound, doubled_twice

import whet
from whet import te
from whet.compiler import settings
from whet.compiler.codegen.cuda import nvrtc
from whet.compiler.errors import ArtifactError, CodegenError, TargetError
from whet.compiler.runtime import load_module
from whet.compiler.runtime.gpu.module import CudaModule
from whet.compiler.runtime.library.gpu_code import code_as_data, with_code

DEVICE = whet.device("cuda-emulator")
with_cc = pytest.mark.skipif(
    shutil.which(settings.c_compiler().split()[0]) is None, reason="no C compiler here"
)
with_nvrtc = pytest.mark.skipif(not nvrtc.available(), reason="no NVRTC here")


@pytest.fixture(scope="module")
def built():
    """Two kernels with an array between them, of symbolic size."""
    return doubled_twice(te.var("n"))


def check(f, n=37):
    a = np.random.default_rng(n).integers(-9, 9, n).astype("float32")
    there, c = (whet.nd.array(x, DEVICE) for x in (a, np.full_like(a, np.nan)))
    f(there, c)
    doubled = 2 * a[::-1]
    np.testing.assert_array_equal(c.numpy(), doubled[::-1] + doubled)


@with_cc
@pytest.mark.parametrize("ending", ["so", "o", "tar"])
def test_a_module_for_gpus_alone_is_exported(built, tmp_path, ending):
    path = built.export_library(tmp_path / f"twice.{ending}")
    loaded = load_module(path)
    check(loaded)
    assert loaded.functions == built.functions == ["twice"] and loaded.entry_name == "twice"
    assert loaded.type_key == built.type_key
    (code,) = loaded.imported_modules
    assert isinstance(code, CudaModule) and loaded["twice"] is code["twice"]
    assert loaded.get_source("cuda") == built.get_source("cuda")
    assert loaded["twice"].signature == built["twice"].signature
    loaded.save(tmp_path / "again.tar")  # what was loaded can be exported once more
    check(load_module(tmp_path / "again.tar"), 1)


def test_the_part_for_gpus_is_exported_too(built, tmp_path):
    loaded = load_module(built.imported_modules[0].export_library(tmp_path / "part.tar"))
    assert isinstance(loaded, CudaModule) and loaded.type_key == "cuda"
    check(loaded)


def test_an_archive_of_code_for_gpus_needs_no_c_compiler(built, tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "nocc")
    path = built.export_library(tmp_path / "twice.tar")
    with tarfile.open(path) as archive:
        assert archive.getnames() == ["metadata.json"]
    check(load_module(path))
    with pytest.raises(ArtifactError, match=r"'nocc' cannot be started.*\n.*a \.tar needs no comp"):
        built.export_library(tmp_path / "twice.so")


@with_cc
def test_code_of_a_cpu_that_a_module_for_gpus_imports(tmp_path):
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i] + 1, name="B")
    one = added(8)
    one.import_module(whet.build(te.create_schedule(B.op), [A, B], "llvm", name="plus"))
    for ending in ("so", "tar"):
        loaded = load_module(one.export_library(tmp_path / f"both.{ending}"))
        a, b = np.arange(16, dtype="float32"), np.full(16, np.nan, "float32")
        loaded.get_function("plus", query_imports=True)(a, b)
        np.testing.assert_array_equal(b, a + 1)
        x, c = (whet.nd.array(np.full(8, v, "float32"), DEVICE) for v in (3, np.nan))
        loaded(x, x, c)
        assert (c.numpy() == 6).all()


@with_cc
def test_a_library_for_both_is_written_again_as_it_is(tmp_path, monkeypatch):
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i] + 1, name="B")
    plus = whet.build(te.create_schedule(B.op), [A, B], "llvm", name="plus")
    one = added(8)
    one.import_module(plus)
    for ending, other in (("so", "tar"), ("tar", "so")):
        monkeypatch.chdir(tmp_path)
        loaded = load_module(one.export_library(f"both.{ending}"))
        monkeypatch.chdir("/")
        again = load_module(loaded.export_library(tmp_path / f"again.{ending}"))
        a, b = np.arange(16, dtype="float32"), np.full(16, np.nan, "float32")
        again.get_function("plus", query_imports=True)(a, b)
        np.testing.assert_array_equal(b, a + 1)
        x, c = (whet.nd.array(np.full(8, v, "float32"), DEVICE) for v in (3, np.nan))
        again(x, x, c)
        assert (c.numpy() == 6).all()
        with pytest.raises(ArtifactError, match=rf"a \.{ending} file as the one that was loaded"):
            loaded.export_library(tmp_path / f"both.{other}")
        with pytest.raises(ArtifactError, match="without further arguments"):
            loaded.export_library(tmp_path / f"again.{ending}", options=["-g"])
        loaded.import_module(doubled_twice(8))  # what no file has
        with pytest.raises(ArtifactError, match="imported module of plus holds no code"):
            loaded.export_library(tmp_path / f"more.{ending}")
        (tmp_path / f"again.{ending}").unlink()
        with pytest.raises(ArtifactError, match="holds no code that can be linked"):
            again.export_library(tmp_path / f"more.{ending}")


class Elsewhere:
    """A context of some GPU on a machine without a compiler, and its driver."""

    loads_cubins = True

    def __init__(self, arch):
        self.properties, self.driver, self.arch = self, self, arch

    def compile(self, source, arch):
        raise TargetError("compile CUDA C with NVRTC", "there is no NVRTC library", "install it")


@with_nvrtc
def test_what_is_exported_runs_on_its_gpus_and_later_ones_without_a_compiler(built, tmp_path):
    loaded = load_module(built.export_library(tmp_path / "twice.tar"))
    (code,) = loaded.imported_modules
    for arch in ("sm_80", "sm_86"):
        assert code._image(Elsewhere(arch)) == code.artifact.object
    assert code.artifact.object == nvrtc.compile_cubin(built.get_source("cuda"), "sm_80").cubin
    for arch in ("sm_90", "sm_100"):
        image = code._image(Elsewhere(arch))
        assert b".target sm_80" in image and image.endswith(b"\0")
    with pytest.raises(TargetError, match="there is no NVRTC library"):
        code._image(Elsewhere("sm_75"))


@with_nvrtc
def test_the_machine_code_of_a_library_is_written_without_nvrtc(built, tmp_path, monkeypatch):
    loaded = load_module(built.export_library(tmp_path / "twice.tar"))
    taken = built.resources()
    for name in ("compile_cubin", "compile_ptx"):
        monkeypatch.setattr(nvrtc, name, Elsewhere("sm_80").compile)
    assert ".target sm_80" in loaded.get_source("ptx")
    loaded.save(tmp_path / "twice.cubin")
    (code,) = loaded.imported_modules
    assert (tmp_path / "twice.cubin").read_bytes() == code.artifact.object
    assert loaded.resources() == taken and taken["twice_kernel0"].registers > 0
    spilling = code.artifact.log.replace(" 0 bytes spill stores", " 8 bytes spill stores")
    again = CudaModule(replace(code.artifact, log=spilling)).resources()
    assert {r.spill_stores for r in again.values()} == {8}
    with pytest.raises(TargetError, match="there is no NVRTC library"):
        built.save(tmp_path / "built.cubin")


@with_nvrtc
@pytest.mark.parametrize("body, ptx", [("", ".target sm_90\n"), ("wgmma.fence.sync.aligned;", "")])
def test_ptx_is_for_later_gpus(built, body, ptx):
    (code,) = built.imported_modules
    text = code.artifact.source + f'\n__global__ void more() {{ asm volatile("{body}"); }}\n'
    target = {**code.artifact.target, "arch": "sm_90a"}
    one = replace(code.artifact, source=text, target=target)
    again = with_code(one, code_as_data(one))
    assert again.object[:4] == b"\x7fELF"
    assert ptx in again.ptx and bool(again.ptx) == bool(ptx)


@with_nvrtc
def test_text_that_does_not_compile_is_not_exported(built, tmp_path):
    (code,) = built.imported_modules
    wrong = CudaModule(replace(code.artifact, source="__global__ void k() { none(); }"))
    with pytest.raises(CodegenError, match='identifier "none" is undefined'):
        wrong.export_library(tmp_path / "wrong.tar")


def test_without_nvrtc_the_text_is_exported(built, tmp_path, monkeypatch):
    def missing(source, arch):
        raise TargetError("compile CUDA C with NVRTC", "there is no NVRTC library")

    monkeypatch.setattr(nvrtc, "compile_cubin", missing)
    with pytest.warns(RuntimeWarning, match="exported without machine code(.|\n)*no NVRTC library"):
        path = built.export_library(tmp_path / "twice.tar")
    loaded = load_module(path)
    artifact = loaded.imported_modules[0].artifact
    assert (artifact.object, artifact.ptx) == (b"", "")
    check(loaded)


def test_nothing_to_launch_is_exported(tmp_path):
    loaded = load_module(added(0).export_library(tmp_path / "none.tar"))
    c = whet.nd.empty((0,), "float32", DEVICE)
    loaded(c, c, c)
    assert c.numpy().shape == (0,)


@pytest.mark.parametrize(
    "data, message",
    [
        (b"{", "it holds no kernels of Whet"),
        (b"[]", "it holds no kernels of Whet"),
        (json.dumps({"whet": 999}).encode(), "it is of format 999"),
        (
            b'{"whet": 2}',
            "what it tells of itself is damaged: KeyError: 'target'\n.*export it again",
        ),
        (
            b'{"whet": 2, "target": {}, "cubin": "eA==", "ptx": ""}',
            "is damaged: ValueError: .* cut off",
        ),
        (b'{"whet": 2, "target": {}, "linked": 1, "imports": [], "others": []}', "and holds none"),
    ],
)
def test_archives_that_are_none_of_ours(tmp_path, data, message):
    (tmp_path / "metadata.json").write_bytes(data)
    with tarfile.open(tmp_path / "f.tar", "w") as archive:
        archive.add(tmp_path / "metadata.json", "metadata.json")
    with pytest.raises(ArtifactError, match=message):
        load_module(tmp_path / "f.tar")


PROGRAM = """
import sys
import numpy as np
import whet

f = whet.runtime.load_module(sys.argv[1])
device = whet.device("cuda-emulator")
a, c = (whet.nd.array(np.full(8, x, "float32"), device) for x in (1, np.nan))
f(a, a, c)
assert (c.numpy() == 2).all()
heavy = ("llvmlite", "whet.compiler.te", "whet.compiler.passes", "whet.compiler.driver.lowering")
print([name for name in heavy if name in sys.modules])
"""


def test_nothing_of_the_compiler_is_loaded(tmp_path):
    path = added(8).export_library(tmp_path / "add.tar")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), path], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n"


@with_cc
def test_kernels_of_two_gpus_in_one_module(tmp_path):
    A = te.placeholder((50,), name="A")
    parts = {}
    for k, target in enumerate((SM_80, "cuda -arch=sm_90")):
        C = te.compute((50,), lambda i: A[i] * (k + 2), name="C")  # noqa: B023
        s = te.create_schedule(C.op)
        bound(s, C)
        parts[target] = whet.lower(s, [A, C], name=f"f{k}")
    loaded = load_module(whet.build(parts).export_library(tmp_path / "two.so"))
    assert loaded.functions == ["f0", "f1"]
    a = np.arange(50, dtype="float32")
    for k in (0, 1):
        c = whet.nd.empty(50, "float32", DEVICE)
        loaded[f"f{k}"](whet.nd.array(a, DEVICE), c)
        np.testing.assert_array_equal(c.numpy(), a * (k + 2))
