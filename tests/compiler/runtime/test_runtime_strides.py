"""Arrays with strides: declared in a buffer, bound from the array, checked in every layer."""

import ctypes

import numpy as np
import pytest
from raw_kernels import module

import whet
from whet import te, tir
from whet.compiler.abi.arguments import with_signature
from whet.compiler.abi.layout import DLTensor, scalar
from whet.compiler.abi.signature import BufferParam, KernelSignature
from whet.compiler.codegen.llvm.entry import checked_entry as entry
from whet.compiler.errors import ArgumentError, CodegenError, LowerError

# out[0] = the first stride of A, out[1] = the second
STEPS = KernelSignature(
    "steps",
    (
        BufferParam("A", "float32", ("n", 3), False, ("s", "t")),
        BufferParam("out", "int64", (2,), True),
    ),
    ("n", "s", "t"),
)
STEPS_RAW = """
define i32 @"steps__raw"(ptr %a, ptr %out, i64 %n, i64 %s, i64 %t) {
  store i64 %s, ptr %out
  %q = getelementptr i64, ptr %out, i64 1
  store i64 %t, ptr %q
  ret i32 0
}
"""
FIXED = KernelSignature(
    "fixed", (BufferParam("A", "float32", ("n", 4), False, ("m*2", 2)),), ("n", "m")
)


