"""One contract for all samplers: valid, once, deterministic, unbreakable, resumable, finite."""

from __future__ import annotations

import functools
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import optuna
import pytest
from autotune_synthetic import gemm_cost, gemm_space, result, small_cost, small_space
from samplers_check import (
    WINDOW,
    bare_space,
    huge_cost,
    huge_space,
    propose,
    single_space,
    tied_cost,
    tied_space,
)

from whet.autotune.samplers import SAMPLERS, check_sampler, make_sampler
from whet.autotune.search.study import Search
from whet.compiler.errors import ArgumentError, SpaceError


def foreign(seed):
    return optuna.samplers.NSGAIISampler(population_size=8, seed=seed)


ALL = {name: (lambda seed, name=name: name) for name in SAMPLERS} | {"foreign": foreign}
COUNT = 40


@functools.cache
def proposed(name, seed):
    """The first configs of an uninterrupted search, which several tests look at."""
    return propose(gemm_space(), ALL[name](seed), COUNT, gemm_cost, seed=seed)


@functools.cache
def best(name, seed):
    """The cost of the best of 64 configs in a large space."""
    return min(map(huge_cost, propose(huge_space(), name, 64, huge_cost, seed=seed)))


@pytest.mark.parametrize("name", ALL)
class TestContract:
    def test_proposals_are_legal_and_come_once(self, name):
        space = gemm_space()
        configs = proposed(name, 3)
        assert all(config in space for config in configs)
        assert len({config.key for config in configs}) == COUNT

    def test_constraints_across_knobs_are_kept(self, name):
        space = tied_space()
        configs = propose(space, ALL[name](1), COUNT, tied_cost, seed=1)
        assert all(config in space for config in configs)
        assert len({config.key for config in configs}) == COUNT

    def test_same_seed_and_costs_give_the_same_proposals(self, name):
        one = proposed(name, 3)
        assert one == propose(gemm_space(), ALL[name](3), COUNT, gemm_cost, seed=3)
        if name != "grid":
            assert propose(gemm_space(), ALL[name](4), 8, gemm_cost, seed=4) != one[:8]

    def test_failed_trials_do_not_end_it(self, name):
        def cost(config):
            return math.inf if config.choice("order") == "kij" else gemm_cost(config)

        assert len(propose(gemm_space(), ALL[name](0), COUNT, cost)) == COUNT
        assert len(propose(gemm_space(), ALL[name](0), 24, lambda config: math.inf)) == 24

    def test_equal_costs_teach_nothing_and_break_nothing(self, name):
        configs = propose(gemm_space(), ALL[name](0), 32, lambda config: 1e-3)
        assert len({config.key for config in configs}) == 32

    @pytest.mark.filterwarnings("ignore:The value nan")
    def test_costs_that_are_no_numbers_count_as_failures(self, name):
        space = gemm_space()
        sampler = make_sampler(ALL[name](0), space)
        study = optuna.create_study(sampler=sampler)
        for number in range(28):
            trial = study.ask(sampler.distributions)
            if number % 4 == 0:
                study.tell(trial, math.nan)
            elif number % 4 == 1:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
            else:
                study.tell(trial, math.inf if number % 4 == 2 else 1e-3)
        costs = sampler.history(study).costs
        assert np.isinf(costs).tolist() == [True, True, True, False] * 7

    def test_a_resumed_search_proposes_what_the_uninterrupted_one_does(self, name):
        space = gemm_space()
        whole = proposed(name, 3)
        for stop in (1, 27, 37):
            resumed = propose(space, ALL[name](3), COUNT, gemm_cost, whole[:stop], seed=3)
            assert len({config.key for config in resumed}) == COUNT
            if name != "foreign":  # keeps its own random state
                assert resumed == whole

    def test_it_waits_for_trials_in_flight(self, name):
        configs = propose(gemm_space(), ALL[name](0), 32, gemm_cost, window=16)
        assert len({config.key for config in configs}) == 32

    @pytest.mark.parametrize("make, cost", [(small_space, small_cost), (tied_space, tied_cost)])
    def test_it_exhausts_a_space_and_then_says_so(self, name, make, cost):
        space = make(3) if make is tied_space else make()
        search = Search(space, make_sampler(ALL[name](0), space))
        found = set()
        for _ in range(space.size):
            config = search.ask()
            search.tell(result(cost(config)))
            found.add(config.key)
        assert found == {config.key for config in space}
        with pytest.raises(
            SpaceError, match=rf"config of the space is taken \({space.size} in all"
        ):
            search.ask()

    @pytest.mark.parametrize("make", [single_space, bare_space])
    def test_a_space_of_one_config(self, name, make):
        space = make()
        sampler = make_sampler(ALL[name](0), space)
        search = Search(space, sampler)
        assert search.ask() == space.default
        with pytest.raises(SpaceError, match="every config of the space is taken"):
            sampler.fresh(search.history)

    def test_a_space_of_a_million_million_configs(self, name):
        space = huge_space()
        assert space.size == 10**12
        configs = propose(space, ALL[name](0), 28, huge_cost)
        assert len({config.key for config in configs}) == 28


