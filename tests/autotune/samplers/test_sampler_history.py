"""The history in the order of telling: stragglers, others' trials, and a past that is loaded."""

from __future__ import annotations

import json
import math
import tracemalloc

import numpy as np
import optuna
import pytest
from autotune_synthetic import gemm_cost, gemm_space, result
from samplers_check import SynthFeatures, bare_space, tied_space

from whet.autotune.results.point_reader import PointReader
from whet.autotune.results.recall import recall
from whet.autotune.results.recorded_columns import place
from whet.autotune.samplers import SAMPLERS, make_sampler
from whet.autotune.samplers.contract.history import History, Trials
from whet.autotune.samplers.contract.point_table import PointTable
from whet.autotune.samplers.model import featurizer
from whet.autotune.samplers.model.featurizer import Programs
from whet.autotune.search.study import Search

ALL = {name: (lambda name=name: name) for name in SAMPLERS} | {
    "foreign": lambda: optuna.samplers.NSGAIISampler(population_size=8, seed=1)
}
SLOW = (3, 17, 18)
"""Trials that take long."""
LATE = 14
"""Trials that are proposed before a slow one's result is there."""


def elsewhere(space):
    """A config of another search, none of the first ones of any sampler, and its cost."""
    config = space.at(123_457)
    return config, gemm_cost(config)


class Driver:
    """Asks and tells as a cluster would: late results are told when they come."""

    def __init__(self, name, window=4, features=False, numbered=False):
        self.space = gemm_space()
        given = {"features": SynthFeatures(self.space, gemm_cost)} if features else {}
        self.search = Search(self.space, make_sampler(ALL[name](), self.space, 3, **given))
        self.window, self.told, self.numbered = window, [], numbered
        self.news = []
        self.configs, self.deltas, self.waiting = [], [], []

    def run(self, count):
        while len(self.configs) < count:
            self.step()
        return [config.key for config in self.configs]

    def step(self):
        number, news = len(self.configs), self.news
        self.news = []
        if number == 10:
            config, cost = elsewhere(self.space)
            if self.numbered:  # the other's trial takes a place of its own
                self.search.place(config, own=False)
                self.search.observe(10, result(cost))
                self.configs.append(config)
                self.deltas.append(None)
                self.news = ["t700"]
                return
            assert self.search.learn(config, result(cost))
            news.append("t700")
        for one in list(self.waiting):
            age = number - one
            if age >= (LATE if one in SLOW else self.window):
                self.tell(one)
                news.append(one)
        if number == 0:
            self.search.place(self.space.default)
            self.configs.append(self.space.default)
        else:
            self.configs.append(self.search.ask())
        self.deltas.append(tuple(news))
        self.waiting.append(number)

    def tell(self, number):
        self.search.observe(number, result(gemm_cost(self.configs[number])))
        self.waiting.remove(number)

    def logged(self):
        """The rows of a log, in which the other search recorded two trials under its numbers."""
        config, cost = elsewhere(self.space)
        rows = [(700, 9, 0, text_of(config), "ok", cost, "[]")]
        for number, (config, told) in enumerate(zip(self.configs, self.deltas)):
            if told is not None:
                text, cost = json.dumps(told), gemm_cost(config)
                rows.append((number + 1, 1, number, text_of(config), "ok", cost, text))
        return rows


def columns(rows):
    return list(zip(*rows))


def text_of(config):
    return json.dumps(config.to_json())


@pytest.mark.parametrize("name", ALL)
def test_a_slow_trial_holds_nobody_up(name):
    one, two = Driver(name), Driver(name)
    configs = one.run(40)
    assert len(set(configs)) == 40 and elsewhere(one.space)[0].key not in configs
    assert one.search.proposed == 40 and one.search.observed == 40 - len(one.waiting)
    assert one.search.history.told == one.search.observed + 1  # another search's
    assert two.run(40) == configs


