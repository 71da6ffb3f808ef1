"""Failures by kind: how many, of which sorts, with the text and the config of an example each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whet.db.records import TrialRecord

SORTS = 4
"""Sorts of one kind that are shown with their text."""
LINE = 300
"""Characters of a line of an error text that are shown."""
TEXT = 6000
"""Characters of an error text that are shown: its beginning and its end."""


@dataclass(frozen=True)
class Sort:
    """Failures of one kind whose last lines differ in numbers at most.

    Attributes:
        says: the last line of the first of them.
        count: how many.
        example: the first.
    """

    says: str
    count: int
    example: TrialRecord


@dataclass(frozen=True)
class Kind:
    """Failures of one status.

    Attributes:
        status: which.
        count: how many.
        sorts: the commonest first, :data:`SORTS` at most.
        others: failures that are of none of these sorts.
    """

    status: str
    count: int
    sorts: list[Sort]
    others: int


def failures(trials: Iterable[TrialRecord], pruned: bool = False) -> list[Kind]:
    """The failures among trials, the commonest kind first.

    Args:
        trials: of one task.
        pruned: whether candidates that a static check refused are among them.
    """
    kinds: dict[str, dict[str, list[TrialRecord]]] = {}
    for trial in trials:
        if trial.result.failed or (pruned and trial.result.pruned):
            says = re.sub(r"0x[0-9a-f]+|\d+", "#", last_line(trial.result.error))
            kinds.setdefault(trial.result.status, {}).setdefault(says, []).append(trial)
    found = [_kind(status, list(sorts.values())) for status, sorts in kinds.items()]
    return sorted(found, key=lambda kind: (-kind.count, kind.status))


def _kind(status: str, sorts: list[list[TrialRecord]]) -> Kind:
    common = sorted(sorts, key=len, reverse=True)
    shown = [Sort(last_line(s[0].result.error), len(s), s[0]) for s in common[:SORTS]]
    return Kind(status, sum(map(len, sorts)), shown, sum(map(len, common[SORTS:])))


def last_line(error: str) -> str:
    """The line of an error text that says most: the last that is not empty; its beginning."""
    line = next((line.strip() for line in reversed(error.splitlines()) if line.strip()), "")
    return line if len(line) <= LINE else f"{line[: LINE - 3]}..."


def excerpt(error: str) -> str:
    """An error text with its middle left out where it is very long."""
    if len(error) <= TEXT:
        return error
    half = TEXT // 2
    return f"{error[:half]}\n... {len(error) - 2 * half} characters left out ...\n{error[-half:]}"
