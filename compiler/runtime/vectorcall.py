"""Objects that Python calls through a function pointer: no tuple of arguments, no frame between.

This is CPython's vectorcall protocol (PEP 590). A class made in Python has no room for the pointer,
so that the base class here is made by the stable C interface; and as a class made in Python does
not inherit the flag that says that there is a pointer (before CPython 3.12), an object moves to a
subclass with that flag when it gets its pointer. A call with three arrays costs 25 ns this way,
65 ns where ``__call__`` is a builtin function in the object's class, 160 ns through ``*args``.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any

# From CPython's headers: numbers of slots, types of members, flags of types. All are stable.
_TP_MEMBERS, _SSIZE_T, _READ_ONLY = 72, 19, 1
_BASE_TYPE, _HAVE_VECTORCALL = 1 << 10, 1 << 11


class _Slot(ctypes.Structure):
    _fields_ = [("slot", ctypes.c_int), ("value", ctypes.c_void_p)]


class _Member(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


class _Spec(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    ]


_PLACE = object.__basicsize__  # of the pointer within an object
_kept: list[object] = []  # specifications of types, which live as long as the process


def _new_type(name: str, base: type, size: int, flags: int, members: list[_Member]) -> type:
    array = (_Member * (len(members) + 1))(*members)
    slots = (_Slot * 2)(_Slot(_TP_MEMBERS, ctypes.addressof(array)))
    spec = _Spec(name.encode(), size, 0, flags, slots)
    _kept.append((array, slots, spec))
    make = ctypes.pythonapi.PyType_FromSpecWithBases
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.py_object]
    return make(ctypes.addressof(spec), (base,))


if TYPE_CHECKING:

    class Answering:
        """Base of the classes whose objects :func:`answer_with` takes."""

elif sys.implementation.name == "cpython":
    _pointer = ctypes.sizeof(ctypes.c_void_p)
    Answering = _new_type(f"{__name__}.Answering", object, _PLACE + _pointer, _BASE_TYPE, [])
else:
    Answering = type("Answering", (), {})


_plain: dict[type, type] = {}
"""For each class whose objects have their pointer the one that they were of before."""


@functools.cache
def _quick(kind: type) -> type:
    """The subclass of a class whose objects have their pointer."""
    member = _Member(b"__vectorcalloffset__", _SSIZE_T, _PLACE, _READ_ONLY, None)
    name = f"{kind.__module__}.{kind.__qualname__}"
    made = _new_type(name, kind, 0, _BASE_TYPE | _HAVE_VECTORCALL, [member])
    made.__doc__ = kind.__doc__
    _plain[made] = kind
    return made


def copied(callable_: Any) -> Any:
    """A shallow copy of an object, without the pointer: it gets its own when it is called.

    Python's own way refuses objects that hold more than Python knows of.
    """
    kind = type(callable_)
    made: Any = object.__new__(_plain.get(kind, kind))
    made.__dict__.update(callable_.__dict__)
    return made


def answer_with(callable_: Any, function: Callable[..., Any]) -> None:
    """Let calls of an object go straight to a builtin function.

    Nothing changes for what is no builtin function, nor for an object whose class is not directly
    derived from :class:`Answering`: it may have a ``__call__`` of its own.

    Args:
        callable_: the object. It must keep ``function`` alive.
        function: of the kind ``METH_FASTCALL | METH_KEYWORDS``, using its ``self`` for nothing,
            and taking a count whose highest bit may be set.
    """
    kind = type(callable_)
    if Answering not in kind.__bases__ or not isinstance(function, BuiltinFunctionType):
        return
    address = ctypes.pythonapi.PyCFunction_GetFunction
    address.restype = ctypes.c_void_p
    address.argtypes = [ctypes.py_object]
    ctypes.c_void_p.from_address(id(callable_) + _PLACE).value = address(function)
    callable_.__class__ = _quick(kind)  # type: ignore[arg-type]
