"""Lines of JSON read from a file that anybody may have written: bounded in length, size and depth.

A line is read by the chunk, so that one of a gigabyte takes no more memory than the longest that is
allowed. What is wrong with a line is a value, :class:`Broken`, for whoever counts or refuses it.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from whet.compiler.errors import LogError
from whet.db.quick.place import SQLITE_MAGIC
from whet.db.store.reading import BROKEN
from whet.search_spaces.values.counted import counted

LONGEST = 16 * 2**20
"""Bytes of the longest line that is read."""
DEEPEST = 64
"""Levels of lists and objects within each other, at most: a record has about ten."""
KEPT = 5
"""Broken lines whose texts are kept."""
SHOWN = 200
"""Characters of a broken line's text."""
CHUNK = 2**16
GZIP = b"\x1f\x8b"

Say = Callable[[str], object]
"""Takes a line about the progress of long work."""


@dataclass(frozen=True)
class Broken:
    """A line that is no record.

    Attributes:
        number: of the line, from 1 on; 0: it is not of a file.
        why: in words.
    """

    number: int
    why: str

    def __str__(self) -> str:
        return f"line {self.number}: {self.why}" if self.number else self.why


@dataclass
class Skipped:
    """Lines that were skipped: how many, for which reasons, and the first of them.

    Attributes:
        reasons: how many lines there are of each sort of reason.
        first: the first ones.
    """

    reasons: Counter[str] = field(default_factory=Counter)
    first: list[Broken] = field(default_factory=list)

    def add(self, broken: Broken) -> None:
        """Count a line."""
        # Numbers and values differ from line to line; the words before them do not.
        self.reasons[broken.why.partition(":")[0][:SHOWN]] += 1
        if len(self.first) < KEPT:
            self.first.append(broken)

    def __len__(self) -> int:
        return self.reasons.total()

    def __str__(self) -> str:
        if not self:
            return "no line was skipped"
        lines = [f"{counted(len(self), 'broken line')} skipped"]
        lines += [f"  {one}" for one in self.first]
        if len(self) > len(self.first):
            lines.append(f"  ... and {len(self) - len(self.first):,} more")
        return "\n".join(lines)


def read_lines(path: Path, request: str, say: Say | None = None) -> Iterator[tuple[int, Any]]:
    """Each line that is not empty, with its number: its JSON value, or a :class:`Broken`.

    Args:
        path: the file.
        request: its purpose, for errors.
        say: is told how far the reading is, now and then.

    Raises:
        LogError: the file cannot be read, or it is a log, or compressed.
    """
    try:
        with open(path, "rb") as file:
            _check_head(file, path, request)
            size, number = path.stat().st_size, 0
            while raw := file.readline(LONGEST + 1):
                number += 1
                if say is not None and number % 1000 == 0 and size:
                    done = f"{min(file.tell() / size, 1):.0%} of {path}"
                    say(f"{done}: {counted(number, 'line')}")
                if len(raw) > LONGEST and not raw.endswith(b"\n"):
                    _drain(file)
                    yield number, Broken(number, f"it is longer than {LONGEST:,} bytes")
                elif raw.strip():
                    yield number, _value(number, raw)
    except OSError as error:
        why = error.strerror or str(error)
        out = "give a file that `whet log export` wrote, or a log of AutoTVM"
        raise LogError(request, f"{path} cannot be read: {why}", out) from error


def _check_head(file: IO[bytes], path: Path, request: str) -> None:
    """Refuse files that are no text at all."""
    head = file.read(len(SQLITE_MAGIC))
    file.seek(0)
    if head == SQLITE_MAGIC:
        out = f"put logs together: whet log merge {path} ... -o LOG; or export it first"
        raise LogError(request, f"{path} is a log, not an export", out)
    if head.startswith(GZIP):
        raise LogError(request, f"{path} is compressed", f"unpack it first: gunzip {path}")


def _drain(file: IO[bytes]) -> None:
    """Read to the end of a line, keeping nothing."""
    while chunk := file.readline(CHUNK):
        if chunk.endswith(b"\n"):
            return


def _value(number: int, raw: bytes) -> Any:
    """The JSON value of a line; a :class:`Broken` where it has none."""
    try:
        text = raw.rstrip(b"\r\n").decode("utf-8-sig" if number == 1 else "utf-8")
        if b"\t" in raw and not text.lstrip().startswith("{"):
            why = "it is AutoTVM's pickled form, which is refused unread: unpickling runs code"
            return Broken(number, why)
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
        _check_depth(value)
        if "\\ud" in text.lower():  # half a pair of surrogates can be neither shown nor kept
            json.dumps(value, ensure_ascii=False).encode()
    except BROKEN as error:
        return Broken(number, _shortened(str(error) or type(error).__name__))
    return value


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is too large for a number")
    return number


def _check_depth(value: Any) -> None:
    level, depth = [value], 0
    while level := [v for v in level if isinstance(v, dict | list)]:
        depth += 1
        if depth > DEEPEST:
            raise ValueError(f"it is nested deeper than {DEEPEST} levels")
        level = [w for v in level for w in (v.values() if isinstance(v, dict) else v)]


def _shortened(text: str) -> str:
    text = text.splitlines()[0] if text else text
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
