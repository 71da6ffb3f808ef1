"""What a log knows of a task: the trials of its searches, and which config to build."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from whet.autotune.finalists import winner
from whet.autotune.result import Trial
from whet.compiler.errors import ArgumentError

if TYPE_CHECKING:
    from whet.compiler.target import Target
    from whet.db import TuningLog
    from whet.db.identity import Device
    from whet.db.records import TrialRecord
    from whet.search_spaces import Workload

FINALISTS_RUN = "finalists"
"""The ``sampler`` of a run that holds an interleaved last measurement, not a search."""


@dataclass(frozen=True)
class Recorded:
    """The records of one workload, target, device and space.

    Attributes:
        searched: trials of searches, in order of runs and numbers.
        finals: the newest finished interleaved measurement of the default and the fastest.
        newer: trials of searches that were begun after ``finals``.
    """

    searched: list[Trial]
    finals: list[Trial]
    newer: list[Trial]

    @property
    def settled(self) -> bool:
        """Whether the best and the default were measured together, with nothing tried since."""
        return bool(self.finals) and not self.newer

    def best(self) -> Trial | None:
        """The winner; None where nothing worked.

        A winner was measured beside its rivals, which counts for more than a lucky lone
        measurement; only a faster trial of a search since then replaces it.
        """
        best, _ = winner(self.finals)
        later = self.newer if self.finals else self.searched
        ok = [t for t in later if t.result.ok]
        return min([*([best] if best else []), *ok], key=lambda t: t.cost, default=None)


def read_recorded(
    log: TuningLog,
    workload: Workload,
    target: Target | dict,
    fingerprint: str,
    device: Device | None = None,
) -> Recorded:
    """The trials of one workload, target, device and space in a log.

    Args:
        log: an open log.
        workload: the template's name and arguments.
        target: a canonical target, or its JSON.
        fingerprint: the space's.
        device: the machine that measured them; None: this one.
    """
    from whet.db.identity import this_device

    device = this_device() if device is None else device
    records = log.trials(workload, target, device, fingerprint)
    runs = {run.id: run for run in log.runs()} if records else {}
    finals = [
        run_id
        for run_id in dict.fromkeys(r.run_id for r in records)
        if runs[run_id].sampler == FINALISTS_RUN and runs[run_id].state == "finished"
    ]
    last = max(finals, default=0)
    searches = [r for r in records if runs[r.run_id].sampler != FINALISTS_RUN]
    return Recorded(
        searched=[_trial(r) for r in searches],
        finals=[_trial(r) for r in records if r.run_id == last],
        newer=[_trial(r) for r in searches if finals and r.run_id > last],
    )


@contextmanager
def opened(log: TuningLog | str | os.PathLike[str], write: bool) -> Iterator[TuningLog]:
    """A log as an open :class:`~whet.db.TuningLog`; closed at the end if it was opened here."""
    from whet.db import TuningLog

    if isinstance(log, TuningLog):
        yield log
        return
    if not isinstance(log, str | os.PathLike):
        raise ArgumentError(
            f"log={log!r}",
            f"a {type(log).__name__} is not a log",
            "give a file's path, a database's URL or a whet.TuningLog, e.g. log=\"whet.db\"",
        )
    with TuningLog(log, write=write) as own:
        yield own


def _trial(record: TrialRecord) -> Trial:
    return Trial(record.number, record.config, record.result, int(record.flop))
