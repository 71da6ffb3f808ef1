"""What must be reached on a GPU: each figure beside what was measured."""

from __future__ import annotations

from collections.abc import Callable
from statistics import geometric_mean

from verdicts import Rows, Verdict, against, ratios_of

CUBLAS = 0.85
"""Of cuBLAS's speed in true float32, for a matmul of 4096 by CUDA cores."""
CUDNN = 0.8
"""Of cuDNN's speed without tensor cores, for ResNet-50's convolutions with 16 images."""
BANDWIDTH = 0.9
"""Of the copy bandwidth, for what memory bounds."""
TRITON = 1.0
"""Of Triton's speed after its autotuner, for what memory bounds."""


def _matmul(rows: Rows) -> list[Verdict]:
    name = "4096x4096x4096"
    ratio = against(rows[name], "torch") if name in rows else None
    return [] if ratio is None else [Verdict(f"matmul {name}: against cuBLAS", ratio, CUBLAS)]


def _resnet(rows: Rows) -> list[Verdict]:
    ratios = ratios_of(rows)
    if not ratios:
        return []
    reached = sum(ratio >= CUDNN for ratio in ratios)
    return [
        Verdict("ResNet-50, batch 16: geomean against cuDNN", geometric_mean(ratios), CUDNN),
        Verdict("ResNet-50, batch 16: the least of them", min(ratios), CUDNN),
        Verdict(
            f"ResNet-50, batch 16: convolutions of {len(ratios)} at {CUDNN} of cuDNN",
            reached,
            len(ratios),
        ),
    ]


def _memory(rows: Rows) -> list[Verdict]:
    found = []
    for name, row in rows.items():
        share = row.of_bandwidth(row.best).best
        found.append(Verdict(f"{name}: share of the copy bandwidth", share, BANDWIDTH))
        ratio = against(row, "triton")
        if ratio is not None:
            found.append(Verdict(f"{name}: against Triton", ratio, TRITON))
    return found


JUDGES: dict[str, Callable[[Rows], list[Verdict]]] = {
    "matmul": _matmul,
    "resnet50": _resnet,
    "memory": _memory,
}
"""A group's figures; a group that is not here is shown and not judged."""


def judge(rows: dict[str, Rows]) -> list[Verdict]:
    """All figures of what was measured.

    Args:
        rows: group -> its works.
    """
    return [v for group, some in rows.items() if group in JUDGES for v in JUDGES[group](some)]
