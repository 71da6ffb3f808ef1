"""The knobs of a GEMM, and the choices that its estimate thinks best."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import inf
from typing import Any

from whet.compiler.target import Target
from whet.search_spaces.forms.gemm import GemmSize
from whet.search_spaces.knobs.prefixed import Prefixed
from whet.search_spaces.rules.cpu.gemm.estimate import cycles
from whet.search_spaces.rules.cpu.gemm.plan import (
    Choices,
    Plan,
    Tiles,
    choices_of,
    constraints_of,
    of_way,
    united,
)
from whet.search_spaces.rules.cpu.gemm.registers import register_tiles
from whet.search_spaces.rules.threads import define_threads
from whet.search_spaces.rules.vectors import define_width, lanes_of, operation_bits, vector_widths

# The way of "rows" is tried where the other one leaves so much more of its vectors empty.
_EMPTIER = 1.25
# So many ways are followed, those that begin best: of 80 drawn GEMMs none ended 0.1 % worse than
# with all of the up to 36, in 0.4 of the time.
_STARTS = 6


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
    for constraint in of_way(ways.choices, ways.sizes, ways.tiles):
        cfg.multi_filter(constraint)
    return Plan(**chosen, threads=define_threads(cfg, target, g.multiplications))


@dataclass(frozen=True)
class Ways:
    """The ways to lay the lanes that are worth trying.

    Attributes:
        sizes, choices, tiles: of each way: the GEMM in it, the choices, its tiles by width.
        default: the plan that the estimate thinks best. cycles: of it.
    """

    sizes: list[GemmSize]
    choices: list[Choices]
    tiles: list[Tiles]
    default: Plan
    cycles: float


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
    ways = [choices_of(one, name, some) for (name, one), some in zip(sizes.items(), tiles)]
    plans = [
        default_plan(one, way, some, target) for one, way, some in zip(sizes.values(), ways, tiles)
    ]
    return Ways([*sizes.values()], ways, tiles, *min(plans, key=lambda one: one[1]))


def _covered(extent: int, lanes: int) -> float:
    """How many times an extent its vectors cover."""
    return -(-extent // lanes) * lanes / extent


def default_plan(g: GemmSize, choices: Choices, tiles: Tiles, target: Target) -> tuple[Plan, float]:
    """The plan that the estimate thinks best for one way to lay the lanes, and its cycles.

    From each width of vectors and each way to pack B and to order the loops it changes one choice
    at a time while that helps.

    Args:
        g: the GEMM. choices: of its knobs. tiles: of each width.
        target: whose threads and vectors count.
    """
    filters = constraints_of(g, tiles)
    threads, at_once = target.num_threads, operation_bits(target)
    known: dict[tuple[Any, ...], float] = {}  # the ways meet

    def cost_of(chosen: dict[str, Any]) -> float:
        """The cycles; infinite where a condition does not hold."""
        key = tuple(chosen.values())
        if key not in known:
            view = _View(chosen)
            valid = all(test(view) for test in filters)
            known[key] = cycles(g, Plan(**chosen), threads, at_once) if valid else inf
        return known[key]

    found = (next((one for one in start if cost_of(one) < inf), None) for start in _starts(choices))
    starts = sorted((one for one in found if one is not None), key=cost_of)
    ends = [_descended(choices, one, cost_of) for one in starts[:_STARTS]]
    cost, plan = min(ends, key=lambda one: one[0])  # the first choices are valid
    return plan, cost


def _starts(values: Choices) -> Iterator[Iterator[dict[str, Any]]]:
    """Where to begin: for each, the choices of which the first that is valid is taken."""
    first = {name: some[0] for name, some in values.items()}
    # ways that single changes do not find: rows of B in place, a few at a time in long blocks, or
    # many of a panel that are fetched ahead; with tiles of all rows, which read B once
    depths = values["k_block"]
    streams: list[dict[str, Any]] = [
        {},
        {"k_block": depths[:2][-1], "unroll_k": 1, "prefetch": 16},
        {"k_block": depths[-1], "unroll_k": 1, "prefetch": 16, "pack_a": True},
    ]
    tallest = sorted(values["tile"], key=lambda tile: -tile[0])
    tiles = [values["tile"], tallest] if tallest[0] != values["tile"][0] else [tallest]
    ways = values["vector_bits"], values["order"], values["pack_b"], streams, tiles
    for bits, order, pack_b, more, some in product(*ways):
        if more and pack_b != "none":
            continue
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
