"""The estimate of convolutions: what it counts, and the defaults that follow from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from cpu_gemm_checks import drawn

import whet
from whet.compiler.target import Target
from whet.search_spaces.operators.conv_arguments import conv_shape
from whet.search_spaces.rules.cpu.conv.algorithms import _spaces, cost_of
from whet.search_spaces.rules.cpu.conv.estimate.costs import ZEN, Work, costs_of, crowded
from whet.search_spaces.rules.processors import displaced
from whet.search_spaces.rules.vectors import lanes_of, vector_registers

LAYOUTS = {
    "NCHW": (2, 12, (13, 9), 20, (3, 3), 2, 1),
    "NHWC": (1, 16, (14, 14), 24, (3, 3), 1, 1),
    "NCW": (1, 8, (40,), 12, (5,), 1, 2),
    "NCDHW": (1, 3, (6, 9, 9), 8, (3, 3, 3), (1, 2, 2), 1),
}


def _work(layout: str, level: str, threads: int = 1, dtype: str = "float32", **more: Any) -> Any:
    n, ci, image, co, window, strides, padding = LAYOUTS[layout]
    args = (n, ci, image, co, window, strides, padding)
    shape = conv_shape("conv", layout, *args, more.pop("dilation", 1), more.pop("groups", 1), dtype)
    target = Target(f"llvm -mcpu=x86-64-{level} -num_threads={threads}")
    lanes, registers = lanes_of(target, dtype), vector_registers(target)
    return Work(shape, lanes, more.pop("ahead", False), registers, threads), target


def _choices(work: Work, target: Target) -> Any:
    """Each algorithm with its knobs."""
    for names, space in _spaces(work.shape, target, 0).items():
        for name in names:
            yield name, space


@pytest.mark.parametrize("level", ["v2", "v3", "v4"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_knob_has_a_cost_and_the_best_is_near_the_least(layout, level, dtype):
    """The descent finds what a search of all tiles and orders does, or nearly."""
    work, target = _work(layout, level, dtype=dtype)
    for name, space in _choices(work, target):
        cost = cost_of(name, work)
        chosen, least = space.best(cost)
        assert set(chosen) == set(space.choices) and space._is_valid(chosen)
        assert least == cost(chosen) > 0
        for key, values in space.choices.items():
            others = [{**chosen, key: v} for v in values]
            valid = [one for one in others if space._is_valid(one)]
            assert least <= 1.02 * min(map(cost, valid)), (name, key)


@pytest.mark.parametrize("groups", [2, 4])
def test_groups_and_dilation_have_costs(groups):
    work, target = _work("NCHW", "v3", groups=groups, dilation=2)
    assert {name for name, _ in _choices(work, target)} == {"direct", "channels_last"}
    assert all(space.best(cost_of(name, work))[1] > 0 for name, space in _choices(work, target))


def test_weights_that_are_packed_ahead_cost_nothing():
    work, target = _work("NCHW", "v3")
    ahead = replace(work, ahead=True)
    for name, space in _choices(work, target):
        chosen, _ = space.best(cost_of(name, work))
        assert cost_of(name, ahead)(chosen) < cost_of(name, work)(chosen)


def test_threads_take_even_shares_and_cost_a_fork():
    work, _ = _work("NCHW", "v3", threads=2)
    fork = ZEN.fork
    assert work.shared(1e6, 4) == 5e5 + fork
    assert work.shared(1e6, 3) == pytest.approx(1e6 * 2 / 3 + fork)
    assert work.shared(1e6, 1) == 1e6 + fork
    assert replace(work, threads=1).shared(1e6, 4) == 1e6


@pytest.mark.parametrize("level", ["v2", "v3", "v4"])
def test_small_convolutions_stay_on_one_thread(level):
    target = f"llvm -mcpu=x86-64-{level} -num_threads=2"

    def parallel(*args: Any) -> bool:
        task = whet.create_task("conv2d_nchw", args=args, target=target)
        return bool(task.config_space.default["parallel"].val)

    assert not parallel(1, 4, 6, 6, 8, 3, 3, 1, 1)
    assert parallel(1, 64, 56, 56, 64, 3, 3, 1, 1)


def test_caches_deliver_again_what_does_not_stay():
    assert ZEN.moved(1e3, 8, 8, 1e3, 8, 8e3) < ZEN.moved(1e5, 8, 8, 1e3, 8, 8e3)
    assert ZEN.moved(1e5, 8, 1, 1e5, 8, 8e5) > ZEN.moved(1e5, 8, 4, 1e5, 8, 8e5)
    assert crowded(4096, 64) > crowded(64 * 65, 64) == 0.0


@pytest.mark.parametrize("level", ["v2", "v3", "v4"])
@pytest.mark.parametrize("operator", ["conv2d_nchw", "conv2d_nhwc"])
def test_the_default_is_the_best_of_all_algorithms(operator, level):
    """No drawn config of any algorithm is estimated to be much better."""
    args = (1, 24, 15, 17, 40, 3, 3, 1, 1)
    target = Target(f"llvm -mcpu=x86-64-{level} -num_threads=1")
    task = whet.create_task(operator, args=args, target=target)
    layout = operator[-4:].upper()
    shape = conv_shape(operator, layout, 1, 24, (15, 17), 40, (3, 3), 1, 1)
    lanes, registers = lanes_of(target, "float32"), vector_registers(target)
    work = Work(shape, lanes, False, registers, costs=costs_of(target))
    spaces = _spaces(shape, target, 0)

    def cost(config: Any) -> float:
        name = config["algorithm"].val
        space = next(s for names, s in spaces.items() if name in names)
        return cost_of(name, work)({k: config[space.prefix + k].val for k in space.choices})

    default, *others = drawn(task, 200)
    assert cost(default) <= 1.03 * min(map(cost, others))


def test_unrolled_steps_whose_sums_leave_no_registers_cost_more() -> None:
    """Two steps of 28 sums and their vectors do not fit 32 registers; those of 26 do."""
    large, _ = _work("NHWC", "v4")
    assert large.registers == 32
    for m, v in (14, 2), (9, 3), (4, 6):
        assert large.step(m, v, 2) > 1.5 * large.step(m, v)
    for m, v in (13, 2), (28, 1), (6, 4):
        assert large.step(m, v, 2) < 1.1 * large.step(m, v)
    small, _ = _work("NHWC", "v3")
    assert small.step(6, 2, 2) < small.step(6, 2)


def test_pixels_on_few_sets_of_the_cache() -> None:
    """Pixels a power of two apart displace each other's lines: tiles have at most eight."""
    assert displaced(8, 4096) < 0.1 < 0.7 < displaced(14, 4096) < displaced(28, 4096)
    assert displaced(14, 4000) == 0.0 == displaced(10, 2048)
    for channels in (1024, 2048, 1000):
        args = (1, channels, 14, 14, 256, 1, 1, 1, 0, 1, 1, "float32", (), True)
        target = "llvm -mcpu=znver4 -num_threads=1"
        default = whet.create_task("conv2d_nhwc", args=args, target=target).config_space.default
        assert (default["tile"].val[0] <= 8) == (channels != 1000), default
