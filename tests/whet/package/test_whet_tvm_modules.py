"""TVM's import paths and old names: the same objects, found late; what is not here says why."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest

import whet
from whet import te


def fresh(code: str) -> list[str]:
    """The output of code in a process of its own."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_import_statements_of_tvm_give_the_same_modules():
    printed = fresh(
        "from whet.te import compute, schedule\n"
        "from whet.tir import IRModule\n"
        "import whet.testing, whet.tir.stmt_functor, whet.nd, whet.arith, whet.te.tensor\n"
        "import whet.transform, whet.instrument, whet.driver.build_module\n"
        "from whet.topi import nn\n"
        "from whet.target import Target\n"
        "from whet.runtime.ndarray import NDArray\n"
        "from whet.ir.instrument import pass_instrument\n"
        "from whet.ir.transform import PassContext\n"
        "from whet.contrib.utils import tempdir\n"
        "from whet.autotvm.task import create\n"
        "from whet.autotvm.task.space import OtherOptionEntity, SplitEntity\n"
        "import sys, whet.compiler.te.schedule\n"
        "import whet.compiler.runtime.arrays.ndarray as n\n"
        "assert sys.modules['whet.te'] is whet.te is whet.compiler.te\n"
        "assert schedule is whet.compiler.te.schedule is sys.modules['whet.te.schedule']\n"
        "assert NDArray is n.NDArray is whet.nd.NDArray and Target is whet.Target\n"
        "assert pass_instrument is whet.instrument.pass_instrument\n"
        "assert callable(whet.te.extern) and nn is whet.topi.nn\n"
        "import importlib.util as u\n"
        "assert u.find_spec('whet.te').name == 'whet.compiler.te'\n"
        "assert u.find_spec('whet.te.nothing') is None is u.find_spec('whet.nothing')\n"
        "real = {}\n"
        "for name, m in sys.modules.items():\n"
        "    if name.startswith('whet') and getattr(m, '__file__', None):\n"
        "        real.setdefault(m.__file__, set()).add(id(m))\n"
        "print(max(map(len, real.values())), len(real) > 50)\n"
    )
    assert printed == ["1 True"]


def test_a_module_is_loaded_once_whichever_name_comes_first():
    fresh(
        "import whet.te.show.walkthrough as short\n"
        "import whet.compiler.te.show.walkthrough as long\n"
        "assert short is long and long.__spec__.name == long.__name__"
    )


def test_import_whet_loads_nothing_but_the_finder():
    code = "import whet, sys, json; print(json.dumps([m for m in sys.modules if 'whet.' in m]))"
    assert json.loads(fresh(code)[0]) == ["whet.tvm", "whet.moved", "whet.tvm.modules"]


def test_a_module_that_a_function_hides_is_not_put_in_its_place(monkeypatch):
    def fake(): ...

    real = import_module("whet.compiler.te.show.walkthrough")
    show = import_module("whet.te.show")
    monkeypatch.setattr(show, "walkthrough", fake)
    monkeypatch.delitem(sys.modules, "whet.te.show.walkthrough", raising=False)
    with pytest.raises(ImportError, match=r"show\.walkthrough is a function: write from whet"):
        import_module("whet.te.show.walkthrough")
    assert show.walkthrough is fake and sys.modules[real.__name__] is real


def test_objects_pickle_by_their_own_names():
    from whet.runtime.ndarray import array

    again = pickle.loads(pickle.dumps(array(np.arange(3, dtype="int32"))))
    assert type(again) is whet.nd.NDArray and again.numpy().tolist() == [0, 1, 2]
    assert pickle.loads(pickle.dumps(whet.te.compute)) is te.compute


def test_modules_that_are_not_here_say_what_to_use():
    with pytest.raises(ImportError, match="kind 'cuda' makes CUDA C"):
        from whet.contrib import nvcc  # noqa: F401
    with pytest.raises(ImportError, match=r"numpy fills arrays"):
        import_module("whet.contrib.random")
    with pytest.raises(AttributeError, match="register_func"):
        _ = whet.contrib.cublas
    assert not hasattr(whet.contrib, "nvcc") and not hasattr(whet.contrib, "nothing")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = whet.contrib.nothing


