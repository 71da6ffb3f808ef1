"""Packed functions: registered by name, called by kernels, with exceptions that come through."""

import ctypes
import shutil
import threading

import numpy as np
import pytest

import whet
from whet import te, tir
from whet.compiler import settings
from whet.compiler.errors import ArgumentError, CodegenError
from whet.compiler.runtime import (
    NDArray,
    PackedFunc,
    convert,
    get_global_func,
    list_global_func_names,
    load_module,
    register_func,
    remove_global_func,
)


@pytest.fixture
def registered():
    """Registers functions for one test."""
    names = []

    def register(name, f):
        names.append(name)
        register_func(name, f, override=True)
        return f

    yield register
    for name in set(names):
        remove_global_func(name)


def extern(body, shape=(5,), inputs=(), name="out", dtype="float32", kernel="f"):
    """A kernel whose output a statement or a call makes of its inputs."""
    out = te.extern(shape, list(inputs), body, name=name, dtype=dtype)
    return whet.build(te.create_schedule(out.op), [*inputs, out], "llvm", name=kernel)


def test_registering_and_finding():
    @register_func
    def test_packed_one(x):
        return x + 1

    @register_func("test.packed.two")
    def two(x):
        return x + 2

    @register_func("test.packed.two", override=True)
    def better(x):
        return x + 3

    register_func("test.packed.three", lambda: "three")
    try:
        assert get_global_func("test_packed_one")(1) == 2
        assert get_global_func("test.packed.two")(1) == 4 and two(1) == 3
        assert isinstance(get_global_func("test.packed.three"), PackedFunc)
        assert {"test_packed_one", "test.packed.two"} <= set(list_global_func_names())
        with pytest.raises(ArgumentError, match=r"registered already\n.*override=True"):
            register_func("test.packed.two", better)
    finally:
        for name in ("test_packed_one", "test.packed.two", "test.packed.three"):
            remove_global_func(name)
    assert get_global_func("test.packed.two", allow_missing=True) is None
    with pytest.raises(ArgumentError, match="cannot find a packed function"):
        remove_global_func("test.packed.two")
    for wrong in [lambda: register_func(""), lambda: register_func("x", 3)]:
        with pytest.raises(ArgumentError, match="register_func"):
            wrong()


def test_convert():
    f = convert(lambda x: x * 2)
    assert isinstance(f, PackedFunc) and f(4) == 8 and convert(f) is f
    number, items = convert(3), convert([1, (2.5, "text")])
    assert isinstance(number, tir.IntImm) and number.value == 3
    assert isinstance(items, list) and items[1][0].value == 2.5 and items[1][1] == "text"
    assert convert({"a": 1})["a"].value == 1 and convert(None) is None


def test_tvms_example_of_an_external_matmul():
    n, l, m = 33, 17, 21
    A, B = te.placeholder((n, l), name="A"), te.placeholder((l, m), name="B")
    C = te.extern(
        (n, m),
        [A, B],
        lambda ins, outs: tir.call_packed(
            "tvm.contrib.cblas.matmul", ins[0], ins[1], outs[0], False, False
        ),
        name="C",
    )
    D = te.compute((n, m), lambda i, j: C[i, j] + 1.0, name="D")
    f = whet.build(te.create_schedule(D.op), [A, B, D], "llvm")
    a, b = np.random.rand(n, l).astype("f4"), np.random.rand(l, m).astype("f4")
    a.flags.writeable = False  # an input that a function only reads
    d = np.full((n, m), np.nan, "f4")
    f(a, b, d)
    np.testing.assert_allclose(d, a @ b + 1, rtol=1e-5)


@pytest.mark.parametrize("name", ["whet.contrib.cblas.matmul", "whet.contrib.cblas.batch_matmul"])
def test_the_ready_made_matmul_transposes(name):
    matmul = get_global_func(name)
    a, b = np.random.rand(2, 5, 3), np.random.rand(2, 4, 5)
    out = np.empty((2, 3, 4))
    matmul(whet.nd.from_dlpack(a), whet.nd.from_dlpack(b), whet.nd.from_dlpack(out), 1, 1)
    np.testing.assert_allclose(out, np.swapaxes(a, 1, 2) @ np.swapaxes(b, 1, 2))


def test_every_kind_of_argument(registered):
    pytest.importorskip("ml_dtypes")
    seen = []
    registered("test.see", lambda *args: seen.append(args))
    k = te.var("k", "int32")
    x, y = te.var("x", "float16"), te.var("y", "bfloat16")
    A = te.placeholder((2, 3), "int8", name="A")
    out = te.extern(
        (4,),
        [A],
        lambda i, o: tir.call_packed(
            "test.see", i[0], k + 1, x, y, tir.const(True), "text", -2.5, o[0]
        ),
        dtype="uint16",
    )
    f = whet.build(te.create_schedule(out.op), [A, k, x, y, out], "llvm")
    a = np.arange(6, dtype=np.int8).reshape(2, 3)
    f(a, -8, 1.5, 0.25, np.zeros(4, np.uint16))
    ((array, *scalars, result),) = seen
    assert scalars == [-7, 1.5, 0.25, 1, "text", -2.5]
    assert [type(s) for s in scalars] == [int, float, float, int, str, float]
    assert isinstance(array, NDArray) and array.dtype == "int8" and array.shape == (2, 3)
    assert result.dtype == "uint16" and result.shape == (4,)


