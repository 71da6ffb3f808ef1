"""The knobs of a GEMM, and the choices that its estimate thinks best."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import product
from types import SimpleNamespace
from typing import Any

from whet.compiler.target import Target
from whet.search_spaces.forms.gemm import GemmSize
from whet.search_spaces.knobs.prefixed import Prefixed
from whet.search_spaces.rules.cpu.gemm.estimate import cycles
from whet.search_spaces.rules.cpu.gemm.plan import (
    Choices,
    Plan,
    choices_of,
    constraints_of,
    of_way,
    united,
)
from whet.search_spaces.rules.cpu.gemm.registers import register_tiles
from whet.search_spaces.rules.threads import define_threads
from whet.search_spaces.rules.vectors import lanes_of

# The way of "rows" is tried where the other one leaves so much more of its vectors empty.
_EMPTIER = 1.25


def plan_of(cfg: Prefixed, g: GemmSize, target: Target) -> Plan:
    """Define a GEMM's knobs, and the plan of the config in force."""
    sizes, ways, default = ways_of(g, target, lanes_of(target, g.dtype))
    choices = united(ways)
    for name, values in choices.items():
        cfg.define_knob(name, values, getattr(default, name))
    for constraint in of_way(ways, sizes):
        cfg.multi_filter(constraint)
    threads = define_threads(cfg, target, g.multiplications)
    return replace(Plan(*(cfg[name].val for name in choices)), threads=threads)


@lru_cache(maxsize=256)
def ways_of(g: GemmSize, target: Target, lanes: int) -> tuple[list[GemmSize], list[Choices], Plan]:
    """The ways to lay the lanes that are worth trying, and the default.

    Args:
        lanes: elements in a vector.

    Returns:
        For each way the GEMM in it, and its choices; the plan that the estimate thinks best.
    """
    sizes = {"columns": g}
    emptier = _covered(g.M, lanes) > _EMPTIER * _covered(g.N, lanes)
    if g.has_rows and not g.packed and (emptier or (g.transpose_a and g.transpose_b)):
        sizes["rows"] = g.turned
    ways = [
        choices_of(size, name, register_tiles(target, lanes, size.N, size.M))
        for name, size in sizes.items()
    ]
    plans = [
        default_plan(size, way, lanes, target.num_threads)
        for size, way in zip(sizes.values(), ways)
    ]
    return [*sizes.values()], ways, min(plans, key=lambda one: one[1])[0]


def _covered(extent: int, lanes: int) -> float:
    """How many times an extent its vectors cover."""
    return -(-extent // lanes) * lanes / extent


def default_plan(g: GemmSize, choices: Choices, lanes: int, threads: int) -> tuple[Plan, float]:
    """The plan that the estimate thinks best for one way to lay the lanes, and its cycles.

    From each way to pack B and to order the loops it changes one choice at a time while that helps.

    Args:
        g: the GEMM. choices: of its knobs.
        lanes: elements in a vector. threads: of the target.
    """
    values, filters = choices, constraints_of(g)

    def is_valid(chosen: dict[str, Any]) -> bool:
        view = {name: SimpleNamespace(val=value) for name, value in chosen.items()}
        return all(test(view) for test in filters)

    best: tuple[float, dict[str, Any]] | None = None
    first = {name: some[0] for name, some in choices.items()}
    # rows of B in place, a few at a time in long blocks: a way that single changes do not find
    streams = {"k_block": values["k_block"][:2][-1], "unroll_k": 1}
    for order, pack_b, more in product(values["order"], values["pack_b"], ({}, streams)):
        if more and pack_b != "none":
            continue
        start = {**first, "order": order, "pack_b": pack_b, **more}
        blocks = values["block"][::-1] if more else values["block"][:1]
        starts = ({**start, "tile": t, "block": b} for t, b in product(values["tile"], blocks))
        valid = next((one for one in starts if is_valid(one)), None)
        if valid is None:
            continue
        cost = cycles(g, Plan(*valid.values()), lanes, threads)
        improved = True
        while improved:
            improved = False
            for name, some in choices.items():
                for value in some:
                    tried = {**valid, name: value}
                    if tried == valid or not is_valid(tried):
                        continue
                    found = cycles(g, Plan(*tried.values()), lanes, threads)
                    if found < cost * 0.999:
                        cost, valid, improved = found, tried, True
        if best is None or cost < best[0]:
            best = cost, valid
    assert best is not None  # the first choices are valid
    return Plan(*best[1].values()), best[0]
