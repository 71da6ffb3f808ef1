"""A trial that takes long is told when it comes, holds nobody up, and the log can replay it."""

from __future__ import annotations

import json
import time

import pytest
from autotune_pools import Recorder
from autotune_synthetic import gemm_cost, small_cost

from whet.autotune import tune
from whet.autotune.search import order
from whet.autotune.search.order import Order, Turn
from whet.db import TuningLog
from whet.measure.values import MeasureResult


class Holding(Recorder):
    """Holds the results of some configs back until another config is submitted.

    Args:
        held: by the key of a config, the key of the one with which its result comes.
        ends: Ctrl-C is pressed once so many were submitted; None: it is not.
    """

    def __init__(self, held, ends=None, capacity=4):
        super().__init__(lambda inp: gemm_cost(inp.config), capacity)
        self.held, self.ends, self.back = held, ends, []
        self.ticket_of = {}

    def submit(self, inp):
        ticket = super().submit(inp)
        self.ticket_of[inp.config.key] = ticket
        return ticket

    def collect(self, timeout=None):
        if self.ends is not None and len(self.submitted) >= self.ends:
            raise KeyboardInterrupt
        waiting = {
            self.ticket_of[key]
            for key, until in self.held.items()
            if key in self.ticket_of and until not in self.ticket_of
        }
        done = self.back + super().collect(timeout)
        self.back = [one for one in done if one[0] in waiting]
        time.sleep(0.002)
        return [one for one in done if one[0] not in waiting]


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(order, "FLOOR", 1.0)


def logged(path):
    """By number the config and what was told before it, of the first runs of a log."""
    with TuningLog(path, write=False) as log:
        rows = log.read(
            "look",
            lambda c: c.exec_driver_sql(
                "SELECT number, config, told FROM trial JOIN run ON run.id = trial.run_id "
                "WHERE run.sampler <> 'finalists' ORDER BY number"
            ).all(),
        )
    assert [number for number, *_ in rows] == list(range(len(rows)))
    return [config for _, config, _ in rows], [json.loads(told) for *_, told in rows]


def search(task, path, pool, trials=40, sampler="tpe"):
    return tune(task, trials, path, sampler, pool, seed=3, progress=False)


@pytest.fixture
def whole(gemm, tmp_path):
    """The submitted configs of a search whose sixth trial is late, and its log."""
    first = Recorder(lambda inp: gemm_cost(inp.config))
    search(gemm, tmp_path / "first.db", first, 10)
    late = first.submitted[5].config.key
    # It comes with the last but one: which one that is depends on what was told without it.
    keys: list[str] = []
    for _ in range(2):
        pool = Holding({late: keys[30] if keys else "never"}, 36 if not keys else None)
        path = tmp_path / f"whole{len(keys)}.db"
        try:
            search(gemm, path, pool)
        except KeyboardInterrupt:
            keys = [inp.config.key for inp in pool.submitted]
    return late, keys[30], [inp.config.key for inp in pool.submitted], path


def test_a_late_trial_holds_nobody_up_and_is_told_when_it_comes(whole):
    late, until, keys, path = whole
    assert len(keys) == len(set(keys)) == 40 and keys[5] == late and keys[30] == until
    told = logged(path)[1]
    flat = [number for each in told for number in each]
    place = next(n for n, each in enumerate(told) if 5 in each)
    # Others were told before it, in their order; it as soon as it was there.
    assert place in range(31, 35) and len(flat) == len(set(flat))
    others = [number for number in flat if number != 5]
    assert others == sorted(others) and others[:6] == [0, 1, 2, 3, 4, 6]
    # The window has its place free: 9 was held up by it, then four are in flight beside it.
    assert told[8] == [4] and told[9] == [] and told[10] == [6]


# Not where a trial is in flight that was proposed before the late one was told, and after it came:
# it is not in the log, and who goes on knows the late one's cost by then.
@pytest.mark.parametrize("ends", [9, 12, 20, 39])
def test_a_search_with_a_late_trial_goes_on_from_its_log_as_it_would_have(
    whole, gemm, tmp_path, ends
):
    late, until, _, path = whole
    with pytest.raises(KeyboardInterrupt):
        search(gemm, tmp_path / "b.db", Holding({late: until}, ends))
    pool = Holding({late: until})
    search(gemm, tmp_path / "b.db", pool)
    configs, told = logged(path)
    again, told_again = logged(tmp_path / "b.db")
    assert told_again == told
    assert again == configs


def test_many_tasks_are_not_held_up_either(gemm, small, tmp_path):
    class Both(Holding):
        def __init__(self):
            super().__init__({})
            self._costs = lambda inp: (
                small_cost if inp.workload.template == "test/small" else gemm_cost
            )(inp.config)

        def submit(self, inp):
            if len(self.submitted) == 7:
                self.held = {inp.config.key: "never"}
            if len(self.submitted) == 45:
                self.held = {}
            return super().submit(inp)

    pool = Both()
    found = tune([gemm, small], 60, tmp_path / "a.db", "random", pool, progress=False)
    assert sum(len(one.trials) for one in found) == len(pool.submitted) == 60


def test_the_order_of_telling():
    ok = MeasureResult("ok", (1e-3,))
    turns = [Turn(None, number, number) for number in range(5)]
    line = Order(4)
    for turn in turns[:4]:
        line.add(turn)
    assert line.is_full(False) and line.next() is None and not line.set_aside()
    for turn in turns[:4]:
        turn.since -= 60
    assert not line.set_aside()  # no worker is up yet: they hold nobody up
    for turn in turns[:4]:
        turn.since += 60
    for turn in turns[1:4]:
        turn.result = ok
        line.lasted(turn)
    line.lasted(turns[1])
    assert not line.set_aside()  # it runs for as long as the others
    turns[0].since -= 60
    assert line.set_aside() and not line.is_full(False)
    line.add(turns[4])
    assert line.is_full(False) and line.next() is turns[1]
    turns[0].result = ok
    assert line.next() is turns[0]  # late, and told when it comes
    assert [line.next() for _ in range(3)] == [turns[2], turns[3], None]
