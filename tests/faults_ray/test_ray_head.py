"""Ray's own processes are killed: a machine's raylet, the head, the head that is started again."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable

import pytest
from ray_checks import at_work
from ray_machines import Machine, RayMachines, command, until
from ray_search import Search, recorded, states

from whet.measure.cluster.last_word import ENDED

pytestmark = pytest.mark.faults
HEAD_S = 10.0
"""Seconds without an answer after which the head counts as gone; 30 s for users."""
MORE_S = 20.0
"""For the last question that is under way, the log, and a busy machine."""


def up(cluster: RayMachines, anew: bool = False) -> list[Machine]:
    """A head and two machines, all of them new where one has been killed, or that is asked for."""
    whole = [m for m in cluster.machines.values() if m.pids("raylet/raylet")]
    if anew or len(whole) < max(3, len(cluster.machines)):
        for machine in list(cluster.machines.values()):
            machine.kill()
        cluster.start_head()
        cluster.add("a")
        cluster.add("b")
        cluster.await_machines(cluster.machines["a"], cluster.machines["b"])
    return [cluster.machines["a"], cluster.machines["b"]]


def test_a_search_goes_on_without_a_killed_raylet(
    cluster: RayMachines, search: Callable[..., Search]
) -> None:
    _, b = up(cluster)
    one = search(30)
    until(lambda: one.is_at(3), why=lambda: one.said)
    until(lambda: b.at_work("run"))
    (raylet,) = (pid for pid in b.pids("raylet/raylet") if "--raylet" in command(pid))
    os.kill(raylet, signal.SIGKILL)
    until(lambda: "(1 device, 1 builder) is lost" in one.said, 30)
    # all that the machine had ends with its raylet
    until(lambda: not [pid for pid in b.pids() if "Agent" not in command(pid)], 60, b.pids)
    assert one.wait(150) == 0, one.whole()
    assert one.finished == ("finished", 30) and one.statuses == {"ok": 30}
    b.kill()


@pytest.mark.parametrize("again", [False, True], ids=["gone", "started-again"])
def test_a_search_ends_clearly_when_the_head_dies_and_goes_on_from_the_log(
    cluster: RayMachines, search: Callable[..., Search], again: bool
) -> None:
    up(cluster)
    one = search(30, address=cluster.client_address, head_s=HEAD_S)
    until(lambda: one.is_at(4), why=lambda: one.said)
    cluster.head.kill()
    if again:
        cluster.start_head()
    took = until(lambda: one.process.poll() is not None, 120, lambda: one.said)
    assert took < HEAD_S + MORE_S, f"{took:.0f} s\n{one.said}"
    assert one.wait(1) == 1, one.whole()
    assert re.search(
        r"MeasureError: Ray cluster: its head has not answered for \d+ s, since \d\d:\d\d:\d\d",
        one.error,
    ), one.error
    assert "start the head and its workers again: what was measured is in the log" in one.error
    assert states(one.log) == ["failed"]
    if not again:  # the machines wait for it for a while, then end, too
        until(lambda: not at_work(cluster), 90, lambda: at_work(cluster))
    goes_on(cluster, search, one, cluster.client_address)


def test_a_search_on_a_machine_of_the_cluster_ends_with_that_machines_ray(
    cluster: RayMachines, search: Callable[..., Search]
) -> None:
    """Ray's library ends the process at once: another one says so."""
    up(cluster)
    one = search(30)
    until(lambda: one.is_at(4), why=lambda: one.said)
    cluster.head.kill()
    until(lambda: one.process.poll() is not None, HEAD_S, lambda: one.said)
    until(lambda: ENDED.format(pid=one.process.pid) in one.said, 5, lambda: one.said)
    assert one.process.returncode == 1 and not one.lines("ended")
    goes_on(cluster, search, one, cluster.address)


def goes_on(cluster: RayMachines, search: Callable[..., Search], one: Search, address: str) -> None:
    """On new machines, the same search measures what is missing, and nothing twice."""
    up(cluster, anew=True)  # machines of the former head may not have ended yet
    before = {config for run in recorded(one.log).values() for _, config in run}
    two = search(len(before) + 6, address=address)
    assert two.wait(150) == 0, two.whole()
    assert two.finished == ("finished", len(before) + 6)
    assert not before & set(two.reported.values()) and len(two.reported) == 6
    assert not [line for line in two.said.splitlines() if line.startswith("whet: process")]
