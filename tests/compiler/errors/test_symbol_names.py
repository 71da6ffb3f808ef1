"""Names of kernels, buffers and called functions beside those of C's library and of Whet."""

import ctypes
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

import whet
from whet import te, tir
from whet.compiler.codegen.c_library import is_of_the_library
from whet.compiler.codegen.llvm.jit import compile_text
from whet.compiler.codegen.llvm.undefined import undefined_symbols
from whet.compiler.codegen.symbols import entry_symbol
from whet.compiler.runtime import load_module

LIBRARY = "exp sin tan tanh log1p free malloc memset memcpy printf main abort floor sqrt fma"
OTHERS = "double for llvm whet_parallel_for whet_call_packed k__raw k__entry _start end NULL"
IN_C = "exp free main printf M_PI INFINITY whet_parallel_for k__raw double __x threadIdx"
IN_CUDA = "exp main atomicAdd whet_x"


def program(n, buffers, target):
    """Functions of C's library, a parallel loop and a workspace, all with one name."""
    name = (lambda default: buffers) if buffers else (lambda default: default)
    A = te.placeholder((n,), "float64", name=name("A"))
    T = te.compute(
        (n,),
        lambda i: te.exp(A[i]) + te.sin(A[i]) + te.tan(A[i]) + te.tanh(A[i]) + te.log1p(A[i]),
        name=name("T"),
    )
    B = te.compute((n,), lambda i: te.floor(T[i] * 8.0) + T[i], name=name("B"))
    s = te.create_schedule(B.op)
    if target == "cuda":
        s[T].compute_inline()
        s[B].bind(s[B].op.axis[0], te.thread_axis("threadIdx.x"))
    elif target == "llvm":
        s[B].parallel(s[B].op.axis[0])
    return s, [A, B]


def scaled(A, factor, i):
    return A[i] * factor


def check(f, n, target="llvm"):
    x, out = np.random.default_rng().random(n), np.full(n, 77.0)
    if target == "cuda":
        device = whet.device("cuda-emulator")
        a, b = whet.nd.array(x, device), whet.nd.array(out, device)
        f(a, b)
        out = b.numpy()
    else:
        f(x, out)
    t = np.exp(x) + np.sin(x) + np.tan(x) + np.tanh(x) + np.log1p(x)
    near = np.abs(t * 8 - np.round(t * 8)) < 1e-9  # floor may go either way there
    np.testing.assert_allclose(out[~near], (np.floor(t * 8) + t)[~near], rtol=1e-12)


