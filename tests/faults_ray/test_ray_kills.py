"""Processes, machines and drivers of a search are killed: it goes on, or says what happened."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator

import pytest
from ray_checks import actor_of, at_work, wait_for_work
from ray_machines import Machine, RayMachines, until
from ray_search import Search, states

pytestmark = pytest.mark.faults
WAIT_S = 5.0
"""For a worker after the last one is lost; 60 s for users."""


@pytest.fixture
def machines(cluster: RayMachines) -> Iterator[list[Machine]]:
    """Two machines that build and measure; those that a test has killed are started again."""
    both = [cluster.machines.get(name) for name in ("a", "b")]
    pair = [m if m and m.pids("raylet") else cluster.add(n) for m, n in zip(both, ("a", "b"))]
    cluster.await_machines(*pair)
    yield pair


def test_a_killed_process_costs_no_trial(
    machines: list[Machine], search: Callable[..., Search]
) -> None:
    machines[1].pace(4.0)  # so that the other one has something to do until all are killed
    one = search(24)
    until(lambda: one.is_at(2), why=lambda: one.said)
    for act, name in (("build", "build"), ("run", "measure")):
        for whom in (actor_of, lambda pid: pid):  # the actor, then the worker below it alone
            at = len(one.reported)
            os.kill(whom(wait_for_work(one, machines[0], act)), signal.SIGKILL)
            until(lambda at=at: one.is_at(min(24, at + 2)), why=lambda: one.said)
        # what it did when it was lost, and how Ray put it
        assert re.search(rf"whet: \w+ on 'whet {name} [^\n]*': \w+Error", one.said), one.said
    machines[1].pace(None)
    assert one.wait(120) == 0, one.whole()
    assert one.finished == ("finished", 24)
    # A worker that dies by itself takes its candidate along: that one crashed.
    assert one.statuses["ok"] >= 22 and set(one.statuses) <= {"ok", "build_crash", "run_crash"}


def test_a_search_goes_on_without_a_killed_machine_and_uses_it_when_it_is_back(
    cluster: RayMachines, machines: list[Machine], search: Callable[..., Search]
) -> None:
    a, b = machines
    one = search(60)
    until(lambda: one.is_at(2), why=lambda: one.said)
    for round_, act in enumerate(("build", "run"), 1):
        wait_for_work(one, b, act)
        b.kill()
        until(lambda n=round_: one.said.count("(1 device, 1 builder) is lost") == n, 30)
        at, did = len(one.reported), len(b.did("run"))
        until(lambda at=at: one.is_at(at + 3), why=lambda: one.said)
        a.pace(4.0)  # so that there is something to do for who comes back
        cluster.add("b")
        until(lambda n=round_: one.said.count("(1 device, 1 builder) joins") == n, 120, b.said)
        until(lambda did=did: len(b.did("run")) > did, why=lambda: one.said)
        a.pace(None)
    assert one.wait(180) == 0, one.whole()
    assert one.finished == ("finished", 60) and one.statuses == {"ok": 60}
    assert a.did("run") and b.did("run")


def test_without_any_machine_a_search_ends_in_time_and_its_successor_goes_on(
    cluster: RayMachines, machines: list[Machine], search: Callable[..., Search]
) -> None:
    one = search(30, wait_s=WAIT_S)
    until(lambda: one.is_at(4), why=lambda: one.said)
    for machine in machines:
        machine.kill()
    took = until(lambda: one.process.poll() is not None, 60, lambda: one.said)
    assert one.wait(1) == 1
    # what was asked and why; then what was lost and when, and the way out
    assert re.search(r"MeasureError: .*nothing is left that can (build|measure on cpu-)", one.error)
    assert (
        len(re.findall(r"\d\d:\d\d:\d\d whet: node \S+ \(1 device, 1 builder\) is lost", one.error))
        == 2
    )
    assert "what was measured is in the log" in one.error
    assert took < WAIT_S + 15, f"{took:.0f} s"
    assert states(one.log) == ["failed"]
    before = set(one.reported.values())
    cluster.await_machines(cluster.add("a"))
    two = search(30)
    assert two.wait(180) == 0, two.whole()
    assert two.finished == ("finished", 30)
    assert not before & set(two.reported.values())
    assert len(before) + len(two.reported) == 30


@pytest.mark.parametrize("by", ["address", "client_address"])
def test_the_actors_of_a_killed_driver_are_gone_in_ten_seconds(
    cluster: RayMachines, machines: list[Machine], search: Callable[..., Search], by: str
) -> None:
    one = search(40, address=getattr(cluster, by))
    until(lambda: one.is_at(3), why=lambda: one.said)
    assert at_work(cluster)
    one.end()
    took = until(lambda: not at_work(cluster), 60, lambda: at_work(cluster))
    assert took < 10, f"{took:.0f} s"
    two = search(len(one.reported) + 6, address=getattr(cluster, by))
    assert two.wait(180) == 0, two.whole()
    assert not set(one.reported.values()) & set(two.reported.values())
    assert states(one.log) == ["lost", "finished"]
