"""Calls from Python: what goes the quick way, what is converted, and what each refusal says."""

import copy
import gc
import pickle
import sys
import threading
import time
import weakref

import numpy as np
import pytest
from raw_kernels import (
    FAILING,
    FAILING_RAW,
    MIXED,
    MIXED_RAW,
    VADD,
    VADD_RAW,
    WAITING,
    WAITING_RAW,
    module,
)

from whet.compiler.errors import ArgumentError
from whet.compiler.runtime.arrays import nd
from whet.compiler.runtime.call import fastcall, numpy_layout


@pytest.fixture(scope="module")
def loaded():
    return module(
        (VADD, VADD_RAW), (MIXED, MIXED_RAW), (FAILING, FAILING_RAW), (WAITING, WAITING_RAW)
    )


@pytest.fixture(params=["quick", "slow"])
def vadd(request, loaded):
    """The generated function, and the complete Python path behind it, under the same tests."""
    if request.param == "quick":
        return loaded["vadd"].fast
    function = loaded["vadd"]
    from whet.compiler.runtime.call.slowcall import SlowCall

    return SlowCall(VADD, function._repeat(), loaded._code)


def vectors(n=16):
    return [np.arange(n, dtype=np.float32) for _ in range(3)]


def test_this_machine_takes_the_quick_way(loaded):
    assert numpy_layout.layout() is not None
    assert type(loaded["vadd"].fast) is type(len)
    assert loaded["vadd"].fast.__name__ == "vadd"


@pytest.mark.parametrize("n", [0, 1, 16, 5000])
def test_numpy_arrays(vadd, n):
    a, b, c = vectors(n)
    assert vadd(a, b, c) is None
    np.testing.assert_array_equal(c, a + b)
    vadd(c, c, c)
    np.testing.assert_array_equal(c, 2 * (a + b))


def test_ndarrays_and_offset_views(vadd):
    a, b, _ = vectors(17)
    d = nd.array(np.zeros(16, np.float32))
    vadd(a[1:], nd.array(b[1:]), d)
    np.testing.assert_array_equal(d.numpy(), a[1:] + b[1:])


class Refusing:
    """In the place of the slow call."""

    def __call__(self, *args):
        raise AssertionError("this call went the slow way")

    failed = __call__


@pytest.fixture(scope="module")
def quick_only(loaded):
    raw = loaded._code.address_of("vadd__raw")
    return fastcall.make_fastcall(VADD, raw, Refusing(), loaded._code)


def arrays_of_the_quick_way():
    a = np.random.default_rng().standard_normal(19, np.float32)
    again = pickle.loads(pickle.dumps(a))
    assert again.dtype is not a.dtype  # one dtype, two objects
    return {
        "numpy": a,
        "unpickled": again,
        "native by name": a.astype(a.dtype.newbyteorder("=")),
        "with metadata": a.view(np.dtype("float32", metadata={"unit": "m"})),
        "nd.array": nd.array(a),
        "nd.array of one": nd.array(nd.array(a)),
        "nd.array on a device": nd.array(a, nd.cpu(0)),
        "nd.array of the other byte order": nd.array(a.astype(">f4")),
        "nd.array of lists": nd.array(a.tolist()).copyto(nd.empty(19, "float32")),
        "unpickled nd.array": pickle.loads(pickle.dumps(nd.array(a))),
        "copied nd.array": copy.deepcopy(nd.array(a)),
        "view of an nd.array": nd.array(a.reshape(1, 19))._create_view((19,)),
        "from_dlpack": nd.from_dlpack(a),
    }


@pytest.mark.parametrize("kind", arrays_of_the_quick_way())
def test_what_goes_the_quick_way(quick_only, kind):
    a, b, c = (arrays_of_the_quick_way()[kind] for _ in range(3))
    wanted = np.asarray(a) + np.asarray(b)
    np.asarray(c)[:] = np.nan
    quick_only(a, b, c)
    np.testing.assert_array_equal(np.asarray(c), wanted)


def test_an_ndarray_that_holds_something_else_is_refused_by_the_slow_call(loaded, quick_only):
    a, b, c = (nd.empty(16, "float32") for _ in range(3))
    held = np.zeros((16, 2), np.float32)[:, 0], np.zeros(16), np.zeros(16, ">f4"), np.zeros(15, "f")
    for array in (*held, read_only(), unaligned()):
        c._array = array
        with pytest.raises(AssertionError, match="slow"):
            quick_only(a, b, c)
        with pytest.raises(ArgumentError, match=r"argument 2 \(C\)"):
            loaded["vadd"].fast(a, b, c)
    del c._array
    with pytest.raises(AssertionError, match="slow"):
        quick_only(a, b, c)


@pytest.mark.parametrize("code", "?bhilqBHILQefd")
def test_every_type_of_c_is_told_by_its_size_and_kind(code):
    where = numpy_layout.layout()
    dtype = np.dtype(code)
    words = numpy_layout.dtype_words(dtype, where)
    for other in map(np.dtype, "?bhilqBHILQefdFDOSUVmM"):
        assert (numpy_layout.dtype_words(other, where)[0] in words) == (other == dtype)
    if dtype.itemsize > 1:
        swapped = numpy_layout.dtype_words(dtype.newbyteorder("S"), where)
        assert swapped[0] not in words


