"""What a schedule must know about the GPU that it is for."""

from __future__ import annotations

from whet.compiler.target import Target

# Multiprocessors of the largest GPU of each architecture that computing centres have: T4, A100,
# RTX 3090, RTX 4090, H200, B200, RTX 5090. Defaults are good for these.
_PROCESSORS = {75: 40, 80: 108, 86: 82, 89: 128, 90: 132, 100: 148, 120: 170}
_LEAST = 64

REGISTERS = 65536
"""32-bit registers of a multiprocessor, from sm_50 on."""
MOST_THREADS = 2048
"""Threads that a multiprocessor holds; consumer GPUs hold 1536, which decides nothing here."""


def architecture(target: Target) -> int:
    """80 for ``sm_80`` and ``sm_80a``; 80 where the target does not say."""
    name = str(target.canonical().attrs.get("arch", "") or "")
    digits = "".join(c for c in name.removeprefix("sm_") if c.isdigit())
    return int(digits) if digits else 80


def processors(target: Target) -> int:
    """Multiprocessors: what the target says, else those of a usual GPU of its architecture."""
    given = target.attrs.get("multi_processor_count", 0)
    if given:
        return int(given)
    near = [a for a in _PROCESSORS if a <= architecture(target)]
    return _PROCESSORS[max(near)] if near else _LEAST


def shared_bytes(target: Target) -> int:
    """Shared memory that a block may have."""
    return int(target.canonical().attrs.get("max_shared_memory_per_block", 0) or 49152)
