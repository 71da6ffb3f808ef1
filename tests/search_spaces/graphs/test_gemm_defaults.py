"""Defaults of GEMMs: the estimate's choice of width, tiles of all rows, prefetches, directions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np
import pytest

import whet
from whet.search_spaces.forms.gemm import GemmSize
from whet.search_spaces.rules.cpu.gemm.costs import processor_of
from whet.search_spaces.rules.cpu.gemm.estimate import cycles
from whet.search_spaces.rules.cpu.gemm.knobs import ways_of
from whet.search_spaces.rules.cpu.gemm.plan import Plan
from whet.search_spaces.rules.vectors import operation_bits

LEVEL = "llvm -mcpu=x86-64-{} -num_threads=1"
ZEN4 = f"{LEVEL.format('v4')} -mattr=+avx512bf16,+avx512vbmi2"
FULL = f"{ZEN4},+avx512fp16"


def _default(sizes: tuple[int, int, int], target: str, transpose_b: bool = False) -> Plan:
    size = GemmSize(*sizes, transpose_b=transpose_b)
    return ways_of(size, whet.Target(target)).default


def test_processors_that_multiply_512_bits_in_two_steps() -> None:
    bits = {name: operation_bits(whet.Target(name)) for name in (ZEN4, FULL)}
    assert bits == {ZEN4: 256, FULL: 512}
    levels = [operation_bits(whet.Target(LEVEL.format(level))) for level in ("v2", "v3", "v4")]
    assert levels == [128, 256, 512]


def test_half_vectors_where_whole_ones_are_emptier() -> None:
    """24 columns are three vectors of 256 bits: more work than two of 512, or less."""
    for sizes in ((64, 64, 24), (220, 170, 24)):
        assert _default(sizes, ZEN4).vector_bits == 256
        assert _default(sizes, FULL).vector_bits == 512
    for target in (ZEN4, FULL):
        assert _default((512, 512, 512), target).vector_bits == 512


@pytest.mark.parametrize("target", [ZEN4, LEVEL.format("v4")])
def test_few_rows_read_b_once(target: str) -> None:
    plan = _default((17, 4096, 4096), target)
    assert plan.mr == 17 and plan.pack_b == "none" and plan.prefetch > 0
    assert _default((5, 1539, 2624), target).prefetch > 0
    assert _default((64, 64, 64), target).prefetch == 0  # it is at hand


def test_lanes_lie_along_the_rows_where_there_are_few_columns() -> None:
    """Where A is near: to turn round what is far takes longer than to leave lanes empty."""
    for level in ("v3", "v4"):
        assert _default((2000, 64, 2), LEVEL.format(level)).lanes == "rows"
        assert _default((488, 188, 2), LEVEL.format(level)).lanes == "rows"
        assert _default((300, 300, 300), LEVEL.format(level)).lanes == "columns"
    assert _default((1000, 300, 3), LEVEL.format("v3")).lanes == "rows"
    assert _default((1000, 1000, 2), LEVEL.format("v4")).lanes == "columns"


def test_rows_that_registers_do_not_hold_are_halved() -> None:
    """Two strips of 16 rows, four of 25: each reads all of B in place, fetched ahead."""
    for rows, tile in ((32, 16), (100, 25)):
        plan = _default((rows, 1024, 4096), ZEN4)
        assert (plan.mr, plan.pack_b, plan.pack_a) == (tile, "none", True) and plan.prefetch


def test_rows_on_few_sets_of_the_cache() -> None:
    """Rows of A that are a power of two apart fill the sets of a cache: not too many at a time."""
    assert _default((600, 512, 7), ZEN4).mr <= 16 < _default((600, 500, 7), ZEN4).mr


@pytest.mark.parametrize("level", ["v2", "v3", "v4"])
def test_the_smaller_of_two_operands_is_transposed(level: str) -> None:
    target = LEVEL.format(level)
    assert _default((32, 2048, 1000), target, transpose_b=True).lanes == "rows"
    assert _default((1000, 2048, 32), target, transpose_b=True).lanes == "columns"


def test_whole_blocks_at_the_end_cost() -> None:
    """With blocks of K a block of panels is summed up whole: 20 panels in three blocks are 21."""
    size = GemmSize(4, 2048, 1920)
    plan = Plan("columns", 512, (4, 96), "panels", 16, 128, 1, False, "none")
    whole = replace(plan, block=32)
    assert plan.block_of(size) == 10 and whole.block_of(size) == 20  # no longer 16 and 32
    core = processor_of(whet.Target(ZEN4))
    assert cycles(size, plan, core) < 1.1 * cycles(size, whole, core)
    odd = replace(size, M=1920 + 96)  # 21 panels in blocks of 4 are 24
    fours, eights = (cycles(odd, replace(plan, block=block), core) for block in (4, 8))
    assert fours > 1.1 * eights


_GEMM = {"rule": "gemm"}
_PLAN = tuple(field.name for field in fields(Plan) if field.name != "threads")


@pytest.mark.parametrize("level", ["v2", "v3", "v4"])
def test_the_default_is_near_the_least_estimate(
    level: str, seeds: Callable[[int], list[int]]
) -> None:
    rng = np.random.default_rng(seeds(1)[0])
    target = whet.Target(LEVEL.format(level))
    for _ in range(6):
        n, k, m = (int(np.exp(rng.uniform(0.7, 7))) for _ in range(3))
        m = max(m, 2)
        task = whet.create_task("matmul", args=(n, k, m), target=target)
        space = task.config_space
        drawn = map(space.decode, space.valid_points.sample(rng, 150))
        own = [one for one in drawn if one.as_dict().get("rule", "gemm") == "gemm"]
        configs = [space.nearest(_GEMM), *own]
        size, found = GemmSize(n, k, m), []
        for config in configs:
            chosen = {"vector_bits": 8 * target.vector_bytes, **config.as_dict()}
            chosen = {name: chosen[name] for name in _PLAN if name in chosen}
            one = size.turned if chosen["lanes"] == "rows" else size
            found.append(cycles(one, Plan(**chosen), processor_of(target)))
        assert found[0] <= 1.1 * min(found), (n, k, m)
