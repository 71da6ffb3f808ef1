"""Failures by kind: how many, of which sorts, with the text and the config of an example each."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from whet.search_spaces.values.counted import counted

if TYPE_CHECKING:
    from whet.autotune.results.trial import Trial
    from whet.db.values.records import TrialRecord

T = TypeVar("T")

SORTS = 4
"""Sorts of one kind that are shown with their text."""
LINE = 300
"""Characters of a line of an error text that are shown."""
LINES = 4
"""Lines of a failure's text, and of its output, that a search's summary shows."""
OUTPUT = "--- the worker's output ---"
_OURS = re.compile(r"whet/(autotune|compiler|db|measure|search_spaces)/|<frozen ")
_LIBRARY = re.compile(r"/(site|dist)-packages/|/lib/python3")
# How a dump of the stack begins in what a worker printed, and its outermost frame.
_DUMP = re.compile(r"Fatal Python error|Timeout \(|Current thread|Thread 0x")
_START = 'File "<string>", line 1 in <module>'
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
    example: TrialRecord | Trial


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


def failures(trials: Iterable[TrialRecord | Trial], pruned: bool = False) -> list[Kind]:
    """The failures among trials, the commonest kind first.

    Args:
        trials: of one task.
        pruned: whether candidates that a static check refused are among them.
    """
    chosen = [t for t in trials if t.result.failed or (pruned and t.result.pruned)]
    kinds = map(_kind, grouped(chosen, lambda t: t.result.status))
    return sorted(kinds, key=lambda kind: (-kind.count, kind.status))


def grouped(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Items by a key, the commonest group first, the first of equals first."""
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return sorted(groups.values(), key=len, reverse=True)


def _kind(alike: list[TrialRecord | Trial]) -> Kind:
    """The failures of one status."""

    def says(trial: TrialRecord | Trial) -> str:
        return re.sub(r"0x[0-9a-f]+|\d+", "#", last_line(trial.result.error))

    common = grouped(alike, says)
    shown = [Sort(last_line(s[0].result.error), len(s), s[0]) for s in common[:SORTS]]
    return Kind(alike[0].result.status, len(alike), shown, sum(map(len, common[SORTS:])))


def summary_lines(trials: Iterable[TrialRecord | Trial]) -> list[str]:
    """The first failure of each kind in a few lines: its config, and what was raised where.

    Kinds are a status and a type of exception each, the commonest first.

    Args:
        trials: of one task, in their order.
    """
    failed = ((t, Raised.of(t.result.error)) for t in trials if t.result.failed)
    common = grouped(failed, lambda pair: (pair[0].result.status, pair[1].type))
    lines = []
    for alike in common[:SORTS]:
        first, raised = alike[0]
        kind = ", ".join(filter(None, (first.result.status, raised.type)))
        many = f"{len(alike)} trials, the first of them " if len(alike) > 1 else ""
        lines.append(f"{kind}: {many}trial {first.number}")
        lines += [f"  config {first.config}", *_indented(raised)]
    if (more := len(common) - SORTS) > 0:
        lines.append(f"and {counted(more, 'other kind')}")
    return lines


@dataclass(frozen=True)
class Raised:
    """The subject of an error text.

    Attributes:
        type: the exception's, without its module; "" where no exception was raised.
        where: the last line of the user's own code, and what stands there; "" where unknown.
        text: what was said.
        output: the last lines of what the worker printed.
    """

    type: str
    where: str
    text: list[str]
    output: list[str]

    @staticmethod
    def of(error: str) -> Raised:
        """Read an error text: a traceback, perhaps with what a worker printed behind it."""
        said, _, printed = error.partition(OUTPUT)
        output = [line for line in printed.splitlines() if line.strip()]
        dump = next((k for k, line in enumerate(output) if _DUMP.match(line)), len(output))
        stack = [line for line in output[dump:] if 'File "' in line and _START not in line]
        lines = said.rstrip().splitlines()
        frames = [k for k, line in enumerate(lines) if line.startswith('  File "')]
        if not frames:
            where = _users(stack)
            text = [line for line in lines if line.strip()]
            return Raised("", where.strip(), text, output[:dump])
        after = range(frames[-1] + 1, len(lines))
        head = next((k for k in after if lines[k][:1].strip()), len(lines) - 1)
        name = lines[head].partition(":")[0]
        where = _users([lines[k] for k in reversed(frames)])
        code = lines[lines.index(where) + 1] if where else ""
        where = where.strip() + (f": {code.strip()}" if code.startswith("    ") else "")
        text = [lines[head].replace(name, name.rpartition(".")[2], 1), *lines[head + 1 :]]
        return Raised(name.rpartition(".")[2], where, text, output[:dump])


def _users(frames: Iterable[str]) -> str:
    """The first of some frames that is in the user's own code, else in a library's; "": none."""
    theirs = [frame for frame in frames if not _OURS.search(frame)]
    return next((f for f in theirs if not _LIBRARY.search(f)), theirs[0] if theirs else "")


def _indented(raised: Raised) -> list[str]:
    """The excerpt that a summary shows: the beginning of the text, the end of the output."""
    shown = [raised.where] if raised.where else []
    shown += raised.text[:LINES]
    if left := len(raised.text) - LINES:
        shown += [f"... {counted(left, 'more line')}"] if left > 0 else []
    return [f"  {_short(line)}" for line in shown + raised.output[-LINES:]]


def _short(line: str) -> str:
    return line if len(line) <= LINE else f"{line[: LINE - 3]}..."


def last_line(error: str) -> str:
    """The line of an error text that says most: the last that is not empty; its beginning."""
    line = next((line.strip() for line in reversed(error.splitlines()) if line.strip()), "")
    return _short(line)


def excerpt(error: str) -> str:
    """An error text with its middle left out where it is very long."""
    if len(error) <= TEXT:
        return error
    half = TEXT // 2
    return f"{error[:half]}\n... {len(error) - 2 * half} characters left out ...\n{error[-half:]}"
