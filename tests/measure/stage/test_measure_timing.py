"""The timing rule, on a simulated clock: how often, how long, when to stop."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest

from whet.measure import MeasureOptions, MeasureResult
from whet.measure.stage.timing import Timing, spread, time_kernel


class Simulated:
    """A kernel whose calls cost what ``costs`` says, and the clock that they move."""

    def __init__(self, costs: Iterable[float]) -> None:
        self.costs = iter(costs)
        self.now = 0.0
        self.calls: list[int] = []

    def timed(self, number: int) -> float:
        cost = next(self.costs)
        self.now += number * cost
        self.calls.append(number)
        return cost

    def time(self, first: float, options: MeasureOptions, best: float | None = None) -> Timing:
        return time_kernel(self.timed, first, options, best, clock=lambda: self.now)


STEADY = MeasureOptions()


def test_a_fast_steady_kernel_takes_three_repeats_of_ten_milliseconds() -> None:
    kernel = Simulated(itertools.repeat(1e-6))
    timing = kernel.time(1e-4, STEADY)
    assert timing.stopped == "spread"
    assert timing.costs == (1e-6,) * 3
    assert timing.number == pytest.approx(10_000, abs=1)
    assert kernel.now < 0.05


def test_a_kernel_of_twenty_milliseconds_stays_within_its_time() -> None:
    kernel = Simulated(itertools.cycle([0.020, 0.022, 0.024]))  # too noisy to stop early
    timing = kernel.time(0.03, STEADY)
    assert timing.stopped == "time"
    assert timing.number == 1 and 3 <= len(timing.costs) <= 5
    assert kernel.now <= 0.1 + 0.024


def test_a_kernel_of_a_second_is_called_twice_in_all() -> None:
    kernel = Simulated(itertools.repeat(1.0))
    timing = kernel.time(1.2, STEADY)
    assert timing.costs == (1.0,) and kernel.calls == [1]


def test_a_noisy_kernel_takes_all_repeats_when_there_is_time() -> None:
    kernel = Simulated(itertools.cycle([1e-3, 2e-3]))
    timing = kernel.time(1e-3, MeasureOptions(max_measure_s=10, repeat=7))
    assert timing.stopped == "repeats" and len(timing.costs) == 7


def test_a_far_slower_kernel_is_not_repeated() -> None:
    kernel = Simulated(itertools.repeat(0.4))
    assert kernel.time(0.5, STEADY, best=0.01) == Timing((0.5,), 1, "slow")
    assert kernel.calls == []  # not even warmed up


def test_a_slow_first_call_of_a_fast_kernel_is_forgiven() -> None:
    kernel = Simulated(itertools.repeat(1e-3))
    timing = kernel.time(0.015, STEADY, best=0.9e-3)  # 15 ms cold, as with page faults
    assert timing.stopped == "spread" and timing.costs == (1e-3,) * 3
    assert Simulated(itertools.repeat(4e-3)).time(0.015, STEADY, best=1e-3).stopped == "slow"


def test_number_can_be_given() -> None:
    kernel = Simulated(itertools.repeat(1e-3))
    assert kernel.time(1e-3, MeasureOptions(number=7)).number == 7


def test_spread_and_cost() -> None:
    assert spread([1.0]) is None  # one figure says nothing of how they differ
    assert spread([1.0, 1.0, 1.0, 9.0, 1.0]) == 0.0  # one outlier is none of the kernel's business
    assert spread([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx(2 / 3)
    result = MeasureResult("ok", (3.0, 1.0, 2.0))
    assert (result.cost, result.min_cost) == (2.0, 1.0)
    assert MeasureResult("run_crash").cost == float("inf")


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown status"):
        MeasureResult("okay")
    with pytest.raises(ValueError, match="0 costs"):
        MeasureResult("ok")
    with pytest.raises(ValueError, match="run_timeout=0"):
        MeasureOptions(run_timeout=0)
    with pytest.raises(ValueError, match="number=0"):
        MeasureOptions(number=0)


def test_a_kernel_that_is_behind_the_best_is_repeated_once() -> None:
    kernel = Simulated(itertools.repeat(1.3e-3))
    timing = kernel.time(1.4e-3, STEADY, best=1e-3)
    assert timing.stopped == "behind" and timing.costs == (1.3e-3,)
    near = Simulated(itertools.repeat(1.1e-3))
    assert near.time(1.2e-3, STEADY, best=1e-3).stopped == "spread"


def test_a_kernel_whose_timings_differ_gets_another_chance() -> None:
    disturbed = Simulated(itertools.chain([1.3e-3, 1.6e-3], itertools.repeat(1.0e-3)))
    timing = disturbed.time(2e-3, STEADY, best=1e-3)
    assert timing.stopped == "spread" and len(timing.costs) > 1
    noisy = Simulated(itertools.cycle([1.3e-3, 1.45e-3]))
    timing = noisy.time(2e-3, MeasureOptions(max_measure_s=10, repeat=6), best=1e-3)
    assert timing.stopped == "repeats"


def test_a_slow_kernel_is_compared_with_its_cold_call() -> None:
    kernel = Simulated(itertools.repeat(0.05))
    timing = kernel.time(0.051, STEADY, best=0.03)
    assert timing == Timing((0.05,), 1, "behind") and kernel.calls == [1]
    cold = Simulated(itertools.repeat(0.05))
    assert len(cold.time(0.11, STEADY, best=0.04).costs) > 1


def test_how_far_behind_is_an_option() -> None:
    patient = MeasureOptions(behind=2.0)
    assert Simulated(itertools.repeat(1.3e-3)).time(1e-3, patient, best=1e-3).stopped == "spread"
    with pytest.raises(ValueError, match="behind=0"):
        MeasureOptions(behind=0)
