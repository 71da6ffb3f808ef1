"""Values of searches that share a log: answers to a claim, counters, points, the name of a task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from whet.db.values.records import Told, TrialRecord
from whet.measure.device.names import Device
from whet.measure.values import Json
from whet.search_spaces.values import Workload


@dataclass(frozen=True)
class TaskKey:
    """The name of a task in a log: its trials can be compared, and have one best.

    Attributes:
        workload: the template's name and arguments.
        target: the canonical target as JSON.
        device: fingerprint or description of the machine that measures.
        fingerprint: the space's.
    """

    workload: Workload
    target: Json
    device: Device
    fingerprint: str


@dataclass(frozen=True)
class Mine:
    """The config is claimed for the session that asked: measure it and add its trial."""


@dataclass(frozen=True)
class Taken:
    """Another is measuring the config now.

    Attributes:
        uid: of the session that claimed it.
        host: the name of its machine.
        own: it is the session that asks, for another number or run.
    """

    uid: str
    host: str
    own: bool = False


@dataclass(frozen=True)
class Recorded:
    """A search has recorded a trial of the config.

    Attributes:
        trial: the record; a success, if there is one of the config.
    """

    trial: TrialRecord


@dataclass(frozen=True)
class Full:
    """As many configs were tried, or are being measured, as all searches together should try.

    Where claims are left, one of them may yet come to nothing, and make room.

    Attributes:
        trials: configs that were tried.
        claims: configs that are being measured.
    """

    trials: int
    claims: int


Answer = Mine | Taken | Recorded | Full
"""An answer to a claim."""


@dataclass(frozen=True)
class Counts:
    """The counters of a task.

    Attributes:
        trials: configs that searches tried, each counted once; lost workers do not count.
        succeeded: how many of them were built, ran and gave right numbers.
        claims: configs that are being measured now.
    """

    trials: int
    succeeded: int
    claims: int

    @property
    def failed(self) -> int:
        """Configs that were tried, and did not work."""
        return self.trials - self.succeeded


class LoggedPoint(NamedTuple):
    """A trial of a search in few bytes.

    Attributes:
        id: its number in the log; those of one task rise in the order in which they were recorded.
        run_id: the run that proposed it.
        number: its number in the run.
        config: the config as JSON text.
        status: of its result.
        cost: seconds per call; None for a failure.
        told: what its proposer was told of since the proposal before; None: not recorded.
    """

    id: int
    run_id: int
    number: int
    config: str
    status: str
    cost: float | None
    told: Told | None
