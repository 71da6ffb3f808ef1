"""Others' arrays as arguments, and libraries, in a process with the stand-in for libcuda.

See test_cuda_pycuda.py.
"""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from device_programs import added, doubled_twice, scaled
from pycuda_exchange_checks import ByDLPack, ByInterface
from pycuda_stand_in import (
    GPU,
    OTHER,
    drv,
    emulated,
    nothing_is_current,  # noqa: F401, a fixture of every check
    numbers,
    poisoned,
)
from pycuda_waits import (
    PEER_COPIES,
    Waits,
    default_streams,  # noqa: F401, likewise
    their_stream,
)
from test_ahead_on_gpu import kernel as ahead

import whet
from whet.compiler.errors import ArgumentError, TargetError
from whet.compiler.runtime.arrays import foreign
from whet.compiler.runtime.arrays.device import context_of
from whet.compiler.runtime.arrays.gpu_import import taken_array
from whet.compiler.runtime.gpu import arguments
from whet.compiler.runtime.gpu.driver.interface import driver_of
from whet.compiler.runtime.gpu.driver.streams import current_stream
from whet.compiler.runtime.gpu.module import CudaModule


@pytest.fixture
def waits():
    """The waits between streams: which was made to wait for which."""
    return Waits()


def test_memory_is_found_on_its_device():
    a = numbers(3, 20)
    f, there = added(20), [ByInterface(whet.nd.array(a, OTHER)) for _ in range(3)]
    assert taken_array(there[0]).device == OTHER
    f(*there)
    np.testing.assert_array_equal(there[2].array.numpy(), a + a)
    mixed = [*there[:2], ByInterface(whet.nd.array(a, GPU))]
    with pytest.raises(ArgumentError, match=r"\(C\): it is on cuda\(0\), and A is on cuda\(1\)"):
        f(*mixed)


class Tensor:
    """As PyTorch's: its stream is asked for once a call."""

    is_cuda, layout, requires_grad = True, "strided", False

    def __init__(self, array):
        self.array = array
        self.shape, self.dtype, self.device = array.shape, array.dtype, str(array.device)

    def data_ptr(self):
        return self.array.address

    def stride(self):
        return (1,)

    def is_neg(self):
        return False

    def __dlpack__(self, **asked):
        return self.array.__dlpack__(**asked)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.fixture
def torch(monkeypatch):
    """PyTorch, with a current stream that a test sets."""
    made = SimpleNamespace(current=0, asked=0)

    def current_stream(device):
        made.asked += 1
        return SimpleNamespace(cuda_stream=made.current)

    made.cuda = SimpleNamespace(current_stream=current_stream)
    monkeypatch.setitem(foreign.sys.modules, "torch", made)
    return made


def refuse(*asked):
    raise AssertionError("it was taken anew")


@pytest.mark.parametrize("kind", [Tensor, ByInterface])
def test_others_arrays_are_known_again(kind, torch, monkeypatch):
    f, a, b = added(20), numbers(1, 20), numbers(2, 20)
    args = [kind(whet.nd.array(x, GPU)) for x in (a, b, a)]
    f(*args)
    np.testing.assert_array_equal(args[2].array.numpy(), a + b)
    with monkeypatch.context() as without:
        without.setattr(arguments, "taken_array", refuse)
        other = [kind(whet.nd.array(x, GPU)) for x in (b, b, a)]
        f(*other)
        np.testing.assert_array_equal(other[2].array.numpy(), b + b)
        f(whet.nd.array(a, GPU), *other[1:])  # some of ours
        np.testing.assert_array_equal(other[2].array.numpy(), a + b)
        with pytest.raises(AssertionError, match="taken anew"):
            f(*other[:2], kind(whet.nd.array(numbers(1, 21), GPU)))
    with pytest.raises(ArgumentError, match=r"C\.shape\[0\] is 21, expected 20"):
        f(*other[:2], kind(whet.nd.array(numbers(1, 21), GPU)))
    with pytest.raises(ArgumentError, match="2 arguments given, it takes 3"):
        f(*other[:2])
    elsewhere = [kind(whet.nd.array(x, OTHER)) for x in (a, a, a)]
    f(*elsewhere)
    np.testing.assert_array_equal(elsewhere[2].array.numpy(), a + a)


def test_numbers_beside_others_arrays(torch):
    f, a = scaled("float32"), np.arange(33, dtype="float32")
    there, c = Tensor(whet.nd.array(a, GPU)), Tensor(poisoned(33))
    for k, m in ((2, 3), (3, 1)):
        f(there, k, m, c)
        np.testing.assert_array_equal(c.array.numpy(), k * a + m)


def test_a_call_comes_between_its_arguments_owners_work(torch, waits):
    f, a, c = doubled_twice(64), numbers(1, 64), poisoned(64)
    there, stream = Tensor(whet.nd.array(a, GPU)), their_stream()
    given = Tensor(c)
    f(there, given)
    for current, expected in ((0, []), (stream.handle, [(stream.handle, 1), (1, stream.handle)])):
        torch.current, torch.asked = current, 0
        waits()
        f(there, given)
        assert waits() == expected and torch.asked == 1
    GPU.set_raw_stream(stream)  # theirs is the current one: it needs no more order
    inside = current_stream(context_of(GPU)).held.handle
    f(there, given)
    assert set(waits()) == {(stream.handle, inside), (inside, stream.handle)}
    doubled = 2 * a[::-1]
    np.testing.assert_array_equal(c.numpy(), doubled[::-1] + doubled)
    by_interface = ByInterface(c, stream=stream.handle)
    GPU.set_raw_stream(None)
    f(there, by_interface)
    waits()
    f(whet.nd.array(a, GPU), by_interface)
    assert waits() == [(stream.handle, 1), (1, stream.handle)]


