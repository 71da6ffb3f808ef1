"""The goals on a CPU, and whether they are reached: each figure beside the measured one."""

from __future__ import annotations

from collections.abc import Callable
from statistics import geometric_mean

from verdicts import Rows, Verdict, against, geomean, ratios_of

__all__ = ["JUDGES", "Rows", "Verdict", "against", "geomean", "judge"]


def _matmul(rows: Rows) -> list[Verdict]:
    ratios = ratios_of(rows)
    found = []
    if ratios:
        found.append(Verdict("matmul: geomean against PyTorch", geometric_mean(ratios), 1.05))
        found.append(Verdict("matmul: the least of them", min(ratios), 0.97))
    for name in rows:
        if name.startswith("1024x"):
            share = rows[name].of_peak(rows[name].best).best
            found.append(Verdict(f"matmul {name}: share of the FMA peak", share, 0.90))
    return found


def _resnet(rows: Rows) -> list[Verdict]:
    ratios = ratios_of(rows)
    if not ratios:
        return []
    wins = sum(ratio >= 1 for ratio in ratios)
    what = f"ResNet-50: convolutions of {len(ratios)} that are at least as fast as PyTorch's"
    return [
        Verdict("ResNet-50: geomean against PyTorch", geometric_mean(ratios), 1.10),
        Verdict(what, wins, min(15, len(ratios))),
    ]


def _mobilenet(rows: Rows) -> list[Verdict]:
    ratios = ratios_of(rows)
    what = "MobileNet-v2 depthwise: geomean against PyTorch"
    return [Verdict(what, geometric_mean(ratios), 1.6)] if ratios else []


def _memory(rows: Rows) -> list[Verdict]:
    found = []
    for name, row in rows.items():
        share = row.of_bandwidth(row.best).best
        found.append(Verdict(f"{name}: share of the bandwidth", share, 0.9))
    ratios = ratios_of(rows)
    if ratios:
        what = "memory-bound: geomean against PyTorch"
        found.append(Verdict(what, geometric_mean(ratios), 1.3))
    return found


def _batch_matmul(rows: Rows) -> list[Verdict]:
    ratios = {name: against(row) for name, row in rows.items()}
    return [Verdict(f"{n}: against PyTorch", r, 1.1) for n, r in ratios.items() if r is not None]


JUDGES: dict[str, Callable[[Rows], list[Verdict]]] = {
    "matmul": _matmul,
    "matmul_packed": lambda rows: [
        Verdict(v.what.replace("matmul", "matmul, packed ahead", 1), v.measured, v.least)
        for v in _matmul(rows)
    ],
    "resnet50": _resnet,
    "mobilenet_v2": _mobilenet,
    "memory": _memory,
    "batch_matmul": _batch_matmul,
}
"""A group's figures; a group that is not here is shown and not judged."""


def judge(rows: dict[str, Rows], defaults: bool) -> list[Verdict]:
    """All figures of what was measured.

    Args:
        rows: group -> its works.
        defaults: whether the default configs were measured, too.
    """
    found = [v for group, some in rows.items() if group in JUDGES for v in JUDGES[group](some)]
    both = [r for some in rows.values() for r in some.values() if r.ours == ("default", "tuned")]
    if defaults and both:
        shares = [row.samples["tuned"].best / row.samples["default"].best for row in both]
        what = f"default config, untuned, as a part of tuned: geomean of {len(both)}"
        found.append(Verdict(what, geometric_mean(shares), 0.7))
    return found
