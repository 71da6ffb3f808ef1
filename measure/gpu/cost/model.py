"""Seconds of a GPU kernel from what it does: occupancy, bytes, instructions. Nothing is measured.

Everything is numpy arithmetic, so that one kernel's numbers and columns of many candidates' go
through the same formulas.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from whet.measure.device.specs import GpuSpec
from whet.search_spaces.rules.gpu.hardware.device import balance

Number = Any
"""A float, or a float64 array: one entry a candidate."""

WARP = 32
LAUNCH_S = 2.5e-6
"""Seconds from one kernel of a stream to the next."""
MEMORY_CYCLES, ARITHMETIC_CYCLES = 600.0, 4.5
"""Cycles until a value from memory, of a multiply-add can be used."""
BARRIER_CYCLES = 30.0
BLOCK_CYCLES = 300.0
"""Cycles to start a block and to end it."""
REACHED = np.array([0.92, 0.85, 0.9, 0.95])
"""Shares of the peaks that the best kernels reach: memory, L2, L1, issue slots."""
KNEE = 2.0
"""The norm that joins the memory's rate with what is under way over its latency: a memory that is
nearly full answers later. Full speed takes 2 to 5 times the bytes that an idle memory's latency
asks for: CUB's transform has 12, 16, 32, 48 and 64 KiB under way on a multiprocessor of a V100,
A100, H100, H200 and B200."""
SHARED_UNIT, RESERVED = 1024, 1024
"""Shared memory is handed out in such pieces; so much of it is the system's, for each block."""
REGISTER_UNIT = 256
"""Registers are handed out to warps in such pieces."""
SMOOTH = 6.0
"""The norm by which the limits are joined: the slowest decides, others that are near add."""
LIMITS = ("memory", "l2", "l1", "issue", "arithmetic", "special", "latency")


@dataclass(frozen=True)
class Work:
    """The work of one launch of a kernel; each field is a number or an array over candidates.

    Attributes:
        blocks: of the grid.
        threads: of a block.
        registers: of a thread.
        shared_bytes: of a block.
        instructions: warp instructions of all warps.
        fma32, fma64: operations of float32 and of float64 that go through their pipes, of all
            threads; a fused multiply-add is one.
        special: special functions and conversions of all threads.
        wavefronts: of the L1 cache and shared memory, which are one, of all warps: each moves
            128 bytes; bank conflicts and lines that lie apart need more of them.
        l2_bytes: bytes in 32-byte sectors between multiprocessors and the L2 cache.
        memory_bytes: bytes from and to the memory.
        phases: times that a block waits for memory before it can go on.
        barriers: of a block.
        chain: instructions of one thread that wait for one another.
        in_flight: bytes of the memory that one thread asks for before it waits.
    """

    blocks: Number
    threads: Number
    registers: Number
    shared_bytes: Number
    instructions: Number
    fma32: Number
    fma64: Number
    special: Number
    wavefronts: Number
    l2_bytes: Number
    memory_bytes: Number
    phases: Number
    barriers: Number
    chain: Number
    in_flight: Number


@dataclass(frozen=True)
class Prediction:
    """The model's prediction for one launch; fields are numbers or arrays, as the work's are.

    Attributes:
        seconds: the launch included.
        resident: blocks of a multiprocessor at a time; 0: the kernel cannot be launched.
        occupancy: warps of a multiprocessor over those that it could hold.
        waves: rounds in which the multiprocessors run through all blocks.
        parts: seconds by :data:`LIMITS`, each as if nothing else took time.
    """

    seconds: Number
    resident: Number
    occupancy: Number
    waves: Number
    parts: dict[str, Number]

    @property
    def limited_by(self) -> str:
        """The slowest of :data:`LIMITS`, for a single kernel."""
        return max(self.parts, key=lambda name: float(self.parts[name]))


