"""Arrays and devices: copies, views, memory shared by DLPack with numpy, torch and others."""

import ctypes
import gc

import numpy as np
import pytest
from raw_kernels import VADD, VADD_RAW, module

from whet.compiler.abi.layout import DLTensor, numpy_dtype, scalar
from whet.compiler.errors import ArgumentError, TargetError
from whet.compiler.runtime.arrays import dlpack, nd
from whet.compiler.runtime.arrays.device import DEVICE_TYPES

DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", DELETER)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


class Maker:
    """Another library's array, written after DLPack's header."""

    kept: list = []  # memory that was given away must not go before it is given back

    def __init__(self, words, shape, strides=None, dtype="bfloat16", major=0, **spoilt):
        self.words, self.deleted, self.major = words, 0, major
        Maker.kept.append(self)
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.strides = strides and (ctypes.c_int64 * len(strides))(*strides)
        self.deleter = DELETER(self._delete)
        self.made = Versioned(major=major) if major else Managed()
        self.made.deleter = self.deleter
        kind, t = scalar(dtype), self.made.tensor
        t.data, t.device_type, t.ndim = words.ctypes.data, 1, len(shape)
        t.code, t.bits, t.lanes = kind.code, kind.bits, 1
        t.shape = self.shape
        if self.strides:
            t.strides = self.strides
        for name, value in spoilt.items():
            setattr(self.made if name == "flags" else t, name, value)

    def _delete(self, _):
        self.deleted += 1

    def __dlpack_device__(self):
        return self.made.tensor.device_type, 0

    def __dlpack__(self, **options):
        if self.major == 0 and options:
            raise TypeError("this maker is from before DLPack 1.0")
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
        self.name = ctypes.c_char_p(b"dltensor_versioned" if self.major else b"dltensor")
        return new(ctypes.addressof(self.made), ctypes.cast(self.name, ctypes.c_void_p), None)


def bfloats(*numbers):
    """Bits of bfloat16 numbers."""
    return (np.array(numbers, np.float32).view(np.uint32) >> 16).astype(np.uint16)


@pytest.mark.parametrize("major", [0, 1])
def test_bfloat16_of_another_library_is_shared_and_given_back(major):
    pytest.importorskip("ml_dtypes")
    maker = Maker(bfloats(1, 2, 3, 4, 5, 6), (2, 3), major=major)
    a = nd.from_dlpack(maker)
    assert a.dtype == "bfloat16" and a.shape == (2, 3)
    np.testing.assert_array_equal(a.numpy().astype("f4"), [[1, 2, 3], [4, 5, 6]])
    maker.words[1] = bfloats(-8)[0]
    assert a.numpy()[0, 1] == -8
    a[:] = np.zeros((2, 3))
    assert not maker.words.any()
    view = a._array[1:]
    del a
    gc.collect()
    assert maker.deleted == 0  # a view is left
    del view
    gc.collect()
    assert maker.deleted == 1


def test_strides_offsets_and_ranks_of_another_library():
    pytest.importorskip("ml_dtypes")
    words = bfloats(*range(12))
    strided = nd.from_dlpack(Maker(words, (2, 3), (6, 2), byte_offset=2))
    np.testing.assert_array_equal(strided.numpy().astype("f4"), [[1, 3, 5], [7, 9, 11]])
    scalar_ = nd.from_dlpack(Maker(words[7:], ()))
    assert scalar_.shape == () and scalar_.numpy() == 7
    maker = Maker(words, (0, 3), data=None)
    empty = nd.from_dlpack(maker)
    assert empty.shape == (0, 3) and empty.dtype == "bfloat16"
    del empty
    gc.collect()
    assert maker.deleted == 1


def test_read_only_memory_of_another_library():
    pytest.importorskip("ml_dtypes")
    a = nd.from_dlpack(Maker(bfloats(1, 2), (2,), major=1, flags=1))
    with pytest.raises(ArgumentError, match="shares memory that is read-only"):
        a[:] = 0.0
    with pytest.raises(BufferError, match="read-only"):
        a.to_dlpack()
    again = dlpack.take(a.__dlpack__(max_version=(1, 0)))
    assert not again.flags.writeable


@pytest.mark.parametrize(
    ("spoilt", "message"),
    [
        (dict(device_type=7), "device type 7"),
        (dict(lanes=4), "4 lanes"),
        (dict(bits=4), "4 bits"),
        (dict(code=5), "code 5"),
    ],
)
def test_memory_that_kernels_cannot_take(spoilt, message):
    maker = Maker(bfloats(1, 2), (2,), **spoilt)
    with pytest.raises(ArgumentError, match=f"sharing the memory of a Maker: .*{message}"):
        nd.from_dlpack(maker)


def test_a_newer_dlpack_is_refused():
    with pytest.raises(ArgumentError, match=r"of DLPack 2\.0, known is 1\.x"):
        nd.from_dlpack(Maker(bfloats(1), (1,), major=2))


