"""A program that searches on a Ray cluster, and the handle of whoever starts and watches it.

    python ray_search.py '{"address": ..., "log": ..., "trials": ...}' FILE

Each trial that is reported to its callback is a line of a file, and so is how it ends; what the
search tells its user is its output.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

SETTINGS = {"seed": 0, "wait_s": 60.0, "head_s": 30.0, "size": 16, "memory_mb": 1024}


def main(said: str, told: str) -> None:
    asked = SETTINGS | json.loads(said)
    import whet
    from whet.measure import MeasureOptions, RayPool
    from whet.measure.pool import news, ray_members

    news.WAIT_S, ray_members.HEAD_S = asked["wait_s"], asked["head_s"]
    options = MeasureOptions(
        build_timeout=30.0,
        run_timeout=30.0,
        min_repeat_ms=0.5,
        max_measure_s=0.02,
        memory_limit=asked["memory_mb"] << 20,
        hopeless_factor=1e9,  # a run that waits for a while is not slow
    )
    task = whet.create_task("matmul", args=(asked["size"],) * 3, target="llvm")

    def tell(*words: Any) -> None:
        with open(told, "a") as file:
            file.write(json.dumps([time.monotonic(), *words]) + "\n")

    def report(task: Any, trial: Any) -> None:
        tell("reported", trial.number, trial.config.key, trial.result.status)

    try:
        with RayPool(
            asked["address"],
            options=options,
            build_function="ray_work:build",
            run_function="ray_work:run",
        ) as pool:
            result = whet.tune(
                task, asked["trials"], asked["log"], "random", pool,
                seed=asked["seed"], callbacks=[report], progress=True, options=options,
            )  # fmt: skip
    except whet.WhetError as error:
        tell("ended", type(error).__name__, str(error))
        sys.exit(1)
    tell("finished", result.state, len(result.trials))


class Search:
    """A process that searches.

    Args:
        folder: for its output.
        name: of its files there.
        asked: as JSON of the program.

    Attributes:
        error: the kind and the text of the error that it ended with, after :meth:`wait`.
    """

    def __init__(self, folder: Path, name: str, **asked: Any) -> None:
        self.told, self.out = folder / f"{name}.json", folder / f"{name}.out"
        self.told.touch()
        self.log = str(asked["log"])
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)),
            "RAY_AUTH_MODE": "disabled",
            "COLUMNS": "300",
        }
        words = [json.dumps(asked | {"log": self.log}), str(self.told)]
        with open(self.out, "w") as out:
            self.process = subprocess.Popen(
                [sys.executable, __file__, *words],
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                env=environment,
            )

    def lines(self, word: str) -> list[list[Any]]:
        """What it told under a word, each with its time."""
        found = [json.loads(line) for line in self.told.read_text().split("\n")[:-1]]
        return [[at, *words] for at, first, *words in found if first == word]

    @property
    def reported(self) -> dict[int, str]:
        """The configs that it reported, by their numbers.

        Raises:
            AssertionError: one of them twice.
        """
        found = [(number, key) for _, number, key, _ in self.lines("reported")]
        assert len(found) == len(dict(found)) == len(set(dict(found).values())), found
        return dict(found)

    @property
    def statuses(self) -> Counter[str]:
        """How many trials ended how."""
        return Counter(status for _, _, _, status in self.lines("reported"))

    @property
    def said(self) -> str:
        """What its user reads."""
        return self.out.read_text()

    @property
    def finished(self) -> tuple[str, int]:
        """Its state and the number of its trials."""
        ((_, state, trials),) = self.lines("finished") or [self.whole()]
        return state, trials

    @property
    def error(self) -> str:
        """The error that it ended with."""
        ((_, kind, text),) = self.lines("ended") or [self.whole()]
        return f"{kind}: {text}"

    def whole(self) -> Any:
        raise AssertionError(f"{self.process.poll()}\n{self.told.read_text()}\n{self.said}")

    def is_at(self, count: int) -> bool:
        """True once it has reported so many trials; fails where it has ended before."""
        there = len(self.reported) >= count
        if not there and self.process.poll() is not None:
            self.whole()
        return there

    def wait(self, seconds: float) -> int:
        """Wait for its end; its exit code."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)
            raise AssertionError(f"it has not ended after {seconds:g} s\n{self.said}") from None

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def recorded(log: str | Path) -> dict[int, list[tuple[int, str]]]:
    """The trials of a log by runs, those of last measurements left out: number and config."""
    from whet.db import TuningLog

    with TuningLog(str(log)) as opened:  # a killed search may have left its journal
        finals = {run.id for run in opened.runs() if run.sampler == "finalists"}
        found: dict[int, list[tuple[int, str]]] = {}
        for trial in opened.trials():
            if trial.run_id not in finals and trial.result.status != "infra_error":
                found.setdefault(trial.run_id, []).append((trial.number, trial.config.key))
    return found


def states(log: str | Path) -> list[str]:
    """The states of a log's searches, in their order."""
    from whet.db import TuningLog

    with TuningLog(str(log), write=False) as opened:
        query = "SELECT state FROM session ORDER BY id"
        return opened.read("look", lambda c: list(c.exec_driver_sql(query).scalars()))


if __name__ == "__main__":
    main(*sys.argv[1:])
