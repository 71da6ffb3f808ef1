"""Candidates on the emulator whose numbers nobody compared, in the words of every summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from whet.autotune.results.trial import Trial
from whet.measure.values import MeasureResult
from whet.search_spaces.values.counted import counted


def is_unchecked(result: MeasureResult) -> bool:
    """A success whose cost is predicted, and whose numbers were compared with nothing."""
    return bool(result.ok and result.predicted) and not result.environment.get("checked", False)


def count_unchecked(best: Trial | None, trials: Iterable[Trial]) -> int:
    """How many trials of a search there are whose numbers were compared with nothing.

    Args:
        best: the fastest of them; where its cost was measured, none is looked at.
        trials: of the search.
    """
    if best is None or not best.result.predicted:
        return 0
    return sum(is_unchecked(trial.result) for trial in trials)


def unchecked_words(results: Iterable[MeasureResult]) -> str:
    """How many candidates' numbers were not checked, and why; "" where all were.

    Args:
        results: of a search's trials.
    """
    succeeded = [r for r in results if r.ok and r.predicted]
    reasons = Counter(str(r.environment.get("unchecked", "")) for r in succeeded if is_unchecked(r))
    if not reasons:
        return ""
    many, why = sum(reasons.values()), reasons.most_common(1)[0][0]
    if many == len(succeeded):
        said = f"the numbers of no candidate were checked ({counted(many, 'candidate')})"
    else:
        said = f"the numbers of {many} of {counted(len(succeeded), 'candidate')} were not checked"
    return f"{said}: {why}" if why else said
