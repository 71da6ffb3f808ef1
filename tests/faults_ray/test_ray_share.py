"""The share of a cluster's faults that each run of the tests causes: the others take minutes."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable

from ray_checks import actor_of, at_work, wait_for_work
from ray_machines import RayMachines, until
from ray_search import Search, recorded, states

LONG_S = 240.0
"""Seconds for what takes five on a machine that has nothing else to do."""


def test_a_search_loses_a_process_a_machine_and_its_driver(
    cluster: RayMachines, search: Callable[..., Search]
) -> None:
    a, b = cluster.add("a"), cluster.add("b")
    cluster.await_machines(a, b)
    one = search(60)
    until(lambda: one.is_at(1), LONG_S, lambda: one.said)

    for machine in (a, b):
        machine.pace(2.0)  # so that it has something in hand
    os.kill(actor_of(wait_for_work(one, a, "run")), signal.SIGKILL)
    wait_for_work(one, b, "run")
    b.kill()
    until(lambda: "(1 device, 1 builder) is lost" in one.said, LONG_S, lambda: one.said)
    at = len(one.reported)
    until(lambda: one.is_at(at + 3), LONG_S, lambda: one.said)
    assert re.search(r"whet: run on 'whet measure [^\n]*': \w+Error", one.said), one.said

    one.end()
    until(lambda: not at_work(cluster), LONG_S, lambda: at_work(cluster))
    assert one.statuses == {"ok": len(one.reported)}

    before = {config for run in recorded(one.log).values() for _, config in run}
    assert set(one.reported.values()) <= before
    two = search(len(before) + 4)
    assert two.wait(LONG_S) == 0, two.whole()
    assert two.statuses == {"ok": 4} and not before & set(two.reported.values())
    assert states(one.log) == ["lost", "finished"]
