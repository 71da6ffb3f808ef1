"""Workers and machines of a Ray cluster are killed while searches run on one log: nothing is lost.

    python benchmarks/scale/cluster_kills.py [--workers 20] [--nodes 10] [--machines 3]
        [--searches 2] [--log FILE | --postgresql URL] [--seed N] [--save]

Real Ray, several machines as groups of processes on this one, the real pool and log. At random
moments a worker (an actor, or the process below it that builds or measures) or a whole machine gets
SIGKILL. A new machine joins for each that was killed, and the next one is killed once it has: so
there is always one to go on with, and every search must finish. Those that have are followed by
others on the same log. In the end each trial that was reported to a search's callback must be in
the log once, no config twice, and no process left.

Exit code 1: not so. An existing log is not touched: its trials would count.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests" / "servers"), str(ROOT / "benchmarks")]

import harness

import argparse
import os
import platform
import random
import signal
import tempfile
import time
from collections import Counter
from typing import Any

from ray_machines import QUICK_HEALTH, Machine, RayMachines, command, processes
from ray_search import Search, recorded, states

PAUSE_S = 1.0, 6.0
"""Seconds between two kills."""
STEP = 40
"""Trials that each following search adds."""
SIZE = 96
"""Of the matrices: the space must be larger than all trials."""
END_S, GONE_S = 600.0, 10.0
"""Seconds for the last searches, and after them for their actors."""
WORDS = "ray::BuildStage", "ray::RunStage", "faulthandler"


class Campaign:
    """Kills, and the searches that live through them.

    Args:
        cluster: of machines that build and measure.
        folder: for what the searches say.
        log: where they record.
        random_: chooses victims and moments.
    """

    def __init__(
        self, cluster: RayMachines, folder: Path, log: str, random_: random.Random
    ) -> None:
        self.cluster, self.folder, self.log, self.random = cluster, folder, log, random_
        self.searches: list[Search] = []
        self.running: list[Search] = []
        self.ends: Counter[str] = Counter()
        self.killed: Counter[str] = Counter()
        self.trials = 0
        self.joining: Machine | None = None

    def keep_running(self, count: int) -> None:
        """Start searches in place of those that have ended."""
        for one in [one for one in self.running if one.process.poll() is not None]:
            self.running.remove(one)
            self._note_end(one)
        while len(self.running) < count:
            self.trials += STEP
            one = Search(
                self.folder, f"search{len(self.searches)}", address=self.cluster.address,
                log=self.log, trials=self.trials, size=SIZE, seed=len(self.searches),
            )  # fmt: skip
            self.searches.append(one)
            self.running.append(one)

    def _note_end(self, one: Search) -> None:
        if one.lines("finished"):
            self.ends["finished"] += 1
        elif one.lines("ended"):
            self.ends["with an error"] += 1
            say(f"a search ended: {one.error}")
        else:
            self.ends["dead"] += 1
            say(f"a search died with {one.process.returncode}: {one.said[-2000:]}")

    def at_work(self) -> list[int]:
        """The processes that build or measure, or wait for that."""
        return [pid for m in self._machines for word in WORDS for pid in m.pids(word)]

    def kill_worker(self) -> bool:
        """Kill one of the processes that build or measure; False where there is none."""
        pids = self.at_work()
        if not pids:
            return False
        pid = self.random.choice(pids)
        what = command(pid)  # "" where it has just ended
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        self.killed["an actor" if "ray::" in what else "a process below one"] += 1
        return True

    def kill_node(self) -> None:
        """Kill a machine; a new one takes its place."""
        if self.joining is not None:
            self.cluster.await_machines(self.joining)
        machine = self.random.choice([m for m in self._machines if m.pids("raylet/raylet")])
        machine.kill()
        self.killed["a machine"] += 1
        self.joining = self.cluster.add(f"m{len(self._machines)}")

    @property
    def _machines(self) -> list[Machine]:
        return [m for m in self.cluster.machines.values() if m is not self.cluster.head]

    def finish(self) -> None:
        """Let the searches end."""
        end = time.monotonic() + END_S
        for one in self.running:
            one.wait(max(1.0, end - time.monotonic()))
            self._note_end(one)
        self.running.clear()

    def counts(self) -> tuple[int, int, int, int]:
        """Trials in the log, reported ones, and of these lost and doubled ones."""
        logged = Counter(config for run in recorded(self.log).values() for _, config in run)
        reported = Counter(
            config
            for one in self.searches
            for _, _, config, status in one.lines("reported")
            if status != "infra_error"
        )
        lost = sum(config not in logged for config in reported)
        doubled = sum(n - 1 for n in logged.values()) + sum(n - 1 for n in reported.values())
        return logged.total(), reported.total(), lost, doubled


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def campaign(asked: argparse.Namespace, log: str, folder: Path) -> tuple[list[str], dict[str, Any]]:
    """Kill as was asked; what came of it, in ``"held"`` whether nothing was lost."""
    random_ = random.Random(asked.seed)
    kills = ["worker"] * asked.workers + ["node"] * asked.nodes
    random_.shuffle(kills)
    begun = time.monotonic()
    with RayMachines(QUICK_HEALTH) as cluster:
        cluster.await_machines(*[cluster.add(f"m{k}") for k in range(asked.machines)])
        run = Campaign(cluster, folder, log, random_)
        try:
            while kills:
                run.keep_running(asked.searches)
                time.sleep(random_.uniform(*PAUSE_S))
                if kills[-1] == "node":
                    run.kill_node()
                elif not run.kill_worker():
                    continue
                say(f"killed a {kills.pop()}; {len(kills)} to go")
            run.finish()
        finally:
            for one in run.running:
                one.end()
        end = time.monotonic() + GONE_S
        while (at_work := len(run.at_work())) and time.monotonic() < end:
            time.sleep(0.1)
    left = len(processes(cluster.uid, cluster.sessions)) + at_work
    logged, reported, lost, doubled = run.counts()
    seconds = time.monotonic() - begun
    lines = [
        f"killed: {words(run.killed)}; {seconds:.0f} s, --seed {asked.seed}",
        f"searches: {words(run.ends)}; the log says {words(Counter(states(log)))}",
        f"trials: {logged} recorded, {reported} reported",
        f"lost {lost}, doubled {doubled}, processes left {left}",
    ]
    held = not (lost or doubled or left or run.ends.keys() - {"finished"})
    facts = {"killed": dict(run.killed), "ends": dict(run.ends), "seconds": seconds}
    counts = {"recorded": logged, "reported": reported, "lost": lost, "doubled": doubled}
    return lines, {**facts, **counts, "left": left, "held": held}


def words(counter: Counter[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in sorted(counter.items()))


def main(arguments: list[str] | None = None) -> Any:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--workers", type=int, default=20)
    parser.add_argument("--nodes", type=int, default=10)
    parser.add_argument("--machines", type=int, default=3)
    parser.add_argument("--searches", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/")
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--log", help="a new SQLite file; a temporary one if none")
    place.add_argument("--postgresql", help="URL of an empty database")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="whet-kills-") as folder:
        log = asked.postgresql or asked.log or str(Path(folder, "log.db"))
        if asked.log and Path(asked.log).exists():
            parser.error(f"{asked.log} exists")
        load = os.getloadavg()[0]
        say(f"{platform.node()}: {os.cpu_count()} cores, load {load:.1f}, seed {asked.seed}, {log}")
        lines, data = campaign(asked, log, Path(folder))
    name = "scale_cluster_kills" + ("_postgresql" if asked.postgresql else "")
    harness.report(name, lines, data, threads=f"{os.cpu_count()} cores")
    sys.exit(0 if data["held"] else 1)


if __name__ == "__main__":
    main()