class Foreign:
    """Another library's array."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Sub(np.ndarray):
    pass


def test_convertible_arguments(vadd):
    a, b, c = vectors()
    vadd(Foreign(a), b.view(Sub), Foreign(c))
    np.testing.assert_array_equal(c, a + b)
    same = np.dtype("float32", metadata={"unit": "m"})
    assert same is not a.dtype and same == a.dtype
    vadd(a.view(same), b, c)
    np.testing.assert_array_equal(c, a + b)


def read_only():
    c = np.zeros(16, np.float32)
    c.flags.writeable = False
    return c


def unaligned():
    return np.zeros(65, np.uint8)[1:].view(np.float32)


@pytest.mark.parametrize(
    ("index", "value", "message"),
    [
        (1, np.zeros(16), "argument 1 (B): B.dtype is float64, expected float32"),
        (1, np.zeros(16, ">f4"), "argument 1 (B): B.dtype is >f4, expected float32"),
        (1, np.zeros((4, 4), "f"), "argument 1 (B): B.ndim is 2, expected 1"),
        (2, np.zeros(15, "f"), "argument 2 (C): C.shape[0] is 15, expected 16 (n, where"),
        (1, np.zeros(32, "f")[::2], "expected a compact array: pass np.ascontiguousarray"),
        (2, np.zeros(32, "f")[::2], "a compact array: the kernel writes it in place"),
        (2, read_only(), "argument 2 (C): the kernel writes it, but it is read-only"),
        (1, unaligned(), "its data is not aligned to 4 bytes"),
        (1, [1.0] * 16, "argument 1 (B): a list is not an array"),
        (1, None, "argument 1 (B): a NoneType is not an array"),
    ],
)
def test_refusals(vadd, index, value, message):
    args = list(vectors())
    args[index] = value
    before = args[2].copy() if index != 2 else None
    with pytest.raises(ArgumentError) as caught:
        vadd(*args)
    text = str(caught.value)
    assert message in text
    assert "passed: " in text and "wanted: float32 array of shape (n,), row-major" in text
    assert isinstance(caught.value, ValueError)
    if before is not None:
        np.testing.assert_array_equal(args[2], before)


@pytest.mark.parametrize("count", [0, 2, 4])
def test_wrong_number_of_arguments(vadd, count):
    with pytest.raises(ArgumentError, match=rf"vadd\(\): {count} arguments given, it takes 3"):
        vadd(*[np.zeros(16, np.float32)] * count)


def test_numbers(loaded):
    mixed = loaded["mixed"].fast
    m, out = np.zeros((3, 2, 3), np.int64), np.zeros((), np.float64)
    for f, i, b in [(0.5, 7, False), (2, -1, True), (np.float32(1.5), np.int64(3), np.bool_(True))]:
        mixed(m, f, i, b, out)
        assert out == float(f) + int(i) + (100 if b else 0)
    for args, message in [
        ((0.5, 2**31, True), "argument 2 (i): int32 reaches from"),
        ((0.5, 2**70, True), "argument 2 (i): int32 reaches from"),
        ((0.5, 1.5, True), "argument 2 (i): it takes an integer (int32)"),
        (("x", 1, True), "argument 1 (f): it takes a number (float64)"),
        ((0.5, 1, 2), "argument 3 (b): it takes True or False"),
    ]:
        with pytest.raises(ArgumentError) as caught:
            mixed(m, *args, out)
        assert message in str(caught.value)


def test_the_kernel_ran_out_of_memory(loaded):
    with pytest.raises(MemoryError):
        loaded["failing"].fast(np.zeros(4, np.float32))
    with pytest.raises(MemoryError):
        loaded["failing"].fast(nd.array(np.zeros(4, np.float32)))


def test_references_are_counted_right(loaded):
    quick = loaded["vadd"].fast
    a, b, c = vectors()
    wrapped = nd.array(a)
    held = (None, a, c, wrapped, wrapped._array)
    drifts = []
    for _ in range(3):  # what earlier tests left holds references to None, too, and may end now
        gc.collect()
        counts = [sys.getrefcount(x) for x in held]
        for _ in range(5000):
            quick(a, b, c)
            quick(wrapped, b, c)
            with pytest.raises(ArgumentError):
                quick(a, b, 1)
        gc.collect()
        after = [sys.getrefcount(x) for x in held]
        assert after[1:] == counts[1:]
        drifts.append(abs(after[0] - counts[0]))
    assert min(drifts) < 2500  # one lost or gained a call would be 5,000 at least, each time


def test_the_function_outlives_its_module_and_then_goes():
    one = module((VADD, VADD_RAW))
    quick = one["vadd"].fast
    code = weakref.ref(one._code)
    del one
    gc.collect()
    a, b, c = vectors()
    quick(a, b, c)
    np.testing.assert_array_equal(c, a + b)
    assert code() is not None
    del quick
    gc.collect()
    assert code() is None


def test_the_gil_is_released_around_long_kernels(loaded):
    """The kernel waits for a number that this thread writes when it sees that the kernel runs."""
    a, c = (np.zeros(40_000_000, np.float32) for _ in range(2))
    thread = threading.Thread(target=loaded["waiting"].fast, args=(a, c))
    thread.start()
    while not c[1] and thread.is_alive():
        time.sleep(0.0005)
    a[0] = 7.0
    thread.join()
    assert c[0] == 7.0


def test_without_the_known_layout_calls_still_work(loaded, monkeypatch):
    monkeypatch.setattr(fastcall, "layout", lambda: None)
    one = module((VADD, VADD_RAW))
    a, b, c = vectors()
    one(a, b, c)
    np.testing.assert_array_equal(c, a + b)
    with pytest.raises(ArgumentError, match="it takes 3"):
        one(a)
