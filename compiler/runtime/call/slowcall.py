"""The complete call of a kernel in Python: converts what can be converted, explains the rest."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from whet.compiler.abi import layout as abi
from whet.compiler.abi.call_checks import (
    check_alone,
    check_count,
    check_same,
    check_together,
    check_unnamed,
    number,
    wrong,
)
from whet.compiler.abi.checks import assert_values, decode
from whet.compiler.abi.signature import BufferParam, KernelSignature
from whet.compiler.runtime.arrays.ndarray import as_numpy
from whet.compiler.runtime.call import exchange_api
from whet.compiler.runtime.call.packed import take_raised


class Slots:
    """The arguments of one call, checked, in 8-byte slots of the raw kernel's order.

    Attributes:
        argv: the slots; what they point to lives as long as this object.
    """

    def __init__(self, values: Sequence[tuple[Any, Any]], keep: object) -> None:
        self.argv = (ctypes.c_uint64 * max(1, len(values)))()
        self._keep = keep
        base = ctypes.addressof(self.argv)
        for i, (ctype, value) in enumerate(values):
            ctype.from_address(base + 8 * i).value = value


def bind(sig: KernelSignature, args: Sequence[object]) -> Slots:
    """Check the arguments of a call.

    Args:
        sig: the kernel's parameters.
        args: numpy arrays, NDArrays or objects with ``__dlpack__``; numbers for scalars.

    Raises:
        ArgumentError: the kernel cannot take them; the message says which and why.
    """
    check_count(sig, len(args))
    checked: list[Any] = []
    for i, (p, arg) in enumerate(zip(sig.params, args)):
        one = _array(sig, i, p, arg) if isinstance(p, BufferParam) else number(sig, i, p, arg)
        checked.append(one)
    symbols = check_together(sig, checked)
    values: list[tuple[Any, Any]] = []
    for p, one in zip(sig.params, checked):
        if isinstance(p, BufferParam):
            values.append((ctypes.c_uint64, one.__array_interface__["data"][0]))
        else:
            values.append(_slot(p.dtype, one))
    check_same(sig, [value for _, value in values], checked)
    values += [(ctypes.c_int64, symbols[s]) for s in sig.symbols]
    return Slots(values, checked)


class SlowCall:
    """Calls a kernel through its timing loop, after complete checks in Python.

    Args:
        sig: the kernel's parameters.
        repeat: ``name__repeat`` as a ctypes function.
        keep: the code that holds it.
    """

    def __init__(self, sig: KernelSignature, repeat: Any, keep: Any) -> None:
        self._sig = sig
        self._repeat = repeat
        self._keep = keep

    def __call__(self, *args: object, **named: object) -> None:
        check_unnamed(self._sig, named)
        code = self._repeat(1, bind(self._sig, args).argv)
        if code:
            self.failed(code)

    def failed(self, code: int) -> None:
        """Raise what a result of the kernel that is not 0 means."""
        raise_failure(self._sig, code, self._keep)


def raise_failure(sig: KernelSignature, code: int, loaded: Any) -> None:
    """Raise what a result of a kernel means; nothing for 0.

    Args:
        sig: the kernel's parameters.
        code: what it returned.
        loaded: the code that holds it.
    """
    error = decode(sig, code, assert_values(sig, code, loaded.address_of), take_raised)
    if error is not None:
        raise error


def _array(sig: KernelSignature, i: int, p: BufferParam, arg: object) -> np.ndarray:
    array = as_numpy(arg)
    if array is None:
        why = f"a {type(arg).__name__} is not an array: expect arg[{i}] to be a pointer to one"
        raise wrong(sig, i, why, arg)
    if array is not arg:
        exchange_api.learn(type(arg))  # the next call may take it as it is
    check_alone(sig, i, p, array)
    if not array.flags.aligned:
        alignment = abi.numpy_dtype(p.dtype).alignment
        why = f"its data is not aligned to {alignment} bytes: pass a copy of it"
        raise wrong(sig, i, why, array)
    return array


def _slot(dtype: str, value: Any) -> tuple[Any, Any]:
    kind = abi.scalar(dtype)
    if kind.ctype is not None:
        return kind.ctype, value
    bits = np.asarray(value, abi.numpy_dtype(dtype)).view(np.uint16)  # half and bfloat
    return ctypes.c_uint16, int(bits)
