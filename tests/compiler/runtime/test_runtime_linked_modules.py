"""Libraries of several modules: code of each CPU kind, kernels of GPUs, what cannot be linked."""

import shutil
import subprocess

import numpy as np
import pytest
from linked_programs import compiled, parallel
from raw_kernels import FAILING, FAILING_RAW, MIXED, MIXED_RAW, VADD, VADD_RAW, module

import whet
from whet import te
from whet.compiler import settings
from whet.compiler.errors import ArgumentError, ArtifactError
from whet.compiler.runtime import Artifact, Module, load_module
from whet.compiler.runtime.load import SourceModule

pytestmark = pytest.mark.skipif(
    shutil.which(settings.c_compiler().split()[0]) is None, reason="no C compiler here"
)


def shifted(name, by, threads=False):
    """``B = A + by`` of 16 numbers, lowered; over a GPU's threads if so asked."""
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i] + float(by), name="B")
    s = te.create_schedule(B.op)
    if threads:
        s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
    return whet.lower(s, [A, B], name=name)


def adds(function, by):
    a, b = np.random.rand(16).astype("f4"), np.full(16, np.nan, "f4")
    function(a, b)
    np.testing.assert_array_equal(b, a + np.float32(by))


@pytest.mark.parametrize("ending", ["so", "o", "tar"])
def test_code_of_every_kind_travels_with_the_library(tmp_path, ending):
    made = whet.build({"llvm": shifted("f", 1), "c": shifted("g", 2)})
    loaded = load_module(made.export_library(tmp_path / f"mix.{ending}"))
    assert loaded.functions == made.functions == ["f", "g"]
    (part,) = loaded.imported_modules
    assert (loaded.type_key, part.type_key) == ("llvm", "c") and part.functions == ["g"]
    assert loaded["g"] is part["g"]
    for one in (made, loaded):
        adds(one["f"], 1)
        adds(one["g"], 2)
    adds(part, 2)
    with pytest.raises(ArgumentError, match=r"g\(\), argument 1 \(B\): B\.shape\[0\] is 3"):
        loaded["g"](np.zeros(16, "f4"), np.zeros(3, "f4"))
    assert len(loaded.time_evaluator("g", whet.cpu(0))(*np.zeros((2, 16), "f4")).results) == 1


@pytest.mark.parametrize("ending", ["so", "tar"])
def test_modules_that_were_imported_by_hand(tmp_path, ending):
    outer, inner = module((VADD, VADD_RAW)), parallel()
    middle = module((MIXED, MIXED_RAW))
    middle.import_module(inner)
    outer.import_module(middle)
    outer.import_module(inner)  # twice in the tree, once in the library
    loaded = load_module(outer.export_library(tmp_path / f"k.{ending}"))
    assert loaded.functions == ["vadd"]  # an import's functions are asked for
    found = loaded.get_function("f", query_imports=True)
    a, b = np.random.rand(1000).astype("f4"), np.full(1000, np.nan, "f4")
    found(a, b)
    np.testing.assert_array_equal(b, a + np.float32(1))
    assert [m.functions for m in loaded.imported_modules] == [["mixed"], ["f"]]
    assert loaded.imported_modules[0].imported_modules[0].functions == ["f"]


C_BOTH = r"""
#include <whet/runtime.h>

WHET_KERNEL(f);
WHET_KERNEL(g);

int main(void) {
  float a[16] = {1}, b[16], c[16];
  int64_t shape[] = {16};
  DLDataType f32 = {kDLFloat, 32, 1};
  DLDevice cpu = {kDLCPU, 0};
  DLTensor A = {a, cpu, 1, f32, shape, NULL, 0};
  DLTensor B = {b, cpu, 1, f32, shape, NULL, 0};
  DLTensor C = {c, cpu, 1, f32, shape, NULL, 0};
  void *first[] = {&A, &B}, *second[] = {&B, &C};
  int32_t wrong = f(first, 2) || g(second, 2);
  printf("%d %g %g\n", wrong, c[0], c[15]);
  return 0;
}
"""


def test_a_c_program_calls_the_code_of_both_kinds(tmp_path):
    made = whet.build({"llvm": shifted("f", 1), "c": shifted("g", 2)})
    made.export_library(tmp_path / "mix.so")
    program = compiled(tmp_path, C_BOTH, "./mix.so")
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    assert done.stdout == "0 4 3\n"