@pytest.mark.parametrize("name", ["xgb", "gp", "cmaes", "genetic", "tpe"])
def test_a_late_result_is_learnt_from(name):
    one = Driver(name)
    one.run(36)
    costs = one.search.history.costs
    slow = gemm_cost(one.configs[SLOW[0]])
    assert costs.tolist().index(slow) == 13  # after 0 to 12 without itself, and the other's
    assert one.search.history.told_points(slice(None)).shape == (len(costs), 6)


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_search_goes_on_from_its_log_as_if_it_had_not_stopped(name):
    whole, stopped = Driver(name, numbered=True), Driver(name, numbered=True)
    expected = whole.run(44)
    stopped.run(30)
    resumed = Driver(name, numbered=True)
    placed = place([columns(stopped.logged())], resumed.space)
    recalled = recall(placed, window=4, others={9})
    assert recalled.past.elsewhere.tolist() == [10]
    assert sorted(recalled.waiting) == sorted(stopped.waiting) and recalled.rows == 30
    resumed.search.load(recalled.past)
    assert resumed.search.proposed == 30
    assert resumed.search.observed == 30 - len(stopped.waiting)
    resumed.configs, resumed.deltas = stopped.configs, stopped.deltas
    resumed.waiting = stopped.waiting
    assert resumed.run(44) == expected


@pytest.mark.parametrize("name", ["xgb", "tpe", "foreign"])
def test_a_log_that_does_not_say_what_was_told_goes_by_the_window(name):
    space = gemm_space()
    live = Search(space, make_sampler(ALL[name](), space, 5))
    rows, configs = [], []
    for number in range(24):
        if number >= 4:
            live.tell(result(gemm_cost(configs[number - 4])))
        if number:
            configs.append(live.ask())
        else:
            live.place(space.default)
            configs.append(space.default)
        cost = gemm_cost(configs[-1])
        rows.append((number + 1, 1, number, text_of(configs[-1]), "ok", cost, None))
    recalled = recall(place([columns(rows[:9]), columns(rows[9:])], space), window=4)
    again = Search(space, make_sampler(ALL[name](), space, 5))
    again.load(recalled.past)
    assert list(recalled.waiting) == [20, 21, 22, 23]
    for search in (live, again):
        search.tell(result(recalled.waiting[20]))
    assert (again.proposed, again.observed) == (live.proposed, live.observed) == (24, 21)
    assert again.history.costs.tolist() == live.history.costs.tolist()
    assert again.history.pending.tolist() == live.history.pending.tolist()
    if name != "foreign":  # keeps its own random state
        assert again.ask() == live.ask()
    with pytest.raises(ValueError, match="already"):
        again.load(recalled.past)


def test_recalling_passes_over_what_is_not_of_the_search():
    space = tied_space()
    a, b, c, d, e = space.default, *(space.at(i) for i in (40, 50, 60, 70))
    assert len({x.key for x in (a, b, c, d, e)}) == 5
    stranger = json.dumps(b.to_json() | {"fingerprint": "another"})
    rows = [
        (1, 1, 0, text_of(a), "ok", 1e-3, None),
        (2, 1, 1, stranger, "ok", 1e-3, None),
        (3, 1, 1, "{", "ok", 2e-3, None),
        (4, 1, 1, text_of(b), "infra_error", None, None),
        (5, 1, 1, text_of(c), "run_error", None, None),
        (6, 2, 0, text_of(a), "ok", 2e-3, None),  # a config counts once
        (7, 2, 1, text_of(d), "ok", 3e-3, None),  # the number is taken
        (8, 1, 7, text_of(e), "ok", 4e-3, None),  # after a gap
    ]
    placed = place([columns(rows)], space)
    assert placed.numbers.tolist() == [0, 1, 2, 7] and placed.ids.tolist() == [1, 5, 7, 8]
    assert placed.points.tolist() == [list(space.encode(x)) for x in (a, c, d, e)]
    assert placed.costs.tolist() == [1e-3, math.inf, 3e-3, 4e-3]
    assert placed.fastest.tolist() == [0, 2, 3] and placed.beside == [2, 3]
    found = recall(placed, window=4)
    assert found.rows == 3 and found.waiting == {0: 1e-3, 1: math.inf, 2: 3e-3}
    assert len(place([], space)) == 0 and recall(place([], space), 4).waiting == {}


