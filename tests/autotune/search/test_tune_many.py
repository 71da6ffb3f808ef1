"""tune() of many tasks: who gets the trials, one pool, one record each, resuming, failures."""

from __future__ import annotations

import pytest
from autotune_pools import Recorder, Shuffling
from autotune_synthetic import gemm_cost, gemm_template, small_cost, small_template

from whet.autotune import Task, TuneResults, create_task, tune
from whet.autotune.search.task_scheduler import Turns, progress
from whet.compiler.errors import ArgumentError, LogError, MeasureError
from whet.db import TuningLog
from whet.measure import MeasureOptions, MeasureResult
from whet.search_spaces import get_config, template


@template("test/raising")
def raising(n):
    """Its default raises."""
    get_config().define_knob("a", [1, 2])
    raise ValueError(f"no program for {n}")


def cost_of(inp):
    return (small_cost if inp.workload.template == "test/small" else gemm_cost)(inp.config)


@pytest.fixture
def tasks(gemm, small):
    return [small, gemm, create_task(gemm_template, args=(256, 256, 256), target="llvm")]


def tuned(tasks, pool, log, trials, **options):
    options = {"sampler": "random", "progress": False} | options
    return tune(tasks, trials, log=log, workers=pool, **options)


def submitted(pool):
    return [(inp.workload.key, inp.config.key) for inp in pool.submitted]


def test_results_come_in_order_and_share_the_trials(tasks, tmp_path):
    pool = Recorder(cost_of)
    found = tuned(tasks, pool, tmp_path / "a.db", 150)
    assert isinstance(found, TuneResults) and len(found) == 3
    assert [r.task for r in found] == tasks
    assert sum(len(r.trials) for r in found) == 150 == len(pool.submitted)
    assert all(len(r.trials) >= 16 for r in found)
    for one in found:
        assert [t.number for t in one.trials] == list(range(len(one.trials)))
        assert one.best.cost == min(t.cost for t in one.trials)
    assert [r.workload for r in pool.references] == [t.workload for t in tasks]
    assert str(found).count("speed-up") == 3
    again = tuned(tasks, Recorder(cost_of), tmp_path / "a.db", 150)
    assert [r.best.config for r in again] == [r.best.config for r in found]


def test_the_dear_task_gets_more_and_weights_count(tasks, tmp_path):
    # gemm(768, 1152, 512) takes 80 times as long as gemm(256, 256, 256)
    dear, cheap = tasks[1], tasks[2]
    found = tuned([dear, cheap], Recorder(cost_of), tmp_path / "a.db", 120)
    assert len(found[0].trials) > 60 > len(found[1].trials)
    heavy = tuned([dear, cheap], Recorder(cost_of), tmp_path / "b.db", 120, weights=[1e-6, 1e6])
    assert len(heavy[0].trials) == 16 and len(heavy[1].trials) == 104


def test_equal_tasks_are_tuned_once(gemm, small, tmp_path):
    twin = create_task(gemm_template, args=(768, 1152, 512), target="llvm")
    pool = Recorder(cost_of)
    found = tuned([gemm, small, twin], pool, tmp_path / "a.db", 60, weights=[1, 1, 2])
    assert found[0] is found[2] and len(pool.submitted) == 60
    with TuningLog(tmp_path / "a.db") as log:
        weights = [r.options["search"]["weight"] for r in log.runs() if r.sampler == "random"]
    assert weights == [3.0, 1.0]


@pytest.mark.parametrize("sampler", ["random", "xgb"])
def test_the_same_seed_gives_the_same_trials_whoever_is_first(tasks, tmp_path, sampler):
    pools = [Recorder(cost_of), Shuffling(cost_of), Recorder(cost_of, 1)]
    for i, pool in enumerate(pools):
        tuned(tasks, pool, tmp_path / f"{i}.db", 48, sampler=sampler)
    first, *others = [submitted(pool) for pool in pools]
    for other in others:
        assert other == first


