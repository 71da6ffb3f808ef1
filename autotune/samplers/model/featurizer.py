"""Config features: columns of knobs and loops, and a first guess of the scores."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from whet.autotune.samplers.contract.history import keys_of
from whet.autotune.samplers.model.cost_model import CostModel
from whet.autotune.samplers.model.gaussian import subsample

if TYPE_CHECKING:
    from whet.autotune.samplers.contract.base import Features
    from whet.autotune.samplers.contract.history import History
    from whet.autotune.search.transfer import Prior
    from whet.search_spaces import ConfigSpace

ESTIMATE = "estimate"
"""The loop features' column with log2 of the estimated seconds."""


KNOWN, EPOCH = 1024, 256
"""Trials whose programs are known: half the best, half the latest, chosen anew every so many."""
LEADERS = 32
"""The best rows of a task, whose median says how far its estimates and scores lie apart."""


class Featurizer:
    """The features of points, and a first guess of their scores before any is tried.

    The guess is the analytic estimate, corrected by what it was wrong by in other tasks; without
    loop features, what a model of other tasks' trials predicts.

    Args:
        space: the space of the points.
        features: their loop features; None: there are none.
        prior: what is known from other tasks; None: nothing.
        seed: of the prior model's sampling.
    """

    def __init__(
        self, space: ConfigSpace, features: Features | None, prior: Prior | None, seed: int
    ) -> None:
        self._space = space
        self._features = features
        self._estimate, self._columns = _columns() if features is not None else (0, 0)
        self._prior_model = None if prior is None else self._learned(prior, seed)

    @property
    def learns(self) -> bool:
        """True if other tasks' trials tell something about this space."""
        return self._prior_model is not None

    @property
    def guesses(self) -> bool:
        """True if points can be ranked before any is tried."""
        return self._prior_model is not None or self._features is not None

    def of(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Features and guesses of points.

        Returns:
            float32 of shape ``(n, d)``, and scores of shape ``(n,)``, higher is better; NaN where
            the config cannot be built, all 0 where nothing is known.
        """
        features = self._space.features_of_points(points)
        guesses = np.zeros(len(points))
        if self._features is not None:
            loops = self._features.of_points(points)
            features = np.hstack([features, loops[:, : self._columns]])
            guesses = _as_scores(loops[:, self._estimate])
        if self._prior_model is not None:
            guesses = guesses + self._prior_model.predict(features)
        return features, guesses

    def _learned(self, prior: Prior, seed: int) -> CostModel | None:
        """A model of what is to be added to the estimate; None where no row says anything."""
        rows, scores = prior.knobs, prior.scores.astype(np.float64)
        known = np.isfinite(rows).any(axis=1) if rows.size else np.zeros(len(rows), dtype=bool)
        if self._features is not None:
            rows = np.hstack([rows, prior.features[:, : self._columns]])
            scores = scores - _as_scores(prior.features[:, self._estimate])
            known = np.isfinite(scores)
            for task in np.unique(prior.tasks[known]):
                mine = known & (prior.tasks == task)
                scores[mine] -= np.median(scores[mine][:LEADERS])
        if not known.any():
            return None
        return CostModel.fit(rows[known], scores[known], seed, prior.weights[known])


def _as_scores(estimate: np.ndarray) -> np.ndarray:
    """Scores of estimates, which are log2 of seconds."""
    return -np.log(2.0) * estimate.astype(np.float64)


def featurizers(
    space: ConfigSpace, features: Features | None, prior: Prior | None, seed: int
) -> list[Featurizer]:
    """A featurizer for each first guess, the estimate's first; the last one guesses nothing.

    Args:
        space: the space of the points.
        features: their loop features; None: there are none.
        prior: what is known from other tasks; None: nothing.
        seed: of the prior model's sampling.
    """
    guessing = [] if features is None else [Featurizer(space, features, None, seed)]
    if prior is not None and (other := Featurizer(space, features, prior, seed)).learns:
        guessing.append(other)
    return [*guessing, Featurizer(space, None, None, seed)]


class Programs:
    """The programs that a search has tried: configs with equal loop features are one program.

    Of a long search the latest and the best are known: a program that was tried long ago, and was
    not good, is rarely proposed again.

    Args:
        features: the loop features; None: each config is a program of its own.
    """

    def __init__(self, features: Features | None) -> None:
        self._features = features
        self._tried: dict[bool, _Tried] = {}

    def new(self, history: History, points: np.ndarray) -> np.ndarray:
        """The rows of ``points`` whose programs are not tried, each program once."""
        rows: dict[bytes, int] = {}
        if self._features is None:
            taken = history.taken(points)
            for row, key in enumerate(keys_of(points)):
                if not taken[row]:
                    rows.setdefault(key, row)
        else:
            tried = self._known(history)
            for row, key in enumerate(self._keys(points)):
                if key not in tried:
                    rows.setdefault(key, row)
        return np.asarray(list(rows.values()), dtype=np.int64)

    def _known(self, history: History) -> set[bytes]:
        """The programs of a history; made from the last one's where this one follows it."""
        number = history.number // EPOCH * EPOCH if history.number > KNOWN else 0
        tried = self._tried.get(history.whole)
        if tried is None or tried.number != number or not history.follows(tried.last):
            base = history.settled(number) if history.whole else history.before(number)
            best = subsample(-base.costs, KNOWN)
            points = np.concatenate([base.told_points(best), base.pending])
            tried = self._tried[history.whole] = _Tried(number, base, set(self._keys(points)))
        since = slice(tried.last.rows, history.rows)
        points = history.told_points(since) if history.whole else history.row_points(since)
        tried.keys.update(self._keys(points))
        tried.last = history
        return tried.keys

    def _keys(self, points: np.ndarray) -> list[bytes]:
        assert self._features is not None
        rows = self._features.of_points(points)
        return [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in rows]


@dataclass
class _Tried:
    """The programs tried up to a history; those of before trial ``number`` are a choice."""

    number: int
    last: History
    keys: set[bytes]


def _columns() -> tuple[int, int]:
    """The estimate's column, and the number of the first columns that models learn from.

    Those are of the program as a whole. What is known of single statements and accesses tells
    programs apart, but the few dozen trials of a search are too few to learn from it: with all
    columns they took longer to find the best configs, and fits took three times as long.
    """
    from whet.autotune.features.columns import NAMES, PROGRAM

    return NAMES.index(ESTIMATE), len(PROGRAM)