def test_errors_by_tvms_names():
    from whet.error import OpError, TVMError

    A = te.placeholder((4,), name="A")
    with pytest.raises(TVMError):
        te.create_schedule(A.op)[A].compute_inline()
    with pytest.raises(whet.error.OpNotImplemented, match="no target kind"):
        whet.Target("openclx")
    with pytest.raises(whet.error.OpAttributeInvalid):
        whet.nd.array(np.zeros(2, "complex64"))
    assert whet.error.TVMError is OpError is whet.WhetError
    assert issubclass(whet.error.InternalError, whet.WhetError)
    assert issubclass(whet.error.KernelError, whet.error.DiagnosticError)
    with pytest.raises(AttributeError, match="there is no RPC"):
        _ = whet.error.RPCError
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = whet.error.Nothing


def test_a_folder_of_a_test(tmp_path):
    with whet.contrib.utils.tempdir() as folder:
        path = folder.relpath("a.txt")
        open(path, "w").close()
        assert path.startswith(folder.path) and folder.listdir() == ["a.txt"]
    assert not (tmp_path / "x").exists()
    own = whet.contrib.utils.tempdir(tmp_path / "x")
    assert (tmp_path / "x").is_dir()
    own.remove()
    own.remove()
    assert not (tmp_path / "x").exists()


def add_one(name: str = "default_function", target: str = "llvm"):
    A = te.placeholder((5,), name="A")
    B = te.compute((5,), lambda i: A[i] + 1.0, name="B")
    return whet.build(te.create_schedule(B.op), [A, B], target, name=name)


def test_create_shared_links_objects_and_is_an_fcompile(tmp_path):
    from whet.contrib import cc

    assert cc.get_cc()
    (tmp_path / "f.c").write_text("int seven(void) { return SEVEN; }")
    library = str(tmp_path / "f.so")
    cc.create_shared(library, str(tmp_path / "f.c"), options=["-DSEVEN=7"])
    import ctypes

    assert ctypes.CDLL(library).seven() == 7
    with pytest.raises(whet.error.TVMError, match="no_such_compiler"):
        cc.create_shared(library, [str(tmp_path / "f.c")], cc="no_such_compiler")
    for k, fcompile in enumerate([cc.create_shared, cc.cross_compiler("cc", options=["-g"])]):
        path = str(tmp_path / f"module{k}.so")
        add_one().export_library(path, fcompile=fcompile)
        out = np.full(5, np.nan, "float32")
        whet.runtime.load_module(path)(np.arange(5, dtype="float32"), out)
        assert out.tolist() == [1, 2, 3, 4, 5]
    with pytest.raises(whet.ArgumentError, match="a command or a function"):
        cc.cross_compiler(3)


