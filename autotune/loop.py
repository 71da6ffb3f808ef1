"""The feedback loop, closed here and nowhere else: propose, measure, record, tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from whet.autotune.result import Trial
from whet.compiler.errors import MeasureError

if TYPE_CHECKING:
    from whet.autotune.study import Search
    from whet.measure.values import MeasureInput, MeasureResult
    from whet.search_spaces import Config

LOST = 10
"""Workers lost in a row before the search gives up."""
HOPELESS = 50
"""Failures with no success at all before the search gives up."""


class Workers(Protocol):
    """The part of a pool that the loop uses."""

    @property
    def capacity(self) -> int:
        """How many candidates may be in flight."""

    def submit(self, inp: MeasureInput) -> int:
        """Start on a candidate; returns its ticket."""

    def collect(self, timeout: float | None) -> list[tuple[int, MeasureResult]]:
        """Wait for finished candidates, at most ``timeout`` seconds."""


def window_of(capacity: int) -> int:
    """How many trials are proposed before the first of them is told: 4, 8 or 16.

    Few sizes, so that pools of similar capacity give one seed the same search; never more than
    16, because samplers get worse when they learn late.
    """
    return next((w for w in (4, 8) if capacity <= w), 16)


def run_search(
    search: Search,
    workers: Workers,
    total: int,
    recorded: dict[int, Trial],
    make_input: Callable[[Config], MeasureInput],
    finished: Callable[[int, Config, MeasureResult], None],
    moved: Callable[[int, Trial], None] = lambda number, trial: None,
    waiting: Callable[[], None] = lambda: None,
) -> None:
    """Search until ``total`` trials are told.

    Trial n is proposed when exactly the trials up to n - window have been told, however fast
    each of them was: what a seed proposes depends on costs, never on who came first.

    Args:
        search: the study; new, with nothing asked.
        workers: where candidates are measured.
        total: the number of trials in the end; not more than the space has configs.
        recorded: trials of earlier runs by their place; they are told, not measured. What a
            sampler proposes again from among them is answered from here, too, and leaves.
        make_input: a candidate's measurement.
        finished: called once for each new result, as it comes, before anything is proposed after
            it: writes it to the log.
        moved: called with a recorded trial that the sampler proposed again, and its new place.
        waiting: called about once a second while nothing ends.

    Raises:
        MeasureError: workers are lost again and again, or nothing works.
    """
    default = search.space.default
    window = window_of(workers.capacity)
    place_of = {trial.config.key: number for number, trial in recorded.items()}
    results: dict[int, MeasureResult] = {}
    in_flight: dict[int, tuple[int, Config]] = {}
    guard = _Guard(any(trial.result.ok for trial in recorded.values()))
    while search.told < total:
        while search.asked < total and len(in_flight) < workers.capacity:
            if search.asked - search.told == window:
                if search.told not in results:
                    break
                search.tell(results.pop(search.told))
            number = search.asked
            if number in recorded:
                search.place(recorded[number].config)
                results[number] = recorded[number].result
                continue
            if number == 0:
                config = default
                search.place(config)
            else:
                config = search.ask()
            if config.key in place_of:
                trial = recorded.pop(place_of.pop(config.key))
                results[number] = trial.result
                moved(number, trial)
                continue
            in_flight[workers.submit(make_input(config))] = number, config
        while search.asked == total and search.told in results:
            search.tell(results.pop(search.told))
        if in_flight:
            done = workers.collect(timeout=1.0)
            if not done:
                waiting()
            for ticket, result in done:
                number, config = in_flight.pop(ticket)
                results[number] = result
                finished(number, config, result)
                guard.check(result)


class _Guard:
    """Ends a search that goes nowhere."""

    def __init__(self, worked: bool) -> None:
        self._worked = worked
        self._failures: list[MeasureResult] = []
        self._lost = 0

    def check(self, result: MeasureResult) -> None:
        """Count ``result``; raise when too many failed."""
        if result.ok:
            self._worked = True
            self._lost = 0
            return
        self._lost = self._lost + 1 if result.status == "infra_error" else 0
        if self._lost >= LOST:
            raise MeasureError(
                "tune", f"{LOST} workers were lost in a row", "the last one:\n" + result.error
            )
        if not self._worked:
            self._failures.append(result)
            if len(self._failures) >= HOPELESS:
                raise nothing_works(self._failures)


def nothing_works(failures: list[MeasureResult]) -> MeasureError:
    """The error of a search in which every candidate failed; quotes the commonest failure."""
    kinds: dict[tuple[str, str], list[MeasureResult]] = {}
    for failure in failures:
        kinds.setdefault((failure.status, _last_line(failure.error)), []).append(failure)
    commonest = max(kinds.values(), key=len)
    quoted = commonest[0]
    return MeasureError(
        "tune",
        f"all {len(failures)} candidates failed, {len(commonest)} of them with {quoted.status}",
        quoted.error.strip() or f"(no text; it ended in stage {quoted.stage!r})",
    )


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""
