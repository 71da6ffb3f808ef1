"""The roofline of a comparison as a chart: what the machine can do, and how far each came.

After Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", 2009: a
kernel does some arithmetic for each byte that it moves; the bandwidth bounds it where that is
little, the FMA peak where it is much. Without arithmetic there is no such ratio: the chart then has
the bandwidth against the size of the working set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from whet.bench.comparison import Comparison
from whet.search_spaces.values.counted import duration

Point = tuple[float, float]

BESIDE, ABOVE, BELOW = 0.35, 0.04, 0.1
"""Room for words beside the marks, above and below, as a part of the logarithmic axis."""


@dataclass(frozen=True)
class Level:
    """A level of the memory.

    Attributes:
        name: ``"L1"``, ..., ``"memory"``.
        size: bytes of the working set that it was measured with.
        bandwidth: bytes a second that one core reads.
    """

    name: str
    size: int
    bandwidth: float


@dataclass(frozen=True)
class Line:
    """A limit.

    Attributes:
        name: what it is a limit of, with its number.
        points: its corners.
        exact: whether it was measured for this very working set.
    """

    name: str
    points: tuple[Point, ...]
    exact: bool = False


@dataclass(frozen=True)
class Mark:
    """A contestant.

    Attributes:
        name: whose point it is, with its time.
        at: where it is.
        ours: whether it is one of our kernels.
    """

    name: str
    at: Point
    ours: bool


@dataclass(frozen=True)
class Chart:
    """A drawing; both axes are logarithmic.

    Attributes:
        title: what it shows.
        x_label, y_label: what the axes are.
        lines: the limits.
        marks: the contestants, the fastest first.
    """

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    marks: tuple[Mark, ...]

    @property
    def x_range(self) -> Point:
        """The least and the largest x, with room for words on the right of each mark."""
        xs = [x for line in self.lines for x, _ in line.points] + [m.at[0] for m in self.marks]
        low, marked = min(xs), max((m.at[0] for m in self.marks), default=min(xs))
        return low, max(*xs, marked * (marked / low) ** BESIDE)

    @property
    def y_range(self) -> Point:
        """The least and the largest y, with room for words above and below."""
        ys = [y for line in self.lines for _, y in line.points] + [m.at[1] for m in self.marks]
        range_ = max(ys) / min(ys)
        return min(ys) / range_**BELOW, max(ys) * range_**ABOVE


def chart_of(found: Comparison, levels: Sequence[Level], peers: int = 3) -> Chart:
    """The roofline of a comparison.

    Args:
        found: the comparison.
        levels: the bandwidths of the machine; with several threads all of them together.
        peers: how many of the others are shown, the fastest of them.
    """
    others = sorted(set(found.samples) - set(found.ours), key=lambda n: found.samples[n].best)
    names = [*found.ours, *others[:peers]]
    names.sort(key=lambda n: found.samples[n].best)
    if not found.flop:
        return _by_working_set(found, levels, names)
    intensity = found.flop / found.bytes
    peak, own = found.peak / 1e9, found.bandwidth / 1e9
    ridge = peak / own
    left = min(intensity, ridge, *(peak * 1e9 / level.bandwidth for level in levels)) / 4
    right = max(intensity, ridge) * 4
    lines = [_roof(f"{v.name} {v.bandwidth / 1e9:.0f} GB/s", v.bandwidth / 1e9, left, peak)
             for v in levels]  # fmt: skip
    lines.append(_roof(f"this working set {own:.0f} GB/s", own, left, peak, exact=True))
    lines.append(Line(f"FMA peak {peak:.0f} GFLOP/s", ((left, peak), (right, peak)), exact=True))
    marks = [_mark(found, n, (intensity, found.flop / found.samples[n].best / 1e9)) for n in names]
    return Chart(
        f"Roofline of {found.workload}", "operations a byte", "GFLOP/s", tuple(lines), tuple(marks)
    )


def _roof(name: str, bandwidth: float, left: float, peak: float, exact: bool = False) -> Line:
    return Line(name, ((left, left * bandwidth), (peak / bandwidth, peak)), exact)


def _mark(found: Comparison, name: str, at: Point) -> Mark:
    return Mark(f"{name}: {duration(found.samples[name].best)}", at, name in found.ours)


def _by_working_set(found: Comparison, levels: Sequence[Level], names: list[str]) -> Chart:
    """Without arithmetic: bytes a second against the size of the working set."""
    size, own = found.bytes, found.bandwidth / 1e9
    corners = tuple((level.size, level.bandwidth / 1e9) for level in levels)
    lines = [Line("reading", corners)] if corners else []
    lines.append(Line(f"this traffic {own:.0f} GB/s", ((size / 2, own), (size * 2, own)), True))
    marks = [_mark(found, n, (size, size / found.samples[n].best / 1e9)) for n in names]
    return Chart(
        f"Bandwidth of {found.workload}", "bytes of the working set", "GB/s", tuple(lines),
        tuple(marks),
    )  # fmt: skip