@pytest.mark.parametrize("name", ["xgb", "gp"])
def test_a_search_with_more_and_fewer_in_flight_is_resumed_as_it_was(name):
    def in_flight(number):
        return 1 + number % 4

    space = gemm_space()
    whole = propose(space, name, 24, gemm_cost, window=in_flight)
    for stop in (13, 22):
        assert propose(space, name, 24, gemm_cost, whole[:stop], window=in_flight) == whole


PROPOSED = """
import json, sys
sys.path.insert(0, sys.argv[1])
from autotune_synthetic import gemm_cost, gemm_space
from samplers_check import propose
names = "tpe", "gp", "cmaes", "genetic", "xgb"
print(json.dumps({n: [c.key for c in propose(gemm_space(), n, 20, gemm_cost)] for n in names}))
"""


def test_other_processes_propose_the_same():
    def started(hash_seed):
        return subprocess.Popen(
            [sys.executable, "-c", PROPOSED, str(Path(__file__).parents[1])],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    one, two = (json.loads(p.communicate()[0]) for p in [started("0"), started("1")])
    assert one == two and {len(set(keys)) for keys in one.values()} == {20}


def test_learning_depends_on_the_costs():
    space = gemm_space()
    for name in ("xgb", "tpe", "gp", "cmaes", "genetic"):
        one = propose(space, name, 40, gemm_cost)
        two = propose(space, name, 40, lambda c: 1.0 / gemm_cost(c))
        assert one[:5] == two[:5]
        assert one[34:] != two[34:]


@pytest.mark.parametrize("name", ["xgb", "gp", "genetic", "cmaes", "tpe"])
def test_what_learns_beats_random(name):
    ours = np.mean([np.log(best(name, seed)) for seed in range(2)])
    random = np.mean([np.log(best("random", seed)) for seed in range(8)])
    assert ours < random - 0.1


def test_grid_counts_the_valid_configs():
    space = tied_space()
    in_order = [config for _, config in zip(range(30), iter(space))]
    assert propose(space, "grid", 30, tied_cost) == in_order


def test_qmc_covers_every_choice_soon():
    space = huge_space()
    configs = propose(space, "qmc", 64, huge_cost)
    for name in space.knobs:
        seen = np.bincount([config.choice(name) for config in configs], minlength=10)
        assert seen.min() >= 5  # a random sample has such a gap in every second knob


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_a_proposal_outside_the_constraints_is_repaired():
    space = tied_space()
    fixed = {name: 0 for name in space.knobs} | {"a": 7}
    sampler = optuna.samplers.PartialFixedSampler(fixed, optuna.samplers.RandomSampler(seed=0))
    assert not space.is_valid(list(fixed.values()))
    configs = propose(space, sampler, 6, tied_cost)
    assert all(config in space for config in configs)
    assert configs[0] == space.decode(space.repair(list(fixed.values())))


class Outside(optuna.samplers.RandomSampler):
    """Proposes what is no position of a knob."""

    def __init__(self, value):
        super().__init__(seed=0)
        self.value = value

    def sample_independent(self, study, trial, name, distribution):
        return self.value


@pytest.mark.parametrize("value", [99, -1, 0.5, math.nan, None, "x"])
def test_a_proposal_that_is_no_position_is_refused(value):
    space = tied_space()
    search = Search(space, make_sampler(Outside(value), space))
    words = r"(?s)Outside proposes a = .*positions are the integers 0 to 7.*keep to the distrib"
    with pytest.raises(SpaceError, match=words):
        search.ask()


def test_the_knobs_of_another_space_are_refused():
    sampler = make_sampler("random", small_space())
    study = optuna.create_study(sampler=sampler)
    with pytest.raises(SpaceError, match=r"(?s)sample 'z'.*not a knob.*knobs: a, b, c"):
        study.ask().suggest_int("z", 0, 3)


def test_unknown_samplers_are_refused_with_the_known_ones():
    known = ", ".join(SAMPLERS)
    for wrong in ("xgboost", 7):
        with pytest.raises(ArgumentError, match=rf"(?s)sampler=.*samplers: {known}"):
            check_sampler(wrong)
    with pytest.raises(ArgumentError, match='sampler="grid" counts through the space'):
        check_sampler(optuna.samplers.GridSampler({"a": [0]}))
    other = make_sampler("random", small_space())
    with pytest.raises(ArgumentError, match=r"made for .*test/small.* asked about .*test/gemm"):
        make_sampler(other, gemm_space())
    assert make_sampler(other, small_space()) is other
    assert check_sampler(optuna.samplers.NSGAIISampler()) == "NSGAIISampler"


def test_the_window_of_the_checks_is_the_usual_one():
    from whet.autotune.search.order import window_of

    assert window_of(2) == WINDOW
