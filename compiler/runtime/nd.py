"""``whet.nd``: arrays by TVM's names."""

from whet.compiler.runtime.device import Device, cpu, device
from whet.compiler.runtime.ndarray import NDArray, array, empty, from_dlpack

__all__ = ["Device", "NDArray", "array", "cpu", "device", "empty", "from_dlpack"]
