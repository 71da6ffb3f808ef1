"""The knobs of a GEMM, and the choices that its estimate thinks best."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import inf
from typing import Any

from whet.compiler.target import Target
from whet.compiler.tir import dtype as dt
from whet.search_spaces.forms.gemm import GemmSize
from whet.search_spaces.knobs.prefixed import Prefixed
from whet.search_spaces.rules.cpu.gemm.costs import processor_of
from whet.search_spaces.rules.cpu.gemm.estimate import cycles
from whet.search_spaces.rules.cpu.gemm.plan import (
    Choices,
    Plan,
    Tiles,
    choices_of,
    constraints_of,
    of_way,
    tails,
    united,
)
from whet.search_spaces.rules.cpu.gemm.registers import register_tiles
from whet.search_spaces.rules.threads import best_grain, define_threads
from whet.search_spaces.rules.vectors import (
    define_width,
    lanes_of,
    vector_widths,
)

# The way of "rows" is tried where the other one leaves so much more of its vectors empty.
_EMPTIER = 1.25
# So many ways are followed, those that begin best: of 80 drawn GEMMs none ended 0.1 % worse than
# with all of the up to 36, in 0.4 of the time. Of so few multiplications all are followed: one tile
# holds them, and a start in the wrong width ends there.
_STARTS, _TINY = 6, 4096
# So few multiplications are never worth threads, so many always; what threads must make of the
# time of one, so that busy cores cost little.
_FEW, _MANY, _SAVED = 50_000, 10_000_000, 1.25


def plan_of(cfg: Prefixed, g: GemmSize, target: Target) -> Plan:
    """Define a GEMM's knobs, and the plan of the config in force."""
    ways = ways_of(g, target)
    chosen: dict[str, Any] = {}
    for name, values in united(ways.choices).items():
        default = getattr(ways.default, name)
        if name == "vector_bits":
            chosen[name] = define_width(cfg, target, default)
        else:
            cfg.define_knob(name, values, default)
            chosen[name] = cfg[name].val
    for constraint in of_way(ways.choices, ways.sizes, ways.tiles, target.num_threads):
        cfg.multi_filter(constraint)
    grain = best_grain(*_shared(ways, target)) if ways.parallel else 0
    threads = define_threads(cfg, target, g.multiplications, ways.parallel, grain)
    if target.num_threads > 1:
        first = {n: some[0] for n, some in ways.choices[0].items() if n in ("share", "k_parts")}
        cfg.multi_filter(_OfThreads(first))
    return Plan(**chosen, threads=threads)


def _shared(ways: Ways, target: Target) -> tuple[int, int, float]:
    """The steps that threads share by default, how many threads, and the last step's part."""
    turned = ways.default.lanes == "rows"
    steps, last = ways.default.shared_steps(ways.sizes[-1 if turned else 0])
    return steps, target.num_threads, last


@dataclass(frozen=True)
class _OfThreads:
    """A constraint: what threads share has one choice where there are none.

    Attributes:
        first: that choice of each knob.
    """

    first: dict[str, Any]

    def __call__(self, c: Any) -> bool:
        return c["parallel"].val or all(c[n].val == value for n, value in self.first.items())

    def __repr__(self) -> str:
        return "threads share loops where there are threads"


@dataclass(frozen=True)
class Ways:
    """The ways to lay the lanes that are worth trying.

    Attributes:
        sizes, choices, tiles: of each way: the GEMM in it, the choices, its tiles by width.
        default: the plan that the estimate thinks best. cycles: of it.
        parallel: whether that is one for the target's threads, and not for one.
    """

    sizes: list[GemmSize]
    choices: list[Choices]
    tiles: list[Tiles]
    default: Plan
    cycles: float
    parallel: bool = False


