"""Replayed devices: a build that compiles nothing, a measurement that takes its time and no core.

A cluster of them shows what proposing, sending, recording cost, without the devices. They are
announced as the kind ``replay-<milliseconds>ms``: a measurement there takes so long. One process
hosts several of them; a device that measures has a process of its own.
"""

from __future__ import annotations

import hashlib
import math
import platform
import re
import threading
import time
import zlib

from whet.measure.stage.builder import Built
from whet.measure.stage.runner import Measurement, RunReport
from whet.measure.values import OK, MeasureInput
from whet.search_spaces.values import Config

COST = "replayed_s"
"""The fact of a replayed build that holds its cost: seconds per call."""
HOSTED = 8
"""Replayed devices of one machine that one process hosts, at most: asleep they disturb nobody."""
_KIND = re.compile(r"replay-([0-9]{1,7})ms")


def replayed_kind(seconds: float) -> str:
    """The kind of replayed devices on which a measurement takes so long.

    >>> replayed_kind(1.0)
    'replay-1000ms'
    """
    return f"replay-{round(1000 * seconds)}ms"


def replayed_s(kind: str) -> float | None:
    """Seconds of a measurement on devices of a replayed kind; None for any other kind.

    >>> replayed_s("replay-250ms"), replayed_s("cpu-0123456789ab")
    (0.25, None)
    """
    found = _KIND.fullmatch(kind)
    return None if found is None else int(found[1]) / 1000


def landscape(config: Config) -> float:
    """A made-up cost that a sampler can learn: seconds per call, 1e-4 at the best.

    Each number among a knob's choices has a place where it is best, and the cost rises with its
    distance from there in powers of two; anything else has a cost of its own.
    """
    away = 0.0
    for knob, choice in config.choices:
        numbers = choice if isinstance(choice, list | tuple) else (choice,)
        for place, value in enumerate(numbers):
            name = f"{knob}.{place}"
            if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
                away += abs(math.log2(value) - zlib.crc32(name.encode()) % 5)
            else:
                away += zlib.crc32(f"{name}={value}".encode()) % 1000 / 500
    return 1e-4 * math.exp(0.2 * away)


class ReplayedBuild:
    """A builder that compiles nothing: each config is a program of its own."""

    def start(self) -> str:
        """The name of its machine."""
        return platform.node()

    def build(self, inp: MeasureInput) -> Built:
        """A candidate with its cost, and without an artifact."""
        begin = time.perf_counter()
        program = hashlib.sha256(f"{inp.workload.key} {inp.config.key}".encode()).hexdigest()
        facts = {COST: landscape(inp.config)}
        timings = {"lower_s": 0.0, "build_s": time.perf_counter() - begin}
        return Built(OK, program_hash=program, timings=timings, facts=facts)

    def close(self) -> None:
        """There is nothing to end."""


class ReplayedDevice:
    """A device that answers with a candidate's made-up cost after a while.

    Args:
        seconds: of a measurement, in which it holds no core.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ended = threading.Event()

    def start(self) -> str:
        """The name of its machine."""
        return platform.node()

    def overlaps_builds(self) -> bool:
        """It takes no core."""
        return False

    def run(self, measurement: Measurement) -> RunReport:
        """Wait, then answer."""
        begin = time.perf_counter()
        self._ended.wait(self._seconds)
        options, cost = measurement.options, float(measurement.built.facts[COST])
        return RunReport(
            OK,
            (cost,) * options.min_repeats,
            environment={"replayed": self._seconds},
            seconds=time.perf_counter() - begin,
        )

    def close(self) -> None:
        """End a measurement that goes on."""
        self._ended.set()


class ReplayedDevices:
    """Several devices in one process, each of which is called from a thread of its own.

    Args:
        seconds: of a measurement on each.
        count: of the devices.
    """

    def __init__(self, seconds: float, count: int) -> None:
        self._devices = [ReplayedDevice(seconds) for _ in range(count)]

    def start(self) -> str:
        """The name of their machine."""
        return platform.node()

    def run_on(self, place: int, measurement: Measurement) -> RunReport:
        """Measure on one of them."""
        return self._devices[place].run(measurement)

    def close(self) -> None:
        """End the measurements that go on."""
        for device in self._devices:
            device.close()
