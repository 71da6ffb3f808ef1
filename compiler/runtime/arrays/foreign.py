"""Arrays of PyTorch, CuPy and others as arguments of a call: known again by their layouts.

What was taken once, by way of DLPack and with all checks, is known the next time by what it tells
of itself: dtype, shape, strides, device, alignment. A call on arrays that are known reads their
addresses and nothing else. It starts after the work that the owner's current stream has, and the
owner's later work there starts after the call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from whet.compiler.runtime.gpu.driver.interface import Context, driver_of
from whet.compiler.runtime.gpu.driver.properties import ALIGNMENT
from whet.compiler.runtime.gpu.driver.streams import DEFAULT, current_handle

if TYPE_CHECKING:
    from whet.compiler.runtime.arrays.device_array import DeviceArray

Where = Any
"""Where an owner works: a stream's handle, 0 where it does not tell; of PyTorch a device, whose
current stream is asked for once a call."""

Told = tuple[tuple, int, Where]  # what stands for the layout, the address, where its owner works
NOT_TOLD = (AttributeError, KeyError, RuntimeError, TypeError, ValueError)
"""The errors of :func:`known`: arrays that have no address raise what their makers like."""

_readers: dict[type, Callable[[Any], Told]] = {}
_layouts: dict[tuple, int] = {}
_MOST = 1 << 16


def known(array: Any) -> tuple[int, int, Where]:
    """The layout and the address of an array that was remembered, and where its owner works.

    Raises:
        One of NOT_TOLD: none like it was.
    """
    key, address, where = _readers[type(array)](array)
    return _layouts[key], address, where


def remember(source: Any, array: DeviceArray) -> Where:
    """Know somebody's array the next time.

    Args:
        source: as it was given.
        array: what it was taken for.

    Returns:
        Where its owner works.
    """
    try:
        reader = _reader_of(source)
        if reader is None:
            return 0
        key, address, where = reader(source)
    except NOT_TOLD:
        return 0
    if address == array.address:
        if len(_layouts) >= _MOST:
            _layouts.clear()
        _readers[type(source)] = reader
        _layouts[key] = array._layout
    return where


def let_owner_wait(source: Any, array: DeviceArray, context: Context) -> None:
    """Let the later work of somebody's array's owner start after what our stream has now.

    Args:
        source: the array.
        array: what it was taken for.
        context: of the device whose current stream reads it.
    """
    theirs, mine = stream_of(remember(source, array)), current_handle(context)
    if theirs and not (theirs == mine and array.context is context):
        array.context.order(mine, theirs, context)


def stream_of(where: Where) -> int:
    if type(where) is int:
        return where
    return sys.modules["torch"].cuda.current_stream(where).cuda_stream or DEFAULT


def _reader_of(source: Any) -> Callable[[Any], Told] | None:
    if getattr(source, "is_cuda", False) and hasattr(source, "data_ptr"):
        return _of_torch
    return _of_interface if hasattr(source, "__cuda_array_interface__") else None


def _of_torch(tensor: Any) -> Told:
    """Layout and address of a PyTorch tensor, by methods: interfaces take ten times as long."""
    address, device = tensor.data_ptr(), tensor.device
    key = (
        tensor.dtype,
        tensor.shape,
        tensor.stride(),
        device,
        tensor.layout,
        tensor.requires_grad,
        tensor.is_neg(),
        address % ALIGNMENT,
    )
    return key, address, device


def _of_interface(array: Any) -> Told:
    interface = array.__cuda_array_interface__
    address, read_only = interface["data"]
    layout = (
        interface["typestr"],
        interface["shape"],
        interface.get("strides"),
        interface.get("mask") is None,
        read_only,
        driver_of("cuda").device_of(address),
        address % ALIGNMENT,
    )
    return layout, address, interface.get("stream") or 0