@pytest.mark.parametrize(
    "target, name",
    [("llvm", n) for n in f"{LIBRARY} {OTHERS}".split()]
    + [("c", n) for n in IN_C.split()]
    + [("cuda", n) for n in IN_CUDA.split()],
)
def test_a_name_collides_with_none(target, name):
    for buffers in (None, name):
        kernel = "k" if buffers else name
        s, args = program(17, buffers, target)
        f = whet.build(s, args, target, name=kernel)
        assert f.entry_name == kernel and f.get_function(kernel) is not None
        check(f, 17, target)


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_an_exported_library_takes_no_name_of_cs_library(tmp_path, target):
    for name in ("exp", "free", "mine"):
        s, args = program(9, None, target)
        path = str(tmp_path / f"{name}.so")
        whet.build(s, args, target, name=name).export_library(path)
        loaded = load_module(path)
        check(loaded[name], 9)
        library = ctypes.CDLL(path)
        assert hasattr(library, "mine" if name == "mine" else f"{name}__entry")
        symbols = subprocess.run(
            ["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True
        ).stdout.split()
        assert name == "mine" or name not in symbols


def test_one_module_and_a_kernel_named_like_anothers_function():
    functions = []
    for name, factor in (("f", 2.0), ("f__raw", 3.0), ("f__entry", 5.0), ("f__repeat", 7.0)):
        A = te.placeholder((4,), name="A")
        B = te.compute((4,), partial(scaled, A, factor), name="B")
        functions.append(whet.lower(te.create_schedule(B.op), [A, B], name=name))
    module = whet.build(functions, target="llvm")
    x = np.arange(4, dtype="float32")
    for name, factor in (("f", 2), ("f__raw", 3), ("f__entry", 5), ("f__repeat", 7)):
        out = np.full(4, 77, "float32")
        module[name](x, out)
        assert np.array_equal(out, x * factor)


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_a_kernel_may_be_named_like_the_function_that_it_calls(target):
    """And so may its buffers; and one function may be called with several types."""
    for function, ours in (("cosh", np.cosh), ("cbrt", np.cbrt)):
        A = te.placeholder((5,), "float64", name=function)

        def element(i, A=A, function=function):
            called = [tir.call_pure_extern("float64", f, A[i]) for f in (function, "exp")]
            return called[0] + te.exp(A[i]) + called[1]

        B = te.compute((5,), lambda i: element(i), name="B")
        x, out = np.random.default_rng().random(5), np.full(5, 77.0)
        whet.build(te.create_schedule(B.op), [A, B], target, name=function)(x, out)
        np.testing.assert_allclose(out, ours(x) + 2 * np.exp(x), rtol=1e-13)


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_a_function_that_nothing_has_is_named(target):
    text = f"""
import numpy as np, whet
from whet import te, tir
A = te.placeholder((5,), "float64", name="A")
B = te.compute((5,), lambda i: tir.call_pure_extern("float64", "no_such_function", A[i]))
try:
    whet.build(te.create_schedule(B.op), [A, B], {target!r})(np.ones(5), np.ones(5))
except whet.WhetError as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert "CodegenError loading a kernel that calls no_such_function: " in done.stdout
    assert "RTLD_GLOBAL" in done.stdout
    assert done.stderr == ""


def test_symbols_of_entries():
    for name in ("exp", "expf", "expf32x", "pthread_create", "strtok_r", "_x", "f__raw", "whet_a"):
        assert entry_symbol(name) == f"{name}__entry"
    for name in ("matmul", "f", "relu", "if_then", "copy", "double"):
        assert entry_symbol(name) == name
    assert entry_symbol("f", {"f"}) == "f__entry"
    assert not is_of_the_library("conv2d_nchw")


def test_undefined_symbols_of_an_object():
    text = (
        "declare void @b()\ndeclare void @c()\ndefine void @a() {\n  call void @b()\n  ret void\n}"
    )
    assert undefined_symbols(compile_text(text, whet.Target("llvm"))) == ["b"]
    assert undefined_symbols(b"no object") == []


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_a_kernel_may_be_named_like_a_macro_of_cs_headers(target):
    for name in ("INT8_MAX", "UINT64_C", "errno"):
        s, args = program(9, None, target)
        check(whet.build(s, args, target, name=name), 9, target)


@pytest.mark.parametrize("target", ["llvm", "c", "cuda"])
@pytest.mark.parametrize("name", ["in", "None", "a b", "0", "é", "ﬁ", "min"])
def test_sizes_and_tensors_of_any_name(target, name):
    n = te.size_var(name)
    A = te.placeholder((n, n), name=name)
    k = te.reduce_axis((0, n), name=name)
    B = te.compute((n + 1,), lambda i: te.sum(A[k, te.min(i, n - 1)], axis=k), name=name)
    s = te.create_schedule(B.op)
    if target == "cuda":
        outer, inner = s[B].split(B.op.axis[0], 4)
        s[B].bind(outer, te.thread_axis("blockIdx.x"))
        s[B].bind(inner, te.thread_axis("threadIdx.x"))
    f = whet.build(s, [A, B], target)
    x = np.random.default_rng().integers(-9, 9, (6, 6)).astype("f4")
    device = whet.device("cuda-emulator" if target == "cuda" else "cpu")
    a, out = whet.nd.array(x, device), whet.nd.array(np.full(7, 77, "f4"), device)
    f(a, out)
    np.testing.assert_array_equal(out.numpy(), [*x.sum(0), x.sum(0)[-1]])
    with pytest.raises(whet.ArgumentError, match="is 6"):
        f(a, whet.nd.array(np.zeros(6, "f4"), device))