@lru_cache(maxsize=256)
def ways_of(g: GemmSize, target: Target) -> Ways:
    """The ways to lay the lanes of a GEMM, and the default."""
    lanes = lanes_of(target, g.dtype)
    sizes = {"columns": g}
    emptier = _covered(g.M, lanes) > _EMPTIER * _covered(g.N, lanes)
    # of two operands with K innermost the one that is copied may be the smaller
    smaller = g.transpose_b and (g.transpose_a or g.N < g.M)
    if g.has_rows and not g.packed and (emptier or smaller):
        sizes["rows"] = g.turned
    tiles = [
        {
            bits: register_tiles(target, lanes * bits // (8 * target.vector_bytes), one.N, one.M)
            for bits in vector_widths(target)
        }
        for one in sizes.values()
    ]
    for one, some in zip(sizes.values(), tiles):
        _add_tiles_of_tails(target, one, some)
    most = target.num_threads
    ways = [choices_of(one, name, some, most) for (name, one), some in zip(sizes.items(), tiles)]
    if all(way["tail"] == (0,) for way in ways):
        ways = [{n: some for n, some in way.items() if n != "tail"} for way in ways]
    plans = [
        (*default_plan(one, way, some, target, threads), threads > 1)
        for threads in _worth_trying(g, most)
        for one, way, some in zip(sizes.values(), ways, tiles)
    ]
    plan, least, parallel = min(plans, key=lambda one: one[1] * (_SAVED if one[2] else 1.0))
    return Ways([*sizes.values()], ways, tiles, plan, least, parallel)


def _add_tiles_of_tails(target: Target, g: GemmSize, tiles: Tiles) -> None:
    """Add the tiles that are as wide as the columns beside a tail."""
    beside = g.M - tails(g, max(tiles))[-1]
    if beside == g.M:
        return
    for bits, some in tiles.items():
        lanes = bits // (8 * dt.itemsize(g.dtype))
        more = register_tiles(target, lanes, g.N, beside)
        some += [tile for tile in more if tile[1] == beside and tile not in some]


def _worth_trying(g: GemmSize, threads: int) -> tuple[int, ...]:
    """The numbers of threads that a default is looked for with: one, all, or either."""
    if threads < 2 or g.multiplications < _FEW:
        return (1,)
    return (threads,) if g.multiplications > _MANY else (1, threads)


def _covered(extent: int, lanes: int) -> float:
    """How many times an extent its vectors cover."""
    return -(-extent // lanes) * lanes / extent


def default_plan(
    g: GemmSize, choices: Choices, tiles: Tiles, target: Target, threads: int
) -> tuple[Plan, float]:
    """The plan that the estimate thinks best for one way to lay the lanes, and its cycles.

    From each width of vectors and each way to pack B and to order the loops it changes one choice
    at a time while that helps.

    Args:
        g: the GEMM. choices: of its knobs. tiles: of each width.
        target: whose vectors count. threads: that are used; with one there is nothing to share.
    """
    filters = constraints_of(g, tiles, target.num_threads)
    processor = processor_of(target)
    if threads == 1:
        choices = {n: v[:1] if n in ("share", "k_parts") else v for n, v in choices.items()}
    known: dict[tuple[Any, ...], float] = {}  # the ways meet

    def cost_of(chosen: dict[str, Any]) -> float:
        """The cycles; infinite where a condition does not hold."""
        key = tuple(chosen.values())
        if key not in known:
            view = _View(chosen)
            valid = all(test(view) for test in filters)
            plan = Plan(**chosen) if valid else None
            known[key] = cycles(g, plan, processor, threads) if plan else inf
        return known[key]

    found = (next((one for one in start if cost_of(one) < inf), None) for start in _starts(choices))
    starts = sorted((one for one in found if one is not None), key=cost_of)
    ends = [
        _descended(choices, one, cost_of)
        for one in starts[: _STARTS if g.multiplications > _TINY else None]
    ]
    cost, plan = min(ends, key=lambda one: one[0])  # the first choices are valid
    return plan, cost


def _starts(values: Choices) -> Iterator[Iterator[dict[str, Any]]]:
    """Where to begin: for each, the choices of which the first that is valid is taken."""
    first = {name: some[0] for name, some in values.items()}
    # ways that single changes do not find: rows of B in place, a few at a time in long blocks, or
    # many of a panel that are fetched ahead; panels in blocks of K, of all that there is; with
    # tiles of all rows, which read B once
    depths = values["k_block"]
    streams: list[dict[str, Any]] = [
        {},
        {"k_block": depths[:2][-1], "unroll_k": 1, "prefetch": 16},
        {"k_block": depths[-1], "unroll_k": 1, "prefetch": 16, "pack_a": True},
        {"k_block": depths[-1]},
    ]
    tallest = sorted(values["tile"], key=lambda tile: -tile[0])
    tiles = [values["tile"], tallest] if tallest[0] != values["tile"][0] else [tallest]
    ways = values["vector_bits"], values["order"], values["pack_b"], streams, tiles
    beside = values.get("tail", (0,))
    for bits, order, pack_b, more, some, tail in product(*ways, beside):
        if more and ((pack_b == "none") != ("prefetch" in more) or tail):
            continue
        more = {**more, "tail": tail} if len(beside) > 1 else more
        start = {**first, "vector_bits": bits, "order": order, "pack_b": pack_b, **more}
        blocks = values["block"][::-1] if more else values["block"][:1]
        yield ({**start, "tile": t, "block": b} for t, b in product(some, blocks))


class _View:
    """Choices as conditions read them: ``view["tile"].val``; itself what it has said last."""

    __slots__ = ("_chosen", "val")

    def __init__(self, chosen: dict[str, Any]) -> None:
        self._chosen = chosen
        self.val: Any = None

    def __getitem__(self, name: str) -> _View:
        self.val = self._chosen[name]
        return self


def _descended(
    choices: Choices,
    chosen: dict[str, Any],
    cost_of: Callable[[dict[str, Any]], float],
) -> tuple[float, Plan]:
    """The cycles and the plan where no change of a choice helps; the best change each time."""
    cost, improved = cost_of(chosen), True
    while improved:
        improved, before = False, chosen
        for name, some in choices.items():
            for value in some:
                if value == before[name]:
                    continue
                tried = {**before, name: value}
                found = cost_of(tried)
                if found < cost * 0.999:
                    cost, chosen, improved = found, tried, True
    return cost, Plan(**chosen)
