"""What a cost model sees of a space's configs: the knobs' own features, side by side."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from whet.search_spaces.knobs.knob import Knob
    from whet.search_spaces.values import Config


class SeenByModels:
    """The features of :class:`~whet.search_spaces.ConfigSpace`."""

    knobs: dict[str, Knob]

    @abstractmethod
    def encode(self, config: Config) -> tuple[int, ...]: ...

    @property
    def feature_names(self) -> tuple[str, ...]:
        """A name for each column of :meth:`features`."""
        return tuple(name for knob in self.knobs.values() for name in knob.feature_table[0])

    def features(self, configs: Iterable[Config]) -> np.ndarray:
        """What a cost model sees of configs.

        Returns:
            float32 of shape ``(len(configs), len(self.feature_names))``: log2 of split sizes, of
            the tiles they make, wasted share and log2 of the extent; places of reordered axes;
            annotations and words as 0 or 1; numbers as signed log2(1 + |value|).
        """
        points = [self.encode(config) for config in configs]
        table = np.asarray(points, dtype=np.int64).reshape(len(points), len(self.knobs))
        return self.features_of_points(table)

    def features_of_points(self, points: np.ndarray) -> np.ndarray:
        """:meth:`features` of points, an int array of shape ``(n, len(self.knobs))``."""
        columns = [
            knob.feature_table[1][points[:, i]] for i, knob in enumerate(self.knobs.values())
        ]
        if not columns:
            return np.zeros((len(points), 0), dtype=np.float32)
        return np.concatenate(columns, axis=1)