@pytest.mark.parametrize("sampler", ["random", "xgb"])
def test_a_search_that_is_stopped_goes_on_where_it_was(tasks, tmp_path, sampler, capsys):
    class Interrupted(Recorder):
        def collect(self, timeout=None):
            if len(self.submitted) >= 49:
                raise KeyboardInterrupt
            return super().collect(timeout)

    whole = Recorder(cost_of)
    expected = tuned(tasks, whole, tmp_path / "a.db", 60, sampler=sampler)
    first, rest = Interrupted(cost_of), Recorder(cost_of)
    with pytest.raises(KeyboardInterrupt):
        tuned(tasks, first, tmp_path / "b.db", 60, sampler=sampler)
    said = capsys.readouterr().err
    assert said.count("interrupted") == 3 and "test/small(64)" in said
    found = tuned(tasks, rest, tmp_path / "b.db", 60, sampler=sampler)
    for one, other in zip(found, expected):
        assert [t.config for t in one.trials] == [t.config for t in other.trials]
    recorded = len(submitted(first)) - 4  # what was in flight is lost
    assert recorded + len(rest.submitted) == 60
    # in two calls of different sizes, too
    tuned(tasks, Recorder(cost_of), tmp_path / "c.db", 41, sampler=sampler)
    both = tuned(tasks, Recorder(cost_of), tmp_path / "c.db", 60, sampler=sampler)
    for one, other in zip(both, expected):
        assert [t.config for t in one.trials] == [t.config for t in other.trials]


def test_trials_of_earlier_calls_count(tasks, tmp_path):
    small, gemm, _ = tasks
    tuned(gemm, Recorder(cost_of), tmp_path / "a.db", 50)
    pool = Recorder(cost_of)
    found = tuned([small, gemm], pool, tmp_path / "a.db", 80)
    assert len(pool.submitted) == 30
    assert len(found[0].trials) + len(found[1].trials) == 80
    assert len(found[0].trials) >= 16 and len(found[1].trials) >= 50


def test_one_task_that_fails_does_not_end_the_others(small, tmp_path):
    bad = create_task(gemm_template, args=(64, 64, 64), target="llvm")

    def cost(inp):
        if inp.workload == bad.workload:
            return MeasureResult("build_error", error="no registers left", stage="build")
        return cost_of(inp)

    broken = Task(raising.workload(7), small.target, raising)
    found = tuned([bad, small, broken], Recorder(cost), tmp_path / "a.db", 100)
    assert [r.state for r in found] == ["failed", "exhausted", "failed"]
    assert "all 50 candidates failed" in found[0].stopped and found[0].best is None
    assert "raised" in found[2].stopped and found[2].trials == []
    assert found[1].best.cost == min(small_cost(c) for c in small.config_space)
    with pytest.raises(MeasureError, match="all 50 candidates failed"):
        tuned([bad, bad], Recorder(cost), tmp_path / "b.db", 100)


def test_a_space_that_is_exhausted_leaves_its_trials_to_the_others(small, tmp_path):
    other = create_task(small_template, args=(128,), target="llvm")
    found = tuned([small, other], Recorder(cost_of), tmp_path / "a.db", 500)
    assert [len(r.trials) for r in found] == [42, 48]
    assert [r.state for r in found] == ["exhausted", "exhausted"]


def test_a_log_that_fails_ends_everything(tasks, tmp_path, monkeypatch):
    def full(*args, **options):
        raise LogError("add a trial", "the disk is full")

    monkeypatch.setattr(TuningLog, "add_trials", full)
    with pytest.raises(LogError, match="the disk is full"):
        tuned(tasks, Recorder(cost_of), tmp_path / "a.db", 60)


def test_the_progress_names_the_tasks(tasks, tmp_path, capsys):
    tuned(tasks, Recorder(cost_of), tmp_path / "a.db", 60, progress=True)
    said = capsys.readouterr().err
    for task in tasks:
        assert f"{task.workload}: measuring the best" in said


