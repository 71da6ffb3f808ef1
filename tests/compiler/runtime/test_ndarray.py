"""NDArray and devices."""

import pickle

import numpy as np
import pytest

from whet.compiler.errors import ArgumentError, TargetError
from whet.compiler.runtime import cpu, device
from whet.compiler.runtime.arrays import nd


def test_array_copies_and_numpy_copies_back():
    source = np.arange(6, dtype=np.int32).reshape(2, 3)
    a = nd.array(source)
    source[0, 0] = 99
    assert a.shape == (2, 3) and a.dtype == "int32" and a.device == cpu(0) and a.ndim == 2
    out = a.numpy()
    assert out[0, 0] == 0
    out[0, 0] = 5
    assert a.numpy()[0, 0] == 0


def test_lists_become_what_numpy_makes_of_them():
    assert nd.array([1.0, 2.0]).dtype == nd.array(2.5).dtype == "float64"
    assert nd.array([1, 2]).dtype == "int64" and nd.array([True]).dtype == "bool"
    assert nd.array(np.zeros(2)).dtype == nd.array(np.float64(1)).dtype == "float64"
    assert nd.array([np.float32(1)]).dtype == "float32"
    assert nd.array([0.1]).numpy()[0] == 0.1  # no digit is lost


@pytest.mark.parametrize("shape", [(3,), (7, 5), (1000, 33), (1300, 1001)])
def test_arrays_begin_where_a_line_of_the_caches_does(shape):
    for made in (nd.empty(shape), nd.array(np.zeros(shape, "float32"))):
        assert np.from_dlpack(made).ctypes.data % 64 == 0


def test_array_makes_rows_compact():
    a = nd.array(np.arange(6.0).reshape(2, 3).T)
    assert a._array.flags.c_contiguous
    np.testing.assert_array_equal(a.numpy(), np.arange(6.0).reshape(2, 3).T)


def test_copies_between_arrays():
    a, b = nd.array([1.0, 2.0]), nd.empty((2,))
    assert a.copyto(b) is b
    np.testing.assert_array_equal(b.numpy(), [1, 2])
    np.testing.assert_array_equal(a.copyto(cpu(0)).numpy(), [1, 2])
    b[:] = 7.0
    np.testing.assert_array_equal(b.numpy(), [7, 7])
    b.copyfrom([3, 4])
    np.testing.assert_array_equal(b.numpy(), [3, 4])
    with pytest.raises(ArgumentError, match=r"shape \(3,\), this array has \(2,\)"):
        b.copyfrom(np.zeros(3))
    with pytest.raises(ArgumentError, match="only the whole array"):
        b[0] = 1


def test_dlpack_shares_memory_both_ways():
    source = np.zeros(4, np.float32)
    shared = nd.from_dlpack(source)
    source[1] = 5
    assert shared.numpy()[1] == 5
    back = np.from_dlpack(shared)
    source[2] = 6
    assert back[2] == 6
    with pytest.raises(ArgumentError, match="no __dlpack__ method"):
        nd.from_dlpack([1, 2])


def test_numpy_reads_it_and_it_pickles():
    a = nd.array([1.0, 2.0])
    assert np.asarray(a).sum() == 3
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(a)).numpy(), a.numpy())


def test_devices():
    assert device("cpu", 0) == cpu(0) == device("llvm -mcpu=znver3")
    assert cpu(0).device_type == 1 and cpu(0).exist and not cpu(3).exist
    with pytest.raises(TargetError, match="no device kind 'gpuu'"):
        device("gpuu")
    with pytest.raises(ArgumentError, match="no such device"):
        nd.empty((2,), device=cpu(3))
