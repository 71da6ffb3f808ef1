"""A search that goes on reads its past by the column; batches where others propose, too."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from autotune_synthetic import small_space

from whet.autotune.results import recall as recalling
from whet.autotune.results.point_reader import PointReader
from whet.autotune.samplers.contract.history import Trials
from whet.autotune.samplers.contract.planned import STALE, batch_of, first_of, own_between
from whet.autotune.samplers.xgb import BATCHES


def text_of(config) -> str:
    return json.dumps(config.to_json(), separators=(",", ":"))


@pytest.mark.parametrize("odd", [0, 1, 40])
def test_points_read_together_are_those_read_alone(odd):
    space = small_space()
    configs = list(space)
    texts = [text_of(config) for config in configs] * 3
    draw = random.Random(odd)
    for at in draw.sample(range(len(texts)), min(odd, len(texts))):
        good = texts[at]
        broken = ["", "{}", good[:-1], good + good, good.replace("]]}", '],["x","y",1]]}')]
        spaced = json.dumps(json.loads(good), indent=1)
        texts[at] = draw.choice([*broken, spaced])
    read = PointReader(space)
    points, known = read.points(texts)
    alone = [read.point(text) for text in texts]
    assert known.tolist() == [point is not None for point in alone]
    assert [tuple(row) for row, sound in zip(points.tolist(), known) if sound] == [
        point for point in alone if point is not None
    ]
    assert odd or [tuple(row) for row in points.tolist()] == [space.encode(c) for c in configs] * 3


def a_search(length: int, seed: int, window: int, says: bool):
    """The columns of a search whose results came out of order, as its log has them."""
    draw, waiting, told = random.Random(seed), [], []
    for number in range(length):
        news = []
        while waiting and (len(waiting) >= window or draw.random() < 0.3):
            news.append(waiting.pop(draw.randrange(min(2, len(waiting)))))
        told.append(json.dumps(news, separators=(",", ":")) if says else None)
        waiting.append(number)
    numbers = np.arange(length)
    return SimpleNamespace(
        numbers=numbers, ids=numbers + 7, runs=np.full(length, 3), logged=numbers.copy(),
        points=np.zeros((length, 2), dtype=np.int32), costs=np.linspace(1, 2, length), told=told,
    )  # fmt: skip


@pytest.mark.parametrize("length", [0, 1, 3, 50, 400])
@pytest.mark.parametrize("says", [True, False])
def test_the_order_of_telling_is_that_of_one_after_the_other(length, says):
    placed = a_search(length, length, 4, says)
    begun = recalling._by_window(placed, length, 4) or recalling._by_log(placed, length)
    assert length == 0 or (begun is not None and len(begun[1]) == length)
    fast, slow = (recalling.order_of(placed, length, 4, at_once) for at_once in (True, False))
    for one, other in zip(fast, slow):
        assert one.tolist() == other.tolist()
    found = recalling.recall(placed, 4)
    assert sorted([*found.past.told.tolist(), *found.waiting]) == list(range(length))
    assert all(found.waiting[n] == placed.costs[n] for n in found.waiting)


@pytest.mark.parametrize(
    "change",
    [
        lambda p: p.told.__setitem__(9, "[8,8]"),
        lambda p: p.told.__setitem__(9, "[20]"),
        lambda p: p.told.__setitem__(9, '["t11"]'),
        lambda p: p.told.__setitem__(9, "[true]"),
        lambda p: p.told.__setitem__(9, "]["),
        lambda p: p.told.__setitem__(9, "[" + "9" * 400 + "]"),
        lambda p: p.told.__setitem__(9, None),
        lambda p: p.runs.__setitem__(slice(20, None), 4),
        lambda p: p.logged.__setitem__(20, 90),
    ],
)
def test_what_is_not_as_usual_is_told_one_by_one(change):
    for says in (True, False):
        placed = a_search(30, 1, 4, says)
        change(placed)
        fast, slow = (recalling.order_of(placed, 30, 4, at_once) for at_once in (True, False))
        for one, other in zip(fast, slow):
            assert one.tolist() == other.tolist()
        assert slow[1].tolist() == sorted(slow[1].tolist())
        assert slow[1][-1] == len(slow[0]) == len(set(slow[0].tolist()))


def test_batches_of_a_search_of_its_own_are_as_they_were():
    trials = Trials(1)
    for number in range(700):
        history = trials.history()
        assert first_of(history, number, BATCHES) == batch_of(number, BATCHES)[0]
        assert own_between(history, 0, number) == number
        trials.ask([number])


@pytest.mark.parametrize("share", [0.9, 0.5, 0.25, 0.1])
def test_a_batch_ends_when_it_is_used_up_or_stale(share):
    trials, draw = Trials(1), random.Random(5)
    starts: dict[int, list[int]] = {}
    for number in range(3000):
        own = number < 10 or draw.random() < share
        if own:
            starts.setdefault(first_of(trials.history(), number, BATCHES), []).append(number)
        trials.ask([number], own)
    begins = sorted(starts)
    for start, following in pairwise(begins):
        size = batch_of(start, BATCHES)[1]
        assert len(starts[start]) <= size
        assert starts[start][-1] < start + STALE * size
        # The next one does not begin before: it is used up, or so many trials have passed.
        assert len(starts[start]) == size or following >= start + STALE * size
    # The same, asked of the whole history, as of a search that goes on.
    history = trials.history()
    for start, numbers in starts.items():
        assert {first_of(history, number, BATCHES) for number in numbers} == {start}
        known = [begin for begin in begins if begin <= start]
        for begin in known:  # from an earlier batch on, or this one
            assert first_of(history, numbers[-1], BATCHES, begin) == start
    by_numbers = {batch_of(number, BATCHES)[0] for number in range(3000)}
    assert len(starts) < 0.7 * len(by_numbers) or share > 0.5
