"""Kinds of processors, told by their features: no option names them. Caches of a core."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from whet.compiler.target import Target

_LINE, _PERIOD = 64, 4096  # bytes of a line; after which the sets of the first cache begin anew
FEWEST_WAYS, _FULL = 8, 0.875  # lines of a set where there are few, and its use


@dataclass(frozen=True)
class Caches:
    """The caches of a core.

    Attributes:
        levels: usable bytes of each, and bytes a cycle of what fits it; the last: of memory.
    """

    levels: tuple[tuple[float, float], ...]

    @property
    def first(self) -> float:
        """Usable bytes of the first cache."""
        return self.levels[0][0]

    @property
    def second(self) -> float:
        """Usable bytes of the second cache."""
        return self.levels[1][0]

    @property
    def third(self) -> float:
        """Usable bytes of the third cache."""
        return self.levels[2][0]

    def rate(self, held: float) -> float:
        """Bytes a cycle of what is read over and over, by how many bytes that are."""
        return next(rate for capacity, rate in self.levels if held <= capacity)


def sets_of(stride: int) -> int:
    """How many sets of the first cache rows of a stride are spread over."""
    return min(_PERIOD // _LINE, _PERIOD // gcd(stride, _PERIOD))


def displaced(rows: int, stride: int) -> float:
    """How much rows that are read side by side displace each other's lines in the first cache.

    Args:
        rows: so many at a time. stride: bytes from one to the next.

    Returns:
        0 for rows whose lines stay; about 1 for twice as many as sets have room for.
    """
    return max(0.0, rows / (sets_of(stride) * FEWEST_WAYS) - _FULL) ** 2


def is_zen(target: Target) -> bool:
    """True for AMD's cores with AVX-512, Zen 4 and 5, whose third cache is near.

    They are those of 2022 without the float16 arithmetic that Intel's servers have beside the rest.
    """
    features = target.features
    has = all(name in features for name in ("avx512bf16", "avx512vbmi2"))
    return has and "avx512fp16" not in features


def is_zen4(target: Target) -> bool:
    """True for Zen 4, which works through a vector of 512 bits in two steps."""
    return is_zen(target) and "avxvnni" not in target.features


def is_intel_server(target: Target) -> bool:
    """True for cores with AVX-512 that are not AMD's: of Intel's servers.

    Two vectors of 512 bits are multiplied in a cycle; the second cache is large (1 to 2 MiB), and
    what it does not hold comes through a mesh, at a few bytes a cycle.
    """
    return target.vector_bytes == 64 and "avx512f" in target.features and not is_zen(target)
