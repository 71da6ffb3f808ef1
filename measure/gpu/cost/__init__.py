"""The static cost model of GPU kernels: instruction counts, memory traffic, seconds."""
