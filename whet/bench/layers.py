"""A layered drawing of a directed graph without cycles: a place for each box, a path for each edge.

After K. Sugiyama: layers by the longest path, edges cut at the layers that they cross, an order in
each layer by the neighbours' mean, and places as near to the neighbours as the order allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

SWEEPS = 8
"""Passes over all layers, down and up in turn."""

Point = tuple[float, float]


@dataclass(frozen=True)
class Layers:
    """Places of boxes and paths of edges, in boxes' units.

    Attributes:
        centres: of each box, across and down; a layer is one unit high.
        paths: of each edge, the points that it passes from box to box.
        width: from the leftmost box's left to the rightmost one's right.
        height: layers.
    """

    centres: list[Point]
    paths: list[list[Point]]
    width: float
    height: int


def layered(boxes: int, edges: Sequence[tuple[int, int]], thin: float = 0.15) -> Layers:
    """The drawing of a graph.

    Args:
        boxes: how many there are; each is one unit wide, and at least as far from the next.
        edges: from which box to which; a box comes after those that lead to it.
        thin: the room that an edge takes where it passes a layer.
    """
    layer = _layers(boxes, edges)
    widths = [1.0] * boxes
    chains: list[list[int]] = []
    for a, b in edges:
        chain = [a]
        for at in range(layer[a] + 1, layer[b]):
            chain.append(len(layer))
            layer.append(at)
            widths.append(thin)
        chains.append([*chain, b])
    links = [pair for chain in chains for pair in pairwise(chain)]
    rows: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for n, at in enumerate(layer):
        rows[at].append(n)
    before: list[list[int]] = [[] for _ in layer]
    after: list[list[int]] = [[] for _ in layer]
    for a, b in links:
        after[a].append(b)
        before[b].append(a)
    across = _across(rows, widths, before, after)
    least = min((x - w / 2 for x, w in zip(across, widths)), default=0.0)
    most = max((x + w / 2 for x, w in zip(across, widths)), default=0.0)
    places = [(x - least, float(at)) for x, at in zip(across, layer)]
    return Layers(places[:boxes], [[places[n] for n in c] for c in chains], most - least, len(rows))


def _layers(boxes: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The layer of each box; one that nothing leads to stands right before its first reader."""
    layer = [0] * boxes
    for a, b in sorted(edges, key=lambda e: e[1]):
        layer[b] = max(layer[b], layer[a] + 1)
    led = {b for _, b in edges}
    for n in range(boxes):
        readers = [layer[b] for a, b in edges if a == n]
        if n not in led and readers:
            layer[n] = min(readers) - 1
    return layer


def _across(
    rows: list[list[int]],
    widths: Sequence[float],
    before: Sequence[Sequence[int]],
    after: Sequence[Sequence[int]],
) -> list[float]:
    """Where each box stands across; the rows are brought into their order."""
    across = [0.0] * len(widths)
    for row in rows:
        _spread(row, [float(k) for k in range(len(row))], widths, across)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        near = before if down else after
        for row in rows if down else reversed(rows):
            wanted = {
                n: sum(across[m] for m in near[n]) / len(near[n]) if near[n] else across[n]
                for n in row
            }
            if sweep < SWEEPS - 2:
                row.sort(key=lambda n: wanted[n])
            _spread(row, [wanted[n] for n in row], widths, across)
    return across


def _spread(
    row: Sequence[int], wanted: Sequence[float], widths: Sequence[float], across: list[float]
) -> None:
    """Places in the row's order that are nearest to those wanted, in the mean of squares."""
    shifts, at = [], 0.0
    for k, n in enumerate(row):
        at += (widths[n] + widths[row[k - 1]]) / 2 if k else 0.0
        shifts.append(at)
    blocks: list[tuple[float, int]] = []  # the mean and the number of those that stand together
    for want, shift in zip(wanted, shifts):
        mean, count = want - shift, 1
        while blocks and blocks[-1][0] > mean:
            other, many = blocks.pop()
            mean, count = (mean * count + other * many) / (count + many), count + many
        blocks.append((mean, count))
    flat = [mean for mean, count in blocks for _ in range(count)]
    for n, mean, shift in zip(row, flat, shifts):
        across[n] = mean + shift