def test_a_copy_comes_between_its_sources_owners_work(torch, waits):
    a, stream = numbers(5, 20), their_stream()
    torch.current = stream.handle
    source = Tensor(whet.nd.array(a, GPU))
    for device, handle in ((GPU, 1), (OTHER, 1)):
        target = poisoned(20, device)
        waits()
        target.copyfrom(source)
        assert waits()[-1] == (handle, stream.handle)
        np.testing.assert_array_equal(target.numpy(), a)


def test_packing_comes_between_its_weights_owners_work(torch, waits):
    f, stream, w = ahead(4, 8), their_stream(), numbers(7, (8, 4))
    torch.current = stream.handle
    given = Tensor(whet.nd.array(w, GPU))
    waits()
    packed = f.pack_weights(given)
    assert waits() == [(stream.handle, 1), (1, stream.handle)]
    np.testing.assert_array_equal(packed.numpy(), w.T * 2)


def test_a_copy_of_somebody_elses_array_does_not_go_by_the_host(torch, monkeypatch):
    a = numbers(6, 20)
    source, before = Tensor(whet.nd.array(a, GPU)), PEER_COPIES.value
    with monkeypatch.context() as without:
        for context in (context_of(GPU), context_of(OTHER)):
            for name in ("copy_in", "copy_out"):
                without.setattr(context, name, refuse)
        made = [whet.nd.array(one, d) for d in (GPU, OTHER) for one in (source, source.array)]
    assert PEER_COPIES.value == before + 2
    for copied in made:
        assert copied.address != source.array.address
        np.testing.assert_array_equal(copied.numpy(), a)


def test_a_copy_of_an_array_with_strides_is_compact():
    base = whet.nd.array(np.arange(12, dtype="float32"), GPU)
    turned = ByInterface(base, shape=(4, 3), strides=(4, 16))
    for device in (GPU, OTHER, whet.cpu()):
        copied = whet.nd.array(turned, device)
        assert copied.device == device and copied.described.flags.c_contiguous
        np.testing.assert_array_equal(copied.numpy(), np.arange(12).reshape(3, 4).T)


class Sparse(Tensor):
    """An array that was known once, and has no address any more."""

    gone = False

    def data_ptr(self):
        if self.gone:
            raise RuntimeError("it has no storage")
        return super().data_ptr()

    def __dlpack__(self, **asked):
        if self.gone:
            raise BufferError("it has no storage")
        return super().__dlpack__(**asked)


def test_an_array_that_tells_nothing_any_more_is_refused_in_our_words(torch):
    f, args = added(20), [Sparse(poisoned(20)) for _ in range(3)]
    f(*args)
    args[1].gone = True
    with pytest.raises(ArgumentError, match=r"\(B\): its memory cannot be shared: .*no storage"):
        f(*args)


def test_what_has_dlpack_alone_is_taken_by_every_call():
    f, a = added(20), numbers(1, 20)
    args = [ByDLPack(whet.nd.array(a, GPU)) for _ in range(3)]
    for count in (1, 2):
        f(*args)
        assert len(args[0].asked) == count
    np.testing.assert_array_equal(args[2].array.numpy(), 2 * a)


@pytest.mark.parametrize("ending", ["so", "tar"])
def test_a_library_runs_where_nothing_compiles(tmp_path, monkeypatch, ending):
    f, a, c = doubled_twice(40), numbers(1, 40), poisoned(40)
    (code,) = f.imported_modules
    made = emulated(code.artifact.source, "sm_80")
    monkeypatch.setattr(code, "artifact", replace(code.artifact, object=made, ptx="none"))
    f.export_library(tmp_path / f"f.{ending}")

    def refuse(source, arch):
        raise TargetError("compile CUDA C with NVRTC", "there is no NVRTC library")

    monkeypatch.setattr(driver_of("cuda"), "compile", refuse)
    loaded = whet.runtime.load_module(tmp_path / f"f.{ending}")
    assert loaded.functions == f.functions and isinstance(loaded.imported_modules[0], CudaModule)
    with pytest.raises(TargetError, match="there is no NVRTC"):
        loaded(whet.nd.array(a, GPU), c)  # this driver loads no cubins
    monkeypatch.setattr(driver_of("cuda"), "loads_cubins", True)
    loaded(whet.nd.array(a, GPU), c)
    doubled = 2 * a[::-1]
    np.testing.assert_array_equal(c.numpy(), doubled[::-1] + doubled)
    assert loaded.get_source("cuda") == f.get_source("cuda")


@pytest.mark.parametrize("primary", [True, False])
def test_arrays_of_pycuda_are_arguments_if_they_are_of_the_primary_context(primary):
    gpuarray = pytest.importorskip("pycuda.gpuarray")
    device = drv.Device(0)
    theirs = device.retain_primary_context() if primary else device.make_context()
    if primary:
        theirs.push()
    try:
        a, c = gpuarray.to_gpu(numbers(1, 100)), gpuarray.empty(100, np.float32)
        if primary:
            added(100)(a, a, c)
            np.testing.assert_array_equal(c.get(), 2 * numbers(1, 100))
        else:
            with pytest.raises(ArgumentError, match=r"another CUDA context(.|\n)*autoprimaryctx"):
                added(100)(a, a, c)
        del a, c
    finally:
        theirs.pop()
