"""Results that are kept work by work, so that a run which was stopped goes on where it was."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Key = Mapping[str, Any]
"""The work and its settings: what two results must have in common to be the same one."""


class Records:
    """A file of JSON lines, one for each work that was measured.

    A line that a stopped process has not finished is no result, and the next one begins anew.

    Args:
        path: the file; it need not be there yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: list[dict[str, Any]] = []
        text = path.read_text() if path.exists() else ""
        for line in text.splitlines():
            try:
                self._lines.append(json.loads(line))
            except json.JSONDecodeError:
                continue
        self._torn = bool(text) and not text.endswith("\n")

    def find(self, key: Key) -> Any:
        """The measurement of a work with these settings; None where there is none."""
        wanted = _plain(key)
        found = [line["found"] for line in self._lines if line["key"] == wanted]
        return found[-1] if found else None

    def add(self, key: Key, found: Any) -> None:
        """Keep a result; it is on the disk when this returns."""
        line = {"key": _plain(key), "found": found}
        text = json.dumps(line) + "\n"
        with self._path.open("a") as file:
            file.write("\n" + text if self._torn else text)
            file.flush()
            os.fsync(file.fileno())
        self._torn = False
        self._lines.append(json.loads(text))

    def keys(self) -> list[dict[str, Any]]:
        """The keys of all results, each once."""
        return list({json.dumps(line["key"]): line["key"] for line in self._lines}.values())


def _plain(key: Key) -> dict[str, Any]:
    return dict(json.loads(json.dumps(dict(key))))
