"""A compiled model for GPUs as data: what is uploaded before its first run, and its kernels' code.

Weights are kept as they were before the device packed them; where the host has let them go, as the
device has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, Protocol, cast

import numpy as np

from whet.compiler.abi.layout import numpy_dtype
from whet.compiler.abi.signature import BufferParam
from whet.compiler.graph.buckets import BucketModel
from whet.compiler.graph.device_constants import DeviceConstants, Upload
from whet.compiler.graph.device_model import DeviceModel
from whet.compiler.graph.executor import ARENA, CONSTANTS
from whet.compiler.graph.image import Json, description_of, models_of, of_buckets
from whet.compiler.graph.launches import functions_of
from whet.compiler.graph.memory import ALIGNMENT
from whet.compiler.graph.model import Model
from whet.compiler.homes import imported
from whet.compiler.runtime.arrays.device import Device
from whet.compiler.runtime.module import Module
from whet.compiler.tir import dtype as dt

# A model with symbols is restored, imported when there is one.
_OF_SYMBOLS = "whet.compiler.graph.symbolic.image:restored_on_device"


class OnDevice(Protocol):
    """A model for GPUs, of one size or with symbols."""

    @property
    def constants(self) -> DeviceConstants: ...


def uploads_of(model: OnDevice | BucketModel) -> tuple[Json, np.ndarray]:
    """The uploads of a model as JSON-able data, and the bytes of their sources.

    All buckets have one memory of constants.
    """
    if isinstance(model, BucketModel):
        model = cast(OnDevice, models_of(model)[0])
    found: list[Json] = []
    pieces: list[tuple[int, np.ndarray]] = []
    end = 0
    for upload in model.constants.uploads():
        sources = []
        for array in upload.sources:
            whole = np.require(array, requirements="C")
            sources.append([end, list(whole.shape), dt.check(whole.dtype)])
            pieces.append((end, whole.reshape(-1).view(np.uint8)))
            end += -(-whole.nbytes // ALIGNMENT) * ALIGNMENT
        packs = None if upload.packs is None else upload.packs.entry_name
        found.append({"sources": sources, "offsets": list(upload.offsets), "packs": packs})
    data = np.zeros(max(end, 1), np.uint8)
    for begin, piece in pieces:
        data[begin : begin + piece.size] = piece
    return {"size": model.constants.size, "each": found}, data


def restored(
    data: Json, kernels: Mapping[str, Module], sources: np.ndarray, device: Device | None
) -> Model | BucketModel:
    """The model that :func:`~whet.compiler.graph.image.described` described.

    Args:
        data: the description, with ``uploads``.
        kernels: symbol -> its module.
        sources: the bytes that are uploaded.
        device: where it runs; None: the first GPU.

    Raises:
        Exception: the data is not as it was written, of any kind.
    """
    uploads = [_upload(one, kernels, sources) for one in data["uploads"]["each"]]
    size = int(data["uploads"]["size"])
    for upload in uploads:
        for offset, many in zip(upload.offsets, _filled(upload), strict=True):
            _check_inside("an upload", offset, many, size)
    held = DeviceConstants(size, uploads, device or Device("cuda"))
    if "buckets" in data:
        return of_buckets([_restored(one, kernels, held) for one in data["buckets"]])
    if "ranges" in data:
        found: Model = imported(_OF_SYMBOLS)(data, kernels, held)
        return found
    return _restored(data, kernels, held)


def _restored(data: Json, kernels: Mapping[str, Module], held: DeviceConstants) -> DeviceModel:
    """The model of one size."""
    if "ranges" in data:
        raise ValueError("a bucket has ranges")
    inputs, outputs, arena, calls = description_of(data, kernels)
    sizes = {v.name: v.bytes for v in (*inputs, *outputs)}
    sizes |= {ARENA: arena.size, CONSTANTS: held.size}
    for call in calls:
        params = functions_of(kernels[call.kernel])[0].signature.params
        for place, param in zip(call.places, params, strict=True):
            _check_inside(call.name, place.offset, _bytes(param), sizes[place.argument])
    made = {p.argument for c in calls for p in c.places[len(c.places) - len(c.outputs) :]}
    for value in outputs:
        if value.bytes and value.name not in made:
            raise ValueError(f"no kernel makes its output {value.name}")
    return DeviceModel(inputs, outputs, kernels, held, arena, calls)


def _upload(data: Json, kernels: Mapping[str, Module], sources: np.ndarray) -> Upload:
    arrays = []
    for begin, shape, dtype in data["sources"]:
        kind = numpy_dtype(dtype)
        many = prod(shape) * kind.itemsize
        _check_inside("a source", begin, many, sources.size)
        arrays.append(sources[begin : begin + many].view(kind).reshape(shape))
    packs = None if data["packs"] is None else kernels[data["packs"]]
    return Upload(tuple(arrays), tuple(map(int, data["offsets"])), packs)


def _filled(upload: Upload) -> list[int]:
    """The bytes of each array that an upload makes."""
    if upload.packs is None:
        return [a.nbytes for a in upload.sources]
    pack = upload.packs.entry_func.ahead
    if pack is None:
        raise ValueError(f"{upload.packs.entry_name} packs no weights")
    return [_bytes(p) for p in pack.signature.params[len(upload.sources) :]]


def _bytes(param: Any) -> int:
    if not isinstance(param, BufferParam):
        raise TypeError(f"{param} is no array")
    return prod(int(str(d)) for d in param.shape) * numpy_dtype(param.dtype).itemsize


def _check_inside(what: str, offset: int, many: int, size: int) -> None:
    """Refuse bytes that are not all in a memory; one of no bytes has one."""
    if not 0 <= offset <= max(size, 1) - many:
        raise ValueError(f"{what} takes {many} bytes at {offset} of {size}")
