"""Tensors of other libraries in a call: DLPack's C exchange API, read in machine code.

A type with ``__dlpack_c_exchange_api__`` (DLPack 1.3; PyTorch has it) offers C functions that
describe its objects in tens of nanoseconds, where ``__dlpack__`` takes microseconds. The generated
call hands what is neither numpy's array nor ours to :func:`borrower`'s function, which looks the
type up in a table and writes a *view*: the fields of numpy's array object that the call checks and
reads. So there is one set of checks. The slow call enters a type in the table when it has seen an
object of it.

The functions are silent about what a DLTensor has no field for. An object whose attribute
``requires_grad`` is not False, or whose ``is_neg()`` is not, takes the slow way, which refuses it;
and for an array that is written the managed form is asked, too, which knows of read-only memory.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import threading
import weakref
from dataclasses import fields
from pathlib import Path
from string import Template

from whet.compiler.abi import layout as abi
from whet.compiler.runtime.arrays.dlpack import READ_ONLY
from whet.compiler.runtime.call.numpy_layout import ALIGNED, CONTIGUOUS, WRITEABLE, Layout
from whet.compiler.target.machine.host_machine import loaded

ATTRIBUTE = "__dlpack_c_exchange_api__"
_CAPSULE = b"dlpack_exchange_api"
_MAJOR = 1
_BORROW = Path(__file__).with_name("borrow.ll")
_CAPACITY = 16  # types; those that come later take the slow way

VIEW_BYTES = 80
"""Size of a view: numpy's fields up to its flags."""


class _API(ctypes.Structure):
    """DLPackExchangeAPI, with its header."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("previous", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("managed_from", ctypes.c_void_p),
        ("to_object", ctypes.c_void_p),
        ("tensor_from", ctypes.c_void_p),
        ("current_stream", ctypes.c_void_p),
    ]


class _Entry(ctypes.Structure):
    """A type of the table, as the generated function reads it."""

    _fields_ = [
        ("type", ctypes.c_uint64),
        ("tensor_from", ctypes.c_uint64),
        ("managed_from", ctypes.c_uint64),
        ("grad_name", ctypes.c_uint64),  # "requires_grad", or 0
        ("is_neg", ctypes.c_uint64),  # the type's method, or 0
    ]


_table = (_Entry * _CAPACITY)()
_GRAD = sys.intern("requires_grad")
# For each entry what it points to; weakly the type, whose address may be another's one day.
_held: dict[int, tuple[weakref.ref[type], object]] = {}
_lock = threading.RLock()  # a type may end, and leave the table, while another one enters it


def learn(kind: type) -> None:
    """Let calls take objects of exactly this type through its C functions, if it has them."""
    api = _api_of(kind)
    if api is None:
        return
    with _lock:
        if any(entry.type == id(kind) for entry in _table):
            return
        free = next((k for k, entry in enumerate(_table) if not entry.type), None)
        if free is None:
            return
        is_neg = getattr(kind, "is_neg", None)
        _held[free] = weakref.ref(kind, functools.partial(_leave, free)), is_neg
        entry = _table[free]
        entry.tensor_from, entry.managed_from = api.tensor_from, api.managed_from
        entry.grad_name = id(_GRAD) if hasattr(kind, _GRAD) else 0
        entry.is_neg = 0 if is_neg is None else id(is_neg)
        entry.type = id(kind)  # last: from here on the entry is read


def _leave(at: int, _: object) -> None:
    with _lock:
        _table[at].type = 0
        _held.pop(at, None)


def _api_of(kind: type) -> _API | None:
    owner = next((c for c in kind.__mro__ if ATTRIBUTE in vars(c)), None)
    # a subclass with a __dlpack__ of its own may have a reason
    if owner is None or getattr(kind, "__dlpack__", None) is not getattr(owner, "__dlpack__", None):
        return None
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    try:
        api = _API.from_address(pointer(getattr(kind, ATTRIBUTE), _CAPSULE))
    except (ValueError, AttributeError):  # no capsule, or one of another name
        return None
    while api.major != _MAJOR:
        if not api.previous:
            return None
        api = _API.from_address(api.previous)
    return api if api.tensor_from and api.managed_from else None


@functools.cache
def borrower(where: Layout) -> int:
    """The address of ``borrow(ptr object, ptr view, i32 dtype, i64 below, ptr descr, i1 written)``.

    It returns 1 when it wrote the view of an object, 0 for what must go the slow way (no Python
    error is set then), and -1 with an error that is no ``Exception``, e.g. a KeyboardInterrupt.
    ``dtype`` holds DLPack's three fields, ``below`` is one less than the alignment in bytes, and
    ``descr`` is numpy's object of the dtype.

    Args:
        where: offsets of the fields of a view.
    """
    code = loaded(_text(where), passes=False)
    _loaded.append(code)
    return code.address_of("borrow")


_loaded: list[object] = []  # generated calls refer to it without end


def _text(where: Layout) -> str:
    """The LLVM text of ``borrow``, for this process."""
    return Template(_BORROW.read_text()).substitute(
        {f"np_{f.name}": getattr(where, f.name) for f in fields(where)},
        **{name: getattr(_Entry, name).offset for name, *_ in _Entry._fields_[1:]},
        **{n.lower(): getattr(abi, n) for n in dir(abi) if n.startswith("DL_")},
        type=where.type,
        table=ctypes.addressof(_table),
        entry_bytes=ctypes.sizeof(_Entry),
        capacity=_CAPACITY,
        major=_MAJOR,
        read_only=READ_ONLY,
        array_flags=CONTIGUOUS | ALIGNED | WRITEABLE,
        false=id(False),
        exception=id(Exception),
    )
