"""Devices, and arrays on them."""

from whet.compiler.runtime.arrays import gpu_import  # noqa: F401 (adds how GPUs make and share)
