"""One contract for all samplers: legal, once, deterministic, unbreakable, resumable, finite."""

from __future__ import annotations

import math

import numpy as np
import optuna
import pytest
from autotune_synthetic import gemm_cost, gemm_space, result, small_cost, small_space

from whet.autotune.samplers import SAMPLERS, check_sampler, make_sampler
from whet.autotune.samplers.xgb import BATCH, WARMUP, diverse
from whet.autotune.study import Search
from whet.compiler.errors import ArgumentError, SpaceError

WINDOW = 4


def foreign(seed):
    return optuna.samplers.NSGAIISampler(population_size=8, seed=seed)


ALL = {name: (lambda seed, name=name: name) for name in SAMPLERS} | {"foreign": foreign}


def propose(space, sampler, count, cost, recorded=(), seed=0, window=WINDOW):
    """Ask and tell as the loop does; the first ``recorded`` configs are placed, not asked."""
    search = Search(space, make_sampler(sampler, space, seed))
    configs = []
    while search.told < count:
        while search.asked < count and search.asked - search.told < window:
            if search.asked < len(recorded):
                configs.append(recorded[search.asked])
                search.place(configs[-1])
            else:
                configs.append(search.ask())
        search.tell(result(cost(configs[search.told])))
    return configs


@pytest.mark.parametrize("name", ALL)
class TestContract:
    def test_proposals_are_legal_and_come_once(self, name):
        space = gemm_space()
        configs = propose(space, ALL[name](0), 60, gemm_cost)
        assert all(config in space for config in configs)
        assert len({config.key for config in configs}) == 60

    def test_same_seed_and_costs_give_the_same_proposals(self, name):
        one = propose(gemm_space(), ALL[name](3), 60, gemm_cost, seed=3)
        two = propose(gemm_space(), ALL[name](3), 60, gemm_cost, seed=3)
        assert one == two
        if name != "grid":
            assert propose(gemm_space(), ALL[name](4), 60, gemm_cost, seed=4) != one

    def test_failed_trials_do_not_end_it(self, name):
        def cost(config):
            return math.inf if config.choice("order") == "kij" else gemm_cost(config)

        assert len(propose(gemm_space(), ALL[name](0), 60, cost)) == 60
        assert len(propose(gemm_space(), ALL[name](0), 40, lambda config: math.inf)) == 40

    def test_a_resumed_search_proposes_what_the_uninterrupted_one_does(self, name):
        space = gemm_space()
        whole = propose(space, ALL[name](1), 60, gemm_cost, seed=1)
        for stop in (1, 27, 37):
            resumed = propose(space, ALL[name](1), 60, gemm_cost, whole[:stop], seed=1)
            assert len({config.key for config in resumed}) == 60
            if name != "foreign":  # keeps its own random state
                assert resumed == whole

    def test_it_exhausts_a_space_and_then_says_so(self, name):
        space = small_space()
        sampler = make_sampler(ALL[name](0), space)
        search = Search(space, sampler)
        found = set()
        for _ in range(space.size):
            config = search.ask()
            search.tell(result(small_cost(config)))
            found.add(config.key)
        assert found == {config.key for config in space}
        with pytest.raises(SpaceError, match="all 42 configs of the space are taken"):
            search.ask()


def test_learning_depends_on_the_costs():
    space = gemm_space()
    for name in ("xgb", "tpe"):
        one = propose(space, name, 60, gemm_cost)
        two = propose(space, name, 60, lambda c: 1.0 / gemm_cost(c))
        assert one[:5] == two[:5]
        assert one[WARMUP + BATCH :] != two[WARMUP + BATCH :]


def test_xgb_avoids_what_fails():
    def cost(config):
        return math.inf if config.choice("order") == "ijk" else gemm_cost(config)

    configs = propose(gemm_space(), "xgb", 104, cost)
    failed = [math.isinf(cost(config)) for config in configs]
    assert sum(failed[:24]) >= 4  # a third of the random ones
    assert sum(failed[-40:]) <= 10  # one in eight explores; a third of these fail


def best_after(space, sampler, count, seed):
    return min(map(gemm_cost, propose(space, sampler, count, gemm_cost, seed=seed)))


def test_xgb_finds_better_configs_than_random_and_tpe():
    space = gemm_space()
    found = {
        name: np.exp(np.mean([np.log(best_after(space, name, 100, seed)) for seed in range(3)]))
        for name in ("random", "tpe", "xgb")
    }
    assert found["xgb"] < 0.9 * found["random"]
    assert found["xgb"] < found["tpe"]


def test_diverse_passes_over_neighbours_but_fills_up():
    ranked = [(0, 0, 0), (0, 0, 1), (1, 1, 0), (0, 1, 1)]
    assert diverse(ranked, 3) == [(0, 0, 0), (1, 1, 0), (0, 1, 1)]
    assert diverse(ranked, 4) == [(0, 0, 0), (1, 1, 0), (0, 1, 1), (0, 0, 1)]


def test_unknown_samplers_are_refused_with_the_known_ones():
    for wrong in ("xgboost", 7, optuna.samplers.TPESampler):
        with pytest.raises(ArgumentError, match=r"(?s)sampler=.*samplers: random, grid, tpe, xgb"):
            check_sampler(wrong)
    with pytest.raises(ArgumentError, match='sampler="grid" counts through the space'):
        check_sampler(optuna.samplers.GridSampler({"a": [0]}))
    other = make_sampler("random", small_space())
    with pytest.raises(ArgumentError, match=r"made for .*test/small.* asked about .*test/gemm"):
        make_sampler(other, gemm_space())
    assert make_sampler(other, small_space()) is other
    assert check_sampler(optuna.samplers.NSGAIISampler()) == "NSGAIISampler"
