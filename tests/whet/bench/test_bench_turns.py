"""Timing in turns: whose turn it is, how many calls a sample has, and what it waits for."""

from __future__ import annotations

import hashlib
import threading
import time
from pathlib import Path

import pytest

from whet.bench.turns import HostClock, interleaved


def test_a_sample_has_as_many_calls_as_the_quickest_of_some_says():
    ticks = iter([0.0, 4.0, 4.0, 4.25, 5.0, 6.0, 6.0, 8.0, 8.0, 9.0])  # the second takes 0.25
    assert HostClock(2.0, clock=lambda: next(ticks)).calls(lambda calls: None) == 8


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="tells of no threads")
def test_a_sample_waits_until_other_threads_sleep():
    until = time.monotonic() + 0.1

    def spin():
        while time.monotonic() < until:
            hashlib.sha256(bytes(1 << 20)).digest()  # without Python's lock

    other = threading.Thread(target=spin)
    other.start()
    began = []
    HostClock(0.0, pause=1e-6).sample(lambda calls: began.append(time.monotonic()), 1)
    other.join()
    assert until <= began[0] < until + 0.2


def test_turns_rotate():
    order = []
    found = interleaved({n: (lambda n=n: order.append(n)) for n in "abc"}, 3, HostClock(0.0))
    assert order == list("aaaaaabbbbbbcccccc") + list("abc") + list("bca") + list("cab")
    assert {n: len(s.seconds) for n, s in found.items()} == {"a": 3, "b": 3, "c": 3}
    order.clear()
    interleaved({"a": lambda: order.append("a")}, 2, HostClock(0.0, pause=1e-6, warm=3))
    assert order == list("aaaaaa") + 2 * list("aaaa")  # each sample is preceded by three calls
    ticks = iter([2.0, 6.0])
    assert HostClock(clock=lambda: next(ticks)).sample(lambda calls: None, 8) == (0.5, False)
    few = interleaved({"a": lambda: None, "b": lambda: None}, 90, HostClock(0.0), seconds=0.0)
    assert {n: len(s.seconds) for n, s in few.items()} == {"a": 15, "b": 15}  # no fewer
