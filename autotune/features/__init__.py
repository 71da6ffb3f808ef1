"""Features of the loops of a candidate, for a cost model: what it computes, touches and reuses.

A template is run with *traced* sizes (:mod:`trace`): once for each structure that its configs have,
and not for each config. :mod:`nests` finds the loops' extents, :mod:`program` makes tables of
them, :mod:`batch` fills in the sizes of many candidates, :mod:`counts` and :mod:`estimate` look at
all of them at once, :mod:`columns` says what a row holds.
"""

from whet.autotune.features.columns import NAMES, VERSION
from whet.autotune.features.extract import LoopFeatures
from whet.autotune.features.watched import WatchedFeatures

__all__ = ["NAMES", "VERSION", "LoopFeatures", "WatchedFeatures"]
