"""Weights in the layout that a kernel takes: the call of the function that was lowered for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from whet.compiler.abi.binding import bindings
from whet.compiler.abi.extent import evaluate
from whet.compiler.abi.layout import numpy_dtype
from whet.compiler.abi.signature import BufferParam, KernelSignature
from whet.compiler.errors import ArgumentError
from whet.compiler.runtime.arrays.aligned import aligned_empty
from whet.compiler.runtime.arrays.nd import empty, from_dlpack
from whet.compiler.runtime.arrays.ndarray import NDArray, as_numpy

if TYPE_CHECKING:
    import numpy as np

    from whet.compiler.runtime.arrays.device import Device
    from whet.compiler.runtime.function import Function


def pack(
    kernel: Function,
    packs: Function | None,
    weights: tuple[object, ...],
    out: Sequence[np.ndarray] | None = None,
) -> object:
    """Run the function that makes a kernel's packed arrays.

    Args:
        kernel: which takes them.
        packs: which makes them; None where the kernel takes its weights as they are.
        weights: an array each, as the function takes them.
        out: the arrays to pack into; None: new ones.

    Returns:
        The packed array, on the device that the weights are on; a tuple of them where there are
        several.

    Raises:
        ArgumentError: nothing is computed ahead of this kernel, or the weights do not fit.
    """
    if packs is None:
        raise ArgumentError(
            f"{kernel.name}: pack_weights(...)",
            "nothing is computed ahead of this kernel: it takes its weights as they are",
            "call it with them; s[stage].compute_ahead() makes a kernel that takes packed ones",
        )
    signature = packs.signature
    made = signature.params[-len(kernel.signature.ahead.packed) :]  # type: ignore[union-attr]
    wanted = len(signature.params) - len(made)
    if len(weights) != wanted:
        names = ", ".join(p.name for p in signature.params[:wanted])
        raise ArgumentError(
            f"{kernel.name}: pack_weights()",
            f"{len(weights)} arrays given, it takes {wanted}",
            f"pack_weights({names})",
        )
    taken = tuple(map(_taken, weights))
    symbols = _symbols(signature, taken)
    device = next((w.device for w in taken if isinstance(w, NDArray)), None)
    outputs = (
        [_empty(p, symbols, device) for p in made if isinstance(p, BufferParam)]
        if out is None
        else list(out)
    )
    if device is not None and device.type != "cpu":
        packs(*weights, *outputs)  # which lets the weights' owners wait for it
    else:
        # once: the quick call, 20 ms to make, would not pay
        packs.repeater((*taken, *outputs))(1)
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _symbols(signature: KernelSignature, weights: tuple[object, ...]) -> dict[str, int]:
    """The sizes that the weights' shapes give; whether these fit is left to the call."""
    found: dict[str, int] = {}
    for name, (k, d) in bindings(signature).items():
        if k >= len(weights):
            raise ArgumentError(
                f"{signature.name}: pack_weights()",
                f"the shape of {signature.params[k].name} needs {name}, which no weight gives",
                f'make that array, and call module["{signature.name}"] with the weights and it',
            )
        array = _described(weights[k])
        steps = () if array is None else [s // array.itemsize for s in array.strides]
        sizes = () if array is None else (*array.shape, *steps)
        found[name] = int(sizes[d]) if d < len(sizes) else 0
    return found


def _taken(weight: object) -> object:
    """An array of another library's on a GPU as one of Whet's; anything else as it is."""
    from whet.compiler.runtime.arrays.gpu_import import is_shared

    foreign = not isinstance(weight, NDArray) and is_shared(weight)
    return from_dlpack(weight) if foreign else weight


def _described(weight: object) -> np.ndarray | None:
    """Something with the shape and the strides of an array; on a GPU, without its elements."""
    from whet.compiler.runtime.arrays.device_array import DeviceArray

    return weight.described if isinstance(weight, DeviceArray) else as_numpy(weight)


def _empty(p: BufferParam, symbols: dict[str, int], device: Device | None) -> object:
    """The array that is packed into, where the weights are; on a CPU numpy's, aligned."""
    shape = tuple(evaluate(d, symbols) for d in p.shape)
    if device is not None and device.type != "cpu":
        return empty(shape, p.dtype, device)
    return aligned_empty(shape, numpy_dtype(p.dtype))
