"""A GPU and its host with clocks of their own: calls are queued now and run in their turn."""

from dataclasses import dataclass, field

from whet.compiler.runtime.gpu.driver.properties import DeviceProperties

PROPERTIES = DeviceProperties("made up", "sm_80", 108, l2_bytes=48 << 20)
RECORDING, FILLING = 1e-6, 2e-6
"""Seconds that the host takes to queue an event, a fill."""


@dataclass
class SimulatedGpu:
    """A context whose kernels take ``cost`` seconds; the host takes ``asking`` to queue one.

    Attributes:
        fill_s: seconds of a fill.
        hiccups: calls, by number, for which the host takes a millisecond.
        asleep_s: seconds of work until its frequency is up; all takes five times as long before.
        said: what was queued, in order; numbers are calls.
    """

    cost: float
    asking: float = 5e-6
    fill_s: float = 20e-6
    hiccups: tuple[int, ...] = ()
    asleep_s: float = 0.0
    host: float = 0.0
    free_at: float = 0.0
    calls: int = 0
    said: list = field(default_factory=list)
    properties: DeviceProperties = PROPERTIES
    room: int = 64 << 30

    def perf_counter(self):
        """The host's clock, in the place of the module ``time``."""
        return self.host

    def memory(self):
        return self.room, self.room

    def alloc(self, nbytes):
        self.said.append(("alloc", nbytes))
        return 256

    def free(self, address):
        self.said.append("free")

    def queue(self, what, seconds, asking):
        self.host += asking
        seconds *= 5 if self.asleep_s > 0 else 1
        self.asleep_s -= seconds
        self.free_at = max(self.host, self.free_at) + seconds
        self.said.append(what)

    def fill(self, address, byte, nbytes, stream=None):
        self.queue("fill", self.fill_s, FILLING)

    def run(self, number):
        for _ in range(number):
            slow = self.calls in self.hiccups
            self.calls += 1
            self.queue("call", self.cost, 1e-3 if slow else self.asking)

    def synchronize(self):
        self.host = max(self.host, self.free_at)

    def event(self):
        return SimulatedEvent(self)


class SimulatedEvent:
    def __init__(self, gpu):
        self.gpu, self.at = gpu, 0.0

    def record(self, stream=None):
        self.gpu.host += RECORDING
        self.at = max(self.gpu.host, self.gpu.free_at)
        self.gpu.said.append("event")

    def reached(self):
        return self.at <= self.gpu.host

    def synchronize(self):
        self.gpu.host = max(self.gpu.host, self.at)

    def seconds_since(self, earlier):
        return self.at - earlier.at
