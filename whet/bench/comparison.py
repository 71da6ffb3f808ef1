"""A comparison: times in turns, the peers' best, how far the machine's limits are."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from whet.bench.turns import Sample

if TYPE_CHECKING:
    from whet.autotune import Task
    from whet.bench.arguments import Arrays


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

        Args:
            library: ``"torch"``, ``"triton"``, ``"numpy"``; "": any.
        """
        names = [n for n in self.samples if n not in self.ours and n.startswith(library)]
        return min(names, key=lambda n: self.samples[n].best, default=None)

    def ratio(self, other: str, one: str = "") -> Ratio:
        """How many times faster ``one`` (default: our best) is than ``other``."""
        mine, its = self.samples[one or self.best], self.samples[other]
        return Ratio(its.best / mine.best, its.median / mine.median)

    @property
    def peak(self) -> float:
        """FLOP/s at most: the median of the rounds."""
        return statistics.median(self.peaks)

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
    def memory_bound(self) -> bool:
        """True where moving the bytes takes longer than the arithmetic."""
        return self.stream.best > self.flop / self.peak

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
