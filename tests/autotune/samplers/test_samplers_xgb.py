"""The xgb sampler: what it learns from failures, estimates and other tasks, and what it costs."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from autotune_synthetic import gemm_cost, gemm_space, small_space
from samplers_check import SynthFeatures, huge_space, propose

from whet.autotune.samplers import make_sampler, xgb
from whet.autotune.samplers.contract.history import History, Trials
from whet.autotune.samplers.contract.planned import batch_of
from whet.autotune.samplers.model.acquisition import diverse
from whet.autotune.samplers.model.featurizer import Programs
from whet.autotune.samplers.model.gaussian import Deviations, Gaussian
from whet.autotune.samplers.xgb import AMPLE, BATCHES, SHARED, WARMUP
from whet.autotune.search.transfer import Prior


def searched(count, seed=0, **given):
    return [
        gemm_cost(c) for c in propose(gemm_space(), "xgb", count, gemm_cost, seed=seed, **given)
    ]


def test_it_avoids_what_fails():
    def cost(config):
        return math.inf if config.choice("order") == "ijk" else gemm_cost(config)

    configs = propose(gemm_space(), "xgb", 56, cost)
    failed = [math.isinf(cost(config)) for config in configs]
    assert sum(failed[-24:]) <= 6  # a third of random ones would


def test_an_estimate_makes_the_first_trials_better():
    space = gemm_space()
    features = SynthFeatures(space, gemm_cost)
    with_it = np.mean([np.log(min(searched(16, s, features=features))) for s in range(3)])
    without = np.mean([np.log(min(searched(16, s))) for s in range(3)])
    assert with_it < without - 0.2


def test_a_wrong_estimate_is_overcome():
    space = gemm_space()
    upside_down = SynthFeatures(space, lambda config: 1e-6 / gemm_cost(config))
    costs = np.log(searched(48, features=upside_down))
    assert np.median(costs[-16:]) < np.median(costs[:16]) - 0.3


def test_what_cannot_be_built_is_not_proposed():
    space = gemm_space()

    def fails(config):
        return config.choice("order") == "kij"

    features = SynthFeatures(space, gemm_cost, fails=fails)
    configs = propose(space, "xgb", 28, gemm_cost, features=features)
    assert sum(map(fails, configs[1:])) == 0


def test_configs_of_one_program_are_tried_once():
    space = gemm_space()

    class Same(SynthFeatures):  # the unroll depth changes nothing
        def of_points(self, points):
            same = np.array(points)
            same[:, list(space.knobs).index("unroll")] = 0
            return super().of_points(same)

    configs = propose(space, "xgb", 28, gemm_cost, features=Same(space, gemm_cost))
    programs = {tuple(c.choice(n) for n in space.knobs if n != "unroll") for c in configs}
    assert len(programs) >= 27


def prior_of(space, seeds=(), count=200):
    """Records of a search of a like task: costs twice this one's, with noise."""
    rng = np.random.default_rng(7)
    points = space.sample_points(rng, count)
    costs = [2 * gemm_cost(space.decode(p)) * math.exp(0.1 * rng.standard_normal()) for p in points]
    scores = np.log(min(costs) / np.asarray(costs)).astype(np.float32)
    from whet.autotune.features import NAMES

    none = np.full((count, len(NAMES)), np.nan, dtype=np.float32)
    weights = np.full(count, 0.8, dtype=np.float32)
    tasks = np.zeros(count, dtype=np.int64)
    return Prior(tuple(seeds), none, space.features_of_points(points), scores, weights, tasks)


def test_seeds_are_the_first_after_the_default():
    space = gemm_space()
    seeds = [space.at(i) for i in (4711, 815, 4711)]
    for name in ("xgb", "gp", "genetic", "cmaes"):
        configs = propose(
            space, name, 6, gemm_cost, recorded=[space.default], prior=prior_of(space, seeds)
        )
        assert configs[1:3] == seeds[:2]
        assert len({config.key for config in configs}) == 6


def test_other_tasks_trials_are_learnt_from():
    space = gemm_space()
    with_it = [np.log(min(searched(16, s, prior=prior_of(space)))) for s in range(3)]
    without = [np.log(min(searched(16, s))) for s in range(3)]
    assert np.mean(with_it) < np.mean(without) - 0.3


