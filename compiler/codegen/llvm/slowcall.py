"""The complete call of a kernel in Python: converts what can be converted, explains the rest."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from whet.compiler.codegen.llvm import abi
from whet.compiler.codegen.llvm.entry import decode, wants, wants_all
from whet.compiler.codegen.llvm.shape_text import bindings, evaluate
from whet.compiler.errors import ArgumentError
from whet.compiler.runtime.ndarray import as_numpy
from whet.compiler.signature import BufferParam, KernelSignature, ScalarParam


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
    if len(args) != len(sig.params):
        given, takes = len(args), len(sig.params)
        raise ArgumentError(
            f"{sig.name}()",
            f"{given} argument{'s' * (given != 1)} given, it takes {takes}",
            lambda: wants_all(sig),
        )
    checked: list[Any] = []
    for i, (p, arg) in enumerate(zip(sig.params, args)):
        one = _array(sig, i, p, arg) if isinstance(p, BufferParam) else _number(sig, i, p, arg)
        checked.append(one)
    symbols = _symbols(sig, checked)
    for i, p in enumerate(sig.params):
        if isinstance(p, BufferParam):
            _check_shape(sig, i, p, checked[i], symbols)
    values: list[tuple[Any, Any]] = []
    for p, one in zip(sig.params, checked):
        if isinstance(p, BufferParam):
            values.append((ctypes.c_uint64, one.__array_interface__["data"][0]))
        else:
            values.append(_slot(p.dtype, one))
    values += [(ctypes.c_int64, symbols[s]) for s in sig.symbols]
    return Slots(values, checked)


class SlowCall:
    """Calls a kernel through its timing loop, after complete checks in Python.

    Args:
        sig: the kernel's parameters.
        repeat: ``name__repeat`` as a ctypes function.
        keep: the code that holds it.
    """

    def __init__(self, sig: KernelSignature, repeat: Any, keep: object) -> None:
        self._sig = sig
        self._repeat = repeat
        self._keep = keep

    def __call__(self, *args: object) -> None:
        error = decode(self._sig, self._repeat(1, bind(self._sig, args).argv))
        if error is not None:
            raise error


def _fail(sig: KernelSignature, i: int, why: str, passed: object) -> ArgumentError:
    p = sig.params[i]
    return ArgumentError(
        f"{sig.name}(), argument {i} ({p.name})",
        why,
        lambda: f"passed: {_words(passed)}\nwanted: {wants(p)}",
    )


def _words(passed: object) -> str:
    if isinstance(passed, np.ndarray):
        more = "" if passed.flags.c_contiguous else f", strides {passed.strides} bytes"
        more += "" if passed.flags.writeable else ", read-only"
        return f"{passed.dtype} array of shape {passed.shape}{more}"
    text = repr(passed)
    return f"{type(passed).__name__} {text if len(text) <= 60 else text[:57] + '...'}"


def _array(sig: KernelSignature, i: int, p: BufferParam, arg: object) -> np.ndarray:
    array = as_numpy(arg)
    if array is None:
        why = f"a {type(arg).__name__} is not an array"
        raise _fail(sig, i, why, arg)
    wanted = abi.numpy_dtype(p.dtype)
    if array.dtype != wanted:
        raise _fail(sig, i, f"its dtype is {array.dtype}, the kernel wants {p.dtype}", array)
    if array.ndim != len(p.shape):
        why = f"it has {array.ndim} dimensions, the kernel wants {len(p.shape)}"
        raise _fail(sig, i, why, array)
    if not array.flags.c_contiguous:
        why = "its strides are not row-major"
        if p.written:
            raise _fail(sig, i, f"{why}: the kernel writes it in place", array)
        raise _fail(sig, i, f"{why}: pass np.ascontiguousarray(...) of it", array)
    if not array.flags.aligned:
        why = f"its data is not aligned to {wanted.alignment} bytes: pass a copy of it"
        raise _fail(sig, i, why, array)
    if p.written and not array.flags.writeable:
        raise _fail(sig, i, "the kernel writes it, but it is read-only", array)
    return array


def _number(sig: KernelSignature, i: int, p: ScalarParam, arg: object) -> Any:
    if isinstance(arg, np.ndarray) and arg.ndim == 0:
        arg = arg[()]
    if isinstance(arg, np.generic):
        arg = arg.item()
    if p.dtype == "bool":
        if isinstance(arg, bool):
            return arg
        raise _fail(sig, i, "it takes True or False", arg)
    if "int" in p.dtype:
        if not isinstance(arg, int):
            raise _fail(sig, i, f"it takes a whole number ({p.dtype})", arg)
        limits = np.iinfo(p.dtype)
        if not limits.min <= arg <= limits.max:
            raise _fail(sig, i, f"{p.dtype} reaches from {limits.min} to {limits.max}", arg)
        return int(arg)
    if isinstance(arg, int | float):
        return float(arg)
    raise _fail(sig, i, f"it takes a number ({p.dtype})", arg)


def _slot(dtype: str, value: Any) -> tuple[Any, Any]:
    kind = abi.scalar(dtype)
    if kind.ctype is not None:
        return kind.ctype, value
    bits = np.asarray(value, abi.numpy_dtype(dtype)).view(np.uint16)  # half and bfloat
    return ctypes.c_uint16, int(bits)


def _symbols(sig: KernelSignature, checked: Sequence[Any]) -> dict[str, int]:
    return {
        name: int(checked[i].shape[d]) if d >= 0 else int(checked[i])
        for name, (i, d) in bindings(sig).items()
    }


def _check_shape(
    sig: KernelSignature, i: int, p: BufferParam, array: np.ndarray, symbols: dict[str, int]
) -> None:
    for d, dim in enumerate(p.shape):
        wanted = evaluate(dim, symbols)
        if array.shape[d] == wanted:
            continue
        origin = ""
        if isinstance(dim, str):
            bound = ", ".join(f"{k} = {v}" for k, v in symbols.items())
            origin = f" ({dim}" + (f", where {bound}" if bound else "") + ")"
        why = f"dimension {d} is {array.shape[d]}, the kernel wants {wanted}{origin}"
        raise _fail(sig, i, why, array)
