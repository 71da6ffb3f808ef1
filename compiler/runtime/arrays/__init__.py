"""Devices, and arrays on them."""

import whet.compiler.runtime.arrays.gpu_import  # noqa: F401 (GPUs add their ways to make and share)