def test_the_expected_gain_falls_as_the_search_goes_on():
    space = gemm_space()
    rng = np.random.default_rng(0)
    for name in ("xgb", "gp"):
        sampler = make_sampler(name, space)
        points = space.sample_points(rng, 160)
        costs = [gemm_cost(space.decode(p)) for p in points]
        order = np.argsort(costs)[::-1]  # the best come last: much is promised at first
        early = History.of(points[order[:24]], np.asarray(costs)[order[:24]])
        assert sampler.expected_gain(History.of(points[:4], costs[:4])) is None
        gain = sampler.expected_gain(early)
        assert 0 < gain < 1
        equal = History.of(points[:40], [1e-3] * 40)
        assert sampler.expected_gain(equal) < gain
    for name in ("random", "grid", "qmc", "tpe"):
        assert make_sampler(name, space).expected_gain(early) is None


@pytest.mark.parametrize("name", ["xgb", "gp"])
def test_the_expected_gain_is_a_function_of_the_history(name):
    space = gemm_space()
    points = np.array([space.encode(c) for c in propose(space, "random", 40, gemm_cost)])
    costs = [gemm_cost(space.decode(p)) for p in points]
    used = make_sampler(name, space)
    trials = Trials(points.shape[1])
    gains = []
    for number, point in enumerate(points):
        trials.ask(point)
        if number >= 3:
            trials.observe(number - 3, costs[number - 3])
        history = trials.history()
        used.propose(history)
        gains.append(used.expected_gain(history))
    for told in (20, 30, 37):
        fresh = make_sampler(name, space).expected_gain(History.of(points, costs[:told]))
        assert fresh == gains[told + 2] is not None


def test_batches_grow_and_never_overlap():
    met = [batch_of(number) for number in range(400)]
    assert met[0] == (0, 4) and met[63] == (60, 4) and met[64] == (64, 8) and met[300] == (288, 16)
    assert all(start <= number < start + size for number, (start, size) in enumerate(met))
    met = [batch_of(number, BATCHES) for number in range(700)]
    assert met[127] == (120, 8) and met[256] == (256, 32) and met[699] == (640, 64)
    assert all(start <= number < start + size for number, (start, size) in enumerate(met))


def test_deviations_are_those_of_the_fantasised_process():
    rng = np.random.default_rng(0)
    x, y, more = rng.random((40, 5)), rng.random(40), rng.random((30, 5))
    process = Gaussian.fit(x, y)
    quick = Deviations(process, more, 6)
    assert np.allclose(quick.values, process.predict(more)[1], rtol=1e-9)
    for chosen in (3, 11, 3, 29, 0, 7):
        process = process.fantasised(more[chosen : chosen + 1])
        quick.add(chosen)
        assert np.allclose(quick.values, process.predict(more)[1], rtol=1e-6)


def test_long_batches_share_their_candidates(monkeypatch):
    space = gemm_space()
    points = np.unique(space.sample_points(np.random.default_rng(0), 300), axis=0)[:256]
    costs = [gemm_cost(space.decode(p)) for p in points]
    counted = []

    def evolve(*given, of=xgb.evolve):
        counted.append(given[1].number)
        return of(*given)

    monkeypatch.setattr(xgb, "evolve", evolve)
    features = SynthFeatures(space, gemm_cost)
    for count, evolutions in ((SHARED - 8, 2), (SHARED, 1), (256, 1)):
        counted.clear()
        sampler = make_sampler("xgb", space, 0, features)
        planned = sampler.plan(History.of(points[:count], costs[:count]), 32)
        assert len(counted) == evolutions
        assert len(np.unique(planned.points, axis=0)) == len(planned.points) == 32
        assert 0 <= planned.gain < 1


def test_a_plan_is_made_once_for_its_batch():
    space = gemm_space()
    sampler = make_sampler("xgb", space)
    made = []
    plan = sampler.plan
    sampler.plan = lambda history, size: made.append(history.number) or plan(history, size)
    propose(space, sampler, 32, gemm_cost)
    assert made == list(range(0, 32, 4))
    assert WARMUP % 4 == 0


