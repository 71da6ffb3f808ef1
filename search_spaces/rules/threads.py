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


def heaviest_share(steps: int, threads: int, grain: int = 0, last: float = 1.0) -> float:
    """The work of the thread that has most of it, as a share of a loop's.

    Args:
        steps: of the loop, of equal work but for the last. threads: that share it.
        grain: steps that a thread takes at a time; 0: the first threads of an even share have one
            step more than the others, if any.
        last: the work of the last step, as a part of another one's.
    """
    total = steps - 1 + last
    if steps < 2 or threads < 2:
        return 1.0
    parts = -(-steps // max(grain, 1))
    rounds, alone = -(-parts // threads), parts % threads == 1
    if parts == 1:
        return 1.0
    busiest = float(rounds * max(grain, 1))
    if grain and alone:  # the last round is one thread's, and may be shorter
        busiest += last - 1 - (parts * grain - steps)
    return min(busiest, total) / total


def best_grain(steps: int, threads: int, last: float = 1.0) -> int:
    """The grain that leaves the busiest thread least, 0 where an even share does.

    Args:
        steps, threads, last: as of :func:`heaviest_share`.
    """
    return min(_GRAINS, key=lambda grain: round(heaviest_share(steps, threads, grain, last), 3))


def threads_for(target: Target, multiplications: int) -> int:
    """The threads that a kernel of so many multiplications uses untuned."""
    return target.num_threads if multiplications >= _WORTH_THREADS else 1


def define_threads(
    cfg: Prefixed,
    target: Target,
    multiplications: int,
    worth: bool | None = None,
    grain: int = 0,
) -> Threads:
    """Define the knobs of threads where a target has several: whether to use them, and the grain.

    Args:
        multiplications: of the kernel, which say whether threads are worth it untuned.
        worth: whether they are, where an estimate says so.
        grain: the default where they are.
    """
    if target.num_threads < 2:
        return NO_THREADS
    worth = threads_for(target, multiplications) > 1 if worth is None else worth
    parallel = cfg.choose("parallel", [False, True], worth)
    grain = cfg.choose("grain", _GRAINS, grain if worth else 0)
    cfg.multi_filter(_grain_of_threads)
    return Threads(parallel, grain)


def _grain_of_threads(c: Any) -> bool:
    """A grain is for threads."""
    return c["parallel"].val or c["grain"].val == 0
