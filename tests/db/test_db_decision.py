"""The verdict of an interleaved measurement: intervals, ties, and who fell behind."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from whet.db.values.decision import judge, median_interval
from whet.measure.values import MeasureResult


@dataclass(frozen=True)
class Trial:
    number: int
    result: MeasureResult


def trial(number, *costs):
    result = MeasureResult("ok", costs) if costs else MeasureResult("run_crash", error="SIGSEGV")
    return Trial(number, result)


def noisy(rng, cost, rounds, noise=0.02):
    return tuple(cost * np.exp(noise * rng.standard_normal(rounds)))


def test_the_interval_is_of_order_statistics():
    assert median_interval([1.0] * 5) is None  # 2 / 2^5 is more than 5 %
    assert median_interval([3.0, 1.0, 2.0, 6.0, 5.0, 4.0]) == (1.0, 6.0)
    assert median_interval(list(range(15))) == (3, 11)  # 96.5 %
    assert median_interval(list(range(30))) == (9, 20)


def test_intervals_hold_the_median_as_often_as_they_say():
    rng = np.random.default_rng(3)
    for n in (6, 9, 15, 30):
        held = 0
        for _ in range(400):
            values = rng.standard_normal(n) ** 3 + 0.5  # median 0.5, with heavy tails
            low, high = median_interval(list(values))
            held += low <= 0.5 <= high
        assert held >= 0.92 * 400


def test_a_faster_config_wins_with_its_interval():
    rng = np.random.default_rng(0)
    base, fast = trial(0, *noisy(rng, 2.0, 15)), trial(7, *noisy(rng, 1.0, 15))
    found = judge([base, trial(3, *noisy(rng, 1.5, 15)), fast])
    assert found.best is fast and found.default is base and found.better
    low, high = found.interval
    assert 1.9 < low < 2.0 < high < 2.1


def test_what_is_not_faster_for_certain_is_not_better():
    rng = np.random.default_rng(1)
    drift = np.linspace(1.0, 1.5, 12)  # slower and slower: pairs are not fooled
    base = trial(0, *(drift * noisy(rng, 1.0, 12, 0.03)))
    rival = trial(4, *(drift * noisy(rng, 0.999, 12, 0.03)))
    found = judge([base, rival])
    assert found.best is base and not found.better
    low, high = found.interval
    assert low <= 1.0 <= high
    sure = judge([base, trial(4, *(c * 0.9 for c in base.result.costs))])
    assert sure.better and sure.interval == pytest.approx((1 / 0.9, 1 / 0.9))


def test_one_disturbed_round_does_not_hide_a_speedup():
    base = trial(0, *([1.0, 1.02] * 5))
    rival = trial(1, *([0.9, 0.91] * 4), 5.0, 0.9)
    assert judge([base, rival]).better


def test_few_rounds_decide_by_their_medians():
    found = judge([trial(0, 1.0, 1.0, 1.0), trial(2, 0.9, 0.9, 0.9)])
    assert found.better and found.interval is None
    assert not judge([trial(0, 1.0), trial(2, 1.0)]).better  # a tie


def test_who_was_dropped_does_not_win_and_the_default_may_be_dropped():
    lucky, steady = trial(1, 0.5, 0.5, 0.5), trial(2, *[0.6] * 9)
    found = judge([trial(0, *[1.0] * 6), lucky, steady])
    assert found.best is steady and found.interval == pytest.approx((1 / 0.6, 1 / 0.6))


def test_failures():
    failed, works = trial(0), trial(3, 1.0, 1.0)
    assert (judge([failed, works]).best, judge([failed, works]).better) == (works, True)
    assert judge([failed]).best is None and not judge([failed]).better
    alone = judge([works, trial(5)])
    assert alone.best is works and alone.default is None
    base = trial(0, 1.0)
    assert judge([base, trial(5)]).best is base
    assert judge([]).best is None and math.isinf(failed.result.cost)