def test_diverse_passes_over_neighbours_but_fills_up():
    ranked = np.array([(0, 0, 0), (0, 0, 1), (1, 1, 0), (0, 1, 1)])
    assert diverse(ranked, 2).tolist() == [0, 2]
    assert diverse(ranked, 3).tolist() == [0, 2, 3]
    assert diverse(ranked, 4).tolist() == [0, 2, 3, 1]
    assert diverse(ranked[:0], 3).tolist() == []


def test_programs_forget_what_another_search_tried():
    points = np.array([[0, 1], [1, 1], [0, 1]])
    programs = Programs(None)
    assert programs.new(History.of(points[:1], []), points).tolist() == [1]
    assert programs.new(History.of(points[1:2], []), points).tolist() == [0]


def test_a_history_is_a_view():
    trials = Trials(3)
    rng = np.random.default_rng(0)
    points = huge_space().sample_points(rng, 20_000)[:, :3]
    tracemalloc.start()
    for number, point in enumerate(points):
        trials.ask(point)
        trials.observe(number, 1e-3)
        if number == 10_000:
            middle = trials.history(10_000, 10_000)
            before = tracemalloc.get_traced_memory()[0]
    kept = [trials.history(20_000, 20_000).before(n) for n in range(15_000, 20_000)]
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 20e6
    assert len(kept[0].costs) == 15_000 and kept[0].number == 15_000
    assert (middle.points == points[:10_000]).all()
    assert (
        not middle.is_taken(points[10_001]) or points[10_001].tolist() in points[:10_000].tolist()
    )


def test_a_proposal_after_many_trials_costs_what_it_did_before(monkeypatch):
    """Models are fitted to as many trials as before, however many there are."""
    from whet.autotune.samplers.model.cost_model import CostModel
    from whet.autotune.samplers.model.gaussian import Gaussian

    fitted = []
    for model in (CostModel, Gaussian):

        def fit(rows, *more, of=model.fit, **options):
            fitted.append(len(rows))
            return of(rows, *more, **options)

        monkeypatch.setattr(model, "fit", fit)
    space = gemm_space()
    rng = np.random.default_rng(0)
    points = np.unique(space.sample_points(rng, 1_000), axis=0)
    costs = rng.random(len(points)) + 1.0

    def rows(count):
        fitted.clear()
        make_sampler("xgb", space).propose(History.of(points[:count], costs[:count]))
        return list(fitted)

    monkeypatch.setattr("whet.autotune.samplers.model.posterior.LEARNT", 250)
    assert rows(900) == rows(300) and set(fitted) == {250, 192}


@pytest.mark.parametrize("name", ["xgb", "gp"])
def test_a_proposal_leaves_the_other_cores_alone(monkeypatch, name):
    """The threads of a BLAS spin on after a product, on the core that measures, too."""
    import scipy.linalg  # noqa: F401  has a BLAS of its own
    from threadpoolctl import threadpool_info, threadpool_limits

    from whet.autotune.samplers.model import gaussian

    def threads():
        return {p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"}

    seen = []

    def kernel(away, of=gaussian.kernel):
        seen.append(threads())
        return of(away)

    monkeypatch.setattr(gaussian, "kernel", kernel)
    space = small_space()
    points = space.sample_points(np.random.default_rng(0), 30)
    with threadpool_limits(2, user_api="blas"):
        make_sampler(name, space).propose(History.of(points, list(np.arange(1.0, 31.0))))
        assert threads() == {2}
    assert seen and all(found == {1} for found in seen)


def test_a_space_with_next_to_nothing_left_is_searched_to_its_end():
    space = small_space()
    configs = propose(space, "xgb", space.size, lambda config: 1e-3)
    assert len({config.key for config in configs}) == space.size


def test_where_each_point_has_a_structure_few_are_looked_at():
    space = gemm_space()

    class Counted(SynthFeatures):
        share = 0.1

        def structures_of(self, points):
            return int(self.share * len(points))

        def of_points(self, points):
            proposed.update(point.tobytes() for point in points)
            return super().of_points(points)

    class Wide(Counted):
        share = 0.9

    found = []
    for kind in (Counted, Wide):
        proposed: set[bytes] = set()
        propose(space, "xgb", 24, gemm_cost, features=kind(space, gemm_cost))
        found.append(len(proposed))
    assert found[0] > AMPLE.first and found[1] < found[0] / 4
