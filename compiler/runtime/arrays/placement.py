"""Where a new array is to live: the device that was asked for, checked."""

from __future__ import annotations

import warnings

from whet.compiler.errors import ArgumentError, TargetError
from whet.compiler.runtime.arrays.device import Device, cpu, instead_of


def device_or_ctx(request: str, device: Device | None, ctx: Device | None) -> Device | None:
    """``device``, or what was given by its old name.

    Raises:
        ArgumentError: both were given.
    """
    if ctx is None:
        return device
    if device is not None:
        raise ArgumentError(f"{request}(device={device}, ctx={ctx})", "the device is given twice")
    warnings.warn(f"{request}(ctx=...) is deprecated: use device", DeprecationWarning, stacklevel=3)
    return ctx


def checked_device(device: Device | None, mem_scope: str | None) -> Device:
    """The device of a new array; the CPU by default.

    Raises:
        ArgumentError: the device, or the kind of memory, does not exist.
    """
    where = cpu(0) if device is None else device
    if not isinstance(where, Device):
        use = f"whet.device({where!r})" if isinstance(where, str) else "whet.cpu(0)"
        raise ArgumentError(f"an array on {where!r}", "it is not a Device", f"use {use}")
    if not where.exist:
        why = "this machine has no such device"
        raise ArgumentError(f"an array on {where}", f"{why}{_missing(where)}", instead_of(where))
    if mem_scope not in (None, "", "global"):
        raise ArgumentError(
            f"an array with mem_scope={mem_scope!r}", f"{where} has global memory only"
        )
    return where


def _missing(device: Device) -> str:
    """The reason why a GPU does not exist, as the rest of a sentence."""
    from whet.compiler.runtime.arrays.device import context_of
    from whet.compiler.runtime.gpu.driver.interface import has_driver

    if not has_driver(device.type):
        return ""
    try:
        context_of(device)
    except TargetError as error:
        return f": {error}"
    return ""
