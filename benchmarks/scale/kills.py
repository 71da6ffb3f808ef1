"""Drivers killed at random moments: what they acknowledged is recorded once, and nothing is left.

    python benchmarks/scale/kills.py [--log PATH|URL] [--sigkill 100] [--sigint 30] [--sigterm 30]
                                     [--trials 60] [--seed N] [--save]

One log, and one driver after another that tunes a cheap task on the real local pool. Each gets its
signal at a random moment: some while they start, most while they measure; the next one goes on. A
task that has all its trials is followed by another. After each end the campaign checks

- that each trial of which a callback was told is recorded once, with its costs;
- that no config of a task is recorded twice, and none was measured that was recorded before;
- that the database is whole (SQLite: ``PRAGMA integrity_check``), its counters are right, and a
  server has no connection of the dead;
- that the driver's processes are gone, within ten seconds of SIGKILL or of its own end;
- after SIGINT and SIGTERM: a summary, the state ``interrupted``, no claim;
- after a driver that came to its end: no claim, no session that runs, no temporary file.

The exit code is 1 where any of this does not hold. ``--log`` names a database of its own: a file
that is not there yet, or a PostgreSQL server's empty database.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import harness

import argparse
import json
import os
import random
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from contextlib import suppress
from typing import Any

from kills_checks import GONE_S, Held, Ledger, processes_under

STARTING, ENDING = 0.15, 0.15
"""The shares of signals that come while a driver starts, and while it measures its finalists."""
MOST = 20
"""Trials that a driver has in its log at most when it gets its signal."""
SOON_S = {"start": 2.0, "trial": 0.15, "end": 1.5}
"""Seconds from its start, a trial, the beginning of its last measurement until the signal."""
STUCK_S = 180
SAID_S = 5.0


class Drivers:
    """Drivers of one folder, forked by a process that has imported all they need.

    Args:
        folder: for what they note, say and leave.
        location: of the log.
    """

    def __init__(self, folder: Path, location: str) -> None:
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        self.notes, self.said = folder / "notes.jsonl", folder / "said.txt"
        self.location = location
        environment = {
            **os.environ,
            "TMPDIR": str(self.temporary),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        # Hundreds of workers import this checkout: what Python compiles has to be kept.
        if environment.pop("PYTHONDONTWRITEBYTECODE", ""):
            environment["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")
        program = Path(__file__).with_name("kills_driver.py")
        self.source = subprocess.Popen(
            [sys.executable, str(program), location],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip

    def _answer(self) -> int:
        assert self.source.stdout is not None
        line = self.source.stdout.readline()
        if not line:
            raise SystemExit("the process that starts drivers has ended")
        return int(line)

    def start(self, task: int, trials: int) -> int:
        """Fork a driver; its process id."""
        order = {
            "task": task,
            "trials": trials,
            "location": self.location,
            "notes": str(self.notes),
            "said": str(self.said),
        }
        self.said.write_text("")
        assert self.source.stdin is not None
        self.source.stdin.write(json.dumps(order) + "\n")
        self.source.stdin.flush()
        return self._answer()

    def ended(self) -> int:
        """Wait for the driver's end; its exit code, or minus its signal."""
        return self._answer()

    def left(self) -> list[int]:
        """Processes of drivers."""
        return [p for p in processes_under(self.temporary) if p != self.source.pid]

    def close(self) -> None:
        """End the process that starts them."""
        assert self.source.stdin is not None
        self.source.stdin.close()
        self.source.wait(STUCK_S)


