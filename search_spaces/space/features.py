"""Config features for cost models: the knobs' own features, side by side.

Functions of a :class:`~whet.search_spaces.ConfigSpace`, which has them as methods.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from whet.compiler.late_numpy import np

if TYPE_CHECKING:
    from whet.search_spaces.space.config_space import ConfigSpace
    from whet.search_spaces.values import Config


def feature_names(space: ConfigSpace) -> tuple[str, ...]:
    """A name for each column of :meth:`features`."""
    return tuple(name for knob in space.knobs.values() for name in knob.feature_table[0])


def features(space: ConfigSpace, configs: Iterable[Config]) -> np.ndarray:
    """The features of configs, for a cost model.

    Returns:
        float32 of shape ``(len(configs), len(self.feature_names))``: log2 of split sizes, of
        the tiles they make, wasted share and log2 of the extent; places of reordered axes;
        annotations and words as 0 or 1; numbers as signed log2(1 + |value|).
    """
    points = [space.encode(config) for config in configs]
    table = np.asarray(points, dtype=np.int64).reshape(len(points), len(space.knobs))
    return space.features_of_points(table)


def features_of_points(space: ConfigSpace, points: np.ndarray) -> np.ndarray:
    """:meth:`features` of points, an int array of shape ``(n, len(self.knobs))``."""
    columns = [knob.feature_table[1][points[:, i]] for i, knob in enumerate(space.knobs.values())]
    return np.concatenate([np.zeros((len(points), 0), np.float32), *columns], axis=1)