def test_code_for_another_processor_asks_for_its_compiler(tmp_path, monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    module = add_one(target="llvm -mtriple=aarch64-linux-gnu")
    for name in ("a.so", "a.o"):
        with pytest.raises(whet.WhetError, match=r"pass cc='aarch64-linux-gnu-gcc', or write a"):
            module.export_library(tmp_path / name)
    module.export_library(tmp_path / "a.tar")
    assert (tmp_path / "a.tar").stat().st_size > 1000
    with pytest.raises(whet.WhetError, match="no_such_compiler"):
        module.export_library(tmp_path / "a.so", cc="no_such_compiler")


@pytest.mark.parametrize(("transa", "transb"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_cblas_matmul_is_a_stage(transa, transb):
    from whet.contrib import cblas

    rng = np.random.default_rng()
    a, b = rng.random((3, 7), "float32"), rng.random((7, 5), "float32")
    A = te.placeholder((7, 3) if transa else (3, 7), name="A")
    B = te.placeholder((5, 7) if transb else (7, 5), name="B")
    C = cblas.matmul(A, B, transa=bool(transa), transb=bool(transb))
    D = te.compute(C.shape, lambda i, j: C[i, j] + 1.0, name="D")
    out = np.full((3, 5), np.nan, "float32")
    f = whet.build(te.create_schedule(D.op), [A, B, D])
    f(np.ascontiguousarray(a.T) if transa else a, np.ascontiguousarray(b.T) if transb else b, out)
    np.testing.assert_allclose(out, a @ b + 1, rtol=1e-5)


def test_cblas_batches_and_what_is_no_matrix():
    from whet.contrib import cblas

    A, B = te.placeholder((2, 3, 4), name="A"), te.placeholder((2, 5, 4), name="B")
    C = cblas.batch_matmul(A, B, transb=True, name="product")
    a, b = np.random.rand(2, 3, 4).astype("float32"), np.random.rand(2, 5, 4).astype("float32")
    out = np.full((2, 3, 5), np.nan, "float32")
    whet.build(te.create_schedule(C.op), [A, B, C])(a, b, out)
    np.testing.assert_allclose(out, a @ b.transpose(0, 2, 1), rtol=1e-5)
    assert C.op.name == "product"
    with pytest.raises(whet.ArgumentError, match="no tensor of 2 dimensions"):
        cblas.matmul(A, B)


def test_kernels_for_torch_tensors():
    torch = pytest.importorskip("torch")
    from whet.contrib.dlpack import convert_func, to_pytorch_func

    out = torch.full((5,), float("nan"))
    to_pytorch_func(add_one())(torch.arange(5, dtype=torch.float32), out)
    assert out.tolist() == [1, 2, 3, 4, 5]
    seen = []
    f = convert_func(lambda *args: seen.extend(args), np.ndarray, lambda x: x)
    f(np.zeros(2, "float32"), 3)
    assert type(seen[0]) is whet.nd.NDArray and seen[1] == 3


def test_build_module_has_what_tvms_has():
    from whet.driver.build_module import get_binds, schedule_to_module

    build_module = whet.driver.build_module
    assert build_module.get_binds is get_binds and build_module.build is whet.driver.build
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] * 2.0, name="B")
    mod = schedule_to_module(te.create_schedule(B.op), [A, B])
    assert isinstance(mod, whet.IRModule)


def test_old_names_of_devices_warn():
    with pytest.warns(DeprecationWarning, match="use whet.device"):
        assert whet.context("cpu", 0) == whet.cpu(0)
    with pytest.warns(DeprecationWarning, match=r"nd.array\(ctx=...\) is deprecated") as seen:
        assert whet.nd.array([1.0], ctx=whet.cpu(0)).device == whet.cpu(0)
    assert seen[0].filename == __file__
    with pytest.warns(DeprecationWarning, match=r"nd.empty\(ctx"):
        assert whet.nd.empty((2,), ctx=whet.cpu(0)).shape == (2,)
    with pytest.raises(whet.ArgumentError, match="the device is given twice"):
        whet.nd.array([1.0], whet.cpu(0), ctx=whet.cpu(0))


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("opencl", "none is planned"),
        ("rocm", "none is planned"),
        ("vulkan", "none is planned"),
        ("metal -libs=a", "none is planned"),
        ("webgpu", "none is planned"),
        ("stackvm", "it will not come: 'c' needs"),
        ("ext_dev", "it will not come: VTA"),
        ("hexagon", "it will not come: Hexagon"),
        ("nvptx -mcpu=sm_70", "kind 'cuda'"),
        ("hybrid", "it will not come"),
    ],
)
def test_kinds_of_tvm_that_are_not_here_say_whether_they_come(kind, said):
    target = whet.Target(kind)
    assert target == whet.Target(target.export()) == whet.Target(str(target)) == target.canonical()
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    with pytest.raises(ValueError, match=f"code for target kind '{target.kind}'") as error:
        whet.build(s, [A, B], target)
    assert said in str(error.value) and "kinds: c, cuda, llvm" in str(error.value)
    with pytest.raises(whet.TargetError, match="code for target kind"):
        whet.build({target: whet.lower(s, [A, B])})


def test_targets_of_other_kinds_are_as_tvm_reads_them():
    cl = whet.Target("opencl -device=mali -max_num_threads=512")
    assert (cl.keys, cl.max_num_threads) == (("mali", "opencl", "gpu"), 512)
    assert (cl.thread_warp_size, cl.get_target_device_type()) == (1, 4)
    assert (
        whet.Target("metal").max_function_args == 31 and whet.Target("metal").max_num_threads == 256
    )
    assert whet.Target("rocm -mcpu=gfx906").thread_warp_size == 64
    assert whet.Target("hexagon -vtcm-capacity=4096 -num-cores=4").vtcm_capacity == 4096
    assert whet.Target("hybrid").device == "cpu" and whet.Target("ext_dev").keys == ()
    types = {t: whet.Target(t).get_target_device_type() for t in ("vulkan", "rocm", "ext_dev")}
    assert types == {t: getattr(whet, t)().device_type for t in types}
    with pytest.raises(ValueError, match="target kind 'opencl' has no option 'mcpuu'"):
        whet.Target("opencl -mcpuu=1")