def test_wrong_lists_are_refused(gemm, small, tmp_path):
    import optuna

    log = tmp_path / "a.db"
    for tasks, options, said in (
        ([], {}, "no task in it"),
        ([gemm, "matmul"], {}, "a str is not a task"),
        ([gemm, small], {"weights": [1.0]}, "each of the 2 tasks"),
        ([gemm, small], {"weights": [1.0, -2.0]}, "each of the 2 tasks"),
        ([gemm, small], {"weights": 3}, "no list of numbers"),
        ([gemm, small], {"sampler": optuna.samplers.RandomSampler()}, "a sampler's name"),
    ):
        with pytest.raises(ArgumentError, match=said):
            tuned(tasks, Recorder(cost_of), log, 10, **options)
    assert not log.exists()


class Player:
    def __init__(self, weight, bests, expected=None, proposed=None):
        self.weight, self.bests, self._expected = weight, bests, expected
        self.proposed, self.is_open = len(bests) if proposed is None else proposed, True

    def expected_gain(self):
        return self._expected


def test_the_next_turn_goes_where_most_is_expected():
    falling = Player(1.0, [1.0 - 0.01 * i for i in range(40)])
    flat = Player(1.0, [1.0] * 40)
    assert Turns([flat, falling], 4).next() is falling
    hopeful = Player(1.0, [1.0] * 40, expected=0.9)
    assert Turns([flat, falling, hopeful], 4).next() is hopeful
    dear = Player(100.0, [1.0] * 40)
    assert Turns([dear, falling, hopeful], 4).next() is dear
    new = Player(1.0, [9.0] * 8)
    turns = Turns([dear, new], 4)
    assert [turns.next() for _ in range(4)] == [new] * 4
    new.is_open = False
    assert turns.next() is dear
    dear.is_open = False
    assert turns.next() is None


def test_the_first_turns_are_short_so_that_few_trials_are_shared():
    players = [Player(1.0, []), Player(1.0, [])]
    turns, order = Turns(players, 8), []
    for _ in range(32):
        order.append(turns.next())
        order[-1].proposed += 1
    who = "".join("ab"[one is players[1]] for one in order)
    assert who == "ababaabb" + "aaaabbbb" + "aaaaaaaabbbbbbbb"


def test_progress_is_relative():
    inf = float("inf")
    assert progress([2.0] * 10 + [1.0]) == 0.5
    assert progress([2.0] + [1.0] * 40) == 0.0
    assert progress([inf, inf, 1.0]) == 1.0


def test_real_kernels_share_one_pool_and_are_checked_by_their_own_defaults(tmp_path):
    from autotune_kernels import matmul

    shapes = ((32, 16, 32), (16, 24, 48))
    tasks = [create_task(matmul, args=shape, target="llvm") for shape in shapes]
    options = MeasureOptions(
        build_timeout=60.0, run_timeout=60.0, min_repeat_ms=0.5, max_measure_s=0.02
    )
    found = tuned(tasks, 1, tmp_path / "a.db", 36, options=options)
    for one in found:
        assert len(one.trials) >= 16 and one.outcomes() == {"ok": len(one.trials)}
        assert all(t.result.environment["checked"] for t in one.trials)
        assert one.seconds["build"] > 0 and one.seconds["measure"] > 0
    assert sum(len(one.trials) for one in found) == 36


def test_a_budget_of_a_few_trials_is_shared_too(tasks, tmp_path):
    found = tuned(tasks, Recorder(cost_of), tmp_path / "a.db", 6)
    assert [len(r.trials) for r in found] == [2, 2, 2]
    with pytest.raises(ArgumentError, match="2 trials cannot be shared by 3 tasks"):
        tuned(tasks, Recorder(cost_of), tmp_path / "b.db", 2)
