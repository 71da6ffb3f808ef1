"""What threads share of GEMMs and of Winograd's algorithm: right numbers, balance, defaults."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cpu_gemm_checks import TWO, built

import whet
from whet.search_spaces.forms.gemm import GemmSize
from whet.search_spaces.operators.conv_arguments import conv_shape
from whet.search_spaces.rules.cpu.conv import winograd
from whet.search_spaces.rules.cpu.conv.algorithms import cost_of
from whet.search_spaces.rules.cpu.conv.estimate.costs import Work
from whet.search_spaces.rules.cpu.gemm.costs import processor_of
from whet.search_spaces.rules.cpu.gemm.estimate import cycles
from whet.search_spaces.rules.cpu.gemm.knobs import ways_of
from whet.search_spaces.rules.threads import best_grain, heaviest_share
from whet.search_spaces.template import instantiate

THREE = "llvm -num-threads=3"
EIGHT = "llvm -mcpu=x86-64-{} -num_threads=8"


def _shared_out(work: list[float], threads: int, grain: int) -> float:
    """The busiest thread's work, by what the pool does: even shares, or grains as they come."""
    busy = [0.0] * threads
    if grain == 0:
        each, left = divmod(len(work), threads)
        begin = 0
        for me in range(threads):
            end = begin + each + (me < left)
            busy[me] = sum(work[begin:end])
            begin = end
    for begin in range(0, len(work), grain) if grain else ():
        busy[busy.index(min(busy))] += sum(work[begin : begin + grain])
    return max(busy)


def test_the_busiest_threads_share(seeds: Callable[[int], list[int]]) -> None:
    rng = np.random.default_rng(seeds(1)[0])
    for _ in range(300):
        steps, threads = int(rng.integers(1, 20)), int(rng.integers(1, 6))
        grain, last = int(rng.choice([0, 1, 2, 4])), float(rng.choice([1.0, 0.5, 0.1]))
        work = [1.0] * (steps - 1) + [last]
        right = _shared_out(work, threads, grain) / sum(work)
        found = heaviest_share(steps, threads, grain, last)
        assert found == pytest.approx(right), (steps, threads, grain, last)


def test_a_short_last_step_is_worth_a_grain() -> None:
    """Of 5 steps an even share gives two and three; one at a time, the short one is a third's."""
    assert best_grain(5, 2, 0.1) == 1
    assert best_grain(4, 2) == best_grain(5, 2) == best_grain(1, 8) == 0


def _with(task: Any, **chosen: Any) -> Any:
    """The default config with some choices, on threads, by the rule for GEMMs, without a tail."""
    space = task.config_space
    rule: dict[str, Any] = {"rule": "gemm"} if "rule" in space.knobs else {}
    rule |= {"tail": 0} if "tail" in space.knobs else {}
    if chosen.get("share") == "tiles":  # several rows and columns of the smallest tiles
        rule |= {"tile": min(space.knobs["tile"].choices, key=lambda t: t[1])}
        rule |= {"vector_bits": 256} if "vector_bits" in space.knobs else {}
    if task.target.vector_bytes < 32 and chosen.get("pack_b") == "none":
        chosen["pack_b"] = "whole"  # no masks for the ragged edge of B
    config = space.nearest({**space.default.as_dict(), **rule, "parallel": True, **chosen})
    assert all(config.choice(name) == value for name, value in chosen.items()), config
    return config


def _right(
    task: Any,
    config: Any,
    product: Callable[..., np.ndarray],
    seed: int,
    near: float | None = None,
) -> None:
    f, tensors = built(task, config)
    rng = np.random.default_rng(seed)
    shapes = [tuple(int(d) for d in t.shape) for t in tensors]
    dtype = tensors[0].dtype
    given = [rng.standard_normal(shape).astype(dtype) for shape in shapes[:-1]]
    out = np.full(shapes[-1], np.nan, dtype)
    f(*given, out)
    right = product(*(x.astype("float64") for x in given))
    near = near or (2e-5 if dtype == "float32" else 1e-12)
    np.testing.assert_allclose(out, right, atol=near * np.abs(right).max(), err_msg=str(config))


def _program(task: Any, config: Any) -> str:
    with task.target:
        s, args = instantiate(task.workload, config)
        return str(whet.lower(s, args))


def _shared_loops(task: Any, config: Any) -> list[int]:
    """The steps of the loops that threads share, in the order of the program."""
    return [int(n) for n in re.findall(r"in parallel\((\d+)\)", _program(task, config))]


_WAYS = [
    {"share": "blocks", "block": 2, "order": "rows", "pack_b": "none"},
    {"share": "blocks", "block": 1, "order": "rows", "pack_b": "whole", "pack_a": True},
    {"share": "blocks", "block": 1, "order": "panels", "pack_b": "block", "pack_a": True},
    {"share": "tiles", "block": 1, "order": "rows", "pack_b": "whole", "pack_a": True},
    {"share": "tiles", "block": 2, "order": "panels", "pack_b": "none", "pack_a": False},
]