def resident_blocks(
    spec: GpuSpec, threads: Number, registers: Number, shared_bytes: Number
) -> Number:
    """Blocks of a kernel that a multiprocessor holds at a time; 0: not even one.

    Args:
        spec: the GPU.
        threads: of a block.
        registers: of a thread.
        shared_bytes: of a block.
    """
    warps = np.ceil(np.maximum(threads, 1) / WARP)
    limits = spec.limits
    by_threads = np.floor(limits.threads_multiprocessor / (warps * WARP))
    of_warp = np.ceil(np.maximum(registers, 16) * WARP / REGISTER_UNIT) * REGISTER_UNIT
    by_registers = np.floor(np.floor(limits.registers_multiprocessor / of_warp) / warps)
    own = np.ceil((shared_bytes + RESERVED) / SHARED_UNIT) * SHARED_UNIT
    by_shared = np.floor(limits.shared_bytes_multiprocessor / own)
    least = np.minimum(np.minimum(by_threads, by_registers), by_shared)
    return np.minimum(least, limits.blocks_multiprocessor)


def predict(spec: GpuSpec, work: Work) -> Prediction:
    """Seconds of one launch.

    The time is that of the slowest resource, at the rate that the resident warps can keep it busy,
    and never less than the chain of waits of the blocks that follow each other.

    Args:
        spec: the GPU.
        work: of the kernel.
    """
    resident = resident_blocks(spec, work.threads, work.registers, work.shared_bytes)
    fits = np.maximum(resident, 1.0)
    warps = np.ceil(work.threads / WARP)
    blocks = np.maximum(work.blocks, 1.0)
    per_sm = np.ceil(blocks / spec.multiprocessors)  # of the multiprocessor that has most to do
    at_a_time = np.minimum(fits, per_sm)
    active = at_a_time * warps
    waves = np.ceil(per_sm / fits)
    share = per_sm / blocks
    parts = _parts(spec, work, active, share)
    parts["latency"] = waves * _chain(work) / spec.hertz
    each = [np.asarray(p, float) for p in parts.values()]
    slowest = np.maximum.reduce(each)
    safe = np.maximum(slowest, 1e-30)
    joined = sum((p / safe) ** SMOOTH for p in each)
    seconds = slowest * joined ** (1 / SMOOTH) + LAUNCH_S
    most = spec.limits.threads_multiprocessor
    occupancy = np.minimum(fits * warps * WARP, most) / most
    return Prediction(np.where(resident >= 1, seconds, np.inf), resident, occupancy, waves, parts)


def _parts(spec: GpuSpec, work: Work, active: Number, share: Number) -> dict[str, Number]:
    """Seconds of each resource, of the multiprocessor that has most to do."""
    in_flight = active * WARP * np.maximum(work.in_flight, 4.0)
    hertz, sms = spec.hertz, spec.multiprocessors
    # Little's law: what is under way over how long it takes is the rate that can be kept.
    l2_rate = np.minimum(spec.l2_rate * REACHED[1], in_flight / (0.5 * MEMORY_CYCLES))
    device_rate = in_flight / MEMORY_CYCLES * sms * hertz * np.minimum(1.0, 1.0 / (share * sms))
    memory_rate = device_rate / (
        1.0 + (device_rate / (spec.memory_bytes_s * REACHED[0])) ** KNEE
    ) ** (1 / KNEE)
    # A warp's chain leaves issue slots to the others.
    limits, used = spec.limits, balance(active, spec.limits.sub_partitions)
    issue = np.minimum(limits.sub_partitions * used * REACHED[3], active / _interval(work))
    lanes = np.minimum(limits.fma32 * used * REACHED[3], active * WARP / _interval(work))
    return {
        "memory": work.memory_bytes / memory_rate,
        "l2": work.l2_bytes * share / l2_rate / hertz,
        "l1": work.wavefronts * share / REACHED[2] / hertz,
        "issue": work.instructions * share / issue / hertz,
        "arithmetic": (work.fma32 / lanes + work.fma64 / (limits.fma64 * used)) * share / hertz,
        "special": work.special * share / (limits.special * used) / hertz,
    }


def _interval(work: Work) -> Number:
    """Cycles between two instructions of one warp: more where they wait for one another."""
    own = work.instructions / np.maximum(work.blocks * np.ceil(work.threads / WARP), 1.0)
    dependent = np.minimum(work.chain / np.maximum(own, 1.0), 1.0)
    return 1.0 + dependent * (ARITHMETIC_CYCLES - 1.0)


def _chain(work: Work) -> Number:
    """Cycles that one block takes however empty the multiprocessor is."""
    return (
        BLOCK_CYCLES
        + work.phases * MEMORY_CYCLES
        + work.barriers * BARRIER_CYCLES
        + work.chain * ARITHMETIC_CYCLES
    )
