"""What a log knows of a task: the trials of its searches, its last measurement, its best."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from whet.autotune.results.result import Trial
from whet.compiler.errors import SpaceError
from whet.db.decision import FINALISTS_RUN, Verdict, deciding, judge

if TYPE_CHECKING:
    from whet.compiler.target import Target
    from whet.db import TuningLog
    from whet.db.identity import Device
    from whet.db.records import RunRecord, TrialRecord
    from whet.search_spaces import Workload


def known_here(workload: Workload, runs: Sequence[RunRecord]) -> bool:
    """True if ``create_task`` can make a recorded workload's task in this process.

    A template has to be registered; a derived graph is made from what its runs hold of it.
    """
    from whet.search_spaces.graph.family import PREFIX, from_data
    from whet.search_spaces.template import registered

    template = registered(workload.template)
    if not workload.template.startswith(PREFIX):
        return template is not None
    if template is not None and workload.args in getattr(template.func, "graphs", ()):
        return True
    for run in reversed(runs):
        data = run.options.get("graph") if isinstance(run.options, dict) else None
        if run.workload == workload and data is not None:
            with suppress(SpaceError):  # damaged, or another graph: an older run may have it
                from_data(workload, data)
                return True
    return False


@dataclass(frozen=True)
class Recorded:
    """The records of one workload, target, device and space.

    Attributes:
        searched: trials of searches, in order of runs and numbers.
        finals: the newest finished interleaved measurement of the default and the fastest.
        newer: trials of searches that were begun after ``finals``.
        best: what the log says is best; None where nothing worked.
        searches: the runs of ``searched``, oldest first.
    """

    searched: list[Trial]
    finals: list[Trial]
    newer: list[Trial]
    best: Trial | None
    searches: list[RunRecord]

    @property
    def settled(self) -> bool:
        """True if the best and the default were measured together, with nothing tried since."""
        return bool(self.finals) and not self.newer

    @property
    def peak(self) -> float:
        """FLOP/s that one core can do, as the log has it; 0: it does not."""
        return peak_in(self.searches)

    @property
    def verdict(self) -> Verdict[Trial]:
        """What the last interleaved measurement says."""
        return judge(self.finals)

    @property
    def compared(self) -> bool:
        """Whether the best and the default were measured in turns with each other."""
        return self.best in self.finals and any(t.is_default and t.result.ok for t in self.finals)

    @property
    def default(self) -> Trial | None:
        """The default config's trial: beside the best where both were measured together."""
        rivals = self.finals if self.best in self.finals else []
        return next((t for t in (*rivals, *self.searched) if t.is_default), None)


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
    from whet.db.identity import device_of

    device = device_of(target, device)
    records = log.trials(workload, target, device, fingerprint)
    runs = {run.id: run for run in log.runs()} if records else {}
    # Broken runs were told of by the log, and their trials go with them.
    records = [r for r in records if r.run_id in runs]
    searches = [r for r in records if runs[r.run_id].sampler != FINALISTS_RUN]
    decide = deciding(runs[run_id] for run_id in {r.run_id for r in records})
    newer = set(decide.searches) if decide.finals else set()
    best = log.best(workload, target, device, fingerprint)
    return Recorded(
        searched=[trial_of(r) for r in searches],
        finals=[trial_of(r) for r in records if r.run_id == decide.finals],
        newer=[trial_of(r) for r in searches if r.run_id in newer],
        best=trial_of(best) if best else None,
        searches=[runs[i] for i in sorted({r.run_id for r in searches})],
    )


def peak_in(searches: Sequence[RunRecord]) -> float:
    """FLOP/s that one core can do, as the newest run that says so has it; 0: none does."""
    for run in reversed(searches):
        asked = run.options.get("search")
        peak = asked.get("peak") if isinstance(asked, dict) else None
        if isinstance(peak, int | float) and peak > 0:
            return float(peak)
    return 0.0


def trial_of(record: TrialRecord) -> Trial:
    """A record as a trial of a search."""
    return Trial(record.number, record.config, record.result, int(record.flop))


@contextmanager
def opened(log: TuningLog | str | os.PathLike[str], write: bool) -> Iterator[TuningLog]:
    """A log as an open :class:`~whet.db.TuningLog`; closed at the end if it was opened here."""
    from whet.db import TuningLog

    if isinstance(log, TuningLog):
        yield log
        return
    with TuningLog(log, write=write) as own:
        yield own
