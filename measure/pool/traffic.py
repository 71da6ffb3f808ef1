"""Candidates between builders and measurers: who is there, what waits, who takes it next.

A builder takes a candidate only while fewer than :data:`AHEAD` prepared ones wait for each device
of its kind, and keeps one that is ready in its hands where that many wait already. So builds
overlap measurements, and nothing piles up before a slow device.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from whet.compiler.errors import MeasureError
from whet.measure.stage.builder import Built
from whet.measure.values import MeasureInput

AHEAD = 2
"""Prepared candidates that may wait for one device."""
TRIES = 3
"""Attempts at one stage of a candidate when a worker or a machine is lost."""
LOST_S = 0.2
"""Seconds after a loss in which others take what was in hand, and more losses are noticed."""
AGAIN_S = 60.0
"""Seconds for which the last measurement begins anew, however often it loses its worker: machines
may die one after the other while others take their places."""
LOOK_S = 1.0
"""Seconds after which whoever waits looks around, even if nobody woke it."""
BUILD = ""
"""The group of the builders; measurers are grouped by the kind of their devices."""


@dataclass(eq=False)
class Job:
    """One candidate on its way.

    Attributes:
        kind: the kind of device that shall measure it.
        lost: workers that were lost while they had it.
    """

    ticket: int
    inp: MeasureInput
    kind: str
    begin: float
    built: Built = field(default_factory=lambda: Built("infra_error"))
    lost: int = 0


@dataclass(eq=False)
class Reference:
    """The default config of one workload on one kind, built when its first candidate is."""

    inp: MeasureInput
    built: Built | None = None
    claimed: bool = False
    lost: int = 0
    ready: threading.Event = field(default_factory=threading.Event)


@dataclass(eq=False)
class Seat:
    """A worker's place in the pool.

    Attributes:
        stage: the worker, here or elsewhere.
        kind: of its device; for a builder :data:`BUILD`.
        measures: it is a measurer.
        apart: it measures on cores that nobody else uses, parallel kernels, too.
        disturbs: it works on the builders' cores, and waits with them for who measures alone.
        up: it has started, and may be given work.
        left: it takes nothing more.
        gone: what it has in hand is lost, too.
    """

    stage: Any
    kind: str = BUILD
    measures: bool = False
    apart: bool = False
    disturbs: bool = False
    up: bool = False
    left: bool = False
    gone: bool = False


class Traffic:
    """The queues and the seats of a pool, under one lock.

    Attributes:
        lock: held for all that is here, and for what the pool keeps beside it.
        done: notified when a candidate has ended, and when the pool fails or closes.
        devices: how many measure, by their kinds.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.done = threading.Condition(self.lock)
        self.closed = False
        self.seats: list[Seat] = []
        self.devices: Counter[str] = Counter()
        self.kinds: set[str] = set()
        self.due: deque[Reference] = deque()  # whose builder was lost: before all else
        self._to_build: deque[Job] = deque()
        self._to_run: defaultdict[str, deque[Job]] = defaultdict(deque)
        self._work = threading.Condition(self.lock)
        self._hands = threading.Condition(self.lock)  # builders with a candidate in their hands
        self._prepared: defaultdict[str, threading.Condition] = defaultdict(
            lambda: threading.Condition(self.lock)
        )
        self._began = time.monotonic()
        # When a group's last worker went down, 0 while one is up; and whether any ever was.
        self._down_since: dict[tuple[bool, str], tuple[float, bool]] = {}

    # --- who is there --------------------------------------------------------------------------

    def working(self, measures: bool, kind: str = BUILD) -> list[Seat]:
        """Who builds, or measures for a kind; those that have not started yet, too."""
        return [s for s in self.seats if s.measures == measures and s.kind == kind and not s.left]

    def attempts(
        self, check: Callable[[list[tuple[bool, str]]], None], measures: bool, kind: str
    ) -> Iterator[None]:
        """Attempts at what workers of a group are lost with, until it is likely to be the reason.

        Args:
            check: of the pool: raises where it cannot go on.
            measures, kind: as of :meth:`working`.
        """
        end, count = time.monotonic() + AGAIN_S, 0
        while count < TRIES * max(1, len(self.working(measures, kind))) or time.monotonic() < end:
            if count:
                time.sleep(LOST_S)
                check([(measures, kind)])
            yield
            count += 1

    def kind_of(self, device: str, others: Sequence[str]) -> str:
        """The kind of device that a candidate names; "" names the only one.

        Args:
            device: a kind.
            others: other names of the only kind; none: an unnamed one is whatever is asked for.

        Raises:
            MeasureError: there is none of that kind, or there are several.
        """
        with self.lock:
            if device in self.kinds:
                return device
            unnamed = self.kinds == {""} and not others
            if len(self.kinds) == 1 and (not device or device in others or unnamed):
                return next(iter(self.kinds))
            raise MeasureError(
                f"measurement on {device or 'a device of any kind'}",
                f"the pool has {', '.join(sorted(self.kinds)) or 'no devices'}",
                "MeasureInput(device=...) names one of these",
            )

    def add(self, seat: Seat) -> None:
        """Let a worker take part from now on."""
        with self.lock:
            self.seats.append(seat)
            if seat.measures:
                self.kinds.add(seat.kind)
                self.devices[seat.kind] += 1
            self._note_down(seat)

    def mark(self, seat: Seat, up: bool) -> None:
        """Note that a worker has started, or is lost."""
        with self.lock:
            seat.up = up
            self._note_down(seat)
            if up:
                self.done.notify_all()

    def remove(self, seat: Seat, gone: bool = False) -> bool:
        """Give a worker nothing more; False if it has left before.

        Args:
            gone: drop what it has in hand, too; else it finishes that.
        """
        with self.lock:
            seat.gone = seat.gone or gone
            if seat.left:
                return False
            seat.left = True
            self.seats.remove(seat)
            self.devices[seat.kind] -= seat.measures
            self._note_down(seat)
            self.wake()
            return True

    def wake(self) -> None:
        """Have everybody look around."""
        with self.lock:
            for condition in (self.done, self._work, self._hands, *self._prepared.values()):
                condition.notify_all()

    @property
    def capacity(self) -> int:
        """One for each builder, and for each device one at work and those that wait for it."""
        with self.lock:
            return max(2, len(self.seats) + AHEAD * self.devices.total())

    def idle_for(self, measures: bool, kind: str = BUILD) -> tuple[float, bool]:
        """Seconds for which nobody of a group has been up; and whether anybody ever was."""
        with self.lock:
            since, ever = self._down_since.get((measures, kind), (self._began, False))
            return (time.monotonic() - since if since else 0.0), ever

    def _note_down(self, seat: Seat) -> None:
        group = seat.measures, seat.kind
        since, ever = self._down_since.get(group, (self._began, False))
        if any(one.up for one in self.working(*group)):
            self._down_since[group] = 0.0, True
        else:
            self._down_since[group] = since or time.monotonic(), ever

    # --- what waits ----------------------------------------------------------------------------

    def to_build(self, job: Job, first: bool = False) -> None:
        """Queue a candidate for any builder."""
        with self.lock:
            if first:
                self._to_build.appendleft(job)
            else:
                self._to_build.append(job)
            self._work.notify()

    def build_again(self, reference: Reference) -> None:
        """Have a reference built before anything else: measurers may wait for it."""
        with self.lock:
            self.due.append(reference)
            self._work.notify_all()
            self._hands.notify_all()

    def next_build(self, seat: Seat) -> Job | Reference | None:
        """Wait for something to build; None: the builder leaves."""
        with self.lock:
            while not self.closed and not seat.left:
                if self.due:
                    return self.due.popleft()
                for place, job in enumerate(self._to_build):
                    if self._has_room(job.kind):
                        del self._to_build[place]
                        return job
                self._work.wait(LOOK_S)
            return None

    def hand_over(self, job: Job, seat: Seat) -> Reference | None:
        """Queue a built candidate for its kind of device as soon as there is room for it.

        Returns: a reference that has to be built before; then call again. A builder that leaves
        hands over what it has at once.
        """
        with self.lock:
            while not (self.closed or seat.left or self._has_room(job.kind)):
                if self.due:
                    return self.due.popleft()
                self._hands.wait(LOOK_S)
            self.to_run(job)
            return None

    def to_run(self, job: Job, first: bool = False) -> None:
        """Queue a built candidate, room or not."""
        with self.lock:
            waiting = self._to_run[job.kind]
            if first:
                waiting.appendleft(job)
            else:
                waiting.append(job)
            self._prepared[job.kind].notify()

    def next_run(self, seat: Seat) -> Job | None:
        """Wait for a candidate to measure; None: the measurer leaves."""
        with self.lock:
            waiting, ready = self._to_run[seat.kind], self._prepared[seat.kind]
            while not self.closed and not seat.left:
                if waiting:
                    self._hands.notify()
                    self._work.notify()
                    return waiting.popleft()
                ready.wait(LOOK_S)
            return None

    def stranded(self) -> Iterator[tuple[bool, str]]:
        """The groups without which what is in flight cannot go on: ``(measures, kind)``."""
        with self.lock:
            if self._to_build or self.due:
                yield False, BUILD
            for kind, waiting in self._to_run.items():
                if waiting:
                    yield True, kind

    def _has_room(self, kind: str) -> bool:
        return len(self._to_run[kind]) < AHEAD * max(1, self.devices[kind])
