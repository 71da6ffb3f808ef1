"""``tir.noalias`` is False: arguments may share memory, and every read is made where it stands."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import whet
from whet import te, tir

CPU = "llvm -num_threads=2"
TARGETS = [CPU, pytest.param("c", marks=pytest.mark.skipif(not shutil.which("cc"), reason="no cc"))]


def running(noalias):
    """``B[i + 1] += A[i]`` and two reads of an element around a store; a sum kept in memory."""
    A, B = (tir.decl_buffer((9,), "float32", name) for name in "AB")
    ib = tir.ir_builder.create()
    a, b = ib.buffer_ptr(A), ib.buffer_ptr(B)
    with ib.for_range(0, 8, name="i") as i:
        b[i + 1] = a[i] + 1.0
        b[0] = b[0] + a[i + 1]
        b[0] = b[0] + a[0]
        b[0] = b[0] + a[0]  # read again: the store may have changed it
    func = tir.PrimFunc([A, B], ib.get())
    return func if noalias is None else func.with_attr("tir.noalias", noalias)


def expected(memory):
    for i in range(8):
        memory[i + 1] = memory[i] + 1
        memory[0] = memory[0] + memory[i + 1]
        memory[0] = 4 * memory[0]
    return memory


@pytest.mark.parametrize("target", TARGETS)
def test_arguments_that_are_one_array(target):
    given = np.random.default_rng().integers(0, 3, 9).astype("float32")
    with whet.Target(target):
        f = whet.build(running(False), target=target)
    both = given.copy()
    f(both, both)
    np.testing.assert_array_equal(both, expected(given.astype("float64")))


def test_what_llvm_is_told():
    for noalias, config, told in ((None, True, 2), (True, False, 2), (False, True, 0)):
        with whet.transform.PassContext(config={"tir.noalias": config}):
            text = whet.build(running(noalias), target=CPU).get_source("ll")
        head = next(x for x in text.splitlines() if x.startswith("define") and "__raw" in x)
        assert head.count("noalias") == told, head
    with whet.transform.PassContext(config={"tir.noalias": False}):
        assert "noalias" not in whet.build(running(None), target=CPU).get_source("ll").split("}")[0]


def test_a_schedule_under_the_option():
    A = te.placeholder((16,), name="A")
    k = te.reduce_axis((0, 4), name="k")
    B = te.compute((4,), lambda i: te.sum(A[i + k * 4], axis=k), name="B")
    s = te.create_schedule(B.op)
    s[B].reorder(k, B.op.axis[0])
    s[B].unroll(B.op.axis[0])
    assert "_acc" in str(whet.lower(s, [A, B]))
    with whet.transform.PassContext(config={"tir.noalias": False}):
        func = whet.lower(s, [A, B])["main"]
    assert not func.attrs["tir.noalias"] and "_acc" not in str(func)


def test_results_that_are_no_arguments_are_allocated():
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((8,), lambda i: B[i] + 1.0, name="C")
    s = te.create_schedule([B.op, C.op])
    func = whet.lower(s, [A, C])["main"]
    assert len(func.params) == 2 and "B = allocate([8]" in str(func)
    a, c = np.arange(8, dtype="float32"), np.full(8, np.nan, "float32")
    whet.build(s, [A, C], CPU)(a, c)
    np.testing.assert_array_equal(c, a * 2 + 1)
    assert "C = allocate([8]" in str(whet.lower(s, [A, B])["main"])
    whet.build(s, [A], CPU)(a)
    with pytest.raises(whet.LowerError, match="the input A is not in args"):
        whet.lower(s, [C])


def twice(n):
    """A schedule, and its arguments: input and result stand there twice."""
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    return te.create_schedule(B.op), [A, B, A, B]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("sizes", ["a number", "a symbol"])
def test_a_tensor_that_is_two_arguments(target, sizes, tmp_path):
    s, args = twice(13 if sizes == "a number" else te.var("n"))
    built = whet.build(s, args, target, name="run")
    built.export_library(str(tmp_path / "run.so"))
    a = np.random.default_rng().random(13, "float32")
    for module in (built, whet.runtime.load_module(str(tmp_path / "run.so"))):
        b = np.full(13, np.nan, "float32")
        module(a, b, a, b)
        np.testing.assert_array_equal(b, a * 2)
        module["run"].check(a, b, a, b)
        with pytest.raises(whet.ArgumentError, match=r"argument 2 \(A_1\): .* array of argument 0"):
            module(a, b, a.copy(), b)
        with pytest.raises(whet.ArgumentError, match=r"argument 3 \(B_1\): .* array of argument 1"):
            module["run"].check(a, b, a, b.copy())
        with pytest.raises(whet.ArgumentError, match=r"A_1.shape\[0\] is 12"):
            module(a, b, a[:12], b)


def test_a_tensor_that_is_two_arguments_of_a_gpu():
    s, args = twice(13)
    s[args[1]].bind(s[args[1]].op.axis[0], te.thread_axis("threadIdx.x"))
    module = whet.build(s, args, "cuda -arch=sm_80")
    device = whet.device("cuda-emulator")
    given = np.random.default_rng().random(13, "float32")
    a, b, other = (whet.nd.array(x, device) for x in (given, np.full(13, np.nan, "float32"), given))
    module(a, b, a, b)
    np.testing.assert_array_equal(b.numpy(), given * 2)
    with pytest.raises(whet.ArgumentError, match=r"argument 2 \(A_1\): .* array of argument 0"):
        module(a, b, other, b)
    module["default_function"].check(a, b, a, b)
