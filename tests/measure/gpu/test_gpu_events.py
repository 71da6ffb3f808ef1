"""Timing by a GPU's clock: flushes, leads, and whether the host's time is in the figures."""

import pytest
from simulated_gpu import SimulatedGpu

from whet.measure.gpu import events
from whet.measure.gpu.events import FLUSHES, LEAST_BYTES, PAIRS, QUEUED, DeviceClock, EventTimer

MIB = 1 << 20
AWAKE_S = events.AWAKE_S


@pytest.fixture
def simulated(monkeypatch):
    """Makes a GPU whose host's clock is the one that is read."""

    def make(*args, **given):
        gpu = SimulatedGpu(*args, **given)
        monkeypatch.setattr(events, "time", gpu)
        monkeypatch.setattr(events, "AWAKE_S", AWAKE_S if gpu.asleep_s else 0.0)
        return gpu

    return make


@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("asking", [2e-6, 30e-6, 200e-6])
@pytest.mark.parametrize("cost", [1e-6, 10e-6, 1e-3])
def test_the_hosts_time_is_in_no_figure(simulated, cost, asking, flush):
    gpu = simulated(cost, asking)
    clock = DeviceClock(gpu, flush)
    for count in (1, 7, 20):
        found = clock.timed(gpu.run, count)
        assert found.ahead and found.seconds == pytest.approx([cost] * len(found.seconds))
        assert len(found.seconds) == (count if flush else 1)


def test_without_a_lead_it_would_be_the_hosts_time(simulated, monkeypatch):
    """The clock guards against this: the same calls behind one fill alone."""
    monkeypatch.setattr(events, "AGAIN", 1)
    gpu = simulated(2e-6, 50e-6)
    found = DeviceClock(gpu, False).timed(gpu.run, 100)
    assert not found.ahead and found.seconds[0] > 40e-6
    each = DeviceClock(gpu, True).timed(gpu.run, 10)
    assert not each.ahead and min(each.seconds) > 30e-6


@pytest.mark.parametrize("flush", [False, True])
def test_a_gpu_that_has_rested_is_woken_first(simulated, flush):
    gpu = simulated(10e-6, asleep_s=0.8 * AWAKE_S)
    clock = DeviceClock(gpu, flush)
    assert clock.timed(gpu.run, 5).seconds == pytest.approx([10e-6] * (5 if flush else 1))
    gpu.said.clear()
    clock.timed(gpu.run, 5)
    assert gpu.said.count("fill") == (5 if flush else 1)  # it is awake
    gpu.host, gpu.asleep_s = gpu.host + 2 * events.RESTED_S, 0.8 * AWAKE_S
    assert clock.timed(gpu.run, 1).seconds == pytest.approx((10e-6,))
    gpu.asleep_s = 0.8 * AWAKE_S
    assert EventTimer(gpu, gpu.run, flush).first() == pytest.approx(10e-6 + gpu.asking)


def test_long_calls_need_no_lead(simulated):
    gpu = simulated(1e-3)
    clock = DeviceClock(gpu, False)
    gpu.said.clear()
    assert clock.timed(gpu.run, 50).ahead
    assert gpu.said == ["fill", "event", *["call"] * 50, "event"]


def test_a_lead_that_was_too_short_grows_once_and_stays(simulated):
    gpu = simulated(2e-6, 50e-6)
    clock = DeviceClock(gpu, False)
    assert clock.timed(gpu.run, 10).ahead and gpu.said.count("call") == 20  # timed again
    gpu.said.clear()
    assert clock.timed(gpu.run, 10).ahead
    assert gpu.said.count("call") == 10
    assert 10 * 50 <= 20 * gpu.said.index("event") <= 15 * 50  # fills of 20 us before it


def test_a_host_that_is_far_too_slow_is_said(simulated):
    gpu = simulated(1e-6, 20e-3)
    for flush in (False, True):
        clock = DeviceClock(gpu, flush)
        gpu.said.clear()
        assert not clock.timed(gpu.run, 2).ahead
        assert gpu.said.count("fill") < 3 * events.MOST_FILLS + 10
    timer = EventTimer(gpu, gpu.run, False)
    timer(3)
    gpu.asking = 1e-6
    timer(3)
    assert timer.late  # of the repeats, the first is a cost, too
    assert not EventTimer(simulated(1e-6), gpu.run, False).late


def test_a_call_that_came_late_is_left_out(simulated):
    gpu = simulated(10e-6, hiccups=(3, 8))
    found = DeviceClock(gpu, True).timed(gpu.run, 10)
    assert found.ahead and found.seconds == pytest.approx([10e-6] * 8)
    assert gpu.said.count("call") == 10


def test_each_call_is_behind_its_own_flush(simulated):
    gpu = simulated(3e-6)
    timer = EventTimer(gpu, gpu.run, flush_l2=True)
    gpu.said.clear()
    assert timer(PAIRS + 6) == pytest.approx(3e-6) and not timer.late
    assert gpu.said == ["fill", "event", "call", "event"] * (PAIRS + 6)


def test_no_more_calls_are_queued_than_the_driver_takes(simulated):
    gpu = simulated(1e-3)
    timer = EventTimer(gpu, gpu.run, flush_l2=False)
    gpu.said.clear()
    assert timer(QUEUED + 50) == pytest.approx(1e-3)
    first, second = (gpu.said.index("event", k) for k in (0, QUEUED))
    assert second - first == QUEUED + 1 and gpu.said.count("call") == QUEUED + 50
    host = gpu.host
    assert timer.first() == pytest.approx(gpu.cost + gpu.asking) and gpu.host > host


def test_what_is_filled_is_larger_than_the_cache_and_smaller_than_the_memory(simulated):
    for room, nbytes in ((64 << 30, FLUSHES * 48 * MIB), (80 * MIB, 10 * MIB), (0, 1)):
        gpu = simulated(1.0, room=room)
        clock = DeviceClock(gpu, True)
        assert gpu.said == [("alloc", nbytes)]
        clock.close()
        assert gpu.said[-1] == "free"
    assert FLUSHES * 48 * MIB > LEAST_BYTES
