"""``whet.nd``: arrays and devices by TVM's names."""

from whet.compiler.runtime.arrays.ndarray import NDArray, array, empty, from_dlpack
from whet.compiler.runtime.device import (
    Device,
    context,
    cpu,
    cuda,
    device,
    ext_dev,
    gpu,
    metal,
    opencl,
    rocm,
    vulkan,
)

__all__ = [
    "Device",
    "NDArray",
    "array",
    "context",
    "cpu",
    "cuda",
    "device",
    "empty",
    "ext_dev",
    "from_dlpack",
    "gpu",
    "metal",
    "opencl",
    "rocm",
    "vulkan",
]
