"""What estimates count of memory and of other threads: cold weights, torn lines, others' caches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from whet.compiler.target import Target
from whet.search_spaces.forms.gemm import GemmSize
from whet.search_spaces.operators.conv_arguments import conv_shape
from whet.search_spaces.rules.cpu.conv.estimate.costs import INTEL_SERVER, Work
from whet.search_spaces.rules.cpu.gemm import estimate
from whet.search_spaces.rules.cpu.gemm.costs import Processor, processor_of
from whet.search_spaces.rules.cpu.gemm.plan import Plan

SERVER = Target("llvm -mcpu=sapphirerapids -num_threads=2")
PANEL = 48 * 4  # bytes of a step of a panel


def _plan(**chosen: Any) -> Plan:
    own = {"lanes": "columns", "vector_bits": 512, "tile": (8, 48), "order": "rows", "block": 16}
    return Plan(
        **{**own, "k_block": 0, "unroll_k": 4, "pack_a": False, "pack_b": "ahead", **chosen}
    )


def _cycles(g: GemmSize, plan: Plan, threads: int = 1, **costs: Any) -> float:
    made = processor_of(SERVER)
    own = Processor(made.at_once, made.registers, replace(made.costs, **costs))
    return estimate.cycles(g, plan, own, threads)


def test_the_first_panel_of_cold_weights_is_waited_for_and_the_others_come_meanwhile():
    c = processor_of(SERVER).costs
    g = GemmSize(64, 512, 960, packed=True)
    memory = c.caches.rate(float("inf"))

    def begun(g: GemmSize, **chosen: Any) -> float:
        return estimate._begun(c, g, _plan(**chosen), 4)

    assert begun(g) == pytest.approx(PANEL * 512 / memory)
    assert begun(g, order="panels", block=4) == pytest.approx(4 * PANEL * 512 / memory)
    assert begun(g, pack_b="whole") == 0.0
    # none come meanwhile: as the plan fetches lines itself, and where two do not fit
    assert begun(g, prefetch=16) == pytest.approx(512 * 960 * 4 / memory)
    deep = replace(g, K=8192)
    assert c.caches.second < 2 * PANEL * 8192
    assert begun(deep) == pytest.approx(8192 * 960 * 4 / memory)
    assert begun(deep, k_block=512) == pytest.approx(PANEL * 512 / memory)


@pytest.mark.parametrize(("columns", "torn"), [(960, False), (964, True)])
def test_threads_that_write_one_line_cost(columns, torn):
    """Those that share columns, of rows that end within a line."""
    g = GemmSize(64, 256, columns, packed=True)
    shared = _plan(order="panels", block=4, share="blocks")

    def more(plan: Plan, threads: int) -> float:
        return _cycles(g, plan, threads, torn=500.0) - _cycles(g, plan, threads, torn=0.0)

    assert more(shared, 2) == pytest.approx(500.0 * 64 * torn)
    assert more(shared, 1) == more(replace(shared, order="rows"), 2) == 0.0


def test_panels_that_others_have_packed_cost():
    """Those packed before the loop that threads share; of B in blocks, each makes its own."""
    g = GemmSize(64, 256, 960)

    def more(threads: int, g: GemmSize = g, **chosen: Any) -> float:
        plan = _plan(**{"pack_b": "whole", "share": "blocks", **chosen})
        slow, quick = (_cycles(g, plan, threads, others=rate) for rate in (1.0, 1e12))
        return slow - quick

    of_a, of_b = 64 * 256 * 4, 960 * 256 * 4
    assert more(2) == pytest.approx(of_b / 2, rel=1e-4)
    assert more(4) == pytest.approx(of_b * 3 / 4, rel=1e-4)
    assert more(2, order="panels", pack_a=True) == pytest.approx((of_a + of_b) / 2, rel=1e-4)
    assert more(2, order="panels", pack_b="block") == more(2, pack_b="none") == more(1) == 0.0
    batch = replace(g, batch=4)
    assert more(2, batch, share="batch") == 0.0


def _work(threads: int, ahead: bool = False) -> Work:
    shape = conv_shape("conv", "NHWC", 1, 16, (14, 14), 24, (3, 3), 1, 1, 1, 1, "float32")
    return Work(shape, 16, ahead, threads=threads, costs=INTEL_SERVER)


def test_what_others_have_made_comes_from_their_caches():
    rate = INTEL_SERVER.others
    assert _work(1).remote(1e6, 100, 100) == 0.0
    assert _work(2).remote(1e6) == pytest.approx(0.5e6 / rate)
    assert _work(4).remote(1e6) == pytest.approx(0.75e6 / rate)
    torn = INTEL_SERVER.torn * 100
    assert _work(2).remote(0, 100, 96) == pytest.approx(torn)  # a line and a half each
    assert _work(2).remote(0, 100, 128) == 0.0


def test_blocks_of_steps_are_shared_whole_and_the_last_may_be_short():
    fork = INTEL_SERVER.fork
    assert _work(2).shared(1e6, 32, 16) == pytest.approx(0.5e6 + fork)
    assert _work(2).shared(1e6, 40, 16) == pytest.approx(1e6 * 32 / 40 + fork)
    assert _work(2).shared(1e6, 22, 16) == pytest.approx(1e6 * 16 / 22 + fork)
    assert _work(2).shared(1e6, 8, 64) == pytest.approx(1e6 + fork)


def test_cold_weights_of_a_convolution():
    memory = INTEL_SERVER.caches.rate(float("inf"))
    ahead = _work(1, ahead=True)
    assert ahead.cold == ahead.weights == 24 * 16 * 9 * 4
    assert ahead.begun(1000.0) == pytest.approx(1000.0 / memory)
    far = INTEL_SERVER.caches.second
    assert ahead.begun(far) == pytest.approx(ahead.weights / memory)
    assert ahead.begun(far, 5e6) == pytest.approx(5e6 / memory)
    assert _work(1).cold == _work(1).begun(far) == 0


def test_lines_that_are_asked_for_ahead_are_loads():
    """The next panel's lines, by all steps that meet one; none where a plan asks for its own."""

    def asked(strips: int = 10, block: int = 4, **chosen: Any) -> float:
        return estimate._asked(_plan(**chosen), 4, strips, block)

    assert asked() == pytest.approx(PANEL / 64 / 4)
    assert asked(block=64) == asked(order="panels") == pytest.approx(PANEL / 64 / 10)
    assert asked(k_block=32) == asked()
    none = ({"pack_b": "whole"}, {"prefetch": 16}, {"order": "panels", "k_block": 32})
    assert [asked(**chosen) for chosen in none] == [0.0, 0.0, 0.0]
    g = GemmSize(200, 500, 300, packed=True)
    wide = {"tile": (5, 80)}
    assert _cycles(g, _plan(block=1, **wide)) > 1.1 * _cycles(g, _plan(block=4, **wide))


