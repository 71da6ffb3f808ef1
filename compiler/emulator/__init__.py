"""GPU kernels without a GPU: the same CUDA C compiled for the host, one fiber a CUDA thread.

The device is ``whet.device("cuda-emulator")``. It runs what ``build(target="cuda")`` gives, finds
races, barriers that threads miss, accesses out of bounds and reads of unwritten memory, and names
kernel, block, thread and buffer.
"""

from whet.compiler.emulator.compile import compile_emulated
from whet.compiler.emulator.options import EmulatorOptions, current_options, emulator_options
from whet.compiler.emulator.report import EmulatorError
from whet.compiler.emulator.sanitizer.run import Unwritten, run_kernel

__all__ = [
    "EmulatorError",
    "EmulatorOptions",
    "Unwritten",
    "compile_emulated",
    "current_options",
    "emulator_options",
    "run_kernel",
]