def test_what_was_told_is_read_by_the_names_that_it_had():
    space = tied_space()
    configs = [space.default, *[c for c in space if c != space.default][:8]]
    told = [
        (1, 1, 0, []), (2, 1, 1, []), (4, 1, 3, [1]),  # 2: another's, which takes its place
        (3, 2, 1, ["t1"]),
        (5, 1, 4, ["t3", 0]), (6, 1, 5, [77, "t99", "x", "t", True]),
        # a run that goes on, and says nothing of what was there
        (7, 3, 6, []), (8, 3, 7, [6]), (9, 3, 8, ["t5"]),
    ]  # fmt: skip
    rows = [
        (id, run, number, text_of(config), "ok", float(id), json.dumps(names))
        for config, (id, run, number, names) in zip(configs, told)
    ]
    found = recall(place([columns(rows)], space), window=4)
    assert found.rows == 9
    # 3 waits at 7, as trial 3 of another run; so does 4 at 8
    assert found.past.told.tolist() == [1, 2, 0, 3, 6, 4]
    assert found.past.observed_at.tolist() == [0, 0, 0, 1, 3, 3, 3, 5, 6]
    assert list(found.waiting) == [5, 7, 8]
    assert found.past.costs.tolist() == [2.0, 3.0, 1.0, 4.0, 7.0, 5.0]


def test_a_reader_tells_equal_choices_apart():
    space = tied_space()
    read = PointReader(space)
    for index in (0, 17, 63):
        config = space.at(index)
        compact = json.dumps(config.to_json(), separators=(",", ":"))
        swapped = {"choices": config.to_json()["choices"][::-1], "fingerprint": space.fingerprint}
        for text in (text_of(config), compact, json.dumps(swapped)):
            assert read.point(text) == space.encode(config)
            points, known = read.points([text, "{}"])
            assert points[0].tolist() == list(space.encode(config)) and known.tolist() == [1, 0]
    data = space.at(17).to_json()
    for wrong in (True, 1.0, "1", 99, None):
        data["choices"][0][2] = wrong
        assert read.point(json.dumps(data)) is None
        assert read.point(json.dumps(data, separators=(",", ":"))) is None
    twice = data | {"choices": [data["choices"][1]] * 4}
    assert read.point(json.dumps(twice)) is None
    assert read.point("[]") is None and read.point('{"fingerprint": 1}') is None
    assert read.point('{"choices": []}') is None
    assert PointReader(bare_space()).point(text_of(bare_space().default)) == ()
    bare = (1, 1, 0, text_of(bare_space().default), "ok", 1.0, None)
    assert place([columns([bare])], bare_space()).points.shape == (1, 0)


@pytest.mark.parametrize("name", ALL)
def test_a_config_of_another_search_takes_no_number(name):
    space = gemm_space()
    search = Search(space, make_sampler(ALL[name](), space, 0))
    search.place(space.default)
    taken = elsewhere(space)[0]
    assert search.learn(taken) and search.proposed == 1
    config = search.ask()
    assert config != taken and search.proposed == 2
    assert search.learn(taken, result(1e-3)) and not search.learn(taken, result(2e-3))
    assert not search.learn(config) and not search.learn(space.default, result(1.0))
    assert search.history.costs.tolist() == [1e-3]
    search.observe(1, result(2e-3))
    assert search.history.costs.tolist() == [1e-3, 2e-3]
    assert search.history.pending.tolist() == [list(space.encode(space.default))]


def test_the_fastest_are_those_of_a_stable_sort():
    rng = np.random.default_rng(0)
    for length in (0, 1, 7, 60, 400):
        costs = rng.integers(1, 40, size=length).astype(float)
        costs[rng.random(length) < 0.3] = np.inf
        history = History.of(np.arange(length)[:, None], costs)
        works = np.flatnonzero(np.isfinite(costs))
        for count in (1, 24, 48):
            expected = works[np.argsort(costs[works], kind="stable")[:count]]
            assert history.fastest(count).tolist() == expected.tolist()


