"""Cycles of the direct algorithms and of im2col under their knobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

from whet.search_spaces.rules.cpu.conv.estimate.costs import Work, crowded
from whet.search_spaces.rules.cpu.conv.estimate.kept import kept_along, kept_in_runs
from whet.search_spaces.rules.processors import displaced

Knobs = Mapping[str, Any]
"""The values of an algorithm's knobs, without a prefix."""

_POINTERS = 10  # addresses that registers hold
_BODY = 256  # vector operations that a loop's body should not exceed


def pixels_by_channels(w: Work, k: Knobs, im2col: bool, block: int) -> float:
    """With the channels last or in blocks, tiles of pixels by channels.

    Args:
        im2col: whether the windows' pixels are copied. block: of NCHWc.
    """
    c, s = w.costs, w.shape
    mr, nr = k["tile"]
    vectors = -(-nr // w.lanes)
    many = s.batch * w.pixels
    tiles, panels = -(-many // mr), s.groups * -(-s.co_group // nr)
    apart = s.window[1] > 1 and (s.dilation[1] > 1 or k["skip"] == "columns")
    whole = (block > 0 or s.groups == 1) and not apart
    runs = s.window[0] * (1 if whole else s.window[1]) * (s.ci_group // block if block else 1)
    step = w.step(mr, vectors, k["unroll"]) + c.spill * max(0, mr - _POINTERS)
    apart_by = w.depth if im2col else s.strides[-1] * (block or s.ci)  # a pixel from the next one
    step += c.displaced * mr * displaced(mr, apart_by * w.size)
    if nr % w.lanes:
        step += c.ragged
    kept = kept_in_runs(s, k["skip"], mr, not whole)
    work = kept * (w.depth * step + runs * c.run) + c.tile + mr * (c.pixel + vectors * c.store)
    work += c.test * runs if k["skip"] != "none" else 0.0
    if s.co_group % nr:
        work += c.ragged * mr
    work *= tiles * panels
    seen = w.seen(1, mr) if not im2col else mr * w.depth * w.size
    image = w.image if not im2col else many * w.depth * w.size
    panel = nr * w.depth * w.size
    if k["order"] == "panels":
        passing = c.moved(panel, panels, k["block"], seen, tiles, image, w.cold)
        outer, first = panels, panel * min(k["block"], panels)
        away = w.remote(image, 0 if block else many, s.co * w.size)
    else:
        passing = c.moved(seen, tiles, k["block"], panel, panels, w.weights, w.cold)
        outer, first = tiles, panel
        away = w.remote(0 if w.ahead else w.weights)
    total = w.shared(w.total(work, passing), outer, k["block"]) + w.begun(first) + away
    if im2col:
        at_once = k["block"] * mr * w.depth * w.size if k["order"] == "pixels" else image
        copied = many * w.depth
        each = c.copy / w.lanes if s.window[1] * s.ci_group >= w.lanes else c.gather
        copying = copied * each + c.written * copied * w.size / c.caches.rate(2 * at_once)
        total += copying if k["order"] == "pixels" else w.shared(copying, many)
    if s.is_padded:
        total += w.padded()
    return total + w.packed(nr, s.layout == "NHWC")


def converted(w: Work, inner: Work, k: Knobs) -> float:
    """With the channels first, computed with them last; ``inner`` is that convolution."""
    s = w.shape
    total = pixels_by_channels(inner, k, False, 0)
    total += w.squares(s.batch * s.ci * prod(s.image), s.ci, prod(s.image))
    total += w.squares(s.batch * s.co * w.pixels, s.co, w.pixels)
    if not w.ahead:
        total += w.squares(s.co * w.depth, s.co, w.depth)
    return total


def planes(w: Work, k: Knobs) -> float:
    """With the channels first, the direct algorithm's two ways."""
    c, s = w.costs, w.shape
    way, cr, *sizes = k["tile"]
    count = prod(-(-n // t) for n, t in zip(s.out[-len(sizes) :], sizes))
    tiles = s.batch * prod(s.out[: -len(sizes)]) * count
    panels = s.groups * -(-s.co_group // cr)
    window = s.window
    written = {"none": 1, "rx": window[-1], "ry rx": prod(window[-2:])}[k["unroll"]]
    if way == "width":
        across = prod(sizes) // w.lanes
        step = w.step(cr, across) + c.split * across
        operations, stored = cr * across, cr * across * c.store
        if s.out[-1] % sizes[-1]:
            stored += c.ragged * operations
    else:
        vectors = -(-cr // w.lanes)
        many = prod(sizes)
        step = w.step(many, vectors) + c.spill * max(0, many - _POINTERS)
        step += c.kept * _homeless(w, k["unroll"], sizes, vectors)
        operations, stored = vectors * many, cr * many * c.turned
        if s.out[-1] % sizes[-1]:
            stored += c.masked * cr * prod(sizes[:-1])
    step -= c.loop * (1 - 1 / written)
    if operations * written > _BODY:
        step += c.body * operations * written
    seen = w.seen(*sizes, lines=True)
    stride = prod(s.padded) * w.size
    lines = s.ci_group * max(1, seen // max(1, s.ci_group * 64))
    step += c.scatter * crowded(stride, lines) * (prod(sizes) if way == "channels" else across)
    outer = s.ci_group * prod(window) // written
    work = w.depth * step + outer * c.run / 4
    if k["skip"]:
        tile = (*(1 for _ in s.out[len(sizes) :]), *sizes[:-1])
        work *= prod(kept_along(s, axis, n, n) for axis, n in enumerate(tile))
        work += prod(window[:-1]) * (c.test + c.run)
    work = tiles * panels * (work + c.tile + stored)
    panel = cr * w.depth * w.size
    if k["outer"] == "rows":
        passing = c.moved(seen, tiles, 1, panel, panels, w.weights)
    else:
        passing = c.moved(panel, panels, 1, seen, tiles, w.image)
    total = w.shared(w.total(work, passing), tiles if k["outer"] == "rows" else panels * s.batch)
    sorted_rows = way == "width" and s.strides[-1] > 1
    if s.is_padded or sorted_rows:
        again, held = 1.0, 2.0 * w.image
        if k["pad_at"] == "rows" and k["outer"] == "rows":
            rows = sizes[-2] if len(sizes) > 1 else 1
            stepped = rows * s.strides[-2] if len(s.strides) > 1 else 1
            again, held = (stepped + s.reach[-2] - 1) / stepped if len(s.reach) > 1 else 1.0, 0.0
        vectors = w.image / w.size / w.lanes
        each = c.copy if not sorted_rows else c.gather * w.lanes
        copying = again * (vectors * each + c.written * w.image / c.caches.rate(held))
        total += w.shared(copying, s.batch * s.padded[0])
    return total + w.packed(cr, False, w.depth) + w.begun(w.weights)


def columns(w: Work, k: Knobs) -> float:
    """With the channels first, im2col: channels by pixels."""
    c, s = w.costs, w.shape
    if s.picked is not s and k["pick"]:
        return columns(replace(w, shape=s.picked), k) + w.picked()
    mr, nr = k["tile"]
    vectors = nr // w.lanes
    tiles, panels = -(-w.pixels // nr), -(-s.co // mr)
    step = w.step(mr, vectors, k["unroll"])
    stored = mr * vectors * (c.store + (c.ragged if w.pixels % nr else 0.0))
    work = s.batch * tiles * panels * (w.depth * step + prod(s.window) * c.run + c.tile + stored)
    strip, panel = nr * w.depth * w.size, mr * w.depth * w.size
    whole = tiles * strip
    if k["order"] == "pixels":
        passing = c.moved(strip, tiles, k["block"], panel, panels, w.weights)
    else:
        passing = c.moved(panel, panels, k["block"], strip, tiles, whole)
    outer = tiles if k["order"] == "pixels" else panels
    total = w.shared(w.total(work, s.batch * passing), s.batch * outer, k["block"])
    if k["copy"]:
        at_once = min(k["block"], tiles) * strip if k["order"] == "pixels" else whole
        each = c.slide if s.strides[-1] == 1 else c.gather
        each = c.copy / w.lanes if s.is_pointwise else each
        many = s.batch * tiles * nr * w.depth
        copying = many * (each + c.written * w.size / c.caches.rate(2 * at_once))
        total += w.shared(copying, tiles)
    else:
        total += c.scatter * crowded(w.pixels * w.size, s.ci) * s.batch * tiles * w.depth * vectors
    return total + w.packed(mr, False, s.ci if prod(s.window) == 1 else 1) + w.begun(w.weights)


def _homeless(w: Work, unroll: str, sizes: list[int], vectors: int) -> int:
    """How many pixels of an unrolled window have no register, though the next steps read them."""
    shape = w.shape
    spans = []
    for n, name in enumerate(("ry", "rx")[-len(sizes) :], start=-min(2, len(sizes))):
        more = shape.reach[n] - 1 if name in unroll.split() else 0
        spans.append((sizes[n] - 1) * shape.strides[n] + 1 + more if more else sizes[n])
    pixels = prod(spans)
    if pixels == prod(sizes):
        return 0
    return max(0, min(pixels, w.registers) + vectors * (prod(sizes) + 1) - w.registers)
