"""A comparison as a table of text: ours, the peers, and the limit, the fastest first."""

from __future__ import annotations

from collections.abc import Sequence

from whet.bench.comparison import Comparison
from whet.measure.stage.load import UPPER, busy_words
from whet.search_spaces.values.counted import duration

HEAD = ("", "time", "median", "GFLOP/s", "of peak", "GB/s", "of bandwidth", "ours is")

UNSTEADY = 1.25
"""A median so many times the quickest round says that something disturbed the others."""


def table_of(found: Comparison) -> list[str]:
    """The lines of the table: the limit, then every contestant."""
    names = sorted(found.samples, key=lambda n: found.samples[n].best)
    return aligned([HEAD, _limit(found), *(_row(found, name) for name in names)])


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines, their columns as wide as the longest cell."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in rows]


def bound_of(found: Comparison) -> str:
    """The bound of the operator here, in a sentence."""
    rate = found.bandwidth / 1e9
    cores = "one core" if found.threads == 1 else f"{found.threads} cores"
    where = found.place or cores
    what = "moving its bytes" if found.memory_bound else "its arithmetic"
    return (
        f"{found.workload} on {where}: {found.flop / 1e9:.4g} GFLOP, {found.bytes / 1e6:.4g} MB; "
        f"FMA peak {found.peak / 1e9:.1f} GFLOP/s, {rate:.1f} GB/s for this working set: "
        f"bound by {what}"
    )


def notes_of(found: Comparison) -> list[str]:
    """Reasons to doubt the times: others on the machine, rounds that differ."""
    busy = busy_words(found.environment, found.samples[found.best].seconds)
    notes = [f"{busy}: {UPPER}"] if busy else []
    for name in found.ours:
        times = found.samples[name]
        if times.median > UNSTEADY * times.best:
            notes.append(
                f"{name} took {times.median / times.best:.2f} times as long in the median as in "
                "its quickest round: something disturbed it; measure again, or more --rounds"
            )
    return notes


def _limit(found: Comparison) -> tuple[str, ...]:
    flops, moved = found.flop / found.limit, found.bytes / found.limit
    return (
        "limit", duration(found.limit), "", f"{flops / 1e9:.1f}", f"{flops / found.peak:.2f}",
        f"{moved / 1e9:.1f}", f"{found.stream.best / found.limit:.2f}",
        f"{found.limit / found.samples[found.best].best:.2f} x",
    )  # fmt: skip


def _row(found: Comparison, name: str) -> tuple[str, ...]:
    times = found.samples[name]
    beside = "" if name == found.best else f"{found.ratio(name).best:.2f} x"
    mark = " (packed)" if name in found.packed else ""
    return (
        name + mark, duration(times.best), duration(times.median),
        f"{found.flop / times.best / 1e9:.1f}", f"{found.of_peak(name).best:.2f}",
        f"{found.bytes / times.best / 1e9:.1f}", f"{found.of_bandwidth(name).best:.2f}", beside,
    )  # fmt: skip
