"""DLPack by hand, for what numpy does not exchange itself: bfloat16, raw capsules, C's arrays.

A capsule is a struct with a DLTensor, a pointer for its maker and a deleter; whoever takes it
renames the capsule and calls the deleter when it has no more need of the memory
(https://dmlc.github.io/dlpack).
"""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import numpy as np

from whet.compiler.abi.layout import DL_CPU, DL_PINNED, SCALARS, DLTensor, numpy_dtype
from whet.compiler.errors import ArgumentError

READ_ONLY = 1  # flag of a versioned capsule
_MAJOR = 1
DL_CUDA = 2

_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    """DLManagedTensor: what a capsule named ``dltensor`` points to."""

    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned: what a capsule named ``dltensor_versioned`` points to."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


# A capsule keeps a pointer to its name: these live as long as the process.
_NAME, _VERSIONED_NAME = b"dltensor", b"dltensor_versioned"
_KINDS: dict[bytes, Any] = {_NAME: _Managed, _VERSIONED_NAME: _Versioned}
_USED = {_NAME: b"used_dltensor", _VERSIONED_NAME: b"used_dltensor_versioned"}
_DTYPES = {(kind.code, kind.bits): name for name, kind in SCALARS.items()}


def _python(name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(ctypes.PyDLL(None), name)
    function.restype, function.argtypes = result, arguments
    return function


_is_valid = _python("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_pointer = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
_rename = _python("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_new = _python("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _DELETER)


class Memory:
    """Memory of somebody else, as numpy takes it; views keep this object alive."""

    def __init__(self, address: int, dtype: str, tensor: DLTensor, read_only: bool) -> None:
        kind = SCALARS[dtype]
        letter = "b" if dtype == "bool" else "u" if dtype == "bfloat16" else "iuf"[kind.code]
        rank = tensor.ndim
        self.__array_interface__: dict[str, Any] = {
            "version": 3,
            "shape": tuple(tensor.shape[:rank]),
            "typestr": f"{'|' if kind.bytes == 1 else '<'}{letter}{kind.bytes}",
            "data": (address, read_only),
        }
        if tensor.strides:
            steps = tuple(step * kind.bytes for step in tensor.strides[:rank])
            self.__array_interface__["strides"] = steps


def dtype_of(tensor: DLTensor) -> str:
    """Name of the elements' dtype.

    Raises:
        ArgumentError: kernels have no such elements.
    """
    dtype = _DTYPES.get((tensor.code, tensor.bits))
    if dtype is None or tensor.lanes != 1:
        what = f"elements of DLPack's code {tensor.code}, {tensor.bits} bits, {tensor.lanes} lanes"
        raise ArgumentError("sharing memory by DLPack", f"the array has {what}", "convert it first")
    return dtype


def tensor_as_numpy(tensor: DLTensor, owner: Any = None, read_only: bool = False) -> np.ndarray:
    """A numpy array over the memory of a DLTensor.

    Args:
        tensor: what describes it.
        owner: has a ``finalizer`` to run when no view is left, or None: the memory outlives them.
        read_only: whether it must not be written.

    Raises:
        ArgumentError: it is not on the CPU, at no address, or of a dtype that kernels do not have.
    """
    if tensor.device_type not in (DL_CPU, DL_PINNED):
        what = f"memory of DLPack's device type {tensor.device_type}"
        raise ArgumentError("sharing memory by DLPack", f"the array has {what}", "convert it first")
    dtype = dtype_of(tensor)
    memory = Memory((tensor.data or 0) + tensor.byte_offset, dtype, tensor, read_only)
    shape = memory.__array_interface__["shape"]
    if 0 not in shape and not tensor.data:
        raise ArgumentError(
            "sharing memory by DLPack", "the array has elements, and no memory that holds them"
        )
    if 0 in shape:  # there is nothing to share, and its address may be null
        array = np.empty(shape, numpy_dtype(dtype))
        array.flags.writeable = not read_only
    else:
        array = np.asarray(memory).view(numpy_dtype(dtype))
    if owner is not None:
        weakref.finalize(memory if 0 not in shape else array, owner).atexit = False
    return array


def is_capsule(value: object) -> bool:
    """True where ``value`` is a DLPack capsule that nobody has taken."""
    return type(value).__name__ == "PyCapsule" and any(_is_valid(id(value), k) for k in _KINDS)


def on_gpu(capsule: Any) -> bool:
    """True where a capsule that nobody has taken describes memory of an NVIDIA GPU."""
    return is_capsule(capsule) and Taken(capsule).tensor.device_type == DL_CUDA


class Taken:
    """The tensor of a capsule that nobody has taken.

    Args:
        capsule: a DLPack capsule.

    Attributes:
        tensor: its DLTensor.
        read_only: whether the memory must not be written.

    Raises:
        ArgumentError: somebody else took it, or it is of an unknown version.
    """

    def __init__(self, capsule: Any) -> None:
        name = next((k for k in _KINDS if _is_valid(id(capsule), k)), None)
        if name is None:
            raise ArgumentError(
                "from_dlpack(capsule)",
                "it is no DLPack capsule, or was taken already",
                "make a new one",
            )
        managed = _KINDS[name].from_address(_pointer(id(capsule), name))
        versioned = isinstance(managed, _Versioned)
        if versioned and managed.major != _MAJOR:
            version = f"{managed.major}.{managed.minor}"
            raise ArgumentError("from_dlpack(capsule)", f"it is of DLPack {version}, known is 1.x")
        self.tensor: DLTensor = managed.tensor
        self.read_only = versioned and bool(managed.flags & READ_ONLY)
        self._capsule, self._name = capsule, name
        self._address, self._deleter = ctypes.addressof(managed), managed.deleter

    def give_back(self) -> None:
        """Tell the maker that the memory is needed no more; after :meth:`keep`, and once."""
        if self._deleter:
            _DELETER(self._deleter)(self._address)

    def keep(self) -> None:
        """Take the capsule: nobody else can from here on."""
        _rename(self._capsule, _USED[self._name])


def take(capsule: Any) -> np.ndarray:
    """The numpy array that a capsule describes; its deleter runs when no view is left.

    Raises:
        ArgumentError: somebody else took it, or numpy cannot describe the memory.
    """
    taken = Taken(capsule)
    array = tensor_as_numpy(taken.tensor, taken.give_back, taken.read_only)
    taken.keep()
    return array


def shared(source: Any) -> np.ndarray:
    """The numpy array that shares the memory of an object with ``__dlpack__``.

    Raises:
        BufferError: its elements are not what its memory holds.
        ArgumentError: numpy cannot describe the memory.
        Exception: whatever its ``__dlpack__`` raises.
    """
    check_stored(source)
    array = _taken_by_numpy(source)
    return take(capsule_of(source)) if array is None else array


def check_stored(source: Any) -> None:
    """Refuse a tensor of PyTorch whose memory holds its elements negated: DLPack cannot say so.

    Raises:
        BufferError: it does.
    """
    is_neg = getattr(type(source), "is_neg", None)
    if callable(is_neg) and is_neg(source):
        raise BufferError("its memory holds its elements negated: pass tensor.resolve_neg()")


def _taken_by_numpy(source: Any) -> np.ndarray | None:
    try:
        array = np.from_dlpack(source)
    except (BufferError, RuntimeError, TypeError, ValueError):
        return None  # numpy has no bfloat16, and explains nothing
    if array.flags.owndata and array.size:
        return None  # of memory at no address numpy makes an array of its own
    # numpy takes memory from before DLPack 1.0 for read-only
    return array if array.flags.writeable else None


def capsule_of(source: Any, **stream: int) -> Any:
    """The capsule that an object's ``__dlpack__`` gives, of DLPack 1.0 where it can.

    Args:
        source: has the method.
        stream: for memory of a GPU, ``stream=`` the handle of the stream that will use it.
    """
    try:
        return source.__dlpack__(max_version=(1, 0), **stream)
    except TypeError:  # from before DLPack 1.0
        return source.__dlpack__(**stream)


# What was given away and not given back yet: address of the struct -> all that it points to.
_given: dict[int, Any] = {}


@_DELETER
def _forget(address: int) -> None:
    _given.pop(address, None)


@_DELETER
def _dropped(capsule: int) -> None:
    """A capsule is gone."""
    try:
        _forget_untaken(capsule)
    except BaseException:
        # Who had it refuses it: ctypes takes the error that is on its way for one of the first call
        # here, and has none left for the second.
        _forget_untaken(capsule)
        raise


def _forget_untaken(capsule: int) -> None:
    """Let go of a capsule's memory where it still has its first name: nobody took it."""
    for name in _KINDS:
        if _is_valid(capsule, name):
            _given.pop(_pointer(capsule, name), None)


def _steps(array: np.ndarray) -> list[int]:
    """Strides in elements; where a dimension has one element or none, they mean nothing."""
    for extent, stride in zip(array.shape, array.strides):
        if extent > 1 and array.size and (stride < 0 or stride % array.itemsize):
            raise BufferError(
                f"an array with a stride of {stride} bytes, of elements of {array.itemsize}, is "
                "not given away by DLPack: copy it first"
            )
    return [s // array.itemsize for s in array.strides]


def give(array: np.ndarray, versioned: bool) -> Any:
    """A capsule with the memory of a numpy array, of any dtype that kernels have.

    Args:
        array: is kept alive until the capsule's taker gives it back.
        versioned: whether the taker knows DLPack 1.0.

    Raises:
        BufferError: DLPack cannot describe it: its elements are of no dtype that kernels have, or
            not whole steps forward apart; or it is read-only, and the taker knows no such thing.
    """
    address = array.__array_interface__["data"][0]
    return give_memory(array, address, (DL_CPU, 0), array, versioned)


def give_memory(
    array: np.ndarray,
    address: int,
    device: tuple[int, int],
    owner: object,
    versioned: bool,
) -> Any:
    """A capsule with memory anywhere.

    Args:
        array: describes shape, strides, dtype and writability; its elements are not looked at.
        address: of the first element.
        device: DLPack's type of the device and its number.
        owner: is kept alive until the capsule's taker gives it back.
        versioned: whether the taker knows DLPack 1.0.

    Raises:
        BufferError: as for :func:`give`.
    """
    if not versioned and not array.flags.writeable:
        raise BufferError("a read-only array can be given away by DLPack 1.0 only")
    if str(array.dtype) not in SCALARS:
        raise BufferError(f"an array of dtype {array.dtype} is not given away by DLPack")
    kind, rank = SCALARS[str(array.dtype)], array.ndim
    shape = (ctypes.c_int64 * rank)(*array.shape)
    strides = (ctypes.c_int64 * rank)(*_steps(array))
    managed = _Versioned() if versioned else _Managed()
    managed.tensor = DLTensor(
        data=address,
        device_type=device[0],
        device_id=device[1],
        ndim=rank,
        code=kind.code,
        bits=kind.bits,
        lanes=1,
        shape=shape,
        strides=strides,
    )
    managed.deleter = ctypes.cast(_forget, ctypes.c_void_p).value
    if isinstance(managed, _Versioned):
        managed.major = _MAJOR
        managed.flags = 0 if array.flags.writeable else READ_ONLY
    place = ctypes.addressof(managed)
    _given[place] = (managed, owner, shape, strides)
    return _new(place, _VERSIONED_NAME if versioned else _NAME, _dropped)
