"""The compiled entry that takes DLTensors: each of its checks, and what its codes say."""

import ctypes

import numpy as np
import pytest
from raw_kernels import FAILING, FAILING_RAW, MIXED, MIXED_RAW, VADD, VADD_RAW, module

from whet.compiler.abi.layout import DLTensor, scalar
from whet.compiler.abi.shape_text import evaluate
from whet.compiler.abi.signature import BufferParam, KernelSignature
from whet.compiler.codegen.llvm.entry import checked_entry as entry
from whet.compiler.errors import ArgumentError, CodegenError, OutOfMemoryError


@pytest.fixture(scope="module")
def loaded():
    return module((VADD, VADD_RAW), (MIXED, MIXED_RAW), (FAILING, FAILING_RAW))


class Tensor:
    """A DLTensor over a numpy array, with fields to spoil."""

    def __init__(self, array, strides=True, **spoilt):
        self.array = array
        n = array.ndim
        self.shape = (ctypes.c_int64 * n)(*array.shape)
        self.strides = (ctypes.c_int64 * n)(*(s // array.itemsize for s in array.strides))
        kind = scalar(str(array.dtype))
        self.c = DLTensor(
            data=array.ctypes.data,
            device_type=1,
            ndim=n,
            code=kind.code,
            bits=kind.bits,
            lanes=1,
            shape=self.shape,
            strides=self.strides if strides else None,
            byte_offset=0,
        )
        for name, value in spoilt.items():
            setattr(self.c, name, value)

    @property
    def address(self):
        return ctypes.addressof(self.c)


def call(loaded, name, *args, count=None):
    address = loaded._code.address_of(name)
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32)(address)
    pointers = [a.address if isinstance(a, Tensor) else a and ctypes.addressof(a) for a in args]
    array = (ctypes.c_void_p * len(pointers))(*pointers)
    return function(array, len(args) if count is None else count)


def vectors(n=16):
    return [np.arange(n, dtype=np.float32) for _ in range(3)]


def test_right_arguments(loaded):
    a, b, c = vectors()
    assert call(loaded, "vadd", Tensor(a), Tensor(b, strides=False), Tensor(c)) == 0
    np.testing.assert_array_equal(c, a + b)


def test_byte_offset_is_applied(loaded):
    a, b, c = vectors()
    tail = Tensor(a[8:], data=a.ctypes.data, byte_offset=32)
    assert call(loaded, "vadd", tail, Tensor(b[:8]), Tensor(c[:8])) == 0
    np.testing.assert_array_equal(c[:8], a[8:] + b[:8])


def test_empty_arrays(loaded):
    nothing = [Tensor(np.empty(0, np.float32), data=None) for _ in range(3)]
    assert call(loaded, "vadd", *nothing) == 0


def test_a_stride_of_a_single_row_does_not_matter(loaded):
    one = [np.ones(1, np.float32) for _ in range(3)]
    tensors = [Tensor(x) for x in one]
    tensors[0].strides[0] = 99
    assert call(loaded, "vadd", *tensors) == 0


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (dict(ndim=2), "argument 1 (B): it has another number of dimensions"),
        (dict(bits=64), "argument 1 (B): it has another dtype"),
        (dict(code=0), "argument 1 (B): it has another dtype"),
        (dict(lanes=4), "argument 1 (B): it has another dtype"),
        (dict(device_type=2), "argument 1 (B): its memory is not on the CPU"),
        (dict(shape=None), "argument 1 (B): it is a null pointer"),
        (dict(data=None), "argument 1 (B): it has elements but no data"),
        (dict(byte_offset=2), "argument 1 (B): its data is not aligned to the size"),
    ],
)
def test_each_wrong_field_is_named(loaded, spoil, message):
    a, b, c = vectors()
    code = call(loaded, "vadd", Tensor(a), Tensor(b, **spoil), Tensor(c))
    error = entry.decode(VADD, code)
    assert isinstance(error, ArgumentError)
    assert message in str(error)
    assert "wanted: float32 array of shape (n,), row-major" in str(error)


def test_count_null_shape_and_strides(loaded):
    a, b, c = vectors()

    def says(*args, count=None):
        return str(entry.decode(VADD, call(loaded, "vadd", *args, count=count)))

    good = Tensor(a), Tensor(b), Tensor(c)
    assert says(*good, count=2).startswith("vadd(): it takes 3 arguments")
    assert "argument 2 (C): it is a null pointer" in says(good[0], good[1], None)
    assert "argument 2 (C): dimension 0 has another extent" in says(*good[:2], Tensor(c[:15]))
    wide = np.ones(32, np.float32)[::2]
    assert "argument 0 (A): it is not compact: the stride of dimension 0" in says(
        Tensor(wide), *good[1:]
    )


def test_expressions_over_symbols_and_scalars(loaded):
    out = np.zeros((), np.float64)
    numbers = ctypes.c_double(0.5), ctypes.c_int32(-3), ctypes.c_bool(True)
    shape = np.zeros((3, 4, 7), np.int64)
    assert call(loaded, "mixed", Tensor(shape), *numbers, Tensor(out)) == 0
    assert out == 97.5
    wrong = np.zeros((3, 4, 8), np.int64)
    code = call(loaded, "mixed", Tensor(wrong), *numbers, Tensor(out))
    assert "argument 0 (M): dimension 2 has another extent" in str(entry.decode(MIXED, code))


def test_no_memory(loaded):
    code = call(loaded, "failing", Tensor(np.zeros(4, np.float32)))
    assert isinstance(entry.decode(FAILING, code), OutOfMemoryError)


@pytest.mark.parametrize(
    "text",
    [
        "n*2 - 1",
        "(n + 3)//4",
        "(0 - n)//4",
        "(1 - n) % 5",
        "min(n, 6) + max(2, n)",
        "-n + 20",
        "n//(n - 7)",
    ],
)
@pytest.mark.parametrize("n", [1, 7, 8])
def test_machine_code_and_python_agree_about_expressions(text, n):
    sig = KernelSignature(
        "k", (BufferParam("A", "float32", ("n",)), BufferParam("B", "float32", (text,))), ("n",)
    )
    raw = 'define i32 @"k__raw"(ptr %a, ptr %b, i64 %n) {\n  ret i32 0\n}\n'
    loaded = module((sig, raw))
    extent = evaluate(text, {"n": n})
    b = Tensor(np.zeros(64, np.float32))
    for given in (extent, extent + 1):
        b.shape[0] = given
        code = call(loaded, "k", Tensor(np.zeros(n, np.float32)), b)
        assert (code == 0) == (given == extent)


def test_a_symbol_that_nothing_binds():
    sig = KernelSignature("k", (BufferParam("A", "float32", ("n*2",)),), ("n",))
    with pytest.raises(CodegenError, match="nothing gives the symbol 'n' a value"):
        entry.entry_text(sig)


def test_an_expression_is_never_evaluated_as_python():
    sig = KernelSignature("k", (BufferParam("A", "float32", ("n", "open('x')")),), ("n",))
    with pytest.raises(CodegenError, match="not a symbol or an operation"):
        entry.entry_text(sig)