def test_a_result_is_a_number_in_the_kernel(registered):
    registered("test.half", lambda n: n / 2)
    registered("test.twice", lambda n: 2 * n)

    def body(ins, outs):
        ib = tir.ir_builder.create()
        o = ib.buffer_ptr(outs[0])
        with ib.for_range(0, 5, name="i") as i:
            half = tir.Call("float32", "call_packed", (tir.StringImm("test.half"), i))
            twice = tir.call_packed("test.twice", i)
            o[i] = half + tir.Cast("float32", twice)
        return ib.get()

    c = np.full(5, np.nan, "f4")
    extern(body)(c)
    np.testing.assert_array_equal(c, np.arange(5) * 2.5)


@pytest.mark.parametrize("value", ["text", 1.5, 2**63])
def test_a_result_that_the_kernel_cannot_use(registered, value):
    registered("test.odd", lambda: value)

    def body(ins, outs):
        ib = tir.ir_builder.create()
        ib.buffer_ptr(outs[0])[0] = tir.Cast("float32", tir.call_packed("test.odd"))
        return ib.get()

    f = extern(body)
    with pytest.raises(ArgumentError, match="its caller can use an int or None") as caught:
        f(np.zeros(5, "f4"))
    assert "'test.odd'" in str(caught.value)


def test_an_exception_comes_out_unchanged_with_a_note(registered):
    class Mine(BaseException):
        pass

    error = Mine("what happened")

    def boom(x):
        raise error

    registered("test.boom", boom)
    f = extern(lambda i, o: tir.call_packed("test.boom", o[0]), kernel="fragile")
    c = np.zeros(5, "f4")
    for call in (f, f["fragile"], lambda c: f.entry_func.repeater((c,))(3)):
        with pytest.raises(Mine) as caught:
            call(c)
        assert caught.value is error
    note = "raised by the packed function 'test.boom', which the kernel 'fragile' called"
    assert error.__notes__ == [note]
    registered("test.boom", lambda x: x.copyfrom(np.ones(5)))  # found by name in each call
    f(c)
    assert (c == 1).all()


def test_a_missing_function_is_named():
    f = extern(lambda i, o: tir.call_packed("tvm.contrib.cblas.matmol", o[0]))
    with pytest.raises(ArgumentError, match=r"did you mean 'tvm\.contrib\.cblas\.matmul'"):
        f(np.zeros(5, "f4"))


def parallel_calls(name, n=64):
    """A kernel that calls a function in each step of a parallel loop."""

    def body(ins, outs):
        ib = tir.ir_builder.create()
        with ib.for_range(0, n, name="i", kind="parallel") as i:
            ib.emit(tir.call_packed(name, outs[0], i))
        return ib.get()

    return extern(body, (n,))


def test_calls_from_parallel_loops(registered):
    threads = set()

    def fill(out, i):
        threads.add(threading.get_ident())
        out._array[i] = i * i

    registered("test.fill", fill)
    f, c = parallel_calls("test.fill"), np.full(64, np.nan, "f4")
    for _ in range(5):
        c[:] = np.nan
        f(c)  # a small array: without functions the GIL would be kept
        np.testing.assert_array_equal(c, np.arange(64.0) ** 2)
    assert len(threads) == whet.runtime.num_threads()


def test_an_exception_of_a_worker_reaches_the_caller(registered):
    def fill(out, i):
        if i == 63:  # the last part is a worker's, where there is one
            raise LookupError(f"step {i}")

    registered("test.fill", fill)
    f = parallel_calls("test.fill")
    for _ in range(3):
        with pytest.raises(LookupError, match="step 63"):
            f(np.zeros(64, "f4"))


def test_threads_get_their_own_exceptions(registered):
    def boom(x):
        raise ValueError(threading.current_thread().name)

    registered("test.boom", boom)
    f, wrong = extern(lambda i, o: tir.call_packed("test.boom", o[0])), []

    def work():
        for _ in range(50):
            try:
                f(np.zeros(5, "f4"))
                wrong.append("no error")
            except ValueError as error:
                if str(error) != threading.current_thread().name:
                    wrong.append(str(error))

    team = [threading.Thread(target=work) for _ in range(4)]
    for t in team:
        t.start()
    for t in team:
        t.join()
    assert not wrong


def test_a_kernel_calls_a_kernel(registered):
    A = te.placeholder((5,), name="A")
    B = te.compute((5,), lambda i: A[i] * 3.0, name="B")
    inner = whet.build(te.create_schedule(B.op), [A, B], "llvm")
    registered("test.inner", inner)
    f = extern(lambda i, o: tir.call_packed("test.inner", i[0], o[0]), inputs=[A])
    a, c = np.random.rand(5).astype("f4"), np.full(5, np.nan, "f4")
    f(a, c)
    np.testing.assert_array_equal(c, a * np.float32(3))