class Campaign:
    """Drivers killed one after the other.

    Args:
        drivers: where they come from.
        trials: of a task.
        seed: of the moments.
    """

    def __init__(self, drivers: Drivers, trials: int, seed: int) -> None:
        self.drivers, self.trials = drivers, trials
        self.random = random.Random(seed)
        self.ledger = Ledger(drivers.notes, drivers.location)
        self.task = 0
        self.struck = 0
        self.counts: Counter[str] = Counter()
        self.slowest_end: dict[str, float] = {}
        self.wrong: list[str] = []

    def run(self, signals: list[signal.Signals]) -> None:
        """Start drivers until each signal has struck one."""
        said, began = time.monotonic(), time.monotonic()
        for at, number in enumerate(signals):
            while not self._strike(number):
                pass
            if time.monotonic() - said > SAID_S:
                said = time.monotonic()
                spent = said - began
                print(
                    f"  {at + 1} of {len(signals)} kills, {self.task} tasks finished,"
                    f" {len(self.ledger.acknowledged)} trials, {len(self.wrong)} faults,"
                    f" {spent:,.0f} s",
                    flush=True,
                )
        self._ends()

    def _check(self, held: list[Held]) -> None:
        for one in held:
            if not one.holds:
                self.wrong.append(f"kill {self.struck}, task {self.task}: {one.what}")
                print(f"  WRONG {self.wrong[-1]}", flush=True)

    def _strike(self, number: signal.Signals) -> bool:
        """Start a driver and send it a signal; False where it had come to its end before."""
        before = self.ledger.size()
        pid = self.drivers.start(self.task, self.trials)
        chance = self.random.random()
        when = "start" if chance < STARTING else "end" if chance > 1 - ENDING else "trial"
        if when != "start":
            note = "finals" if when == "end" else "acknowledged"
            self._await(pid, before, note, 1 if when == "end" else self.random.randint(0, MOST))
        time.sleep(self.random.uniform(0, SOON_S[when]))
        with suppress(ProcessLookupError):  # it has come to its end
            os.kill(pid, number)
        sent = time.monotonic()
        code = self.drivers.ended()
        measured = self.ledger.noted(before, "submitted") + self.ledger.noted(before, "finals") > 0
        self._await_end(sent, number.name)
        if code == 0:
            self._finished()
            return False
        self.struck += 1
        self.counts[number.name] += 1
        self.counts["while they started" if not measured else "while they measured"] += 1
        self.counts["hot journals"] += self.ledger.has_hot_journal()
        self._check(self.ledger.check())
        if number != signal.SIGKILL:
            said = self.drivers.said.read_text()
            self._check(self.ledger.check_interrupted(number, code, said, measured))
        elif code != -signal.SIGKILL:
            self._check([Held(False, f"ended with {code}: {self.drivers.said.read_text()}")])
        return True

    def _await(self, pid: int, before: int, note: str, times: int) -> None:
        """Wait until a driver has noted something so many times, or has ended."""
        until = time.monotonic() + STUCK_S
        while self.ledger.noted(before, note) < times and Path(f"/proc/{pid}/exe").exists():
            if time.monotonic() > until:
                raise SystemExit(f"driver {pid} is stuck: {self.drivers.said.read_text()}")
            time.sleep(0.005)

    def _await_end(self, sent: float, how: str) -> None:
        """Wait until the driver's processes are gone."""
        if how != "SIGKILL":  # the driver takes the time that it needs for its summary
            sent = time.monotonic()
        while (left := self.drivers.left()) and time.monotonic() < sent + GONE_S:
            time.sleep(0.02)
        spent = time.monotonic() - sent
        self.slowest_end[how] = max(self.slowest_end.get(how, 0.0), spent)
        self._check([Held(not left, f"processes {left} are left {GONE_S:.0f} s after the signal")])

    def _ends(self) -> None:
        """Let a driver take up the last task and come to its end."""
        self.drivers.start(self.task, self.trials)
        code = self.drivers.ended()
        self._await_end(time.monotonic(), "none")
        if code:
            said = self.drivers.said.read_text()
            self._check([Held(False, f"a driver that nobody struck ended with {code}: {said}")])
        else:
            self._finished()

    def _finished(self) -> None:
        """Check what a task that has all its trials leaves, and go on to the next."""
        self._check(self.ledger.check())
        self._check(self.ledger.check_finished(self.trials))
        left = [
            path.name
            for path in self.drivers.temporary.iterdir()
            if path.suffix not in (".lock", ".queue")  # of the measuring core: they stay
        ]
        segments = self.ledger.segments()
        self._check([Held(not left, f"temporary files are left: {left}")])
        self._check([Held(not segments, f"segments are left in /dev/shm: {segments}")])
        self.task += 1


def main() -> None:
    """Kill as many drivers as asked, and tell what held."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--log", default="", help="a new file, or the URL of an empty database")
    for name, count in (("sigkill", 100), ("sigint", 30), ("sigterm", 30)):
        parser.add_argument(f"--{name}", type=int, default=count, metavar="N")
    parser.add_argument("--trials", type=int, default=60, help="of a task")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/")
    options = parser.parse_args()
    seed = secrets.randbelow(10**9) if options.seed is None else options.seed
    signals = [
        *[signal.SIGKILL] * options.sigkill,
        *[signal.SIGINT] * options.sigint,
        *[signal.SIGTERM] * options.sigterm,
    ]
    random.Random(seed).shuffle(signals)
    load, began = os.getloadavg()[0], time.monotonic()
    print(f"--seed {seed}, load {load:.1f}, {len(signals)} kills", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="whet_kills_"))
    drivers = Drivers(folder, options.log or str(folder / "whet.db"))
    try:
        campaign = Campaign(drivers, options.trials, seed)
        campaign.run(signals)
    finally:
        drivers.close()
        shutil.rmtree(folder, ignore_errors=True)
    tell(campaign, {"seed": seed, "load_before": load, "seconds": time.monotonic() - began})


def tell(campaign: Campaign, data: dict[str, Any]) -> None:
    """Report a campaign, and end with 1 where something did not hold."""
    ledger, counts = campaign.ledger, campaign.counts
    slowest = {"SIGKILL": 0.0, **campaign.slowest_end}
    lines = [
        f"{counts['SIGKILL']} SIGKILL, {counts['SIGINT']} SIGINT, {counts['SIGTERM']} SIGTERM of"
        f" drivers on {ledger.kind}, {data['seconds']:,.0f} s, --seed {data['seed']}",
        f"{counts['while they started']} while they started, {counts['while they measured']} while"
        f" they measured; {counts['hot journals']} left a journal that the next one rolled back",
        f"{len(ledger.acknowledged)} trials acknowledged, {ledger.recorded} recorded in"
        f" {campaign.task} tasks; lost: {ledger.lost}, doubled: {ledger.doubled},"
        f" measured again: {ledger.again}",
        f"processes gone at most {slowest['SIGKILL']:.2f} s after SIGKILL, and"
        f" {max(v for k, v in slowest.items() if k != 'SIGKILL'):.2f} s after a driver's own end",
        *(f"WRONG {line}" for line in campaign.wrong[:20]),
        f"{len(campaign.wrong)} checks did not hold" if campaign.wrong else "all checks held",
    ]
    facts = {"counts": dict(counts), "slowest_end_s": slowest, "wrong": campaign.wrong}
    more = {"trials": ledger.recorded, "database": ledger.kind}
    name = "scale_kills" if ledger.kind == "SQLite" else "scale_kills_postgresql"
    harness.report(name, lines, {**data, **facts, **more}, "all threads")
    if campaign.wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
