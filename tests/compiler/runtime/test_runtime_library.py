"""Exported libraries: written, refused, loaded again by a process that imports no compiler."""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from linked_programs import parallel
from raw_kernels import MIXED, MIXED_RAW, VADD, VADD_RAW, artifact, module

import whet
from whet import te
from whet.compiler import settings
from whet.compiler.errors import ArgumentError, ArtifactError, TargetError
from whet.compiler.runtime import Artifact, Module, load_module
from whet.compiler.runtime.load import SourceModule

pytestmark = pytest.mark.skipif(
    shutil.which(settings.c_compiler().split()[0]) is None, reason="no C compiler here"
)


@pytest.fixture(scope="module")
def built():
    return module((VADD, VADD_RAW), (MIXED, MIXED_RAW))


def vectors(n=16):
    return [np.arange(n, dtype=np.float32) for _ in range(3)]


def check(loaded):
    a, b, c = vectors()
    c[:] = np.nan
    loaded(a, b, c)
    np.testing.assert_array_equal(c, a + b)


@pytest.mark.parametrize("ending", ["so", "o", "tar"])
def test_a_library_is_loaded_again(built, tmp_path, ending):
    path = built.export_library(tmp_path / f"kernels.{ending}")
    assert path == str(tmp_path / f"kernels.{ending}") and os.listdir(tmp_path) == [Path(path).name]
    loaded = load_module(path)
    assert loaded.functions == ["vadd", "mixed"] and loaded.entry_name == "vadd"
    assert loaded.entry_func.signature == VADD and loaded["mixed"].signature == MIXED
    check(loaded)
    out = np.zeros((), np.float64)
    loaded["mixed"](np.zeros((3, 2, 3), np.int64), 0.5, -3, True, out)
    assert out == 97.5
    assert loaded.type_key == "llvm" and not loaded.is_dso_exportable
    result = loaded.time_evaluator("vadd", whet.cpu(0), number=2, repeat=3)(*vectors())
    assert len(result.results) == 3
    with pytest.raises(ArgumentError, match="holds machine code only"):
        loaded.get_source()


def test_the_messages_are_those_of_the_compiled_module(built, tmp_path):
    loaded = load_module(built.export_library(tmp_path / "k.so"))
    a, b, c = vectors()
    for args, named in [((a, b), {}), ((a, b, c[:3]), {}), ((a, b, 1), {}), ((a, b), {"C": c})]:
        said = []
        for one in (built, loaded):
            with pytest.raises(ArgumentError) as caught:
                one(*args, **named)
            said.append(str(caught.value))
        assert said[0] == said[1]


def test_a_name_without_an_ending_can_have_a_format(built, tmp_path):
    built.save(tmp_path / "kernels", "so")
    check(load_module(tmp_path / "kernels", fmt="so"))
    with pytest.raises(ArgumentError, match="no format of a library"):
        load_module(tmp_path / "kernels")


def test_what_cannot_be_loaded(built, tmp_path):
    with pytest.raises(ArtifactError, match="there is no such file") as caught:
        load_module(tmp_path / "missing.so")
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, FileNotFoundError)
    (tmp_path / "text.so").write_text("no library")
    with pytest.raises(ArtifactError, match="it cannot be loaded"):
        load_module(tmp_path / "text.so")
    (tmp_path / "text.tar").write_text("no archive")
    with pytest.raises(ArtifactError, match=r"no archive of a library: .*\n  Module.export_lib"):
        load_module(tmp_path / "text.tar")
    with tarfile.open(tmp_path / "odd.tar", "w") as archive:
        archive.add(tmp_path / "text.so", "../outside.txt")
    with pytest.raises(ArtifactError, match="holds no object"):
        load_module(tmp_path / "odd.tar")
    assert not (tmp_path.parent / "outside.txt").exists()
    (tmp_path / "foreign.c").write_text("int f(void) { return 1; }")
    compiler = settings.c_compiler().split()
    command = [*compiler, "-shared", "-fPIC", "foreign.c", "-o", "foreign.so"]
    subprocess.run(command, cwd=tmp_path, check=True)
    with pytest.raises(ArtifactError, match="holds no kernels of Whet"):
        load_module(tmp_path / "foreign.so")


def test_a_library_for_another_processor_is_refused(tmp_path, monkeypatch):
    made = artifact((VADD, VADD_RAW))
    newer = Artifact(
        made.object, made.signatures, {**made.target, "mattr": "+amx-fp16,+amx-tile"}, ""
    )
    one = Module(made)
    one.artifact = newer
    path = one.export_library(tmp_path / "k.so")
    from whet.compiler.runtime import load as library

    monkeypatch.setattr(library.host, "cpuinfo", lambda field: "fpu avx2")
    monkeypatch.setattr(library.platform, "machine", lambda: "x86_64")
    with pytest.raises(ArtifactError, match="this CPU lacks what it was made for: amx-tile"):
        load_module(path)


def test_what_cannot_be_exported(built, tmp_path):
    with pytest.raises(ArgumentError, match=r"'\.dll' is no format"):
        built.export_library(tmp_path / "k.dll")
    with pytest.raises(ArtifactError, match="there is no folder"):
        built.export_library(tmp_path / "nowhere" / "k.so")
    with pytest.raises(
        ArtifactError, match=r"'nocc' cannot be started: .*\n.*a \.tar needs no comp"
    ):
        built.export_library(tmp_path / "k.so", cc="nocc")
    with pytest.raises(ArtifactError, match="ended with"):
        built.export_library(tmp_path / "k.so", addons=[str(tmp_path / "no.o")])
    assert os.listdir(tmp_path) == []
    device = SourceModule(Artifact(b"", (VADD,), {"kind": "cuda"}, "__global__ ..."))
    with pytest.raises(ArtifactError, match="kind 'cuda' holds no code of a CPU"):
        device.export_library(tmp_path / "k.so")


