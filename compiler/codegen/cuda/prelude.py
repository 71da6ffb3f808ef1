"""The prelude of CUDA C: the text that NVRTC gets in front of kernels, and the names it defines."""

from __future__ import annotations

import functools
from importlib.resources import files

#: What generated text may use beside CUDA C itself. The emulator's prelude defines the same names.
NAMES: tuple[str, ...] = (
    # memory
    *("WHET_GLOBAL", "WHET_EXTENT", "WHET_SHARED_BUFFER", "WHET_LOCAL"),
    # types of 16-bit floats, and vectors of all types: float16x8, float32x4, int8x16, ..
    *("float16", "bfloat16", "whet_vector", "whet_load", "whet_store"),
    # between the lanes of a warp
    *("whet_warp_shuffle", "whet_warp_shuffle_down", "whet_warp_shuffle_up"),
    "whet_warp_shuffle_xor",
    *("whet_dp4a", "whet_pack", "whet_transpose4x4"),
    "whet_trap",
)


@functools.cache
def text() -> str:
    """The prelude as NVRTC compiles it."""
    return files("whet.compiler.codegen.cuda").joinpath("prelude.cuh").read_text()