def test_c_functions_are_called():
    A = te.placeholder((7,), "float64", name="A")

    def body(ins, outs):
        ib = tir.ir_builder.create()
        a, o = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 7, name="i") as i:
            o[i] = tir.call_extern("float64", "cbrt", a[i])
            o[i] = o[i] + tir.Cast("float64", tir.call_extern("int32", "abs", i - 3))
        return ib.get()

    f = extern(body, (7,), [A], dtype="float64")
    a, c = np.random.rand(7), np.empty(7)
    f(a, c)
    np.testing.assert_allclose(c, np.cbrt(a) + abs(np.arange(7) - 3))


def test_c_functions_get_addresses():
    A = te.placeholder((9,), "uint8", name="A")

    def body(ins, outs):
        count = tir.const(4, "uint64")
        to, origin = outs[0].access_ptr("w", offset=2), ins[0].access_ptr("r", offset=3)
        return tir.call_extern("handle", "memcpy", to, origin, count)

    f = extern(body, (9,), [A], dtype="uint8")
    a, c = np.arange(9, dtype=np.uint8), np.zeros(9, np.uint8)
    a.flags.writeable = False  # it is read through its address
    f(a, c)
    assert c.tolist() == [0, 0, 3, 4, 5, 6, 0, 0, 0]


def test_what_a_call_writes_is_read_anew(registered):
    registered("test.set", lambda x, value: x.copyfrom(np.full(5, value)))

    def body(ins, outs):
        ib = tir.ir_builder.create()
        o = ib.buffer_ptr(outs[0])
        with ib.for_range(0, 5, name="i") as i:
            o[i] = tir.const(0.0)
        ib.emit(tir.call_packed("test.set", outs[0], 1.0))
        o[0] = o[1] + 1.0
        ib.emit(tir.call_packed("test.set", outs[0], o[0] * 10.0))
        o[0] = o[1] + 1.0
        return ib.get()

    c = np.full(5, np.nan, "f4")
    extern(body)(c)
    assert c.tolist() == [21, 20, 20, 20, 20]


def test_a_vectorized_loop_calls_once_a_lane(registered):
    seen = []
    registered("test.see", lambda out, i: seen.append(i))

    def body(ins, outs):
        ib = tir.ir_builder.create()
        with ib.for_range(0, 8, name="i", kind="vectorized") as i:
            ib.emit(tir.call_packed("test.see", outs[0], i))
        return ib.get()

    extern(body, (8,))(np.zeros(8, "f4"))
    assert seen == list(range(8))


@pytest.mark.parametrize("op", ["call_packed", "call_extern"])
def test_a_call_with_vectors_is_refused(op):
    lanes = tir.Ramp(tir.const(0), 1, 4, "int32x4")
    call = tir.Call("int32", op, (tir.StringImm("abs"), lanes))
    with pytest.raises(CodegenError, match=r"takes no vectors\n.*leave the loop"):
        whet.build(tir.PrimFunc((), tir.Evaluate(call)), target="llvm")


def test_the_address_of_what_is_no_element():
    call = tir.Call("handle", "address_of", (tir.const(1),))
    call = tir.Call("int32", "call_extern", (tir.StringImm("puts"), call))
    with pytest.raises(CodegenError, match="not one element of a buffer"):
        whet.build(tir.PrimFunc((), tir.Evaluate(call)), target="llvm")


def test_kernels_of_the_c_backend_call_functions(registered):
    if shutil.which(settings.c_compiler().split()[0]) is None:
        pytest.skip("no C compiler here")
    registered("test.fill", lambda out, x: out.copyfrom(np.full(5, x)))
    out = te.extern((5,), [], lambda i, o: tir.call_packed("test.fill", o[0], 2.5), dtype="float32")
    f, c = whet.build(te.create_schedule(out.op), [out], "c"), np.full(5, np.nan, "f4")
    f(c)
    assert (c == 2.5).all()

    def boom(*args):
        raise OSError("from C")

    registered("test.fill", boom)
    with pytest.raises(OSError, match="from C"):
        f(c)


def test_an_exported_kernel_calls_functions_of_the_process(tmp_path, registered):
    registered("test.fill", lambda x: x.copyfrom(np.arange(5)))
    f = extern(lambda i, o: tir.call_packed("test.fill", o[0]))
    loaded = load_module(f.export_library(tmp_path / "f.so"))
    c = np.full(5, np.nan, "f4")
    loaded(c)
    assert c.tolist() == [0, 1, 2, 3, 4]

    def boom(x):
        raise KeyError("over there")

    registered("test.fill", boom)
    with pytest.raises(KeyError, match="over there"):
        loaded(c)
    library = ctypes.CDLL(str(tmp_path / "f.so"))
    library.whet_set_packed_caller(None)
    with pytest.raises(whet.WhetError, match="its exception is not in this thread"):
        loaded(c)
