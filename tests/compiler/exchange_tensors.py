"""Tensors of a library that is not there, with DLPack's C exchange API, for tests of calls."""

import ctypes

import numpy as np

from whet.compiler.abi import layout as abi
from whet.compiler.abi.layout import DLTensor
from whet.compiler.runtime.call import exchange_api

TENSOR_FROM = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DLTensor))
MANAGED_FROM = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.POINTER(ctypes.c_uint64))
)
DELETER = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
KEPT = []


class Tensor:
    """A tensor of a library that is not there, over the memory of a numpy array.

    Attributes:
        asked: how often its ``__dlpack__`` was called.
        given: how many managed forms were given away and not given back, of all.
        change: what its C function does to the DLTensor.
    """

    given = 0

    def __init__(self, array, change=None):
        self.array, self.change, self.asked = array, change, 0
        self.shape = (ctypes.c_int64 * max(1, array.ndim))(*array.shape)
        self.strides = (ctypes.c_int64 * max(1, array.ndim))(
            *(step // array.itemsize for step in array.strides)
        )

    def __dlpack__(self, **options):
        self.asked += 1
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def _describe(tensor, out):
    kind = abi.SCALARS[str(tensor.array.dtype)]
    out[0] = DLTensor(
        data=tensor.array.__array_interface__["data"][0],
        device_type=1,
        ndim=tensor.array.ndim,
        code=kind.code,
        bits=kind.bits,
        lanes=1,
        shape=tensor.shape,
        strides=tensor.strides,
    )
    if tensor.change:
        tensor.change(out[0])
    return 0


@DELETER
def _given_back(address):
    Tensor.given -= 1


def _managed(tensor, out):
    words = (ctypes.c_uint64 * 16)()
    words[0] = getattr(tensor, "major", 1)
    words[2] = ctypes.cast(_given_back, ctypes.c_void_p).value
    words[3] = 0 if tensor.array.flags.writeable else 1
    tensor.words = words
    Tensor.given += 1
    out[0] = ctypes.cast(words, ctypes.POINTER(ctypes.c_uint64))
    return 0


def capsule(major=1, previous=None, tensor_from=None, name=b"dlpack_exchange_api"):
    describe, manage = TENSOR_FROM(_describe), MANAGED_FROM(_managed)
    pointers = [ctypes.cast(f, ctypes.c_void_p).value for f in (describe, manage)]
    api = exchange_api._API(
        major=major,
        minor=3,
        previous=previous,
        managed_from=pointers[1],
        tensor_from=pointers[0] if tensor_from is None else tensor_from,
    )
    KEPT.append((describe, manage, api))  # such a struct lives as long as the process
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = (
        ctypes.py_object,
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
    )
    return new(ctypes.addressof(api), name, None)


def numbers(*shape, dtype=np.float32):
    return np.random.default_rng().standard_normal(shape).astype(dtype)


def learnt(kind, vadd):
    """The type after a call in which an object of it was seen."""
    vadd(kind(numbers(3)), numbers(3), numbers(3))
    assert any(entry.type == id(kind) for entry in exchange_api._table)
    return kind
