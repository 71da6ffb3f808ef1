"""Constants of named GPUs for the static cost model, from their data sheets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from whet.compiler.errors import TargetError
from whet.compiler.target.gpu_limits import GpuLimits, limits_of

if TYPE_CHECKING:
    from whet.compiler.target import Target

VERSION = 5
"""Version of the static cost model: costs of different versions are different devices' in a log."""


@dataclass(frozen=True)
class GpuSpec:
    """One GPU, as the cost model sees it. Rates are of one multiprocessor and one clock cycle.

    Attributes:
        key: a short name for a log's keys.
        name: the GPU's name.
        arch: its architecture.
        hertz: the boost clock.
        memory_bytes_s: bytes a second from and to its memory.
        l2_bytes: size of the L2 cache.
        l2_rate: bytes from the L2 cache.
    """

    key: str
    name: str
    arch: str
    hertz: float
    memory_bytes_s: float
    l2_bytes: int
    l2_rate: float

    @property
    def limits(self) -> GpuLimits:
        """Limits and rates of its architecture."""
        return limits_of(self.arch)

    @property
    def multiprocessors(self) -> int:
        """Their number."""
        return self.limits.multiprocessors


_MIB = 1 << 20
_SPECS = (
    GpuSpec("t4", "NVIDIA T4", "sm_75", 1.59e9, 320e9, 4 * _MIB, 64.0),
    GpuSpec("a100", "NVIDIA A100 80GB SXM", "sm_80", 1.41e9, 2039e9, 40 * _MIB, 64.0),
    GpuSpec("rtx3090", "GeForce RTX 3090", "sm_86", 1.695e9, 936e9, 6 * _MIB, 64.0),
    GpuSpec("rtx4090", "GeForce RTX 4090", "sm_89", 2.52e9, 1008e9, 72 * _MIB, 64.0),
    GpuSpec("h200", "NVIDIA H200 SXM", "sm_90", 1.98e9, 4800e9, 50 * _MIB, 64.0),
    GpuSpec("b200", "NVIDIA B200", "sm_100", 1.965e9, 8000e9, 126 * _MIB, 64.0),
    GpuSpec("rtx5090", "GeForce RTX 5090", "sm_120", 2.41e9, 1792e9, 96 * _MIB, 64.0),
)
SPECS = {spec.arch: spec for spec in _SPECS}
"""One GPU for each architecture that has a model."""


def spec_of(target: Target | str) -> GpuSpec:
    """The GPU whose constants stand for a target.

    Args:
        target: a canonical CUDA target, or an architecture such as ``"sm_80"``.

    Raises:
        TargetError: no GPU of that architecture is modelled.
    """
    arch = target if isinstance(target, str) else str(target.attrs.get("arch", ""))
    plain = arch.rstrip("af")  # sm_90a is sm_90 with instructions of its own
    if plain not in SPECS:
        raise TargetError(
            f"a cost model of {arch or 'a target without an architecture'}",
            "no GPU of that architecture is modelled",
            f"target='cuda -arch=...' with one of {', '.join(SPECS)}",
        )
    return SPECS[plain]
