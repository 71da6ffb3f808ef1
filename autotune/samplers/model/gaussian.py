"""Gaussian-process regression in numpy: a mean and an uncertainty from a few hundred points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")

SCALES = (0.7, 1.0, 1.4)
"""Length scales that are tried, times the root of the number of coordinates, whose step is 1.

Few, because the likelihood of the few dozen trials that a search has picks wrong ones: with one
fixed scale the rank of the best configs was predicted better than with a choice of 0.5 to 8."""
NOISES = (0.05, 0.2)
"""Standard deviations of the noise that are tried, in units of the values' own."""

SHOWN = 192
"""Trials that a process is fitted to: the best, and the latest; its time grows with the cube."""


@dataclass(frozen=True)
class Gaussian:
    """A fitted process with a Matern-5/2 kernel.

    Source: C. E. Rasmussen and C. K. I. Williams, "Gaussian processes for machine learning", 2006.

    Attributes:
        x: coordinates that it was fitted to, shape ``(n, c)``.
        z: the values there, in units of ``spread`` from ``center``.
        scale: the length scale.
        noise: the standard deviation of the noise.
    """

    x: np.ndarray
    z: np.ndarray
    scale: float
    noise: float
    center: float
    spread: float
    factor: np.ndarray

    @staticmethod
    def fit(x: np.ndarray, y: np.ndarray) -> Gaussian:
        """The process of all that are tried that is the likeliest to have made ``y``.

        Args:
            x: coordinates, shape ``(n, c)``.
            y: finite values, shape ``(n,)``; n is at least 1.
        """
        center, spread = float(np.mean(y)), float(np.std(y)) or 1e-6
        z, away = (y - center) / spread, distances(x, x)
        width = float(np.sqrt(max(1, x.shape[1])))
        best, chosen = np.inf, None
        for scale in SCALES:
            shared = kernel(away / (scale * width))
            for noise in NOISES:
                factor = np.linalg.cholesky(shared + noise**2 * np.eye(len(z)))
                fit = solve(factor, z)
                # the negative logarithm of the likelihood, up to a constant
                bad = 0.5 * float(fit @ fit) + float(np.log(np.diag(factor)).sum())
                if bad < best:
                    best, chosen = bad, (scale * width, noise, factor)
        assert chosen is not None
        scale, noise, factor = chosen
        return Gaussian(x, z, scale, noise, center, spread, factor)

    def predict(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations at ``x`` of shape ``(m, c)``, both of shape ``(m,)``."""
        shared = kernel(distances(x, self.x) / self.scale)
        left = solve(self.factor, shared.T)
        mean = left.T @ solve(self.factor, self.z)
        variance = np.maximum(1.0 - np.square(left).sum(axis=0), 1e-9)
        return self.center + self.spread * mean, self.spread * np.sqrt(variance)

    def mean(self, x: np.ndarray) -> np.ndarray:
        """The means of :meth:`predict`, which cost a tenth of what the deviations do."""
        weights = solve(self.factor.T, solve(self.factor, self.z), lower=False)
        shared = kernel(distances(x, self.x) / self.scale)
        return self.center + self.spread * (shared @ weights)

    def leave_one_out(self) -> tuple[np.ndarray, np.ndarray]:
        """The predictions at each of its own points by the process without that point.

        Returns:
            The means and the standard deviations of these predictions, both of shape ``(n,)``.
        """
        half = solve(self.factor, np.eye(len(self.z)))
        precision = half.T @ half
        own = np.maximum(np.diag(precision), 1e-12)
        mean = self.z - (precision @ self.z) / own
        return self.center + self.spread * mean, self.spread / np.sqrt(own)

    def fantasised(self, x: np.ndarray) -> Gaussian:
        """The process as it were if ``x``, shape ``(m, c)``, had turned out as predicted."""
        if not len(x):
            return self
        z = (self.predict(x)[0] - self.center) / self.spread
        every = np.concatenate([self.x, x])
        shared = kernel(distances(every, every) / self.scale)
        factor = np.linalg.cholesky(shared + self.noise**2 * np.eye(len(every)))
        return replace(self, x=every, z=np.concatenate([self.z, z]), factor=factor)


class Deviations:
    """The deviations of candidates by a process, while some of them are fantasised one by one.

    The same numbers as by :meth:`Gaussian.fantasised` and :meth:`Gaussian.predict`, but a candidate
    more costs one row of the factor, not the factor.

    Args:
        process: fitted; with the trials in flight as predicted.
        x: coordinates of the candidates, shape ``(m, c)``.
        most: candidates that are fantasised at most.
    """

    def __init__(self, process: Gaussian, x: np.ndarray, most: int) -> None:
        self._process, self._x, self._used = process, x, len(process.x)
        shared = kernel(distances(process.x, x) / process.scale)
        self._left = np.empty((self._used + most, len(x)))
        self._left[: self._used] = solve(process.factor, shared)
        self._variance = 1.0 - np.square(self._left[: self._used]).sum(axis=0)

    @property
    def values(self) -> np.ndarray:
        """The deviations, shape ``(m,)``."""
        return self._process.spread * np.sqrt(np.maximum(self._variance, 1e-9))

    def add(self, chosen: int) -> None:
        """Take a candidate as if it had turned out as predicted."""
        process, left = self._process, self._left[: self._used]
        shared = kernel(distances(self._x[chosen : chosen + 1], self._x)[0] / process.scale)
        own = max(float(self._variance[chosen]), 0.0) + process.noise**2
        row = (shared - left[:, chosen] @ left) / np.sqrt(own)
        self._left[self._used] = row
        self._used += 1
        self._variance -= row * row


def distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Euclidean distances of rows, float64 of shape ``(n, m)``."""
    one, two = a.astype(np.float64), b.astype(np.float64)
    squares = np.square(one).sum(axis=1)[:, None] + np.square(two).sum(axis=1) - 2.0 * one @ two.T
    return np.sqrt(np.maximum(squares, 0.0))


def kernel(away: np.ndarray) -> np.ndarray:
    """Matern-5/2 of distances in units of the length scale."""
    far = np.sqrt(5.0) * away
    return (1.0 + far + far * far / 3.0) * np.exp(-far)


def on_one_thread(function: Callable[P, R]) -> Callable[P, R]:
    """A function whose products and solutions are computed by the calling thread alone.

    Others of the library's would spin for a while after each, on the core that measures, too.
    """

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        import scipy.linalg  # noqa: F401  it has threads of its own, and only loaded ones are seen
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1, user_api="blas"):
            return function(*args, **kwargs)

    return run


def solve(factor: np.ndarray, right: np.ndarray, lower: bool = True) -> np.ndarray:
    """The solution ``x`` of ``factor @ x = right`` for a triangular factor."""
    from scipy.linalg import solve_triangular

    return solve_triangular(factor, right, lower=lower, check_finite=False)


def subsample(y: np.ndarray, most: int = SHOWN) -> np.ndarray:
    """The numbers of at most ``most`` values, rising: all, or half highest and half latest."""
    if len(y) <= most:
        return np.arange(len(y))
    latest = len(y) - most // 2
    best = np.argsort(-y[:latest], kind="stable")[: most // 2]
    return np.concatenate([np.sort(best), np.arange(latest, len(y))])
