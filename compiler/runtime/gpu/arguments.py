"""The arguments of a call on a device, checked as a CPU kernel's are and with the same words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from whet.compiler.abi.call_checks import (
    check_alone,
    check_count,
    check_same,
    check_together,
    number,
    wrong,
)
from whet.compiler.abi.layout import numpy_dtype
from whet.compiler.abi.signature import BufferParam, KernelSignature, ScalarParam
from whet.compiler.errors import ArgumentError, TargetError
from whet.compiler.runtime.arrays.device import Device, context_of
from whet.compiler.runtime.arrays.device_array import DeviceArray
from whet.compiler.runtime.arrays.gpu_import import is_shared, taken_array
from whet.compiler.runtime.arrays.ndarray import NDArray
from whet.compiler.runtime.gpu.driver.interface import Context
from whet.compiler.runtime.gpu.driver.properties import ALIGNMENT

# dtype of a number -> the letter by which `struct` packs it as C does.
LETTERS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "float16": "H",
    "bfloat16": "H",
    "float32": "f",
    "float64": "d",
}
_LARGEST = float(np.finfo(np.float32).max)


def bind(sig: KernelSignature, args: Sequence[object]) -> tuple[list[Any], dict[str, int]]:
    """Check the arguments of a call.

    Args:
        sig: what the function takes.
        args: arrays on one device, or objects that share memory of one; numbers for scalars.

    Returns:
        A :class:`DeviceArray` or a number for each, and the values of the symbols.

    Raises:
        ArgumentError: the function cannot take them; the message says which and why.
    """
    check_count(sig, len(args))
    values: list[Any] = []
    for i, (p, arg) in enumerate(zip(sig.params, args)):
        if isinstance(p, ScalarParam):
            values.append(number(sig, i, p, arg))
            continue
        array = _array(sig, i, p, arg)
        check_alone(sig, i, p, array.described)
        _check_alignment(sig, i, array)
        values.append(array)
    _check_device(sig, values)
    described = [v.described if isinstance(v, DeviceArray) else v for v in values]
    check_same(sig, [v.address if isinstance(v, DeviceArray) else 0 for v in values], described)
    return values, check_together(sig, described)


def context_for(values: Sequence[object]) -> Context:
    """The context that checked arguments are in; without any array, the first GPU's.

    Raises:
        TargetError: there is no array, and no GPU.
    """
    found = next((v.context for v in values if isinstance(v, DeviceArray)), None)
    return context_of(Device("cuda")) if found is None else found


def as_slot(dtype: str, value: Any) -> Any:
    """A checked number as `struct` packs it by the letter of its dtype."""
    if dtype == "float32" and abs(value) > _LARGEST:
        return math.copysign(math.inf, value)  # as C converts it
    if dtype in ("float16", "bfloat16"):
        return int(np.asarray(value, numpy_dtype(dtype)).view(np.uint16))
    return value


def _array(sig: KernelSignature, i: int, p: BufferParam, arg: object) -> DeviceArray:
    if is_shared(arg):
        try:
            return taken_array(arg)
        except (ArgumentError, TargetError) as error:
            raise wrong(sig, i, f"its memory cannot be shared: {error}", arg) from None
    if isinstance(arg, NDArray | np.ndarray) or (
        hasattr(arg, "__dlpack_device__") and not isinstance(arg, np.generic)
    ):
        shown = arg.numpy() if isinstance(arg, NDArray) else arg
        why = (
            f"{p.name} is in the CPU's memory, and the function runs on a GPU: copy it there by "
            "whet.nd.array(a, whet.cuda(0)), and back by .numpy(); without a GPU, "
            'whet.device("cuda-emulator") in the place of whet.cuda(0)'
        )
        raise wrong(sig, i, why, shown)
    why = f"a {type(arg).__name__} is not an array: expect arg[{i}] to be a pointer to one"
    raise wrong(sig, i, why, arg)


def _check_alignment(sig: KernelSignature, i: int, array: DeviceArray) -> None:
    off = array.address % ALIGNMENT
    if off and array.described.size:
        why = (
            f"its data is not aligned to {ALIGNMENT} bytes, at once so many of which a kernel may "
            f"read: it is {off} bytes off; pass a copy of it"
        )
        raise wrong(sig, i, why, array.described)


def _check_device(sig: KernelSignature, values: Sequence[object]) -> None:
    first: tuple[int, DeviceArray] | None = None
    for i, value in enumerate(values):
        if not isinstance(value, DeviceArray):
            continue
        if first is None:
            first = i, value
        elif value.context is not first[1].context:
            why = (
                f"it is on {value.device}, and {sig.params[first[0]].name} is on "
                f"{first[1].device}: copy it by a.copyto({first[1].device})"
            )
            raise wrong(sig, i, why, value.described)
