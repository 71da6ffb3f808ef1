"""ATen's operators: for each name a function that builds nodes of a graph."""

from __future__ import annotations

from collections.abc import Mapping

from whet.frontends.torch.operators import (
    elementwise,
    indexed,
    networks,
    reductions,
    resampling,
    shapes,
)
from whet.frontends.torch.operators.node import Translate

TABLE: Mapping[str, Translate] = {
    **elementwise.TABLE,
    **shapes.TABLE,
    **indexed.TABLE,
    **reductions.TABLE,
    **networks.TABLE,
    **resampling.TABLE,
}
"""Name, as ``aten.add.Tensor`` -> function."""
