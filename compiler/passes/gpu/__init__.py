"""Passes for kernels of a GPU: threads, shared memory, barriers, the split of host and device."""