def tensor(array, **spoilt):
    """A DLTensor over a numpy array."""
    kind, n = scalar(str(array.dtype)), array.ndim
    made = DLTensor(
        data=array.ctypes.data,
        device_type=1,
        ndim=n,
        code=kind.code,
        bits=kind.bits,
        lanes=1,
        shape=(ctypes.c_int64 * n)(*array.shape),
        strides=(ctypes.c_int64 * n)(*(s // array.itemsize for s in array.strides)),
    )
    for name, value in spoilt.items():
        setattr(made, name, value)
    return made


def raw_call(loaded, name, *tensors):
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32)(
        loaded._code.address_of(name)
    )
    return function((ctypes.c_void_p * len(tensors))(*map(ctypes.addressof, tensors)), len(tensors))


@pytest.fixture(scope="module")
def steps():
    return module((STEPS, STEPS_RAW))


ARRAYS = {
    "compact": np.zeros((5, 3), "f4"),
    "transposed": np.zeros((3, 5), "f4").T,
    "every second": np.zeros((10, 6), "f4")[::2, ::2],
    "backwards": np.zeros((5, 3), "f4")[::-1, ::-1],
    "broadcast": np.broadcast_to(np.zeros(3, "f4"), (5, 3)),
    "empty": np.zeros((0, 3), "f4"),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_strides_bind_symbols(steps, kind):
    a, out = ARRAYS[kind], np.full(2, -99, np.int64)
    wanted = [s // 4 for s in a.strides]
    steps(a, out)
    assert out.tolist() == wanted
    out[:] = -99
    assert raw_call(steps, "steps", tensor(a), tensor(out)) == 0
    assert out.tolist() == wanted


def test_an_array_of_c_without_strides_is_compact(steps):
    out = np.zeros(2, np.int64)
    assert raw_call(steps, "steps", tensor(ARRAYS["compact"], strides=None), tensor(out)) == 0
    assert out.tolist() == [3, 1]


def test_strides_that_do_not_fit_are_named():
    sig = KernelSignature(
        "fixed",
        (BufferParam("A", "float32", ("n", 4), False, ("n*2", 2)),),
        ("n",),
    )
    loaded = module((sig, 'define i32 @"fixed__raw"(ptr %a, i64 %n) {\n  ret i32 0\n}\n'))
    memory = np.zeros(200, "f4")

    def array(n, *strides):
        return np.lib.stride_tricks.as_strided(memory, (n, 4), [4 * s for s in strides])

    for good in (array(5, 10, 2), array(1, 77, 2), array(0, 9, 9)):
        loaded(good)
        assert raw_call(loaded, "fixed", tensor(good)) == 0
    with pytest.raises(ArgumentError) as caught:
        loaded(array(5, 11, 2))
    said = str(caught.value)
    assert "A.strides[0] is 44 bytes, expected 40 (n*2, where n = 5)" in said
    assert "wanted: float32 array of shape (n, 4), strides (n*2, 2)" in said
    with pytest.raises(ArgumentError, match=r"A\.strides\[1\] is 12 bytes, expected 8"):
        loaded(array(5, 10, 3))
    code = raw_call(loaded, "fixed", tensor(array(5, 10, 3)))
    assert "A.strides[1] is expected to equal 2" in str(entry.decode(sig, code))


def test_a_symbol_in_strides_needs_a_value():
    with pytest.raises(CodegenError, match="nothing gives the symbol 'm' a value"):
        entry.entry_text(FIXED)


def test_a_signature_with_strides_is_data():
    again = KernelSignature.from_json(STEPS.to_json())
    assert again == STEPS
    old = STEPS.to_json()
    for p in old["params"]:
        p.pop("strides", None)
    assert KernelSignature.from_json(old).params[0].strides == ()


def doubled(strides, n=7, m=5, **options):
    """``B = A * 2`` where A's buffer has the given strides."""
    A = te.placeholder((n, m), name="A")
    B = te.compute((n, m), lambda i, j: A[i, j] * 2.0, name="B")
    a = tir.decl_buffer((n, m), "float32", "A", strides=strides, **options)
    return whet.build(te.create_schedule(B.op), [A, B], "llvm", binds={A: a}, name="f")


@pytest.mark.parametrize("offset", [{}, {"offset_factor": 1}, {"elem_offset": 3}])
def test_a_kernel_with_symbolic_strides_takes_any_array_without_a_copy(offset):
    f = doubled([te.var("s"), te.var("t")], **offset)
    whole = np.random.rand(14, 10).astype("f4")
    for a in (whole[::2, ::2], whole[:5, :7].T, whole[7::-1, ::-2][:7], whole[:7, 5:]):
        b = np.full((7, 5), np.nan, "f4")
        f(a, b)
        np.testing.assert_array_equal(b, a * np.float32(2))
    assert [p.strides for p in f.entry_func.signature.params] == [("s", "t"), ()]


def test_a_function_that_only_reads_takes_a_read_only_view():
    whet.register_func("test.strides.sum", lambda a, out: out.copyfrom([a.numpy().sum()]), True)
    A = te.placeholder((7, 5), name="A")
    C = te.extern(
        (1,), [A], lambda i, o: tir.call_packed("test.strides.sum", i[0], o[0]), dtype="float32"
    )
    a = tir.decl_buffer(
        (7, 5), "float32", "A", strides=[te.var("s"), te.var("t")], elem_offset=te.var("at")
    )
    f = whet.build(te.create_schedule(C.op), [A, C], "llvm", binds={A: a})
    whole, out = np.random.rand(14, 10).astype("f4"), np.empty(1, "f4")
    whole.flags.writeable = False
    f(whole[::2, 1::2], out)
    np.testing.assert_allclose(out, whole[::2, 1::2].sum(), rtol=1e-6)
    whet.remove_global_func("test.strides.sum")


def test_an_output_with_strides_is_written_in_place():
    A = te.placeholder((7, 5), name="A")
    B = te.compute((7, 5), lambda i, j: A[i, j] * 2.0, name="B")
    b = tir.decl_buffer((7, 5), "float32", "B", strides=[te.var("s"), te.var("t")])
    f = whet.build(te.create_schedule(B.op), [A, B], "llvm", binds={B: b})
    a, out = np.random.rand(7, 5).astype("f4"), np.full((14, 10), np.nan, "f4")
    f(a, out[1::2, ::2])
    np.testing.assert_array_equal(out[1::2, ::2], a * np.float32(2))
    assert np.isnan(out).sum() == 140 - 35


def test_constant_strides():
    f = doubled([10, 2])
    whole = np.random.rand(7, 10).astype("f4")
    b = np.full((7, 5), np.nan, "f4")
    f(whole[:, ::2], b)
    np.testing.assert_array_equal(b, whole[:, ::2] * np.float32(2))
    with pytest.raises(ArgumentError, match=r"A\.strides\[0\] is 20 bytes, expected 40"):
        f(np.ascontiguousarray(whole[:, ::2]), b)


def test_strides_of_a_compact_array_are_none():
    f = doubled([5, 1])
    assert f.entry_func.signature.params[0].strides == ()


def test_a_symbolic_shape_is_checked_in_all_layers():
    n = te.var("n")
    A, B = te.placeholder((n,), name="A"), te.placeholder((n, 3), name="B")
    C = te.compute((n, 3), lambda i, j: A[i] * B[i, j], name="C")
    f = whet.build(te.create_schedule(C.op), [A, B, C], "llvm", name="f")
    a, b, c = np.ones(4, "f4"), np.ones((4, 3), "f4"), np.empty((4, 3), "f4")
    f(a, b, c)
    assert (c == 1).all()
    f(a[:0], b[:0], c[:0])  # nothing to do
    with pytest.raises(ArgumentError, match=r"B\.shape\[0\] is 3, expected 4 \(n, where n = 4\)"):
        f(a, b[:3], c)
    with pytest.raises(ArgumentError, match=r"C\.shape\[1\] is 2, expected 3"):
        f(a, b, np.empty((4, 2), "f4"))
    code = raw_call(f, "f", tensor(a), tensor(b[:3]), tensor(c))
    said = str(entry.decode(f.entry_func.signature, code))
    assert "argument 1 (B): dimension 0 has another extent" in said
    assert "B.shape[0] is expected to equal n" in said


@pytest.mark.parametrize("bad", ["shape", "strides"])
def test_what_no_argument_gives(bad):
    free, n = te.var("free"), te.var("n")
    b = tir.decl_buffer(
        (n, free + 1) if bad == "shape" else (n, 2),
        "float32",
        "A",
        strides=None if bad == "shape" else [free * 2, 1],
    )
    func = tir.PrimFunc((b,), tir.Evaluate(tir.const(0)))
    with pytest.raises(LowerError, match=f"the {bad} of A: it uses free, which no argument gives"):
        with_signature(func)


def test_overlap_is_found_by_check():
    A, B = te.placeholder((8,), name="A"), te.placeholder((8,), name="B")
    C = te.compute((8,), lambda i: A[i] + B[i], name="C")
    f = whet.build(te.create_schedule(C.op), [A, B, C], "llvm", name="f")["f"]
    memory = np.ones(20, "f4")
    f.check(memory[:8], memory[:8], memory[8:16])  # two inputs may share
    with pytest.raises(ArgumentError, match=r"argument 2 \(C\): .* overlaps argument 1 \(B\)"):
        f.check(memory[:8], memory[8:16], memory[12:])
    with pytest.raises(ArgumentError, match="it takes 3"):
        f.check(memory[:8])


def test_interleaved_arrays_do_not_overlap():
    f = doubled([te.var("s"), te.var("t")])["f"]
    memory = np.ones((7, 10), "f4")
    with pytest.raises(ArgumentError, match="overlaps argument 0"):
        f.check(memory[:, ::2], memory.reshape(-1)[:35].reshape(7, 5))
    A = te.placeholder((7, 5), name="A")
    B = te.compute((7, 5), lambda i, j: A[i, j] * 2.0, name="B")
    binds = {
        t: tir.decl_buffer((7, 5), "float32", t.op.name, strides=[te.var(), te.var()])
        for t in (A, B)
    }
    g = whet.build(te.create_schedule(B.op), [A, B], "llvm", binds=binds, name="g")["g"]
    g.check(memory[:, ::2], memory[:, 1::2])
    g(memory[:, ::2], memory[:, 1::2])
    assert (memory[:, 1::2] == 2).all() and (memory[:, ::2] == 1).all()
