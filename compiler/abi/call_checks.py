"""The checks of a call from Python, of arrays and numbers on any device, and their errors.

What a check knows of an array it reads from something that describes itself as numpy's arrays do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from whet.compiler.abi import layout
from whet.compiler.abi.binding import Bindings, bindings, extent_checks
from whet.compiler.abi.checks import other_memory, wants, wants_all
from whet.compiler.abi.extent import Extent, evaluate, holds_rows
from whet.compiler.abi.signature import BufferParam, KernelSignature, ScalarParam
from whet.compiler.errors import ArgumentError


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


def check_alone(sig: KernelSignature, i: int, p: BufferParam, array: np.ndarray) -> None:
    """Check dtype, rank, compactness and writability of an argument.

    Raises:
        ArgumentError: the kernel cannot take it.
    """
    wanted = layout.numpy_dtype(p.dtype)
    if array.dtype != wanted:
        why = f"{p.name}.dtype is {array.dtype}, expected {p.dtype}"
        if array.dtype.name in ("int4", "uint4"):
            why += ": numpy holds one element a byte, whet.nd.array(a) packs two"
        raise wrong(sig, i, why, array)
    if array.ndim != len(p.shape):
        why = f"{p.name}.ndim is {array.ndim}, expected {len(p.shape)}"
        if p.dtype == "uint8" and holds_rows(p.shape):
            why += (
                ": rows that may be odd, of two elements a byte, lie in one dimension: "
                "whet.nd.pack(a.reshape(-1), dtype), whet.nd.empty((size,), dtype)"
            )
        raise wrong(sig, i, why, array)
    if not p.strides and not array.flags.c_contiguous:
        why = f"{p.name}.strides are not row-major, expected a compact array"
        if p.written:
            raise wrong(sig, i, f"{why}: the kernel writes it in place", array)
        raise wrong(sig, i, f"{why}: pass np.ascontiguousarray(...) of it", array)
    if p.written and not array.flags.writeable:
        raise wrong(sig, i, "the kernel writes it, but it is read-only", array)


def check_same(sig: KernelSignature, addresses: Sequence[int], passed: Sequence[Any]) -> None:
    """Check that a tensor that a kernel takes twice is one array.

    Args:
        sig: the kernel's parameters.
        addresses: of each argument's first element; of a number, anything.
        passed: the arguments, for the message.

    Raises:
        ArgumentError: there are two arrays.
    """
    for i, p in enumerate(sig.params):
        other = p.same if isinstance(p, BufferParam) else None
        if other is not None and addresses[i] != addresses[other]:
            raise wrong(sig, i, other_memory(other), passed[i])


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
            why = f"it takes an integer ({p.dtype}): expect arg[{i}] to be int"
            raise wrong(sig, i, why, arg)
        limits = np.iinfo(p.dtype)
        if not limits.min <= arg <= limits.max:
            raise wrong(sig, i, f"{p.dtype} reaches from {limits.min} to {limits.max}", arg)
        return int(arg)
    if isinstance(arg, int | float):
        return float(arg)
    raise wrong(sig, i, f"it takes a number ({p.dtype}): expect arg[{i}] to be float", arg)


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
    bound = bindings(sig)
    symbols = {name: _bound_value(checked[i], d) for name, (i, d) in bound.items()}
    for i, p in enumerate(sig.params):
        if isinstance(p, BufferParam):
            _check_extents(sig, i, bound, checked[i], symbols)
    return symbols


def _bound_value(arg: Any, d: int) -> int:
    """The number that a dimension, a stride or, for -1, the argument itself gives a symbol."""
    if d < 0:
        return int(arg)
    if d < arg.ndim:
        return int(arg.shape[d])
    return int(arg.strides[d - arg.ndim] // arg.itemsize)


def _check_extents(
    sig: KernelSignature, i: int, bound: Bindings, array: np.ndarray, symbols: dict[str, int]
) -> None:
    for c in extent_checks(sig, i, bound):
        given, wanted, unit = array.shape[c.dim], evaluate(c.wanted, symbols), ""
        if c.kind == "strides":
            if array.size == 0 or array.shape[c.dim] == 1:
                continue
            given, wanted, unit = array.strides[c.dim], wanted * array.itemsize, " bytes"
        if given != wanted:
            name, origin = sig.params[i].name, _origin(c.wanted, symbols)
            why = f"{name}.{c.kind}[{c.dim}] is {given}{unit}, expected {wanted}{origin}"
            raise wrong(sig, i, why, array)


def _origin(dim: Extent, symbols: dict[str, int]) -> str:
    """Where a number that is expected comes from."""
    if isinstance(dim, int):
        return ""
    bound = ", ".join(f"{k} = {v}" for k, v in symbols.items())
    return f" ({dim}" + (f", where {bound}" if bound else "") + ")"


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
