"""The knobs of threads: whether a kernel uses them, and how its loops are shared out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from whet.compiler.target import Target
from whet.compiler.te import Stage
from whet.compiler.tir import IterVar
from whet.search_spaces.knobs.prefixed import Prefixed

_GRAINS = (0, 1, 2, 4)
#: below so many multiplications the threads are not worth waking
_WORTH_THREADS = 200_000


@dataclass(frozen=True)
class Threads:
    """How a kernel uses the threads of its target.

    Attributes:
        parallel: whether it does.
        grain: steps of a loop that a thread takes at a time; 0 for an even share.
    """

    parallel: bool = False
    grain: int = 0

    def run(self, stage: Stage, loop: IterVar) -> None:
        """Run a loop on the threads, if any are used."""
        if self.parallel:
            stage.parallel(loop, self.grain or None)


NO_THREADS = Threads()


def define_threads(
    cfg: Prefixed, target: Target, multiplications: int, worth: bool | None = None
) -> Threads:
    """Define the knobs of threads where a target has several: whether to use them, and the grain.

    Args:
        multiplications: of the kernel, which say whether threads are worth it untuned.
        worth: whether they are, where an estimate says so.
    """
    if target.num_threads < 2:
        return NO_THREADS
    worth = multiplications >= _WORTH_THREADS if worth is None else worth
    parallel = cfg.choose("parallel", [False, True], worth)
    grain = cfg.choose("grain", _GRAINS, 0)
    cfg.multi_filter(_grain_of_threads)
    return Threads(parallel, grain)


def _grain_of_threads(c: Any) -> bool:
    """A grain is for threads."""
    return c["parallel"].val or c["grain"].val == 0
