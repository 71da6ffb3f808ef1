"""Trials that others record: a search learns of them in one look."""

from __future__ import annotations

import json
from types import SimpleNamespace

from autotune_synthetic import small_cost, small_space

from whet.autotune.results.recorded_columns import LOST, place
from whet.autotune.samplers import make_sampler
from whet.autotune.search.recorded_trials import OtherSearches, Unobserved
from whet.autotune.search.study import Search

OWN, OTHER = 1, 2


def logged(id, run, config, status="ok", cost=1.0, text=None):
    """A point of the log, as ``TuningLog.news`` gives it."""
    text = json.dumps(config.to_json()) if text is None else text
    cost = cost if status == "ok" else None
    return SimpleNamespace(id=id, run_id=run, number=id, config=text, status=status, cost=cost)


def test_each_of_the_others_trials_is_heard_once_and_as_what_it_is():
    space = small_space()
    search = Search(space, make_sampler("random", space, 0))
    search.place(space.default)
    asked = search.ask()
    others = OtherSearches(search, Unobserved(place([], space), 0))
    free = [config for config in space if config.key not in (asked.key, space.default.key)]
    waiting = {space.encode(asked)}
    points = [
        logged(1, OWN, free[0]),
        logged(2, OTHER, asked, cost=2.0),
        logged(3, OTHER, asked, cost=3.0),
        logged(4, OTHER, space.default),
        logged(5, OTHER, free[1], LOST),
        logged(6, OTHER, free[2], "run_crash"),
        logged(7, OTHER, free[3], cost=small_cost(free[3])),
        logged(8, OTHER, free[3], cost=9.0),
        logged(9, OTHER, free[4], text='{"choices": []}'),
    ]
    others.hear([], OWN, waiting)
    others.hear(points, OWN, waiting)
    others.hear(points[6:], OWN, waiting)
    id, result = others.pop(space.encode(asked))
    assert (id, result.cost) == (2, 2.0) and others.pop(space.encode(asked)) is None
    came = others.arrivals()
    assert list(came) == [space.encode(free[2]), space.encode(free[3])]
    assert [id for id, _ in came.values()] == [6, 7]
    assert [result.status for _, result in came.values()] == ["run_crash", "ok"]
    assert not others.arrivals()
