"""Cycles of Winograd's algorithm under its knobs."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, prod
from typing import Any

from whet.search_spaces.rules.cpu.conv.estimate.costs import Work

_WINDOW = 3


def cycles(w: Work, k: Mapping[str, Any], m: int) -> float:
    """F(m x m, 3 x 3).

    Args:
        k: the values of its knobs, without their prefix.
    """
    c, s = w.costs, w.shape
    mr, nr = k["tile"]
    places, vectors = (m + _WINDOW - 1) ** 2, -(-nr // w.lanes)
    tiles = s.batch * prod(-(-n // m) for n in s.out)
    rows = min(k["block"], -(-tiles // mr))
    block = rows * mr
    blocks, panels = -(-tiles // block), -(-s.co // nr)
    step = w.step(mr, vectors, k["unroll_k"])
    if s.ci * w.size >= 64 and mr > 8:
        step += c.spill * max(0, mr - 10)
    each = s.ci * step + c.tile + mr * vectors * c.store
    products = places * (c.stage + rows * panels * each)
    # what a block reads: all filters, and its own pixels and sums
    filters = places * s.ci * panels * nr * w.size
    own = places * block * (s.ci + panels * nr) * w.size
    strip, panel = mr * s.ci * w.size, nr * s.ci * w.size
    by_stages = k.get("share") == "stages"
    held = own * blocks if by_stages else own  # until the next stage reads it
    passing = filters / c.caches.rate(filters + held) + own / c.caches.rate(held)
    if k["order"] == "panels":
        passing += (
            places * panels * (rows - 1) * (panel + strip) / c.caches.rate(panel + rows * strip)
        )
    else:
        passing += places * rows * (panels - 1) * (panel + strip) / c.caches.rate(panels * panel)
    transforms = (
        block * places * (c.data * -(-s.ci // w.lanes) + c.result * -(-s.co // w.lanes) * m / 4)
    )
    if held > c.caches.first:
        transforms += 2 * own * c.buffered / c.caches.rate(held)
    late = 0.0
    if w.ahead:  # a model's filters come from memory, for the first block
        cold = filters / c.caches.rate(inf) - filters / c.caches.rate(filters + held)
        late = (
            w.total(products, passing + cold) - w.total(products, passing) + w.begun(panel, filters)
        )
    if by_stages:
        total = w.shared(blocks * w.total(products, passing) + late, blocks * places * panels)
        steps = tiles * -(-min(s.ci, s.co) // w.lanes)
        total += 2 * w.shared(blocks * transforms / 2, steps)
    else:
        total = w.shared(blocks * (w.total(products, passing) + transforms), blocks) + late
    if not w.ahead:
        making = places * s.ci * panels * vectors * c.filters
        total += w.shared(making + c.stored * filters / c.caches.rate(filters), panels)
    if not s.channels_last:
        total += w.squares(s.batch * s.ci * prod(s.image), s.ci, prod(s.image))
        if not w.ahead:
            total += w.squares(s.co * w.depth, s.co, w.depth)
        total += s.batch * s.co * w.pixels * c.square / 2
    return total
