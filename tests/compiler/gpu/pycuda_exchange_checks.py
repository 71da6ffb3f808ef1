"""Arrays of others in a process whose libcuda is the stand-in: see test_cuda_pycuda.py."""

import gc

import numpy as np
import pytest
from device_programs import added
from pycuda_stand_in import (
    GPU,
    OTHER,
    drv,
    emulated,
    nothing_is_current,  # noqa: F401, a fixture of every check
    numbers,
    poisoned,
)

import whet
from whet.compiler.errors import ArgumentError
from whet.compiler.runtime.arrays.device import context_of
from whet.compiler.runtime.arrays.gpu_import import taken_array


def test_dlpack_both_ways():
    a = numbers(5, (4, 6))
    there = whet.nd.array(a, GPU)
    assert there.__dlpack_device__() == (2, 0)
    for version in (None, (1, 0)):
        shared = whet.nd.from_dlpack(there.__dlpack__(max_version=version))
        assert shared.address == there.address and shared.device == GPU and shared is not there
        there[:] = 8
        assert (shared.numpy() == 8).all()
    capsule = there.to_dlpack()
    whet.nd.from_dlpack(capsule)
    with pytest.raises(ArgumentError, match="was taken already"):
        whet.nd.from_dlpack(capsule)
    copied = whet.nd.from_dlpack(there.__dlpack__(copy=True))
    assert copied.address != there.address
    on_cpu = whet.nd.from_dlpack(there.__dlpack__(dl_device=(1, 0)))
    assert on_cpu.device == whet.cpu() and (on_cpu.numpy() == 8).all()
    with pytest.raises(BufferError, match=r"the array is on cuda\(0\), not on DLPack's device"):
        there.__dlpack__(dl_device=(2, 1))
    with pytest.raises(BufferError):
        there.__dlpack__(dl_device=(1, 0), copy=False)


def test_an_array_without_elements_has_no_address():
    nothing = whet.nd.empty((3, 0), "float32", GPU)
    assert nothing.__cuda_array_interface__["data"] == (0, False)
    assert taken_array(ByInterface(nothing)).shape == (3, 0)


def test_memory_lives_as_long_as_its_taker():
    gc.collect()
    before = context_of(GPU).memory()[0]
    shared = whet.nd.from_dlpack(whet.nd.array(np.full(1 << 18, 3, "float32"), GPU).to_dlpack())
    gc.collect()
    assert context_of(GPU).memory()[0] < before and (shared.numpy() == 3).all()
    del shared
    unused = whet.nd.array(np.ones(1 << 18, "float32"), GPU).to_dlpack()
    del unused
    gc.collect()
    assert context_of(GPU).memory()[0] == before


class Foreign:
    """Another library's array, by DLPack or by the interface."""

    def __init__(self, array, **changed):
        self.array, self.changed, self.asked = array, changed, []


class ByDLPack(Foreign):
    def __dlpack__(self, *, stream=None):
        self.asked.append(stream)
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class ByInterface(Foreign):
    @property
    def __cuda_array_interface__(self):
        return {**self.array.__cuda_array_interface__, **self.changed}


@pytest.mark.parametrize("kind", [ByDLPack, ByInterface])
def test_others_arrays_are_arguments(kind):
    f, a, b = added(20), numbers(1, 20), numbers(2, 20)
    c = poisoned(20)
    args = [kind(whet.nd.array(a, GPU)), kind(whet.nd.array(b, GPU)), kind(c)]
    f(*args)
    np.testing.assert_array_equal(c.numpy(), a + b)
    assert kind is ByInterface or args[0].asked == [1]  # the default stream, by DLPack's number
    strided = np.asarray([[1, 2], [3, 4]], "float32")
    seen = whet.nd.from_dlpack(kind(whet.nd.array(strided, GPU)))
    np.testing.assert_array_equal(seen.numpy(), strided)
    copied = whet.nd.array(kind(seen), OTHER)
    np.testing.assert_array_equal(copied.numpy(), strided)
    np.testing.assert_array_equal(copied.copyfrom(kind(seen)).numpy(), strided)
    np.testing.assert_array_equal(whet.nd.array(kind(seen)).numpy(), strided)


def test_strides_and_offsets_of_others():
    base = whet.nd.array(np.arange(12, dtype="float32"), GPU)
    turned = ByInterface(base, shape=(4, 3), strides=(4, 16))
    array = taken_array(turned, GPU)
    np.testing.assert_array_equal(array.numpy(), np.arange(12).reshape(3, 4).T)
    with pytest.raises(ArgumentError, match="this array has strides"):
        array.copyfrom(np.zeros((4, 3)))
    off = ByInterface(base, shape=(8,), data=(base.address + 4, False))
    f = added(8)
    with pytest.raises(ArgumentError, match=r"not aligned to 16 bytes.*4 bytes off; pass a copy"):
        f(off, off, poisoned(8))
    every_other = ByInterface(base, shape=(6,), strides=(8,))
    with pytest.raises(ArgumentError, match="strides are not row-major, expected a compact array"):
        added(6)(every_other, every_other, poisoned(6))
    fixed = ByInterface(base, data=(base.address, True))
    with pytest.raises(ArgumentError, match="the kernel writes it, but it is read-only"):
        added(12)(base, base, fixed)
    for steps in ((-4,), (6,)):
        with pytest.raises(ArgumentError, match=r"it has strides of \(-?\d,\) bytes"):
            taken_array(ByInterface(base, shape=(4,), strides=steps))
    with pytest.raises(ArgumentError, match="no masked arrays"):
        taken_array(ByInterface(base, mask=base))
    with pytest.raises(ArgumentError, match="no elements of dtype complex64"):
        taken_array(ByInterface(base, typestr="<c8"))


def test_pycudas_own_kernels_and_arrays_take_and_give_memory():
    from pycuda import gpuarray

    a = whet.nd.array(numbers(1, 32), GPU)
    c = poisoned(32)
    module = added(32)
    context = context_of(GPU)
    with context:
        made = drv.module_from_buffer(emulated(module.get_source("cuda"), "sm_80"))
        made.get_function("add_kernel0")(a, a, c, grid=(1, 1), block=(32, 1, 1))
        theirs = gpuarray.to_gpu(a.numpy())
        module(theirs, a, c)
        np.testing.assert_array_equal(c.numpy(), 2 * a.numpy())
        del made, theirs


def test_two_arrays_of_bfloat16():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    a = np.arange(8).astype(ml_dtypes.bfloat16)
    there = whet.nd.array(a, GPU)
    again = whet.nd.from_dlpack(there.to_dlpack())
    assert again.dtype == "bfloat16" and (again.numpy() == a).all()
    with pytest.raises(AttributeError, match="the interface has no such dtype"):
        _ = there.__cuda_array_interface__


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_numpy_refuses_is_let_go_of():
    gc.collect()
    before = context_of(GPU).memory()[0]
    with pytest.raises((SystemError, BufferError, RuntimeError)):  # by NumPy's version
        np.from_dlpack(poisoned(1 << 16))
    gc.collect()
    assert context_of(GPU).memory()[0] == before
