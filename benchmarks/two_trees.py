"""Two trees in turns: is anything slower than in an older revision?

    python benchmarks/two_trees.py OLD_REV [--rounds 30] [--only SUITE] [--works WORD ...]
        [--output FILE]

Suites: call_overhead, compile_time, cpu_kernels and gemms (default configs) and replay (a third of
the rounds). Each tree runs in a process of its own, which lives for the whole suite; a second
checkout of the old revision runs beside them as an A/A run. What a call costs depends on where its
code lies: that suite has ten processes of each tree. In each round every work is done by each tree,
in random order. A work is slower if the interval of its ratio lies outside that of the A/A run, and
does so once more in other processes. The definitions are those of this tree for both; its figures
go to `results/two_trees.<machine>.json`. Ends with 1 if a work is slower.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HERE = ROOT / "benchmarks" / "trees"
sys.path[:0] = [str(HERE), str(HERE.parent), str(ROOT)]

import harness

import argparse
import io
import json
import os
import random
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from statistics import geometric_mean, median
from typing import Any

from ratios import Row, ratio
from tree_works import SUITES

LEAST_ROUNDS = 5
TREES = ("old", "again", "new")
PROCESSES = {"call_overhead": 10}
"""Generations of workers, where it costs little: a call's time depends on where its code lies."""

Turns = dict[str, list[dict[str, Any]]]  # by tree


class Worker:
    """The whet of one tree in a process that does works by name.

    Args:
        tree: its folder.
    """

    def __init__(self, tree: Path) -> None:
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "tree_works.py"), str(tree)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
            env=os.environ | threads | {"PYTHONPATH": str(tree)}, cwd=tree,
        )  # fmt: skip

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)

    def turn(self, suite: str, work: str | None, number: int = 0) -> Any:
        """One turn of a work; without a work: the names of the suite's.

        Raises:
            SystemExit: the process has ended.
        """
        assert self.process.stdin is not None and self.process.stdout is not None
        order = {"suite": suite, "work": work, "number": number}
        with suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(order) + "\n")
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{suite}: {work}: the worker ended ({self.process.wait()})")
        return json.loads(line)


def checkout(revision: str, folder: Path) -> Path:
    """The files of a revision in a new folder.

    Raises:
        SystemExit: git knows no such revision.
    """
    command = ["git", "-C", str(ROOT), "archive", revision]
    done = subprocess.run(command, capture_output=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="tar")
    return folder


def measured(
    suite: str, trees: Mapping[str, Path], rounds: int, words: list[str], seed: int
) -> list[Row]:
    """The rows of a suite: every work in every tree, round after round, by fresh workers.

    Args:
        suite: of `SUITES`.
        trees: ``old``, ``again`` and ``new`` -> its folder.
        rounds: how often each work is done in each tree.
        words: works whose names hold one of these; none: all.
        seed: what the order is drawn from.
    """
    processes = min(PROCESSES.get(suite, 1), rounds)
    groups = [
        turns(suite, trees, range(k, rounds, processes), words, seed) for k in range(processes)
    ]
    return [row_of(work, [group[work] for group in groups]) for work in groups[0]]


def turns(
    suite: str, trees: Mapping[str, Path], numbers: range, words: list[str], seed: int
) -> dict[str, Turns]:
    """The answers of one worker for each tree, by work and tree, in some of the rounds."""
    rng, begin, shown = random.Random(f"{seed} {numbers}"), time.monotonic(), 0.0
    with ExitStack() as stack:
        workers = {name: stack.enter_context(Worker(tree)) for name, tree in trees.items()}
        names = workers["new"].turn(suite, None)
        works = [n for n in names if not words or any(word in n for word in words)]
        answers: dict[str, Turns] = {w: {t: [] for t in TREES} for w in works}
        for number in numbers:
            for work in rng.sample(works, len(works)):
                for tree in rng.sample(TREES, len(TREES)):
                    answers[work][tree].append(workers[tree].turn(suite, work, number))
            spent = time.monotonic() - begin
            if spent - shown > 10 or number == numbers[-1]:
                shown = spent
                print(f"  {suite}: round {number + 1} of {numbers.stop}, {spent:.0f} s", flush=True)
    return answers


def row_of(work: str, groups: Sequence[Turns]) -> Row:
    """The row of a work's answers, a group for each generation of workers."""
    seconds = {t: [[turn["seconds"] for turn in group[t]] for group in groups] for t in TREES}
    results = {t: [turn["result"] for group in groups for turn in group[t]] for t in TREES}
    qualities = [[turn["quality"] for g in groups for turn in g[tree]] for tree in ("old", "new")]
    return Row(
        work,
        median(s for group in seconds["old"] for s in group),
        ratio(seconds["new"], seconds["old"]),
        ratio(seconds["again"], seconds["old"]),
        results["new"] == results["old"],
        tuple(median(q) for q in qualities) if None not in qualities[0] else (),
    )


def compared(
    suite: str, trees: Mapping[str, Path], rounds: int, words: list[str]
) -> tuple[list[str], dict[str, Any], bool]:
    """A suite's lines, its figures, and whether something is slower; doubts are measured again."""
    rows = {row.work: row for row in measured(suite, trees, rounds, words, 0)}
    slower = [row.work for row in rows.values() if row.verdict == "slower"]
    once_more = measured(suite, trees, rounds, slower, 1) if slower else []
    again = {row.work: row for row in once_more if row.work in slower}
    lines = [suite, *("  " + row.line() for row in rows.values())]
    lines += ["  again: " + row.line() for row in again.values()]
    means = {
        name: geometric_mean(getattr(row, name).median for row in rows.values())
        for name in ("ratio", "again")
    }
    slow = [work for work, row in again.items() if row.verdict == "slower"]
    lines.append(
        f"  geomean of {len(rows)} works: new/old {means['ratio']:.4f}, A/A {means['again']:.4f}; "
        f"slower: {', '.join(slow) or 'none'}"
    )
    data = {
        "rows": [row.to_json() for row in rows.values()],
        "again": [row.to_json() for row in again.values()],
        "geomean": means,
        "slower": slow,
    }
    return lines, data, bool(slow)


def main() -> int:
    """Compare what the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("old", metavar="OLD_REV", help="a revision to compare this tree with")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--only", choices=SUITES, action="append", help="a suite; all if none")
    parser.add_argument("--works", nargs="+", default=[], help="works whose names hold a word")
    parser.add_argument("--output", type=Path, help="the file of figures")
    options = parser.parse_args()
    lines, data, slow = [], {"old": options.old, "rounds": options.rounds}, False
    with tempfile.TemporaryDirectory(prefix="whet-trees-") as folder:
        trees = {name: checkout(options.old, Path(folder, name)) for name in TREES[:2]}
        trees["new"] = ROOT
        for suite in options.only or SUITES:
            rounds = options.rounds if suite != "replay" else options.rounds // 3
            text, data[suite], worse = compared(
                suite, trees, max(rounds, LEAST_ROUNDS), options.works
            )
            print("\n".join(text), flush=True)
            lines += text
            slow |= worse
            harness.keep(options.output or harness.path_of("two_trees"), lines, data)
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
