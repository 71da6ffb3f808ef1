"""The list of what was checked: a line each, its state, its seconds, and what was found."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock

PASS, FAIL, SKIP = "PASS", "FAIL", "SKIP"
SHORT, LATE = "SHORT", "LATE"
"""Works and misses a goal; not run when the time was over."""
STATES = {
    PASS: "passed",
    FAIL: "failed",
    SHORT: "short of goals",
    LATE: "too late",
    SKIP: "skipped",
}
"""A state -> what the summary calls it."""
WRONG, UNDONE = 1, 2
"""How a process ends: something failed; nothing did, but not all that was asked for was reached."""
SHOWN = 200
"""Characters of a line of the report."""


class Short(Exception):
    """It works, and goals are not reached or could not be judged; the text says which."""


class Skipped(Exception):
    """It cannot be checked here; the text says why."""


class Late(Exception):
    """The time was over before it was done; the text says how far it came."""


class Failed(Exception):
    """It is not as it should be; the first line says what, the rest how it came out."""


@dataclass(frozen=True)
class Item:
    """One thing that was checked.

    Attributes:
        name: what.
        state: one of ``STATES``.
        seconds: how long it took.
        said: what was found, or why not; the first line is shown.
    """

    name: str
    state: str
    seconds: float
    said: str

    def __str__(self) -> str:
        first = (self.said.strip().splitlines() or [""])[0]
        return f"{self.state:5s} {self.name:36s} {self.seconds:6.1f} s  {first[:SHOWN]}"


class Report:
    """The checks so far.

    Args:
        minutes: after so many nothing new is begun.
        items: what was checked before.
        began: when it all began, as :func:`time.time`; None: now.
        kept: a file that has all of it as JSON after each item, whatever comes then.
    """

    def __init__(
        self,
        minutes: float,
        items: tuple[Item, ...] = (),
        began: float | None = None,
        kept: Path | None = None,
    ) -> None:
        self._kept, self._lock = kept, Lock()
        self.began = time.time() if began is None else began
        self.until = self.began + 60 * minutes
        self.items = list(items)

    @property
    def left(self) -> float:
        """Seconds that are left; 0 when the time is over."""
        return max(self.until - time.time(), 0.0)

    def passed(self, name: str) -> bool:
        """True if that was checked, and is as it should be."""
        return any(item.name == name and item.state == PASS for item in self.items)

    @property
    def status(self) -> int:
        """The exit code: ``WRONG``, ``UNDONE``, or 0 if all is as it should be."""
        states = {item.state for item in self.items}
        if FAIL in states:
            return WRONG
        return UNDONE if {SHORT, LATE} & states or PASS not in states else 0

    def add(self, name: str, state: str, seconds: float, said: str) -> None:
        """Note something, show it at once, and keep it."""
        item = Item(name, state, seconds, said)
        with self._lock:
            self.items.append(item)
            print(item, flush=True)
            if self._kept is not None:
                replaced(self._kept, json.dumps(self.to_json(), indent=1) + "\n")

    def run(self, name: str, check: Callable[[], str]) -> None:
        """Check one thing; whatever it raises is a line, too, and the rest is still checked."""
        if not self.left:
            self.add(name, LATE, 0.0, "no time was left")
            return
        start = time.time()
        try:
            state, said = PASS, check()
        except Skipped as why:
            state, said = SKIP, str(why)
        except Short as why:
            state, said = SHORT, str(why)
        except Late as why:
            state, said = LATE, str(why)
        except Failed as why:
            state, said = FAIL, str(why)
        except Exception as error:
            state, said = FAIL, f"{type(error).__name__}: {error}"
        self.add(name, state, time.time() - start, said)

    def summary(self) -> list[str]:
        """How many of each, and the whole text of what failed."""
        count = {s: sum(item.state == s for item in self.items) for s in STATES}
        said = (f"{count[s]} {word}" for s, word in STATES.items())
        lines = [f"{', '.join(said)}; {time.time() - self.began:.0f} s"]
        for item in self.items:
            if item.state == FAIL:
                lines += ["", f"FAILED {item.name}", *("  " + v for v in item.said.splitlines())]
        return lines

    def to_json(self) -> dict[str, object]:
        """All of it."""
        return {"items": [asdict(item) for item in self.items], "seconds": time.time() - self.began}


def read_items(data: dict) -> tuple[Item, ...]:
    """The items of :meth:`Report.to_json`."""
    return tuple(Item(**item) for item in data["items"])


def replaced(path: Path, text: str) -> None:
    """Give a file other contents, so that it never has half of them; what fails is said only."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text)
        beside.replace(path)
    except OSError as error:
        print(f"{path} cannot be written: {error}", flush=True)


def tail(text: str, lines: int = 40) -> str:
    """The end of a program's output."""
    return "\n".join(text.strip().splitlines()[-lines:])
