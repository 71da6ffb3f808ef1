"""Why a range of sizes is refused, and which other ranges would not be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from whet.compiler.errors import ArgumentError, OutOfMemoryError
from whet.compiler.graph.ir import Graph
from whet.compiler.graph.symbolic.sizes import Dynamic, Sizes, looked_at, widest

_STEPS = (2, 4, 8, 16, 32, 64)  # that are tried: networks halve images
_ENOUGH = 8  # sizes of a range that is worth a try
_LEAST = 3  # steps of a range: of fewer anything is a polynomial
_MOST_TRIED = 8  # sets of sizes that tell whether there is a model

GraphAt = Callable[[Sizes], Graph]
"""Gives the graph as a model's file has it, for sizes."""


def buckets_of(ranges: Mapping[str, Dynamic]) -> str:
    """The way out that always is: sizes that are numbers."""
    sizes = {n: sorted({r.at_most(r.high // 2), r.high}) for n, r in ranges.items()}
    return f"buckets, a model for each size: shapes={sizes}"


def other_ranges(
    ranges: Mapping[str, Dynamic], works: Callable[[Mapping[str, Dynamic]], bool]
) -> str:
    """Words for ranges that would do in the place of some: narrower ones, or in steps; or none.

    Args:
        ranges: symbol -> its range, which is refused.
        works: tells of other ranges whether they are not.
    """
    # of two or three sizes anything is a polynomial, which says nothing of a range
    narrow = {
        n: Dynamic(r.at_most(r.high - max(r.count >> 1, _ENOUGH) * r.step), r.high, r.step)
        for n, r in ranges.items()
    }
    is_other = any(narrow[n].low != r.low for n, r in ranges.items())
    if is_other and works(narrow):
        return "a narrower range; or "
    # at the least size a sequence may be a single token, which is another model
    later = {n: Dynamic(r.low + r.step, r.high, r.step) for n, r in ranges.items() if r.count > 2}
    if len(later) == len(ranges) and works(later):
        return f"ranges that begin later: {_shapes(later)}; or "
    return in_steps(ranges, works)


def in_steps(ranges: Mapping[str, Dynamic], works: Callable[[Mapping[str, Dynamic]], bool]) -> str:
    """Words for ranges in steps that would do in the place of some; or none.

    Args:
        ranges, works: as of :func:`other_ranges`.
    """
    for step in _STEPS:
        tried = {n: multiples(r, step) for n, r in ranges.items()}
        if any(tried[n] is not r for n, r in ranges.items()) and works(tried):
            return f"sizes in steps: {_shapes(tried)}; or "
    return ""


def _shapes(ranges: Mapping[str, Dynamic]) -> str:
    """Ranges as ``whet.compile`` takes them."""
    return f"shapes={{{', '.join(f'{n!r}: {r!r}' for n, r in ranges.items())}}}"


def multiples(r: Dynamic, step: int) -> Dynamic:
    """The sizes of a range that are multiples of a step, where there are some; else the range."""
    if step % r.step or r.low % r.step or step == r.step:
        return r
    low, high = -(-r.low // step) * step, r.high // step * step
    return Dynamic(low, high, step) if high - low >= _LEAST * step else r


def graph_at(at: GraphAt, ranges: Mapping[str, Dynamic], point: Sizes) -> Graph:
    """The graph at some sizes of ranges.

    Raises:
        ArgumentError: the model has none there: with the ranges in which it has, if there are.
    """
    try:
        return at(point)
    except MemoryError as error:
        raise OutOfMemoryError(
            f"{request_of(ranges)} at {sizes_text(point)}", str(error),
            "ranges that end at smaller sizes",
        ) from error  # fmt: skip
    except ArgumentError as error:
        why, way = _refused_at(at, ranges, point)
        if not way:
            raise
        where = getattr(error, "__notes__", ())  # its node
        why = ", ".join([str(error).splitlines()[0], *where]) + why
        request = f"{request_of(ranges)} at {sizes_text(point)}"
        raise ArgumentError(request, why, way) from error


def _refused_at(at: GraphAt, ranges: Mapping[str, Dynamic], point: Sizes) -> tuple[str, str]:
    """The reason why sizes have no graph, and the way out; "" without one."""

    def works(others: Mapping[str, Dynamic]) -> bool:
        return all(_has(at, p) for p in looked_at(others)[:_MOST_TRIED])

    top, least = widest(ranges), {name: r.low for name, r in ranges.items()}
    name, low = _least(at, ranges, point)
    if name is None:
        steps = in_steps(ranges, works)
        if point == least or not _has(at, least):
            return "", steps + buckets_of(ranges) if steps else ""
        return f"; at {sizes_text(least)} there is a model", (
            f"{steps}{buckets_of(ranges)}, of sizes with one"
        )
    r = ranges[name]
    near = range(low + r.step, min(low + _ENOUGH * r.step, r.high), r.step)
    hole = next((n for n in near if not _has(at, {**top, name: n})), None)
    if hole is None:  # a kernel for any size may be refused yet: then buckets are left
        return (
            "",
            f"a range from {low} on: {{{name!r}: {Dynamic(low, r.high, r.step)!r}}}; or buckets",
        )
    why = f"; at {name}={low} there is a model, at {name}={hole} there is none"
    return why, f"{in_steps(ranges, works)}{buckets_of(ranges)}, of sizes with one"


def _has(at: GraphAt, point: Sizes) -> bool:
    """True if there is a graph at some sizes."""
    try:
        at(point)
    except ArgumentError:
        return False
    return True


def _least(at: GraphAt, ranges: Mapping[str, Dynamic], point: Sizes) -> tuple[str | None, int]:
    """The symbol of which a model has no graph at a size, and the least size with one."""
    top = widest(ranges)
    for name, r in ranges.items():
        bad, good = point[name], r.high
        if bad == good or _has(at, {**top, name: bad}) or not _has(at, {**top, name: good}):
            continue
        while good - bad > r.step:
            middle = r.at_most((bad + good) // 2)
            bad, good = (bad, middle) if _has(at, {**top, name: middle}) else (middle, good)
        return name, good
    return None, 0


def sizes_text(sizes: Sizes) -> str:
    """Sizes in words: ``n=1, m=2``."""
    return ", ".join(f"{n}={k}" for n, k in sizes.items())


def request_of(names: Mapping[str, Any]) -> str:
    """The request of a compilation, with its symbols."""
    return f"compile(...) with the symbols {', '.join(names)}"
