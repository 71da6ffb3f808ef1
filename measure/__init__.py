"""Building and measuring candidates in isolated processes, so that a bad one costs one trial.

A :class:`Pool` takes :class:`MeasureInput` and gives back :class:`MeasureResult`: locally, on a Ray
cluster, or from a record. Pools are imported when they are first asked for: reading a log or
deploying a kernel needs none.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from whet.measure.values import OK, STATUSES, MeasureInput, MeasureOptions, MeasureResult

if TYPE_CHECKING:
    from whet.measure.pool.local import LocalPool
    from whet.measure.pool.open import open_pool
    from whet.measure.pool.protocol import Pool
    from whet.measure.pool.ray_pool import RayPool
    from whet.measure.pool.replay import ReplayPool

_LATER = {
    "LocalPool": "whet.measure.pool.local",
    "Pool": "whet.measure.pool.protocol",
    "RayPool": "whet.measure.pool.ray_pool",
    "ReplayPool": "whet.measure.pool.replay",
    "open_pool": "whet.measure.pool.open",
}

__all__ = [
    "OK",
    "STATUSES",
    "LocalPool",
    "MeasureInput",
    "MeasureOptions",
    "MeasureResult",
    "Pool",
    "RayPool",
    "ReplayPool",
    "open_pool",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)