def test_what_launches_kernels_is_still_named_in_the_library(tmp_path):
    made = whet.build({"llvm": shifted("f", 1), "cuda": shifted("k", 2, threads=True)})
    loaded = load_module(made.export_library(tmp_path / "mix.so"))
    with pytest.raises(ArtifactError, match=r"the module of f holds no code.*\n.*export and"):
        loaded.export_library(tmp_path / "again.tar")
    assert loaded.functions == made.functions == ["f", "k"]
    adds(loaded["f"], 1)
    assert loaded["k"].signature == made["k"].signature
    with pytest.raises(ArgumentError, match="a int is not an array"):
        loaded["k"](1, 2)
    assert loaded.get_source("cuda") == made.get_source("cuda")


def test_two_functions_of_one_name_are_refused(tmp_path):
    one = module((VADD, VADD_RAW), (MIXED, MIXED_RAW))
    one.import_module(module((FAILING, FAILING_RAW)))
    one.import_module(module((MIXED, MIXED_RAW)))
    with pytest.raises(ArtifactError, match=r"two of its modules have a function 'mixed'\n.*name="):
        one.export_library(tmp_path / "k.so")


def test_code_for_another_processor_is_refused(tmp_path):
    far = "llvm -mtriple=aarch64-unknown-linux-gnu"
    if whet.target.Target("llvm").canonical().attrs["mtriple"].startswith("aarch64"):
        far = "llvm -mtriple=x86_64-unknown-linux-gnu"
    made = whet.build({"llvm": shifted("f", 1), far: shifted("g", 2)})
    with pytest.raises(ArtifactError, match="one processor: the imported module of g was"):
        made.export_library(tmp_path / "k.so")
    (part,) = made.imported_modules
    part.save(tmp_path / "g.o")
    assert (tmp_path / "g.o").read_bytes() == part.artifact.object


def test_code_that_was_loaded_from_a_file_is_refused(tmp_path):
    loaded = load_module(module((MIXED, MIXED_RAW)).export_library(tmp_path / "k.so"))
    one = module((VADD, VADD_RAW))
    one.import_module(loaded)
    with pytest.raises(ArtifactError, match="imported module of mixed holds no code that can be"):
        one.export_library(tmp_path / "both.so")
    with pytest.raises(ArtifactError, match="loaded from a file: its machine code is linked"):
        loaded.export_library(tmp_path / "again.tar")
    again = loaded.export_library(tmp_path / "again.so")  # a copy
    assert (tmp_path / "k.so").read_bytes() == (tmp_path / "again.so").read_bytes()
    assert load_module(again).functions == loaded.functions


def test_kernels_of_a_gpu_are_written_as_source(tmp_path):
    f = whet.build(shifted("k", 2, threads=True), target="cuda")
    for fmt in ("ll", "asm", "c"):
        with pytest.raises(ArgumentError) as caught:
            f.get_source(fmt)
        assert "the host's part of a module for cuda only launches" in str(caught.value)
        assert 'formats: "cu", "cuda", "ptx"' in str(caught.value)
    with pytest.raises(ArgumentError, match="host's part of a module for cuda"):
        f.save(tmp_path / "k.bc")
    with pytest.raises(ArgumentError, match=r"get_source\('foo'\): no such format\n.*\"sass\"$"):
        f.get_source("foo")
    for name, why in (("k.foo", "no such format"), ("k.bc", "only launches")):
        with pytest.raises(
            ArgumentError, match=rf"save\(.*{why}(.|\n)*\"ptx\", .*\"cubin\", \"so\""
        ):
            f.save(tmp_path / name)
    f.save(tmp_path / "k.cu")
    assert "__global__" in (tmp_path / "k.cu").read_text() == f.get_source("cuda")


def test_the_text_of_c_and_of_an_import(tmp_path):
    f = whet.build(shifted("g", 2), target="c")
    assert f.get_source() == f.get_source("c") == f.artifact.source
    assert "g__raw" in f.get_source() and "for (" in f.get_source()
    f.save(tmp_path / "g.c")
    assert (tmp_path / "g.c").read_text() == f.get_source()
    with pytest.raises(ArgumentError, match=r'no such format\n.*formats: "c"$'):
        f.get_source("ll")
    both = whet.build({"llvm": shifted("f", 1), "c": shifted("g", 2)})
    assert "g__raw" in both.get_source("c") and "define" in both.get_source("ll")
    with pytest.raises(ArgumentError, match=r'formats: "ll", "asm", "s", "c"$'):
        both.get_source("ptx")


def test_an_imported_source_without_a_processor_stays_source(tmp_path):
    one = module((VADD, VADD_RAW))
    one.import_module(SourceModule(Artifact(b"", (MIXED,), {"kind": "opencl"}, "kernel")))
    loaded = load_module(one.export_library(tmp_path / "k.so"))
    assert isinstance(loaded.imported_modules[0], SourceModule) and isinstance(loaded, Module)
    assert loaded.get_source("opencl") == "kernel"
