"""What a guess is worth: expected improvement, and batches whose members differ."""

from __future__ import annotations

import math

import numpy as np


def expected_improvement(mean: np.ndarray, deviation: np.ndarray, best: float) -> np.ndarray:
    """By how much normal values are expected to exceed ``best``, counting no loss.

    Args:
        mean: shape ``(n,)``.
        deviation: their standard deviations, positive.
        best: the best value so far.
    """
    sigma = np.maximum(deviation, 1e-9)
    z = (mean - best) / sigma
    density = np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    return sigma * (z * normal(z) + density)


def normal(z: np.ndarray) -> np.ndarray:
    """The normal distribution's cumulative function."""
    from scipy.special import ndtr

    return ndtr(z)


def relative_gain(improvement: float) -> float:
    """An improvement of a log cost as a share of the cost: 0.02 is 2 % faster."""
    return 1.0 - math.exp(-max(0.0, improvement))


def diverse(points: np.ndarray, wanted: int) -> np.ndarray:
    """The first ``wanted`` rows, passing over those that differ in one knob from one chosen.

    Where too few are left, the first of those passed over fill up.

    Args:
        points: int64 of shape ``(n, knobs)``, the best first.
        wanted: how many.

    Returns:
        Their numbers, int64 of shape ``(min(n, wanted),)``.
    """
    chosen: list[int] = []
    passed: list[int] = []
    for row, point in enumerate(points):
        if len(chosen) == wanted:
            break
        near = bool(chosen) and int((points[chosen] != point).sum(axis=1).min()) < 2
        (passed if near else chosen).append(row)
    return np.asarray(chosen + passed[: wanted - len(chosen)], dtype=np.int64)
