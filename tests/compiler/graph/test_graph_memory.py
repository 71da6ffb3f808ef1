"""The memory plan: nothing that lives at once overlaps, and little is wasted."""

import random

import pytest

from whet.compiler.graph import memory
from whet.compiler.graph.memory import ALIGNMENT, planned


def test_what_lives_apart_shares_its_place():
    plan = planned([("a", 100, 0, 1), ("b", 100, 2, 3)])
    assert plan.offsets == {"a": 0, "b": 0} and plan.size == 128


def test_what_lives_at_once_does_not():
    plan = planned([("a", 100, 0, 1), ("b", 60, 1, 2)])
    assert plan.offsets == {"a": 0, "b": 128} and plan.size == plan.least == 192


def test_the_smallest_gap_is_taken():
    lives = [("a", 640, 0, 9), ("b", 320, 0, 3), ("c", 192, 5, 9), ("d", 128, 5, 9)]
    plan = planned(lives)
    assert plan.size == plan.least == 960
    assert {plan.offsets["c"], plan.offsets["d"]} == {640, 832}


@pytest.mark.parametrize(
    "lives",
    [  # waste by size; some of them by time and by area, too
        [("a", 256, 1, 3), ("b", 128, 4, 5), ("c", 192, 4, 7), ("d", 192, 3, 5)],
        [("a", 256, 0, 2), ("b", 128, 1, 4), ("c", 256, 5, 6), ("d", 192, 3, 6), ("e", 128, 2, 4)],
        [("a", 320, 2, 2), ("b", 320, 2, 3), ("c", 320, 4, 6), ("d", 192, 3, 6)],
    ],
)
def test_other_orders_than_by_size_waste_less(lives, monkeypatch):
    assert planned(lives).size == planned(lives).least
    monkeypatch.setattr(memory, "ORDERS", 1)
    assert planned(lives).size > planned(lives).least


def test_no_further_order_is_tried_beyond_a_budget(monkeypatch):
    lives = [("a", 256, 1, 3), ("b", 128, 4, 5), ("c", 192, 4, 7), ("d", 192, 3, 5)]
    monkeypatch.setattr(memory, "PAIRS", 1)
    assert planned(lives).size > planned(lives).least


def test_nothing():
    assert planned([]).size == 0


@pytest.mark.parametrize("most", [1, 20, 80])
def test_random_lives(seeds, most):
    for seed in seeds(40):
        rng = random.Random(seed)
        lives = []
        for k in range(rng.randrange(1, most + 1)):
            first = rng.randrange(40)
            lives.append((k, rng.choice((1, 64, 65, 1000, 4096)), first, first + rng.randrange(9)))
        plan = planned(lives)
        for i, size, a, b in lives:
            at = plan.offsets[i]
            assert at % ALIGNMENT == 0 and at + size <= plan.size
            for j, other, c, d in lives:
                if i < j and a <= d and c <= b:
                    there = plan.offsets[j]
                    assert at + size <= there or there + other <= at, (seed, i, j)
        assert plan.least <= plan.size
