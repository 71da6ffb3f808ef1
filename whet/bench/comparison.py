"""A comparison: times in turns, the peers' best, how far the machine's limits are."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from math import comb
from typing import TYPE_CHECKING, Any

from whet.bench.turns import Sample

if TYPE_CHECKING:
    from whet.autotune import Task
    from whet.bench.arguments import Arrays

REFUTED = 1.1
"""A limit that a kernel beats by more than noise is none."""


@dataclass(frozen=True)
class Ratio:
    """How many times faster one is than another: by their quickest rounds, and by the medians."""

    best: float
    median: float

    def __str__(self) -> str:
        return f"{self.best:.2f} ({self.median:.2f})"


@dataclass(frozen=True)
class Comparison:
    """One operator's contestants, timed in turns in one run.

    Attributes:
        workload: the template and its arguments.
        flop: arithmetic operations of a call, 0 where there are none to speak of.
        read, written: bytes of the inputs and of the outputs.
        threads: how many each could use.
        samples: contestant -> its times; ours are those named in ``ours``.
        ours: ``"default"``, ``"tuned"``: the kernels.
        packed: peers that had their weights packed ahead.
        peaks: the FMA peak of the cores that are used, FLOP/s, a number a round.
        streams: seconds to stream ``read`` and ``written`` bytes, a number a round.
        errors: contestant -> its largest error, as a part of the largest number; empty where the
            operator has no reference.
        left_out: peers that could not be had, and why.
        place: the device that it ran on; "": cores of the CPU.
        packs: ours have their weights packed ahead.
        instructions: seconds that the instructions of a call take without its traffic, a number a
            round; empty where that was not measured.
        environment: of the machine when it began (``whet.measure.stage.machine.environment``).
    """

    workload: str
    flop: int
    read: int
    written: int
    threads: int
    samples: dict[str, Sample]
    ours: tuple[str, ...]
    packed: frozenset[str]
    peaks: tuple[float, ...]
    streams: tuple[float, ...]
    errors: dict[str, float]
    left_out: tuple[str, ...]
    place: str = ""
    environment: Mapping[str, Any] = field(default_factory=dict)
    packs: bool = False
    instructions: tuple[float, ...] = ()
    lone_peaks: tuple[float, ...] = ()

    @staticmethod
    def of(task: Task, arrays: Arrays, kernels: Iterable[str], **measured: Any) -> Comparison:
        """A comparison of a task's kernels.

        Args:
            task: the operator.
            arrays: of a call.
            kernels: their names.
            measured: the other attributes.
        """
        ours = tuple(kernels)
        return Comparison(str(task.workload), task.flop, *arrays.traffic, ours=ours, **measured)

    @property
    def bytes(self) -> int:
        """Bytes that a call moves at least."""
        return self.read + self.written

    @property
    def best(self) -> str:
        """The name of our kernel that counts: the last one, which is the tuned one if there is."""
        return self.ours[-1]

    def peer(self, library: str = "") -> str | None:
        """The fastest contestant that is not ours; None without any.

        Those that had their weights packed ahead count only beside ours that had, too.

        Args:
            library: ``"torch"``, ``"triton"``, ``"numpy"``, ...; "": any.
        """
        others = set(self.samples) - set(self.ours)
        if not self.packs:
            others -= self.packed
        names = [n for n in self.samples if n in others and n.startswith(library)]
        return min(names, key=lambda n: self.samples[n].best, default=None)

    def ratio(self, other: str, one: str = "") -> Ratio:
        """How many times faster ``one`` (default: our best) is than ``other``."""
        mine, its = self.samples[one or self.best], self.samples[other]
        return Ratio(its.best / mine.best, its.median / mine.median)

    def interval(self, other: str, one: str = "") -> tuple[float, float]:
        """The 95 % interval of how many times faster ``one`` (default: our best) is than another.

        It is that of the median of the rounds' ratios, by order statistics: whatever their
        distribution, so many of them lie on each side with that probability. Rounds are paired,
        so that a slow moment of the machine is in both.
        """
        mine, its = self.samples[one or self.best].seconds, self.samples[other].seconds
        ratios = sorted(b / a for a, b in zip(mine, its, strict=True))
        below = _outside(len(ratios))
        return ratios[below], ratios[-1 - below]

    @property
    def peak(self) -> float:
        """FLOP/s at most: the median of the rounds."""
        return statistics.median(self.peaks)

    @property
    def peak_of_one(self) -> float:
        """FLOP/s at most of one core."""
        return statistics.median(self.lone_peaks or self.peaks)

    @property
    def stream(self) -> Sample:
        """Seconds that moving the bytes takes at least."""
        return Sample(self.streams)

    @property
    def bandwidth(self) -> float:
        """Bytes a second of streaming as many bytes."""
        return self.bytes / self.stream.best

    def of_peak(self, name: str) -> Ratio:
        """A contestant's FLOP/s as a part of the peak."""
        times = self.samples[name]
        return Ratio(self.flop / times.best / self.peak, self.flop / times.median / self.peak)

    def of_bandwidth(self, name: str) -> Ratio:
        """A contestant's bytes a second as a part of what streaming the same bytes reaches."""
        times = self.samples[name]
        return Ratio(self.stream.best / times.best, self.stream.median / times.median)

    @property
    def limit(self) -> float:
        """Seconds that no kernel can beat: those of the arithmetic, or of moving the bytes."""
        return max(self.flop / self.peak, self.stream.best)

    @property
    def instruction_limit(self) -> float:
        """Seconds that the instructions of a memory-bound work take at least; 0: not known.

        It is no more than any contestant took: what a peer did without, nobody needs. Where one
        of ours was quicker than what was measured, that was of another program, and says nothing.
        """
        measured = min(self.instructions, default=0.0)
        if measured > REFUTED * min(self.samples[name].best for name in self.ours):
            return 0.0
        return min(measured, *(sample.best for sample in self.samples.values()))

    @property
    def arithmetic_limit(self) -> float:
        """Seconds of a memory-bound work's arithmetic at the FMA peak.

        It is no more than any contestant took: steps in the padding are counted, and may be left
        out.
        """
        return min(self.flop / self.peak, *(sample.best for sample in self.samples.values()))

    @property
    def moving_limit(self) -> float:
        """Seconds of a memory-bound work at least: the longest of its traffic's and of its
        instructions', of which multiply-adds at the FMA peak are the least.
        """
        return max(self.stream.best, self.instruction_limit, self.arithmetic_limit)

    @property
    def memory_bound(self) -> bool:
        """True where moving the bytes takes longer than the arithmetic."""
        return self.stream.best > self.flop / self.peak

    def record(self) -> dict[str, Any]:
        """Everything as plain data, from which :func:`of_record` makes it again."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        samples = {name: [list(s.seconds), s.late] for name, s in self.samples.items()}
        return plain | {
            "samples": samples,
            "packed": sorted(self.packed),
            "environment": dict(self.environment),
        }

    def to_json(self) -> dict[str, Any]:
        """The figures, for a file of results."""
        return {
            "workload": self.workload,
            "flop": self.flop,
            "read": self.read,
            "written": self.written,
            "threads": self.threads,
            "peak_gflops": self.peak / 1e9,
            "stream_gbytes": self.bandwidth / 1e9,
            "contestants": {
                name: {"best_us": s.best * 1e6, "median_us": s.median * 1e6}
                for name, s in self.samples.items()
            },
            "errors": self.errors,
            "left_out": list(self.left_out),
            **({"place": self.place} if self.place else {}),
        }


def of_record(record: Mapping[str, Any]) -> Comparison:
    """The comparison of a :meth:`Comparison.record` that was a line of JSON meanwhile."""
    lists = ("ours", "peaks", "streams", "left_out", "instructions", "lone_peaks")
    samples = {name: Sample(tuple(s), late) for name, (s, late) in record["samples"].items()}
    return Comparison(
        **{
            **record,
            **{name: tuple(record[name]) for name in lists},
            "samples": samples,
            "packed": frozenset(record["packed"]),
        }
    )


def _outside(count: int) -> int:
    """How many of the sorted numbers lie outside of the 95 % interval of the median on each side.

    Of fair coins, ``k`` or fewer of ``count`` show heads with at most 2.5 %: ``k + 1`` numbers.
    """
    total, k = 1, 0
    while k < (count - 1) // 2 and total <= 0.025 * 2**count:
        k += 1
        total += comb(count, k)
    return k if total <= 0.025 * 2**count else max(k - 1, 0)