def test_compilers_and_more_files(built, tmp_path):
    seen = []

    def fcompile(output, files, **options):
        seen.append((sorted(Path(f).name for f in files), options))
        Path(output).write_bytes(b"made")

    kept = tmp_path / "parts"
    built.export_library(tmp_path / "k.xyz", fcompile, workspace_dir=str(kept), options=["-g"])
    assert (tmp_path / "k.xyz").read_bytes() == b"made"
    assert seen == [(["kernels.o", "library.c"], {"options": ["-g"]})]
    assert {p.name for p in kept.iterdir()} == {"kernels.o", "library.c", "whet"}
    (tmp_path / "more.c").write_text("int more(void) { return 42; }")
    path = built.export_library(
        tmp_path / "k.so", addons=[str(tmp_path / "more.c")], options=["-DX"], cc="cc"
    )
    loaded = load_module(path)
    assert loaded._code.has("more") and loaded._code._library.more() == 42


def test_the_archive_holds_its_parts(built, tmp_path):
    built.export_library(tmp_path / "k.tar")
    with tarfile.open(tmp_path / "k.tar") as archive:
        assert set(archive.getnames()) == {"kernels.o", "library.c", "whet/runtime.h"}


def test_a_library_in_use_is_replaced(built, tmp_path):
    path = built.export_library(tmp_path / "k.so")
    first = load_module(path)
    other = module((VADD, VADD_RAW.replace("fadd", "fsub")))
    other.export_library(path)
    second = load_module(path)
    check(first)
    a, b, c = vectors()
    second(a, b, c)
    np.testing.assert_array_equal(c, a - b)


ALONE = """
import sys
import numpy as np
import whet

m = whet.runtime.load_module(sys.argv[1])
a, b = (np.arange(16, dtype="float32") for _ in range(2))
c = np.empty(16, "float32")
m(a, b, c)
assert (c == a + b).all()
try:
    m(a, b, c[:3])
except whet.ArgumentError as error:
    assert "C.shape[0] is 3, expected 16" in str(error), error
else:
    raise AssertionError("a wrong shape was taken")
m.time_evaluator("vadd", whet.cpu(0))(a, b, c)
loaded = set(sys.modules)
unwanted = {
    "whet.compiler.te", "whet.compiler.tir", "whet.compiler.topi", "whet.compiler.passes",
    "whet.compiler.driver", "whet.compiler.arith", "whet.search_spaces", "whet.measure",
    "whet.autotune", "whet.db", "optuna", "sqlalchemy", "ray", "xgboost", "llvmlite",
}
assert not loaded & unwanted, loaded & unwanted
"""


@pytest.mark.parametrize("ending", ["so", "o", "tar"])
def test_a_process_that_runs_a_library_imports_nothing_else(built, tmp_path, ending):
    path = built.export_library(tmp_path / f"k.{ending}")
    done = subprocess.run([sys.executable, "-c", ALONE, path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_loaded_parallel_kernel(tmp_path):
    a, b = np.random.rand(1000).astype("f4"), np.empty(1000, "f4")
    for ending in ("so", "tar"):
        b[:] = np.nan
        load_module(parallel().export_library(tmp_path / f"k.{ending}"))(a, b)
        np.testing.assert_array_equal(b, a + np.float32(1))


def test_two_libraries_with_one_name_in_a_process(tmp_path):
    made = []
    for k, op in enumerate(("fadd", "fsub")):
        one = module((VADD, VADD_RAW.replace("fadd", op)))
        made.append(load_module(one.export_library(tmp_path / f"k{k}.so")))
    a, b, c = vectors()
    for loaded, wanted in zip(made, (a + b, a - b)):
        loaded(a, b, c)
        np.testing.assert_array_equal(c, wanted)


def test_imported_source_travels_with_the_library(built, tmp_path):
    text = '__global__ void k() { /* "quoted" \\ ??/ \n é */ }'
    one = module((VADD, VADD_RAW))
    one.import_module(
        SourceModule(Artifact(b"", (MIXED,), {"kind": "cuda", "arch": "sm_80"}, text))
    )
    assert one.get_source("cuda") == one.get_source("cu") == text
    assert one.get_source() == one.get_source("ll") != text
    loaded = load_module(one.export_library(tmp_path / "k.so"))
    check(loaded)
    (device,) = loaded.imported_modules
    assert device.type_key == "cuda" and device.get_source() == text
    assert loaded.get_source("cuda") == text
    assert loaded.implements_function("mixed", query_imports=True)
    assert not loaded.implements_function("mixed")
    for call in (device, device["mixed"]):
        with pytest.raises(TargetError, match="source for cuda, which is not run here"):
            call(1)
    loaded.save(tmp_path / "k.cu")
    assert (tmp_path / "k.cu").read_text() == text


def test_assertions_of_a_loaded_kernel(tmp_path):
    n, a = te.var("n"), whet.tir.decl_buffer((4,), "int32", "A")
    store = whet.tir.BufferStore(a, n, [whet.tir.const(0)])
    body = whet.tir.AssertStmt(
        n < 4, "the index {0} is not below {1}", store, (n, whet.tir.const(4))
    )
    f = whet.build(whet.tir.PrimFunc((a, n), body), target="llvm", name="f")
    loaded, out = load_module(f.export_library(tmp_path / "k.so")), np.zeros(4, np.int32)
    for one in (f, loaded):
        one(out, 3)
        assert out[0] == 3
        with pytest.raises(whet.KernelError, match=r"f\(\): the index 9 is not below 4"):
            one(out, 9)
        with pytest.raises(whet.KernelError, match="the index 7 is not below 4"):
            one["f"].repeater((out, 7))(2)