def test_wrong_numbers_are_refused():
    trials = Trials(2)
    trials.ask((0, 1))
    trials.ask((1, 1))
    trials.observe(1, 1.0)
    for number, words in ((1, "is known"), (2, "no trial 2: 2 were"), (-1, "no trial -1")):
        with pytest.raises(ValueError, match=words):
            trials.observe(number, 1.0)


def test_points_are_found_again_as_by_a_dict():
    rng = np.random.default_rng(0)
    for knobs, choices in ((3, 6), (1, 1000), (0, 1), (12, 3)):
        table, known = PointTable(knobs), {}
        points = rng.integers(choices, size=(1200, knobs))
        for at in range(400):
            table.append(points[at])
        table.extend(points[400:700])
        unset = table.append(None)
        table.extend(points[700:])
        late = rng.integers(choices, size=knobs)
        for row, point in enumerate([*points[:700], None, *points[700:]]):
            if point is not None:
                known.setdefault(point.tobytes(), row)
        asked = np.concatenate([points, rng.integers(2 * choices, size=(500, knobs))])
        expected = [known.get(point.tobytes(), -1) for point in asked]
        assert table.find(asked).tolist() == expected
        table.put(unset, late)
        assert table.find(late[None])[0] == known.get(late.tobytes(), unset)
        assert (table.rows(slice(701, None)) == points[700:]).all()


def test_a_hundred_thousand_trials_take_a_few_megabytes():
    points = np.random.default_rng(0).integers(64, size=(100_000, 9))
    tracemalloc.start()
    trials = Trials(9)
    for number, point in enumerate(points):
        trials.begin()
        trials.ask(point)
        if number >= 4:
            trials.observe(number - 4, 1e-3)
    held, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 13e6 and most < 20e6


def test_of_a_long_search_the_latest_and_best_programs_are_known(monkeypatch):
    monkeypatch.setattr(featurizer, "KNOWN", 32)
    monkeypatch.setattr(featurizer, "EPOCH", 8)
    space = gemm_space()
    points = np.unique(space.sample_points(np.random.default_rng(0), 260), axis=0)[:200]
    costs = np.random.default_rng(1).random(len(points)) + 1.0
    trials, used = Trials(points.shape[1]), Programs(SynthFeatures(space, gemm_cost))
    for number, point in enumerate(points):
        trials.begin()
        history = trials.history()
        new = used.new(history, points)
        asked = []

        class Counted(SynthFeatures):
            def of_points(self, points, asked=asked):
                asked.append(len(points))
                return super().of_points(points)

        if number % 17 == 0:
            fresh = Programs(Counted(space, gemm_cost)).new(history, points)
            assert fresh.tolist() == new.tolist()
            assert sum(asked) <= len(points) + 32 + 8 + 4
        assert set(range(max(0, number - 16), number)).isdisjoint(new)
        if number > 40:
            assert np.argmin(costs[: number // 8 * 8 - 4]) not in new
        trials.ask(point)
        if number >= 3:
            trials.observe(number - 3, costs[number - 3])
    assert len(new) > 100  # what was tried long ago, and was not good, is not known


def test_a_settled_history_has_nothing_in_flight():
    points = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    trials = Trials(2)
    for point in points:
        trials.begin()
        trials.ask(point)
    trials.observe(2, 3.0)
    trials.observe(0, 1.0)
    trials.place((5, 5), 2.0)
    settled = trials.history().settled(2)
    assert settled.observed.tolist() == settled.points.tolist() == [[1, 0], [0, 0]]
    assert settled.pending.shape == (0, 2)
    assert settled.taken(np.array([[1, 0], [0, 1], [5, 5]])).tolist() == [True, False, False]
    now = trials.history()
    assert now.pending.tolist() == [[0, 1], [1, 1]] and now.number == 4 and now.rows == 5
    assert now.costs.tolist() == [3.0, 1.0, 2.0]
    assert now.before(2).points.tolist() == points[:2].tolist() and now.before(2).told == 0
    assert not settled.follows(now) and now.follows(settled)
    assert not now.follows(History.of(points, []))
