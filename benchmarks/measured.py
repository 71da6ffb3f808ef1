"""Lines and figures of a benchmark of kernels: one line a work, and the figures behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from verdicts import Rows, Verdict, against, geomean

import whet
from whet.bench.comparison import Comparison

LIBRARIES = ("torch", "triton", "numpy", "onnxruntime", "openvino")


def line_of(name: str, row: Comparison) -> str:
    """One work in one line: ours, the shares of the limits, and the peers' best ways."""
    times = row.samples[row.best]
    parts = [f"{name:30s} {times.best * 1e6:9.1f} us ({times.median * 1e6:.1f})"]
    if row.instructions:
        share = row.moving_limit / times.best
        parts.append(f"{row.bytes / times.best / 1e9:5.1f} GB/s, of the limit {share:.2f}")
    elif row.memory_bound:
        rate = row.bytes / times.best / 1e9
        parts.append(f"{rate:5.1f} GB/s, of bandwidth {row.of_bandwidth(row.best)}")
    else:
        rate = row.flop / times.best / 1e9
        parts.append(f"{rate:5.1f} GFLOP/s, of peak {row.of_peak(row.best)}")
    for one in row.ours[:-1]:
        parts.append(f"{row.ratio(one)} x {one}")
    for library in LIBRARIES:
        peer = row.peer(library)
        if peer is not None:
            parts.append(f"{row.ratio(peer)} x {peer}")
    parts += [f"error {row.errors[row.best]:.1g}"] if row.best in row.errors else []
    return "; ".join(parts)


class Results:
    """The lines as they come, and the figures behind them.

    Attributes:
        lines: all of it as text.
        rows: group -> its works.
        verdicts: what was to be reached.
        failed: works without figures.
        skipped: works that there was no time for.
        more: what else belongs into the file of results.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.rows: dict[str, Rows] = {}
        self.verdicts: list[Verdict] = []
        self.failed: list[str] = []
        self.skipped: list[str] = []
        self.more: dict[str, Any] = {}
        self._left_out: set[str] = set()

    def say(self, line: str) -> None:
        """A line of the result, which is shown at once."""
        print(line, flush=True)
        self.lines.append(line)

    def measure(self, group: str, work: Any, how: Callable[..., Comparison], *options: Any) -> None:
        """Measure one work; a failure is a line, too, and the others are still measured."""
        if group not in self.rows:
            self.rows[group] = {}
            self.say(f"{group}")
        try:
            row = how(work, *options)
        except whet.WhetError as error:
            self.failed.append(f"{group}: {work.name}")
            self.more.setdefault("errors", {})[f"{group}: {work.name}"] = str(error)
            self.say(f"  {work.name:30s} FAILED: {str(error).splitlines()[0]}")
            return
        self.rows[group][work.name] = row
        self.say("  " + line_of(work.name, row))
        for said in set(row.left_out) - self._left_out:  # once is enough of what all have
            print(f"    (not a peer here: {said})", flush=True)
        self._left_out |= set(row.left_out)

    def averages(self) -> None:
        """The geometric means of each group."""
        for group, rows in self.rows.items():
            for library in LIBRARIES:
                mean = geomean(against(row, library) for row in rows.values())
                if mean is not None:
                    self.say(f"{group}: geomean {mean:.3f} x {library}'s fastest way")

    def to_json(self) -> dict[str, Any]:
        """Everything, for the file of results."""
        return {
            "rows": {
                group: {name: row.to_json() for name, row in rows.items()}
                for group, rows in self.rows.items()
            },
            "verdicts": [
                {"what": v.what, "measured": v.measured, "least": v.least} for v in self.verdicts
            ],
            "failed": self.failed,
            "skipped": self.skipped,
            **self.more,
        }