def test_loads_queue():
    """The same operations with more loads take longer, the more so where loads wait for others."""
    g = GemmSize(240, 256, 960, packed=True)

    def longer(**costs: Any) -> float:
        tall, wide = (_cycles(g, _plan(tile=tile), **costs) for tile in ((10, 32), (5, 80)))
        return tall / wide

    assert longer() > longer(queues=False) + 0.02 > longer(load=0.0) + 0.02


def test_an_inner_loop_comes_back_to_its_panel_one_tile_later():
    """The bytes between are those of a strip and a panel, not of the whole block."""
    c = processor_of(SERVER).costs

    def back(plan: Plan) -> float:
        moved = [
            estimate._moved(replace(c, back=share), GemmSize(160, 64, 960), plan, 4, 20, 20)
            for share in (1.0, 0.0)
        ]
        return moved[0] - moved[1]

    strip, panel = 8 * 64 * 4, PANEL * 64
    again = (20 - 2) * 20 * panel  # of 20 strips in blocks of 16, two meet each panel first
    assert back(_plan(block=16)) == pytest.approx(again / c.caches.rate(strip + panel))
    assert back(_plan(block=1)) == 0.0


@pytest.mark.parametrize("batch", [1, 16])
def test_what_is_turned_round_waits_for_its_transfer(batch):
    """From the cache that holds the operands of the whole batch."""
    g = GemmSize(64, 512, 960, batch, transpose_b=True)
    plan, size = _plan(pack_b="whole"), 960 * 512 * 4
    c = processor_of(SERVER).costs
    waited = [
        estimate._copies(replace(c, turned_read=share), g, plan, 16, 4) for share in (1.0, 0.0)
    ]
    far = c.caches.rate(batch * size)
    assert waited[0] - waited[1] == pytest.approx(size / far)
    assert (far < c.caches.rate(size)) == (batch > 1)
