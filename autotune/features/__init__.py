"""Features of a candidate's loops for a cost model: computation, memory traffic, reuse.

A template runs with *traced* sizes (:mod:`loops.trace`): once for each structure that its configs
have, and not for each config. :mod:`loops.nests` finds the loops' extents, :mod:`loops.program`
makes tables of them, :mod:`batch` fills in the sizes of many candidates, :mod:`counts` and
:mod:`estimate` look at all of them at once, :mod:`columns` describes a row.
"""

from whet.autotune.features.columns import NAMES, VERSION
from whet.autotune.features.extract import LoopFeatures
from whet.autotune.features.watched import WatchedFeatures

__all__ = ["NAMES", "VERSION", "LoopFeatures", "WatchedFeatures"]
