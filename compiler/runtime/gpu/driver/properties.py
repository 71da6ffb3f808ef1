"""Properties and limits of a GPU, as its driver tells."""

from __future__ import annotations

from dataclasses import dataclass

Extents = tuple[int, int, int]
ALIGNMENT = 16  # bytes that vector loads of kernels may take at once


@dataclass(frozen=True, slots=True)
class DeviceProperties:
    """Properties and limits of a device.

    Attributes:
        name: what it calls itself.
        arch: the architecture that code is compiled for, e.g. ``"sm_90"``.
        multiprocessors: how many.
        warp_size: threads that run in step.
        max_threads: of a block.
        max_block: threads of a block along x, y, z.
        max_grid: blocks of a grid along x, y, z.
        shared_bytes: shared memory that any block can have.
        shared_bytes_optin: shared memory that a block can have when its kernel asks for it.
        shared_bytes_multiprocessor: shared memory of a multiprocessor.
        registers_block: 32-bit registers that a block can have.
        registers_multiprocessor: 32-bit registers of a multiprocessor.
        threads_multiprocessor: threads that a multiprocessor holds.
        blocks_multiprocessor: blocks that a multiprocessor holds.
        l2_bytes: size of the L2 cache.
        clock_khz: highest frequency of the multiprocessors.
        memory_clock_khz: highest frequency of the memory.
        memory_bus_bits: width of the memory's bus.
        memory_bytes: size of the device's memory.
        driver_version: of CUDA that the driver knows, e.g. ``"13.0"``.
        pci_bus_id: where it is, e.g. ``"0000:3B:00.0"``, by which NVML knows it; empty: nowhere.
    """

    name: str
    arch: str
    multiprocessors: int
    warp_size: int = 32
    max_threads: int = 1024
    max_block: Extents = (1024, 1024, 64)
    max_grid: Extents = (2**31 - 1, 65535, 65535)
    shared_bytes: int = 49152
    shared_bytes_optin: int = 49152
    shared_bytes_multiprocessor: int = 65536
    registers_block: int = 65536
    registers_multiprocessor: int = 65536
    threads_multiprocessor: int = 2048
    blocks_multiprocessor: int = 32
    l2_bytes: int = 0
    clock_khz: int = 0
    memory_clock_khz: int = 0
    memory_bus_bits: int = 0
    memory_bytes: int = 0
    driver_version: str = ""
    pci_bus_id: str = ""
