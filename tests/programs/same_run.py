"""Examine the ``whet`` that is on the path: a line of JSON with key and digest for each text.

    PYTHONPATH=TREE python same_run.py [--quick] [--jobs N] [--only TEXT] [--show KEY]

Keys go to standard output, progress to standard error.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import same_templates  # noqa: E402
from same_entry import Entry, digest, tree  # noqa: E402

PARTS = ("same_templates", "same_graphs", "same_random", "same_special")
EVERY = 1.5
"""Seconds between two lines of progress."""


def main() -> None:
    """Digest what the command line asks for."""
    options = arguments()
    warnings.simplefilter("ignore")
    if options.tree and tree() != options.tree.resolve():
        sys.exit(f"whet comes from {tree()}, not from {options.tree}")
    chosen = [e for e in corpus() if e.quick == options.quick or options.show]
    chosen = [e for e in chosen if options.only in e.key]
    if options.show:
        show(chosen, options.show)
        return
    if options.shuffle:
        random.Random(options.shuffle).shuffle(chosen)
    progress = Progress(len(chosen))
    for key, texts, seconds in examined(chosen, options.jobs, progress):
        print(json.dumps({"entry": key, "seconds": seconds, "digests": texts}), flush=True)
    progress.end()


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tree", type=Path, help="where whet has to come from")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="entries whose keys have this in them")
    parser.add_argument("--show", default="", help="print the text of this key")
    parser.add_argument("--shuffle", type=int, default=0, help="a seed: in another order")
    return parser.parse_args()


def corpus() -> list[Entry]:
    """All entries; their keys are different."""
    here = Path(__file__).parent
    found: list[Entry] = []
    for part in PARTS:
        if (here / f"{part}.py").is_file():
            found += __import__(part).entries()
    keys = [e.key for e in found]
    assert len(set(keys)) == len(keys), sorted({k for k in keys if keys.count(k) > 1})
    return found


def one(entry: Entry) -> tuple[str, dict[str, str], float]:
    """The digests of an entry, and how long it took."""
    start = time.perf_counter()
    made: dict[str, str] = {}
    for key, text in entry.texts():
        assert key not in made, key
        made[key] = digest(text)
    return entry.key, made, round(time.perf_counter() - start, 3)


_chosen: list[Entry] = []


def _numbered(number: int) -> tuple[str, dict[str, str], float]:
    return one(_chosen[number])


def examined(
    chosen: list[Entry], jobs: int, progress: Progress
) -> Iterator[tuple[str, dict[str, str], float]]:
    """The answer of :func:`one` for each entry; a fork examines one entry alone."""
    for entry in same_templates.smallest():  # what is loaded now, no fork has to load
        one(entry)
    _chosen[:] = chosen
    with multiprocessing.get_context("fork").Pool(jobs, maxtasksperchild=1) as pool:
        results = pool.imap_unordered(_numbered, range(len(chosen)))
        for _ in chosen:
            while True:
                try:
                    found = results.next(EVERY)
                    break
                except multiprocessing.TimeoutError:
                    progress.tick()
            progress.done(found)
            yield found


def show(chosen: list[Entry], key: str) -> None:
    """Print one text."""
    for entry in chosen:
        if key.startswith(f"{entry.key}/"):
            for found, text in entry.texts():
                if found == key:
                    print(text)
                    return
    sys.exit(f"no text has the key {key!r}")


class Progress:
    """Lines on standard error, one every :data:`EVERY` seconds."""

    def __init__(self, entries: int) -> None:
        self.entries, self.made, self.keys = entries, 0, 0
        self.start = self.said = time.monotonic()
        self.last = "starting"

    def done(self, found: tuple[str, dict[str, str], float]) -> None:
        """An entry is examined."""
        key, digests, seconds = found
        self.made += 1
        self.keys += len(digests)
        self.last = f"{key} ({seconds:.1f} s)"
        if time.monotonic() - self.said > EVERY / 2:
            self.tick()

    def tick(self) -> None:
        """Say how far it is."""
        self.said = time.monotonic()
        print(f"{self._count()}, {self.last}", file=sys.stderr, flush=True)

    def end(self) -> None:
        """All are."""
        print(self._count(), file=sys.stderr, flush=True)

    def _count(self) -> str:
        spent = time.monotonic() - self.start
        return f"{spent:5.0f} s: {self.made} of {self.entries} entries, {self.keys} keys"


if __name__ == "__main__":
    main()
