"""The complete call of a kernel in Python: converts what can be converted, explains the rest."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from whet.compiler.abi import layout as abi
from whet.compiler.abi.shape_text import bindings, evaluate
from whet.compiler.abi.signature import BufferParam, KernelSignature, ScalarParam
from whet.compiler.codegen.llvm.entry import exchange_api
from whet.compiler.codegen.llvm.entry.checked_entry import assert_values, decode, wants, wants_all
from whet.compiler.errors import ArgumentError
from whet.compiler.runtime.arrays.ndarray import as_numpy


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
    values += [(ctypes.c_int64, symbols[s]) for s in sig.symbols]
    return Slots(values, checked)


def check_count(sig: KernelSignature, given: int) -> None:
    """Refuse another number of arguments than a kernel takes.

    Raises:
        ArgumentError: it is another.
    """
    takes = len(sig.params)
    if given != takes:
        raise ArgumentError(
            f"{sig.name}()",
            f"{given} argument{'s' * (given != 1)} given, it takes {takes}: "
            f"num_args should be {takes}",
            lambda: wants_all(sig),
        )


def check_together(sig: KernelSignature, checked: Sequence[Any]) -> dict[str, int]:
    """Check shapes and strides of arguments that are right each by itself.

    Args:
        sig: the kernel's parameters.
        checked: an array that describes itself as numpy's do, or a number, for each.

    Returns:
        The values of the symbols.

    Raises:
        ArgumentError: an extent or a stride is another than the kernel expects.
    """
    symbols = _symbols(sig, checked)
    for i, p in enumerate(sig.params):
        if isinstance(p, BufferParam):
            _check_shape(sig, i, p, checked[i], symbols)
            _check_strides(sig, i, p, checked[i], symbols)
    return symbols


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
        values = assert_values(self._sig, code, self._keep.address_of)
        error = decode(self._sig, code, values)
        assert error is not None
        raise error


def check_unnamed(sig: KernelSignature, named: Mapping[str, object]) -> None:
    """Refuse arguments that are given by name.

    Raises:
        ArgumentError: there are some.
    """
    if named:
        raise ArgumentError(
            f"{sig.name}({', '.join(f'{name}=...' for name in named)})",
            "a kernel takes its arguments in order, without names",
            lambda: wants_all(sig),
        )


def wrong(sig: KernelSignature, i: int, why: str, passed: object) -> ArgumentError:
    """The error that says why a kernel cannot take an argument.

    Args:
        sig: the kernel's parameters.
        i: which argument.
        why: why not.
        passed: what was passed.
    """
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


def check_alone(sig: KernelSignature, i: int, p: BufferParam, array: np.ndarray) -> None:
    """Check dtype, rank, compactness and writability of an argument.

    Raises:
        ArgumentError: the kernel cannot take it.
    """
    wanted = abi.numpy_dtype(p.dtype)
    if array.dtype != wanted:
        raise wrong(sig, i, f"{p.name}.dtype is {array.dtype}, expected {p.dtype}", array)
    if array.ndim != len(p.shape):
        why = f"{p.name}.ndim is {array.ndim}, expected {len(p.shape)}"
        raise wrong(sig, i, why, array)
    if not p.strides and not array.flags.c_contiguous:
        why = f"{p.name}.strides are not row-major, expected a compact array"
        if p.written:
            raise wrong(sig, i, f"{why}: the kernel writes it in place", array)
        raise wrong(sig, i, f"{why}: pass np.ascontiguousarray(...) of it", array)
    if p.written and not array.flags.writeable:
        raise wrong(sig, i, "the kernel writes it, but it is read-only", array)


def number(sig: KernelSignature, i: int, p: ScalarParam, arg: object) -> Any:
    """An argument as the number that a kernel takes.

    Raises:
        ArgumentError: it is none, or out of the dtype's range.
    """
    if isinstance(arg, np.ndarray) and arg.ndim == 0:
        arg = arg[()]
    if isinstance(arg, np.generic):
        arg = arg.item()
    if p.dtype == "bool":
        if isinstance(arg, bool):
            return arg
        raise wrong(sig, i, f"it takes True or False: expect arg[{i}] to be bool", arg)
    if "int" in p.dtype:
        if not isinstance(arg, int):
            why = f"it takes a whole number ({p.dtype}): expect arg[{i}] to be int"
            raise wrong(sig, i, why, arg)
        limits = np.iinfo(p.dtype)
        if not limits.min <= arg <= limits.max:
            raise wrong(sig, i, f"{p.dtype} reaches from {limits.min} to {limits.max}", arg)
        return int(arg)
    if isinstance(arg, int | float):
        return float(arg)
    raise wrong(sig, i, f"it takes a number ({p.dtype}): expect arg[{i}] to be float", arg)


def _slot(dtype: str, value: Any) -> tuple[Any, Any]:
    kind = abi.scalar(dtype)
    if kind.ctype is not None:
        return kind.ctype, value
    bits = np.asarray(value, abi.numpy_dtype(dtype)).view(np.uint16)  # half and bfloat
    return ctypes.c_uint16, int(bits)


def _symbols(sig: KernelSignature, checked: Sequence[Any]) -> dict[str, int]:
    def bound(i: int, d: int) -> int:
        if d < 0:
            return int(checked[i])
        array = checked[i]
        if d < array.ndim:
            return int(array.shape[d])
        return int(array.strides[d - array.ndim] // array.itemsize)

    return {name: bound(i, d) for name, (i, d) in bindings(sig).items()}


def _check_strides(
    sig: KernelSignature, i: int, p: BufferParam, array: np.ndarray, symbols: dict[str, int]
) -> None:
    if not p.strides:
        return
    for d, step in enumerate(p.strides):
        given = array.strides[d]
        if array.size == 0 or array.shape[d] == 1:
            continue
        wanted = evaluate(step, symbols) * array.itemsize
        if given == wanted:
            continue
        origin = _origin(step, symbols)
        why = f"{p.name}.strides[{d}] is {given} bytes, expected {wanted}{origin}"
        raise wrong(sig, i, why, array)


def _origin(dim: int | str, symbols: dict[str, int]) -> str:
    """Where a number that is expected comes from."""
    if isinstance(dim, int):
        return ""
    bound = ", ".join(f"{k} = {v}" for k, v in symbols.items())
    return f" ({dim}" + (f", where {bound}" if bound else "") + ")"


def _check_shape(
    sig: KernelSignature, i: int, p: BufferParam, array: np.ndarray, symbols: dict[str, int]
) -> None:
    for d, dim in enumerate(p.shape):
        wanted = evaluate(dim, symbols)
        if array.shape[d] == wanted:
            continue
        given = array.shape[d]
        why = f"{p.name}.shape[{d}] is {given}, expected {wanted}{_origin(dim, symbols)}"
        raise wrong(sig, i, why, array)
