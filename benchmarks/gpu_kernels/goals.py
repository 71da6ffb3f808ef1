"""The goals on a GPU: each figure beside what was measured, or why it was not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import geometric_mean

from gpu_works import GROUPS
from verdicts import Rows, Verdict, against, ratios_of

from whet.bench.comparison import Comparison

CUBLAS = 0.85
"""Of cuBLAS's speed in true float32, for a matmul of 4096 by CUDA cores."""
CUDNN = 0.8
"""Of cuDNN's speed without tensor cores, for ResNet-50's convolutions with 16 images."""
BANDWIDTH = 0.9
"""Of the copy bandwidth, for memory-bound operators."""
TRITON = 1.0
"""Of Triton's speed after its autotuner, for memory-bound operators."""


@dataclass(frozen=True)
class Unjudged:
    """A goal without a verdict: what it is, what it asks for, and why nothing was measured."""

    what: str
    least: float
    why: str
    measured: None = None
    reached: bool = False

    def markdown(self) -> str:
        """A row of a table."""
        return f"| {self.what} | not judged: {self.why} | {self.least:g} |"

    def __str__(self) -> str:
        return f"not judged         (at least {self.least:g})  {self.what}: {self.why}"


Goal = Verdict | Unjudged
Absent = Mapping[str, str]
"""Works of a group that have no figures -> why."""


def _why_no(library: str, row: Comparison) -> str:
    said = [text for text in row.left_out if text.startswith(library)]
    return said[0] if said else f"{library} was no peer"


def _beside(what: str, row: Comparison, library: str, least: float) -> Goal:
    ratio = against(row, library)
    if ratio is None:
        return Unjudged(what, least, _why_no(library, row))
    return Verdict(what, ratio, least)


def _matmul(rows: Rows, absent: Absent) -> list[Goal]:
    name = "4096x4096x4096"
    what = f"matmul {name}: against cuBLAS"
    if name in absent:
        return [Unjudged(what, CUBLAS, absent[name])]
    return [_beside(what, rows[name], "torch", CUBLAS)] if name in rows else []


def _resnet(rows: Rows, absent: Absent) -> list[Goal]:
    """Of some convolutions alone, what is missed is said, and nothing is reached."""
    ratios, count = ratios_of(rows), len(GROUPS["resnet50"])
    mean, least, each = (
        f"ResNet-50, batch 16: {text}"
        for text in (
            "geomean against cuDNN",
            "the least of them",
            f"convolutions of {count} at {CUDNN} of cuDNN",
        )
    )
    goals = ((mean, CUDNN), (least, CUDNN), (each, count))
    why = f"{len(ratios)} of {count} convolutions timed beside cuDNN"
    if not ratios:
        more = next((_why_no("torch", row) for row in rows.values()), "")
        more = more or next(iter(absent.values()), "")
        return [Unjudged(what, number, f"{why}; {more}") for what, number in goals]
    reached = sum(ratio >= CUDNN for ratio in ratios)
    if len(ratios) == count:
        found = (geometric_mean(ratios), min(ratios), reached)
        return [Verdict(what, one, number) for (what, number), one in zip(goals, found)]
    missed = reached < len(ratios)
    return [
        Unjudged(mean, CUDNN, f"{why}, theirs is {geometric_mean(ratios):.3f}"),
        Verdict(f"{least}; {why}", min(ratios), CUDNN) if missed else Unjudged(least, CUDNN, why),
        Verdict(f"{each}; {why}", reached, count) if missed else Unjudged(each, count, why),
    ]


def _memory(rows: Rows, absent: Absent) -> list[Goal]:
    found: list[Goal] = []
    for name in (*rows, *absent):
        share, triton = f"{name}: share of the copy bandwidth", f"{name}: against Triton"
        if name in absent:
            found += [Unjudged(share, BANDWIDTH, absent[name])]
            found += [Unjudged(triton, TRITON, absent[name])]
            continue
        row = rows[name]
        found.append(Verdict(share, row.of_bandwidth(row.best).best, BANDWIDTH))
        found.append(_beside(triton, row, "triton", TRITON))
    return found


JUDGES: dict[str, Callable[[Rows, Absent], list[Goal]]] = {
    "matmul": _matmul,
    "resnet50": _resnet,
    "memory": _memory,
}
"""A group's figures; a group that is not here is shown and not judged."""


def judge(rows: dict[str, Rows], absent: Mapping[str, Absent] | None = None) -> list[Goal]:
    """All goals of what was to be measured.

    Args:
        rows: group -> its works.
        absent: group -> its works without figures, and why they have none.
    """
    without = absent or {}
    groups = [group for group in JUDGES if group in rows or group in without]
    return [v for g in groups for v in JUDGES[g](rows.get(g, {}), without.get(g, {}))]