@pytest.mark.parametrize("way", _WAYS, ids=str)
def test_batches_and_blocks_are_shared(
    way: dict[str, Any], seeds: Callable[[int], list[int]]
) -> None:
    """Of three matrices on two threads, blocks of all of them; panels of all before."""
    args = (3, 37, 24, 70)
    task = whet.create_task("batch_matmul", args=args, target=TWO)
    _right(task, _with(task, k_block=0, **way), lambda a, b: a @ b, seeds(1)[0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "way",
    [
        {"pack_a": False, "pack_b": "none", "order": "rows"},
        {"pack_a": True, "pack_b": "block", "order": "panels"},
        {"pack_a": True, "pack_b": "whole", "order": "rows"},
    ],
    ids=str,
)
def test_parts_of_k(way: dict[str, Any], dtype: str, seeds: Callable[[int], list[int]]) -> None:
    args = (19, 1056, 37, False, False, dtype)
    task = whet.create_task("matmul", args=args, target=THREE)
    config = _with(task, k_parts=4, k_block=0, block=1, share="blocks", **way)
    _right(task, config, lambda a, b: a @ b, seeds(1)[0])
    assert _shared_loops(task, config)[0] == 4
    before, _, inside = _program(task, config).partition("in parallel(4)")
    packs = config.choice("pack_a") or config.choice("pack_b") != "none"
    assert "packed" not in before and ("packed" in inside) == packs  # each thread its own parts


@pytest.mark.parametrize("level", ["v3", "v4"])
def test_defaults_keep_threads_busy(level: str) -> None:
    """A single tile of a long K is shared by its parts, three matrices by blocks of all."""
    target = whet.Target(EIGHT.format(level))
    plan = ways_of(GemmSize(8, 65536, 16), target).default
    assert plan.k_parts >= 8
    assert ways_of(GemmSize(512, 512, 512), target).default.k_parts == 1
    three = ways_of(GemmSize(256, 256, 256, batch=3), target)
    assert three.parallel and three.default.share != "batch"
    steps, last = three.default.shared_steps(GemmSize(256, 256, 256, batch=3))
    assert heaviest_share(steps, 8, best_grain(steps, 8, last), last) < 0.17  # batches: 1 / 3
    assert ways_of(GemmSize(64, 64, 64, batch=64), target).default.share == "batch"


def test_small_gemms_have_the_plan_of_one_thread() -> None:
    size = GemmSize(40, 40, 40)
    many = ways_of(size, whet.Target(EIGHT.format("v3")))
    one = ways_of(size, whet.Target("llvm -mcpu=x86-64-v3 -num_threads=1"))
    assert not many.parallel and many.cycles == one.cycles
    assert many.default.tile == one.default.tile and many.default.block == one.default.block


def test_threads_wait_for_the_one_with_most() -> None:
    """13 strips in blocks of 4 are 8 and 5; of 7 they are 7 and 6."""
    size = GemmSize(13 * 6, 512, 512)
    plan = ways_of(size, whet.Target(EIGHT.format("v3"))).default
    plan = replace(plan, tile=(6, 16), order="rows", k_block=0, share="blocks", k_parts=1)
    plan = replace(plan, lanes="columns", pack_b="whole", pack_a=False, vector_bits=256)
    core = processor_of(whet.Target(EIGHT.format("v3")))
    fours, sevens = (cycles(size, replace(plan, block=block), core, 2) for block in (4, 8))
    assert sevens < fours


@pytest.mark.parametrize("algorithm", ["winograd2", "winograd4"])
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_winograds_stages_are_shared(
    algorithm: str, layout: str, seeds: Callable[[int], list[int]]
) -> None:
    args = (2, 20, 7, 9, 33, 3, 3, 1, 1)
    task = whet.create_task(f"conv2d_{layout}", args=args, target=THREE)
    chosen = {"algorithm": algorithm, "winograd.share": "stages"}
    config = _with(task, **chosen)
    shared = _shared_loops(task, config)
    assert sum(steps >= 2 * 4 for steps in shared) >= 3  # each stage, not the one block's
    axes = (0, 2, 3, 1) if layout == "nchw" else (0, 1, 2, 3)

    def convolved(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        if layout == "nchw":
            w = w.transpose(2, 3, 1, 0)
        p = np.pad(x.transpose(axes), ((0, 0), (1, 1), (1, 1), (0, 0)))
        out = sum(p[:, i : i + 7, j : j + 9] @ w[i, j] for i in range(3) for j in range(3))
        return out.transpose(np.argsort(axes))

    _right(task, config, convolved, seeds(1)[0], near=1e-4)


def test_few_tiles_of_winograd_are_shared_by_stages() -> None:
    """An image of 7 by 7 is one block of tiles: one thread's work. Weights are packed ahead."""
    shape = conv_shape("conv", "NHWC", 1, 512, (7, 7), 512, (3, 3), 1, 1)
    work = Work(shape, 8, True, 16, 8)
    space = winograd.space(shape, whet.Target(EIGHT.format("v3")))
    chosen, least = space.best(cost_of("winograd2", work))
    assert chosen["share"] == "stages"
    assert least < 0.5 * cost_of("winograd2", work)({**chosen, "share": "blocks"})
    large = conv_shape("conv", "NHWC", 1, 64, (112, 112), 64, (3, 3), 1, 1)
    space = winograd.space(large, whet.Target(EIGHT.format("v3")))
    assert space.best(cost_of("winograd4", replace(work, shape=large)))[0]["share"] == "blocks"
