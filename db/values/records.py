"""The records of a log: plain frozen values, detached from the database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from whet.db.values.identity import device_name
from whet.db.values.quality import Quality, quality_of
from whet.measure.device.names import Device
from whet.measure.values import Json, MeasureResult
from whet.search_spaces.values import Config, Workload

Told = tuple[int | str, ...]
"""Results that a proposer was told of: numbers of its own run, ``"t<id>"`` for others' trials."""


@dataclass(frozen=True)
class TrialRecord:
    """One trial of a run.

    Attributes:
        number: the trial's number in its run, from 0 on.
        run_id: the run that proposed it.
        workload: the template's name and arguments.
        target: the canonical target as JSON.
        device: fingerprint of the machine that measured it.
        config: the candidate.
        result: what came of it.
        flop: arithmetic operations of one call; 0 when not known.
        features: of a cost model, as :mod:`whet.db.store.vectors` writes them; "": not kept.
        compared: True if it was measured in turns with the default config: it is of a search's last
            measurement, in which the default config worked.
        id: its number in the log; 0: it is of none.
        withdrawn: why it no longer holds, and is no best any more; "": it holds.
    """

    number: int
    run_id: int
    workload: Workload
    target: Json
    device: Device
    config: Config
    result: MeasureResult
    flop: float = 0.0
    features: str = ""
    compared: bool = False
    id: int = 0
    withdrawn: str = ""

    @property
    def cost(self) -> float:
        """Seconds per call; infinity for a failed trial."""
        return self.result.cost

    @property
    def gflops(self) -> float:
        """Billions of operations per second; 0 for a failed trial or an unknown operation count."""
        return self.flop / self.cost / 1e9

    @property
    def quality(self) -> Quality | None:
        """The quality of its cost; None for a failure. ``print`` says it in words."""
        return quality_of(self.result, self.compared)

    def __str__(self) -> str:
        if not self.result.ok:
            return f"trial {self.number} of {self.workload}: {self.result.status}, {self.config}"
        speed = f", {self.gflops:.1f} GFLOP/s" if self.flop else ""
        cost = f"{self.cost * 1e3:.4g} ms{speed} ({self.quality})"
        return f"trial {self.number} of {self.workload}: {cost}, {self.config}"


class TrialEntry(NamedTuple):
    """A trial to be recorded.

    Attributes:
        run_id: the run that proposed it.
        number: the trial's number in the run, from 0 on.
        config: the candidate.
        result: of its measurement.
        flop: arithmetic operations of one call; 0 when not known.
        features: of a cost model, from :func:`whet.db.store.vectors.pack`; "": none.
        told: what its proposer was told of since the proposal before: numbers of its own run, and
            ``"t<id>"`` for trials of others. None: as the claim of its config says, if any.
    """

    run_id: int
    number: int
    config: Config
    result: MeasureResult
    flop: float = 0.0
    features: str = ""
    told: Told | None = None

    @property
    def request(self) -> str:
        """The purpose of recording it, for an error's text."""
        return f"add trial {self.number} of run {self.run_id}"


@dataclass(frozen=True)
class RunRecord:
    """One search.

    Attributes:
        id: its number in this log.
        uid: its name in every log that it is exported to.
        workload: the template's name and arguments.
        target: the canonical target as JSON.
        device: fingerprint of the machine that measured.
        fingerprint: fingerprint of the space that was searched.
        sampler: who proposed.
        seed: from which seed.
        options: how candidates were measured.
        versions: of the libraries that took part.
        state: ``"running"`` until the run is finished; a killed run stays so.
        started_at: seconds since the epoch.
        finished_at: seconds since the epoch, or None.
    """

    id: int
    uid: str
    workload: Workload
    target: Json
    device: Device
    fingerprint: str
    sampler: str
    seed: Any
    options: Json
    versions: Json
    state: str
    started_at: float
    finished_at: float | None


@dataclass(frozen=True)
class TaskSummary:
    """All trials of one workload, target, device and space.

    Attributes:
        workload: the template's name and arguments.
        target: the canonical target as JSON.
        device: fingerprint of the machine that measured.
        fingerprint: fingerprint of the space.
        trials: how many candidates searches have tried.
        succeeded: how many of them were built, ran and gave right numbers.
        best: the best trial, by the rule of :mod:`whet.db.values.decision`; or None.
    """

    workload: Workload
    target: Json
    device: Device
    fingerprint: str
    trials: int
    succeeded: int
    best: TrialRecord | None

    def __str__(self) -> str:
        best = str(self.best) if self.best else f"{self.workload}: nothing worked"
        return f"{best}  [{self.succeeded}/{self.trials} trials ok, {device_name(self.device)}]"
