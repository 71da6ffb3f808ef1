"""The goals on a CPU by kind, and whether they are reached: each figure beside the measured one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from statistics import geometric_mean
from typing import Any

from verdicts import Rows, Verdict, against
from works import ARITHMETIC

from whet.bench.comparison import Comparison

__all__ = ["Rows", "Verdict", "beside_tvm", "judge", "judge_threads"]

LARGE = 10e6
"""FLOP from which on a work has to be near the peak by itself."""


def judge(rows: Mapping[str, Rows]) -> list[Verdict]:
    """The verdicts on works with one thread.

    Args:
        rows: kind -> its works.
    """
    verdicts = [v for kind, of in _JUDGES.items() if rows.get(kind) for v in of(rows[kind])]
    every = {name: row for some in rows.values() for name, row in some.items()}
    return [*verdicts, *_not_below("every work: beside its best peer", every), *_defaults(every)]


def judge_threads(rows: Mapping[str, Rows]) -> list[Verdict]:
    """The verdicts on works with two threads, ours with one among the contestants."""
    every = {name: row for some in rows.values() for name, row in some.items()}
    shares = {
        name: row.ratio("one thread").best / (row.peak / row.peak_of_one)
        for kind in ARITHMETIC
        for name, row in rows.get(kind, {}).items()
    }
    gains = {name: _ends(row, "one thread") for name, row in every.items()}
    return [
        *_mean("two threads: compute-bound, of the peaks' ratio", shares.values(), 0.92),
        *_all("two threads: beside our one", gains),
        *_not_below("two threads: beside the best peer on two", every),
    ]


def beside_tvm(rows: Iterable[Mapping[str, Any]]) -> list[Verdict]:
    """The verdicts on works that TVM tuned, too; of each the samples of both."""
    ratios = {
        row["name"]: row["tvm"]["best"] / row["ours"]["best"]
        for row in rows
        if "best" in row["tvm"]
    }
    if not ratios:
        return []
    short = tuple(sorted(name for name, ratio in ratios.items() if ratio <= 1))
    wins = Verdict(
        "TVM MetaSchedule: slower than ours", len(ratios) - len(short), len(ratios), short
    )
    return [wins, *_mean("TVM MetaSchedule", ratios.values(), 1.5)]


def _direct(rows: Rows) -> list[Verdict]:
    shares = {name: row.of_peak(row.best).best for name, row in rows.items()}
    large = {name: shares[name] for name, row in rows.items() if row.flop >= LARGE}
    verdicts = _mean("direct: of the FMA peak", shares.values(), 0.93)
    verdicts += _mean("direct: beside the best peer", _ratios(rows), 1.12)
    if large:
        short = tuple(n for n in sorted(large, key=large.__getitem__) if large[n] < 0.85)
        what = "direct: the least share of the peak from 10 MFLOP on"
        verdicts.append(Verdict(what, min(large.values()), 0.85, short))
    return verdicts


def _winograd(rows: Rows) -> list[Verdict]:
    return _mean("Winograd: beside the best peer", _ratios(rows), 1.5)


def _memory(rows: Rows) -> list[Verdict]:
    shares = [row.moving_limit / row.samples[row.best].best for row in rows.values()]
    return [
        *_mean("memory-bound: of the lower limit", shares, 0.85),
        *_mean("memory-bound: beside the best peer", _ratios(rows), 1.5),
    ]


def _networks(rows: Rows) -> list[Verdict]:
    ratios = [r for row in rows.values() if (r := against(row, "torch compiled")) is not None]
    return _mean("parts of networks: beside torch.compile", ratios, 1.3)


_JUDGES: dict[str, Callable[[Rows], list[Verdict]]] = {
    "direct": _direct,
    "winograd": _winograd,
    "memory": _memory,
    "networks": _networks,
}


def _defaults(rows: Rows) -> list[Verdict]:
    """Default configs beside the tuned ones."""
    both = {name: row for name, row in rows.items() if row.ours == ("default", "tuned")}
    shares = {n: row.samples["tuned"].best / row.samples["default"].best for n, row in both.items()}
    if not shares:
        return []
    short = tuple(n for n in sorted(shares, key=shares.__getitem__) if shares[n] < 0.85)
    return [
        *_mean("default, as a part of tuned", shares.values(), 0.95),
        Verdict("default: the least part of tuned", min(shares.values()), 0.85, short),
    ]


def _ratios(rows: Rows) -> list[float]:
    """How many times faster than its best peer each work is; works without one are left out."""
    return [ratio for row in rows.values() if (ratio := against(row, "")) is not None]


def _mean(what: str, values: Iterable[float], least: float) -> list[Verdict]:
    kept = list(values)
    if not kept:
        return []
    return [Verdict(f"{what}: geomean of {len(kept)}", geometric_mean(kept), least)]


def _not_below(what: str, rows: Rows) -> list[Verdict]:
    """Works whose 95 % interval beside the best peer is not wholly below 1."""
    ends = {n: _ends(row, peer) for n, row in rows.items() if (peer := row.peer()) is not None}
    return _all(what, ends)


def _ends(row: Comparison, other: str) -> float:
    """The upper end of the 95 % interval of how many times faster ours is."""
    return row.interval(other)[1]


def _all(what: str, ends: Mapping[str, float]) -> list[Verdict]:
    if not ends:
        return []
    short = tuple(name for name in sorted(ends, key=ends.__getitem__) if ends[name] < 1)
    text = f"{what}: works that are not slower, of {len(ends)}"
    return [Verdict(text, len(ends) - len(short), len(ends), short)]
