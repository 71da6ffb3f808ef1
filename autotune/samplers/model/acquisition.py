"""Acquisition: expected improvement, and batches whose members differ."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from whet.autotune.samplers.model.gaussian import Deviations, Gaussian


def expected_improvement(mean: np.ndarray, deviation: np.ndarray, best: float) -> np.ndarray:
    """The expected excess of normal values over ``best``, counting no loss.

    Args:
        mean: shape ``(n,)``.
        deviation: their standard deviations, positive.
        best: the best value so far.
    """
    from scipy.special import ndtr  # the normal distribution's cumulative function

    sigma = np.maximum(deviation, 1e-9)
    z = (mean - best) / sigma
    density = np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    return sigma * (z * ndtr(z) + density)


def batch(
    process: Gaussian,
    x: np.ndarray,
    improvement: Callable[[Gaussian], np.ndarray],
    size: int,
) -> tuple[list[int], float]:
    """The candidates of the largest improvement, each as if those before it were as predicted.

    Args:
        process: with the trials in flight as predicted.
        x: coordinates of the candidates, shape ``(n, c)``.
        improvement: the expected improvement of each candidate by a process, shape ``(n,)``.
        size: how many are chosen at most.

    Returns:
        Their numbers, and the largest improvement; 0 where there are no candidates.
    """
    chosen: list[int] = []
    gain = 0.0
    for _ in range(min(size, len(x))):
        values = improvement(process)
        values[chosen] = -1.0
        chosen.append(int(np.argmax(values)))
        gain = max(gain, float(values[chosen[-1]]))
        process = process.fantasised(x[chosen[-1:]])
    return chosen, gain


def varied(
    deviations: Deviations,
    improvement: Callable[[np.ndarray], np.ndarray],
    size: int,
) -> tuple[list[int], float]:
    """As :func:`batch`, where what is fantasised changes the deviations only.

    Args:
        deviations: of the candidates.
        improvement: the expected improvement of each, of their deviations, both ``(n,)``.
        size: how many are chosen at most.
    """
    chosen: list[int] = []
    gain = 0.0
    for _ in range(min(size, len(deviations.values))):
        values = improvement(deviations.values)
        values[chosen] = -1.0
        chosen.append(int(np.argmax(values)))
        gain = max(gain, float(values[chosen[-1]]))
        deviations.add(chosen[-1])
    return chosen, gain


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
