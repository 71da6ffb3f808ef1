"""Wrong arguments of arrays, devices, modules and the timer are errors of Whet's own."""

import numpy as np
import pytest
from raw_kernels import VADD, VADD_RAW, module

import whet
from whet import te
from whet.compiler.errors import ArgumentError, ArtifactError, CodegenError, TargetError
from whet.compiler.runtime import load_module
from whet.compiler.runtime.arrays import nd


@pytest.fixture(scope="module")
def built():
    return module((VADD, VADD_RAW))


N = te.var("n")


@pytest.mark.parametrize("shape", [(-1,), -1, (2.5,), "x", "", None, N, (N, 2), [[1, 2]], {1, 2}])
def test_shapes(shape):
    with pytest.raises(ArgumentError, match="a shape is integers of 0 or more"):
        nd.empty(shape)
    with pytest.raises(ArgumentError, match="a shape is integers of 0 or more"):
        nd.array([1.0])._create_view(shape)


def test_shapes_and_dtypes_that_are_taken():
    A = te.placeholder((3, 4), name="A")
    assert nd.empty(A.shape).shape == (3, 4) and nd.empty(5).shape == (5,)
    assert nd.empty(np.array([2, 3])).shape == (2, 3) and nd.empty(()).shape == ()
    wanted = {np.float32: "float32", float: "float64", int: "int64", bool: "bool"}
    wanted |= {np.dtype("int16"): "int16", np.dtype(">f4"): "float32", "uint8": "uint8"}
    assert [nd.empty((2,), d).dtype for d in wanted] == list(wanted.values())
    for dtype in ("float31", None, dict, np.complex64):
        with pytest.raises(CodegenError):
            nd.empty((2,), dtype)
    with pytest.raises((ArgumentError, MemoryError)):
        nd.empty((10**9, 10**9))
    with pytest.raises(ArgumentError, match="numpy makes no such array"):
        nd.empty((1,) * 100)


def test_elements():
    for ragged in ([[1, 2], [3]], [np.zeros(2), np.zeros(3)]):
        with pytest.raises(ArgumentError, match=r"nd\.array\(\.\.\.\): numpy makes no array of it"):
            nd.array(ragged)
        with pytest.raises(ArgumentError, match=r"copyfrom\(\): numpy makes no array of it"):
            nd.empty((2,)).copyfrom(ragged)
    for dtype, wrong in [("float32", "x"), ("int32", 10**30), ("float32", ["a", "b"])]:
        a = nd.empty((2,), dtype)
        with pytest.raises(ArgumentError, match=f"the source does not turn into {dtype}"):
            a[:] = wrong
    for wrong in ("x", None, object()):
        with pytest.raises(ArgumentError, match="kernels have no such elements"):
            nd.array(wrong)


def test_truth_and_length():
    assert not nd.array(0) and nd.array(2.5) and nd.array([[1]]) and not nd.array([0.0])
    for many in ([1, 2], []):
        with pytest.raises(ArgumentError, match="neither true nor false"):
            bool(nd.array(many))
    assert len(nd.array([1, 2])) == 2
    with pytest.raises(ArgumentError, match="no dimensions has no length"):
        len(nd.array(0))


def test_devices():
    for wrong in (-1, "x", None, 1.5, True):
        for make in (whet.cpu, whet.cuda, lambda k: nd.device("cpu", k)):
            with pytest.raises(TargetError, match="a device's number is 0 or more"):
                make(wrong)


def test_names_of_functions_and_files(built, tmp_path):
    for wrong in ([], None, 3, {}):
        with pytest.raises(ArgumentError, match="the module has no such function"):
            built[wrong]
        assert not built.implements_function(wrong)
        for call in (load_module, built.save, built.export_library):
            with pytest.raises(ArgumentError, match="a file's name is a str or a Path") as caught:
                call(wrong)
            assert str(caught.value).startswith(f"{call.__name__}({wrong!r})")
    with pytest.raises(ArgumentError, match="fmt is a str"):
        load_module(tmp_path / "k", fmt=3)
    with pytest.raises(ArgumentError, match="a format is a str"):
        built.get_source([])


def test_places_that_cannot_be_written(built, tmp_path):
    (tmp_path / "folder.ll").mkdir()
    (tmp_path / "folder.so").mkdir()
    for name in ("missing/k.ll", "folder.ll"):
        with pytest.raises(ArtifactError, match="the file cannot be written"):
            built.save(tmp_path / name)
    with pytest.raises(ArtifactError, match="there is no folder"):
        built.save(tmp_path / "missing" / "k.so")
    with pytest.raises(ArtifactError, match="it is a folder"):
        built.export_library(tmp_path / "folder.so")
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtifactError, match="cannot be made"):
        built.export_library(tmp_path / "k.so", workspace_dir=str(tmp_path / "file" / "parts"))


def test_options_of_the_linker(built, tmp_path):
    path = tmp_path / "k.so"
    with pytest.raises(ArgumentError, match=r"given no 'bogus'\n.*options, cc"):
        built.export_library(path, bogus=1)
    with pytest.raises(ArgumentError, match="options is a list of texts, not '-g'"):
        built.export_library(path, options="-g")
    with pytest.raises(ArgumentError, match="fcompile is a function, not 'cc'"):
        built.export_library(path, "cc")
    with pytest.raises(ArtifactError, match="fcompile wrote no file"):
        built.export_library(path, lambda output, files: None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["number", "repeat", "repeats_to_cooldown"])
def test_counts_of_the_timer(built, name):
    for wrong in (1.5, "x", None, True):
        with pytest.raises(ArgumentError, match=f"{name}=.*it must be an integer"):
            built.time_evaluator("vadd", whet.cpu(0), **{name: wrong})
    for wrong in (0, -3):
        with pytest.raises(ArgumentError, match=f"{name}={wrong}.*at least 1"):
            built.time_evaluator("vadd", whet.cpu(0), **{name: wrong})


@pytest.mark.parametrize("name", ["min_repeat_ms", "cooldown_interval_ms"])
def test_times_of_the_timer(built, name):
    for wrong in ("x", None, [1]):
        with pytest.raises(ArgumentError, match=f"{name}=.*number of milliseconds"):
            built.time_evaluator("vadd", whet.cpu(0), **{name: wrong})
    for wrong in (-1, float("nan"), float("inf")):
        with pytest.raises(ArgumentError, match=f"{name}=.*finite and 0 or more"):
            built.time_evaluator("vadd", whet.cpu(0), **{name: wrong})


def test_other_arguments_of_the_timer(built):
    for wrong in (3, {1}, "warm"):
        with pytest.raises(ArgumentError, match="there is no such preparation"):
            built.time_evaluator("vadd", whet.cpu(0), f_preproc=wrong)
    with pytest.raises(ArgumentError, match="limit_zero_time_iterations=-1"):
        built.time_evaluator("vadd", whet.cpu(0), limit_zero_time_iterations=-1)
    timed = built.time_evaluator(
        "vadd", whet.cpu(0), np.int64(2), min_repeat_ms=np.float32(0), f_preproc=None
    )
    assert len(timed(*np.zeros((3, 16), "f4")).results) == 1


def test_tags():
    for wrong in (3, None, ""):
        with pytest.raises(TargetError, match="a tag is a name"):
            whet.target.register_tag(wrong, {"kind": "llvm"})
