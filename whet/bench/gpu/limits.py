"""A device's limits: what copying as many bytes takes, and how fast its multipliers are."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whet.compiler.runtime.gpu.driver.interface import Context, Driver

CHAINS = 16
"""Multiplications of a thread that do not wait for each other."""
THREADS = 256
BLOCKS = 8
"""Blocks a multiprocessor: as many threads as it holds."""

PEAK = """
extern "C" __global__ void __launch_bounds__({threads})
whet_fma_peak(WHET_GLOBAL(float) out, float factor, int steps) {{
  float sums[{chains}];
#pragma unroll
  for (int k = 0; k < {chains}; ++k) {{ sums[k] = (float)(threadIdx.x + k); }}
#pragma unroll 8
  for (int step = 0; step < steps; ++step) {{
#pragma unroll
    for (int k = 0; k < {chains}; ++k) {{ sums[k] = fmaf(sums[k], factor, factor); }}
  }}
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < {chains}; ++k) {{ sum += sums[k]; }}
  out[blockIdx.x * {threads} + threadIdx.x] = sum;
}}
"""


class PeakProbe:
    """A kernel that does nothing but multiply and add in float32, on all multiprocessors.

    Args:
        driver: compiles it.
        context: the device's.
        steps: multiplications of a chain.

    Raises:
        CodegenError: the compiler refuses it.
    """

    def __init__(self, driver: Driver, context: Context, steps: int = 4096) -> None:
        self._context, self._steps = context, steps
        text = PEAK.format(threads=THREADS, chains=CHAINS)
        self._image = context.load(driver.compile(text, context.properties.arch))
        self._kernel = self._image.kernel("whet_fma_peak")
        self._blocks = BLOCKS * context.properties.multiprocessors
        self._address = context.alloc(4 * THREADS * self._blocks)

    @property
    def flop(self) -> int:
        """Operations of a call: two for each multiplication with its addition."""
        return 2 * CHAINS * self._steps * THREADS * self._blocks

    def __call__(self) -> None:
        """Put it into the default stream once."""
        arguments = struct.pack("<Qfi", self._address, 0.5, self._steps)
        self._context.launch(self._kernel, (self._blocks, 1, 1), (THREADS, 1, 1), arguments)

    def close(self) -> None:
        """Give its memory back."""
        self._context.synchronize()
        self._context.free(self._address)


class CopyProbe:
    """Copies within the device: as many bytes are read and written as a kernel moves at least.

    Args:
        context: the device's.
        nbytes: that the kernel reads and writes.
    """

    def __init__(self, context: Context, nbytes: int) -> None:
        self._context = context
        self._nbytes = max(nbytes // 2, 1)
        self._from, self._to = context.alloc(self._nbytes), context.alloc(self._nbytes)
        context.fill(self._from, 1, self._nbytes)

    @property
    def bytes(self) -> int:
        """Bytes that a call reads and writes."""
        return 2 * self._nbytes

    def __call__(self) -> None:
        """Put it into the default stream once."""
        self._context.copy(self._to, self._from, self._nbytes)

    def close(self) -> None:
        """Give its memory back."""
        self._context.synchronize()
        for address in (self._from, self._to):
            self._context.free(address)