def test_capsules_are_taken_once_and_dropped_ones_are_freed():
    a = nd.array(np.arange(6, dtype=np.int16).reshape(2, 3))
    given = len(dlpack._given)
    capsule = a.to_dlpack()
    shared = nd.from_dlpack(capsule)
    shared._array[1, 2] = 50
    assert a.numpy()[1, 2] == 50 and len(dlpack._given) == given + 1
    with pytest.raises(ArgumentError, match="taken already"):
        nd.from_dlpack(capsule)
    del capsule, shared
    gc.collect()
    assert len(dlpack._given) == given
    a.to_dlpack()  # taken by nobody
    gc.collect()
    assert len(dlpack._given) == given


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float64"])
def test_numpy_takes_our_arrays(dtype):
    ours = nd.empty((3, 4), dtype)
    theirs = np.from_dlpack(ours)
    theirs[...] = 1
    assert ours.dtype == dtype == str(theirs.dtype)
    assert ours.numpy().all() and ours.__dlpack_device__() == (1, 0)
    transposed = nd.from_dlpack(np.arange(6.0).reshape(2, 3).T)
    np.testing.assert_array_equal(np.from_dlpack(transposed), np.arange(6.0).reshape(2, 3).T)
    frozen = np.zeros(2)
    frozen.flags.writeable = False
    assert not np.from_dlpack(nd.from_dlpack(frozen)).flags.writeable
    with pytest.raises(BufferError, match="not on DLPack's device"):
        ours.__dlpack__(dl_device=(2, 0))
    copied = dlpack.take(ours.__dlpack__(copy=True))
    copied[...] = 0
    assert ours.numpy().all()


@pytest.mark.parametrize(
    "dtype", ["float32", "bfloat16", "float16", "bool", "int8", "uint8", "int64"]
)
def test_torch_shares_both_ways(dtype):
    torch = pytest.importorskip("torch")
    pytest.importorskip("ml_dtypes")
    theirs = torch.zeros(3, 4).to(getattr(torch, dtype))
    ours = nd.from_dlpack(theirs)
    assert ours.dtype == dtype
    theirs[1, 2] = 1
    assert ours.numpy()[1, 2] == 1
    back = torch.from_dlpack(ours)
    assert back.dtype == theirs.dtype
    back[0, 0] = 1
    assert theirs[0, 0] == 1
    half = nd.from_dlpack(theirs[:, ::2])
    assert half.shape == (3, 2) and half.numpy()[1, 1] == 1
    assert nd.from_dlpack(torch.zeros((0, 3)).to(theirs.dtype)).shape == (0, 3)
    assert nd.from_dlpack(torch.ones(()).to(theirs.dtype)).numpy() == 1
    copied = nd.array(theirs)
    theirs[2, 2] = 1
    assert copied.numpy()[2, 2] == 0


def test_memory_that_dlpack_cannot_describe():
    record = np.zeros(4, [("a", "u1"), ("b", "<f4")])
    record["b"] = [1, 2, 3, 4]
    torn = nd.from_dlpack(record["b"])  # steps of 5 bytes, elements of 4
    for versioned in (None, (1, 0)):
        with pytest.raises(BufferError, match="stride of 5 bytes, of elements of 4"):
            torn.__dlpack__(max_version=versioned)
    np.testing.assert_array_equal(np.from_dlpack(nd.array(torn)), [1, 2, 3, 4])
    np.testing.assert_array_equal(dlpack.take(torn.__dlpack__(copy=True)), [1, 2, 3, 4])
    with pytest.raises(BufferError, match="stride of -8 bytes"):
        nd.from_dlpack(np.arange(3.0)[::-1]).to_dlpack()
    with pytest.raises(BufferError, match="stride of -24 bytes"):
        nd.from_dlpack(np.zeros((2, 3))[::-1]).to_dlpack()
    whole = np.zeros(4, [("a", "<f4"), ("b", "<f4")])
    whole["b"] = [1, 2, 3, 4]
    np.testing.assert_array_equal(np.from_dlpack(nd.from_dlpack(whole["b"])), [1, 2, 3, 4])
    for few in (record["b"][:1], record["b"][:0], np.zeros((2, 3))[:1][::-1]):
        np.testing.assert_array_equal(dlpack.take(nd.from_dlpack(few).to_dlpack()), few)


def test_dtypes_that_kernels_do_not_have_are_not_shared():
    with pytest.raises(ArgumentError, match=r"array of dtype >f4: .*\n.*copy it: nd\.array"):
        nd.from_dlpack(np.zeros(2, ">f4"))
    with pytest.raises(ArgumentError, match="array of dtype complex64"):
        nd.from_dlpack(np.zeros(2, "complex64"))
    for wrong in (">f4", "complex64"):
        with pytest.raises(BufferError, match=f"dtype {wrong} is not given away"):
            nd.NDArray(np.zeros(2, wrong)).to_dlpack()
    native = nd.array(np.array([1, 256], ">i2"))
    assert native.dtype == "int16" and np.from_dlpack(native).tolist() == [1, 256]


