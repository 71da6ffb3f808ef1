"""Packed functions: Python functions that are registered by name and called by generated code.

Generated code, and a library that was exported, call :data:`CALLER` with a name and arguments of 8
bytes each. An exception of the function is kept for the caller of the kernel, which raises it.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable
from typing import Any, overload

import numpy as np

from whet.compiler.abi.layout import DLTensor
from whet.compiler.abi.packed_call import ARRAY, FLOAT, HANDLE, INT, NOTHING, TEXT
from whet.compiler.errors import ArgumentError, KernelError, nearest
from whet.compiler.runtime.arrays.dlpack import tensor_as_numpy
from whet.compiler.runtime.arrays.ndarray import NDArray, as_numpy


class PackedFunc:
    """A Python function as generated code calls it; calling this calls the function.

    Attributes:
        func: the Python function.
        name: what it is registered as, or ``""``.
    """

    def __init__(self, func: Callable[..., Any], name: str = "") -> None:
        self.func = func
        self.name = name

    def __call__(self, *args: Any) -> Any:
        return self.func(*args)

    def __repr__(self) -> str:
        return f"<whet packed function {self.name or getattr(self.func, '__name__', '?')}>"


_registered: dict[str, PackedFunc] = {}


def register_func(name_or_f: Any, f: Any = None, override: bool = False) -> Any:
    """Register a function, so that kernels and :func:`get_global_func` find it by name.

    It gets arrays as :class:`whet.nd.NDArray` that share the kernel's memory and are valid during
    the call only, integers and booleans as int, floats as float, and strings. It returns nothing,
    an int or a float.

    Args:
        name_or_f: the name; or the function, which is registered by its own name.
        f: the function; left out, the result is a decorator.
        override: whether it may replace one of the same name.

    Returns:
        The function, or a decorator that registers one.

    Raises:
        ArgumentError: the name is taken, or there is no function.

        >>> @register_func("doc.double")
        ... def double(x):
        ...     return 2 * x
        >>> get_global_func("doc.double")(21)
        42
        >>> remove_global_func("doc.double")
    """
    name = name_or_f
    if callable(name_or_f):
        name, f = getattr(name_or_f, "__name__", ""), name_or_f
    elif not isinstance(name, str) or not name:
        raise ArgumentError(f"register_func({name!r})", "a name is a str that is not empty")
    if f is None:
        return lambda function: register_func(name, function, override)
    if not callable(f):
        raise ArgumentError(f"register_func({name!r}, {f!r})", "it cannot be called")
    if name in _registered and not override:
        raise ArgumentError(
            f"register_func({name!r})",
            "a function of this name is registered already",
            "override=True replaces it",
        )
    _registered[name] = f if isinstance(f, PackedFunc) else PackedFunc(f, name)
    return f


@overload
def get_global_func(name: str) -> PackedFunc: ...


@overload
def get_global_func(name: str, allow_missing: bool) -> PackedFunc | None: ...


def get_global_func(name: str, allow_missing: bool = False) -> PackedFunc | None:
    """The registered function of that name.

    Args:
        name: which.
        allow_missing: whether None is the answer when there is none.

    Raises:
        ArgumentError: there is none.
    """
    found = _registered.get(name)
    if found is None and not allow_missing:
        raise ArgumentError(
            f"get_global_func({name!r})",
            "cannot find a packed function of this name",
            nearest(name, _registered) + "whet.register_func registers one",
        )
    return found


def list_global_func_names() -> list[str]:
    """The names of all registered functions, in order of the alphabet."""
    return sorted(_registered)


def remove_global_func(name: str) -> None:
    """Forget a registered function.

    Raises:
        ArgumentError: there is none of this name.
    """
    get_global_func(name)
    del _registered[name]


def convert(value: Any) -> Any:
    """``value`` as Whet takes it: a PackedFunc of a function, a constant of a number.

    Lists, tuples and dicts are converted entry by entry; anything else stays as it is.
    """
    if isinstance(value, (list, tuple)):
        return [convert(v) for v in value]
    if isinstance(value, dict):
        return {k: convert(v) for k, v in value.items()}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (bool, int, float)):
        from whet.compiler import tir

        return tir.const(value)
    if callable(value) and not isinstance(value, PackedFunc) and not hasattr(value, "dtype"):
        return PackedFunc(value)
    return value


# What functions raised and no caller of a kernel has seen yet: thread -> function and exception.
_raised: dict[int, tuple[str, BaseException]] = {}
_lock = threading.Lock()


def take_raised(kernel: str) -> BaseException:
    """The exception that ended a kernel which this thread called, with a note of where.

    A function may have been called by a worker of the kernel's parallel loop: exceptions of threads
    that Python did not start belong to whoever has the pool.
    """
    with _lock:
        own = _raised.pop(threading.get_ident(), None)
        python = {t.ident for t in threading.enumerate()}
        workers = [_raised.pop(t) for t in list(_raised) if t not in python]
    found = own or next(iter(workers), None)
    if found is None:
        return KernelError(
            f"{kernel}()",
            "a packed function failed, and its exception is not in this thread",
            "functions that C code called report to C code",
        )
    name, error = found
    note = f"raised by the packed function {name!r}, which the kernel {kernel!r} called"
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)
    return error


class _Value(ctypes.Union):
    _fields_ = [("int", ctypes.c_int64), ("float", ctypes.c_double), ("handle", ctypes.c_void_p)]


_CALLER = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_char_p,
    ctypes.POINTER(_Value),
    ctypes.POINTER(ctypes.c_int32),
    ctypes.c_int32,
    ctypes.POINTER(_Value),
    ctypes.POINTER(ctypes.c_int32),
)


def _call(name: bytes, args: Any, codes: Any, count: int, result: Any, result_code: Any) -> int:
    text = name.decode()
    try:
        function = get_global_func(text)
        values = [_argument(args[k], codes[k]) for k in range(count)]
        _return(text, function(*values), result[0], result_code)
    except BaseException as error:  # whatever it is, it is the caller's
        with _lock:
            _raised[threading.get_ident()] = text, error
        return 1
    return 0


def _argument(value: _Value, code: int) -> Any:
    if code == INT:
        return value.int
    if code == FLOAT:
        return value.float
    if code == ARRAY:
        return NDArray(tensor_as_numpy(DLTensor.from_address(value.handle)))
    if code == TEXT:
        return ctypes.string_at(value.handle).decode()
    return value.handle  # a pointer; None where it is null


def _return(name: str, value: Any, result: _Value, code: Any) -> None:
    """Store what a function returned as the type that its caller can use."""
    wanted = code[0]
    if wanted == NOTHING:
        return
    if isinstance(value, np.generic):
        value = value.item()
    if value is None:
        code[0] = NOTHING
    elif wanted == FLOAT and isinstance(value, (int, float)):
        result.float = float(value)
    elif wanted == INT and isinstance(value, int) and -(2**63) <= value < 2**63:
        result.int = value
    elif wanted == HANDLE and isinstance(value, int):
        result.handle = value
    else:
        takes = {INT: "an int", FLOAT: "a float", HANDLE: "an address"}.get(wanted, "nothing")
        raise ArgumentError(
            f"the packed function {name!r}",
            f"it returned {value!r}, a {type(value).__name__}; its caller can use {takes} or None",
        )


CALLER = _CALLER(_call)
"""The C function behind ``whet_call_packed``; it takes the GIL."""


@functools.cache
def caller_address() -> int:
    """The address of :data:`CALLER`."""
    address = ctypes.cast(CALLER, ctypes.c_void_p).value
    assert address is not None
    return address


def _matmul(a: Any, b: Any, c: Any, transa: int = 0, transb: int = 0) -> None:
    """``C = op(A) @ op(B)`` for matrices, or batches of them, transposed where it is asked."""
    left, right, out = (as_numpy(x) for x in (a, b, c))
    assert left is not None and right is not None
    np.matmul(
        np.swapaxes(left, -1, -2) if transa else left,
        np.swapaxes(right, -1, -2) if transb else right,
        out=out,
    )


for _prefix in ("whet", "tvm"):  # TVM's examples call the latter
    for _name in ("matmul", "batch_matmul"):
        register_func(f"{_prefix}.contrib.cblas.{_name}", _matmul)
