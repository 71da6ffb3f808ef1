"""Running compiled kernels: arrays, devices, loaded modules, timing, artifacts."""

from whet.compiler.runtime import nd
from whet.compiler.runtime.artifact import Artifact
from whet.compiler.runtime.device import Device, cpu, device
from whet.compiler.runtime.module import Function, Module
from whet.compiler.runtime.ndarray import NDArray
from whet.compiler.runtime.timing import BenchmarkResult

__all__ = [
    "Artifact",
    "BenchmarkResult",
    "Device",
    "Function",
    "Module",
    "NDArray",
    "cpu",
    "device",
    "nd",
]
