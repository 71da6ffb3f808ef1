"""Processes that search on one log: nothing twice, the total is of all, and one may be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from whet.db import TuningLog

PROGRAM = Path(__file__).with_name("search_on_log.py")


class Search:
    """A process that searches, and what it said.

    Args:
        folder: for its output.
        name: of its file.
        more: the program's arguments.
    """

    def __init__(self, folder, name, location, trials, sampler="random", many="one", seconds=0.02):
        self.out, self.err = folder / f"{name}.out", folder / f"{name}.err"
        self.hurry = folder / "hurry"
        more = [location, sampler, str(trials), many, str(seconds), str(self.hurry)]
        with open(self.out, "w") as out, open(self.err, "w") as err:
            self.process = subprocess.Popen(
                [sys.executable, PROGRAM, *more], stdout=out, stderr=err
            )

    @property
    def measured(self):
        """The configs that it began to measure."""
        lines = self.out.read_text().split("\n")[:-1]
        return [line.removeprefix("measures ") for line in lines if line.startswith("measures ")]

    @property
    def result(self):
        """Config, cost, number of trials and state of each task."""
        last = self.out.read_text().splitlines()[-1]
        assert last.startswith("result "), last
        return json.loads(last.removeprefix("result "))

    def wait(self):
        code = self.process.wait(timeout=300)
        assert code == 0, self.err.read_text()

    def wait_until_busy(self, count):
        until = time.monotonic() + 300
        while len(self.measured) < count:
            assert self.process.poll() is None, self.err.read_text()
            assert time.monotonic() < until, "the search does not come on"
            time.sleep(0.02)

    def go_fast(self):
        """Have measurements take no time from now on, those of the other searches, too."""
        self.hurry.touch()


@pytest.fixture
def search(tmp_path, location):
    """Starts processes on one log, and ends those that are left."""
    started = []

    def start(trials, **more):
        started.append(Search(tmp_path, str(len(started)), location, trials, **more))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.wait()


def recorded(location):
    """Configs of the searches' trials, with their template; states of sessions; claims."""
    with TuningLog(location, write=False) as log:
        finals = {run.id for run in log.runs() if run.sampler == "finalists"}
        trials = [
            f"{t.workload.template} {t.config.key}" for t in log.trials() if t.run_id not in finals
        ]
        query = "SELECT state FROM session ORDER BY id", "SELECT count(*) FROM claim"
        states = log.read("look", lambda c: list(c.exec_driver_sql(query[0]).scalars()))
        claims = log.read("look", lambda c: c.exec_driver_sql(query[1]).scalar_one())
    return trials, states, claims


@pytest.mark.parametrize("sampler", ["random", "grid"])
def test_two_searches_share_the_trials_and_have_one_best(search, location, sampler):
    # Long enough that the later one is up before the other is through, and that a line tells.
    both = [search(60, sampler=sampler, seconds=0.3) for _ in range(2)]
    for one in both:
        one.wait_until_busy(10)
    both[0].go_fast()
    for one in both:
        one.wait()
    trials, states, claims = recorded(location)
    assert len(trials) == len(set(trials)) == 60
    measured = [config for one in both for config in one.measured]
    assert sorted(measured) == sorted(trials)  # nothing twice, nothing in vain
    assert both[0].result == both[1].result
    assert both[0].result[0][2:] == [60, "finished"]
    assert states == ["finished"] * 2 and claims == 0
    assert any("by other searches" in one.err.read_text() for one in both)
    # It is finished: the same call returns at once, and a larger number goes on.
    again, more = search(60, sampler=sampler), None
    again.wait()
    assert again.measured == [] and again.result == both[0].result
    more = search(66, sampler=sampler)
    more.wait()
    assert len(more.measured) == 6 and not set(more.measured) & set(measured)


def test_of_four_searches_one_is_killed_and_the_others_do_its_share(search, location):
    four = [search(80, seconds=1.0) for _ in range(4)]
    victim = four[1]
    victim.wait_until_busy(3)
    os.kill(victim.process.pid, signal.SIGKILL)
    victim.process.wait()
    victim.go_fast()
    alive = [one for one in four if one is not victim]
    for one in alive:
        one.wait()
    trials, states, claims = recorded(location)
    assert len(trials) == len(set(trials)) == 80
    by_alive = [config for one in alive for config in one.measured]
    assert len(by_alive) == len(set(by_alive))
    in_flight = set(victim.measured) & set(by_alive)
    assert len(in_flight) <= 4  # what it had claimed and not recorded
    assert set(trials) == set(by_alive) | set(victim.measured) & set(trials)
    assert sorted(states) == ["finished"] * 3 + ["lost"] and claims == 0
    assert alive[0].result == alive[1].result == alive[2].result


def test_searches_of_many_tasks_share_their_total(search, location):
    both = [search(70, many="many"), search(70, many="many")]
    for one in both:
        one.wait()
    trials, _, claims = recorded(location)
    assert len(trials) == len(set(trials)) == 70 and claims == 0
    assert sorted(config for one in both for config in one.measured) == sorted(trials)
    assert both[0].result == both[1].result


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_search_that_is_interrupted_gives_up_its_claims(search, location, how):
    first, second = search(40, seconds=0.4), search(40, seconds=0.4)
    first.wait_until_busy(5)
    second.wait_until_busy(1)
    os.kill(first.process.pid, how)
    assert first.process.wait(timeout=120) in (128 + signal.SIGTERM, 1, 130, -signal.SIGINT)
    first.go_fast()
    assert "interrupted" in first.err.read_text()
    _, states, _ = recorded(location)
    assert "interrupted" in states, first.err.read_text()
    second.wait()
    trials, states, claims = recorded(location)
    assert len(trials) == len(set(trials)) == 40 and claims == 0
    assert sorted(states) == ["finished", "interrupted"]
