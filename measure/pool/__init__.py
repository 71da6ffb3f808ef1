"""Pools of workers: local, Ray, replay."""

from whet.measure.pool.open import open_pool
from whet.measure.pool.protocol import Pool

__all__ = ["Pool", "open_pool"]