def test_kernels_take_torch_tensors():
    torch = pytest.importorskip("torch")
    f = module((VADD, VADD_RAW))
    a, b, c = torch.rand(17), torch.rand(17), torch.full((17,), float("nan"))
    f(a, b, c)
    assert torch.equal(c, a + b)
    with pytest.raises(ArgumentError, match=r"use tensor\.detach"):
        f(a.requires_grad_(), b, c)


def test_kernels_take_what_speaks_dlpack():
    f = module((VADD, VADD_RAW))
    a, b, c = (np.arange(5, dtype=np.float32) + k for k in range(3))
    f(*(Maker(x, (5,), dtype="float32") for x in (a, b, c)))
    np.testing.assert_array_equal(c, a + b)


def test_views_share_memory():
    a = nd.array(np.arange(6, dtype=np.float32))
    b = a._create_view((2, 3))
    a[:] = 5.0
    assert b.shape == (2, 3) and (b.numpy() == 5).all()
    with pytest.raises(ArgumentError, match="has 6 elements"):
        a._create_view((2, 4))
    with pytest.raises(ArgumentError, match="not compact"):
        nd.from_dlpack(np.zeros((2, 4))[:, ::2])._create_view((4,))


def test_deprecated_and_refused():
    a = nd.array([1.0, 2.0])
    with pytest.warns(DeprecationWarning, match="use numpy"):
        assert a.asnumpy().sum() == 3
    with pytest.raises(ArgumentError, match="has global memory only"):
        nd.empty((2,), mem_scope="texture")
    with pytest.raises(ArgumentError, match=r"not a Device\n.*use whet\.device\('cpu'\)"):
        nd.array([1.0], device="cpu")
    with pytest.raises(ArgumentError, match="dtype complex128"):
        nd.array(np.zeros(2, complex))
    with pytest.raises(ArgumentError, match="target is an NDArray or a Device"):
        a.copyto(np.zeros(2))
    b = nd.empty((2,), "int32", mem_scope="global")
    assert b.copyfrom(np.array([1.7, -2.2])).numpy().tolist() == [1, -2]  # cast to its dtype
    assert nd.array(5.0).shape == () and nd.array(5.0).dtype == "float64"


def test_there_is_a_device_value_of_every_kind():
    made = [nd.cpu(), nd.cuda(99), nd.opencl(1), nd.vulkan(), nd.metal(), nd.rocm(), nd.ext_dev()]
    assert [d.device_type for d in made] == [1, 2, 4, 7, 8, 10, 12]
    assert [d.exist for d in made] == [True] + 6 * [False]
    assert nd.device("cuda -arch=sm_80", 3) == nd.cuda(3) == nd.device(2, 3)
    assert nd.device("c") == nd.cpu() and nd.device(nd.opencl(1).device_type, 1) == nd.opencl(1)
    assert all(nd.device(name).device_type == number for name, number in DEVICE_TYPES.items())
    assert nd.device("cuda:2") == nd.cuda(2) and nd.device("cpu:0") == nd.device("llvm:0")
    with pytest.warns(DeprecationWarning, match=r"use whet\.cuda"):
        assert nd.gpu(1) == nd.cuda(1)
    for wrong, message in [
        (("cuda:x",), "no device kind 'cuda:x'"),
        (("cuda:1", 2), "no device kind 'cuda:1'"),
        ((":1",), "no device kind ''"),
        (("tpu",), "no device kind 'tpu'"),
        (("cudaemulator",), "did you mean 'cuda-emulator'"),
        ((99,), "no device kind '99'"),
    ]:
        with pytest.raises(TargetError, match=message):
            nd.device(*wrong)
    with pytest.raises(TargetError, match="0 or more"):
        nd.device("cpu", -1)


def test_what_a_device_tells():
    cpu, missing = nd.cpu(), nd.cuda(99)
    assert cpu.device_name and cpu.multi_processor_count >= 1
    assert cpu.max_clock_rate is None or cpu.max_clock_rate > 100_000
    only_gpus = (
        "max_threads_per_block warp_size max_shared_memory_per_block compute_version api_version "
        "max_thread_dimensions driver_version texture_spatial_limit"
    )
    assert all(getattr(cpu, name) is None for name in only_gpus.split())
    facts = (*only_gpus.split(), "device_name", "multi_processor_count", "max_clock_rate")
    assert all(getattr(missing, name) is None for name in facts)


def test_streams_of_devices():
    cpu = nd.cpu()
    cpu.sync()
    stream = cpu.create_raw_stream()
    cpu.set_raw_stream(stream)
    cpu.free_raw_stream(stream)
    with pytest.raises(ArgumentError, match="only stream is None"):
        cpu.sync(3)
    with pytest.raises(TargetError, match=r"cuda\(99\)\.sync\(\): this machine has no such device"):
        nd.cuda(99).sync()


def test_bfloat16_needs_a_numpy_type():
    pytest.importorskip("ml_dtypes")
    assert str(numpy_dtype("bfloat16")) == "bfloat16"
