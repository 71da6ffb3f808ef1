"""This machine for users: its processor, its measured FMA peak, the bandwidth of its caches."""

from whet.compiler.target.machine.bandwidth import bandwidth
from whet.compiler.target.machine.fma import fma_peak
from whet.compiler.target.machine.host import (
    affinity,
    all_features,
    architecture,
    caches,
    cpu_model,
    cpu_quota,
    describe,
    features,
    fingerprint,
    levels,
    mcpu,
    num_threads,
    physical_cores,
    triple,
    vector_bytes,
)

__all__ = [
    "affinity",
    "all_features",
    "architecture",
    "bandwidth",
    "caches",
    "cpu_model",
    "cpu_quota",
    "describe",
    "features",
    "fingerprint",
    "fma_peak",
    "levels",
    "mcpu",
    "num_threads",
    "physical_cores",
    "triple",
    "vector_bytes",
]
