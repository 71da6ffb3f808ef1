"""Candidates on the emulator whose numbers nobody compared, in the words of every summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from whet.measure.values import MeasureResult
from whet.search_spaces.values.counted import counted


def is_unchecked(result: MeasureResult) -> bool:
    """A success whose cost is predicted, and whose numbers were compared with nothing."""
    return bool(result.ok and result.predicted) and not result.environment.get("checked", False)


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
