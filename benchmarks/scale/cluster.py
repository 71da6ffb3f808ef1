"""A simulated cluster: real Ray, real log, real search; only building and measuring are replayed.

    python benchmarks/scale/cluster.py [--searches 4] [--devices 64] [--nodes 4] [--save]

A Ray cluster of several nodes stands on this machine and announces replayed devices, each of which
sleeps for the seconds of a measurement and answers with a made-up cost. One actor hosts up to
sixteen of a node, which are called apart; a device that measures has an actor of its own, but here
64 idle processes would take the cores of the drivers. A driver, a process of
its own, runs `whet.tune(sampler="xgb", workers=ADDRESS)` on them with its log; with `--searches`
several drivers share one PostgreSQL log, which is started here.

Ideal are as many trials a second as devices / seconds. Steady is from the result with which each
device has had two on the average to the last one before nothing more is proposed; whole is from the
call of the (first) `tune()` to its last result, the start of all actors included. The last
measurement of finalists, which one device does, is not counted. Memory is the proportional set size
of all actors' processes, summed, at its most. Processor time counts every PostgreSQL server here.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import harness

import argparse
import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from cluster_processes import memory_of_actors, seconds_by_role, seconds_by_thread

import whet
from whet.measure.cluster.announce import Announced, name
from whet.measure.stage.replayed import HOSTED, replayed_kind

GOALS = {1: 0.90, 4: 0.85}
"""Shares of the ideal throughput, by the number of searches."""
GIB = 8
BUILDERS = 2
"""Of each node; a replayed build is a message there and back."""
TWICE = """
SELECT count(*) - count(DISTINCT (trial.task_id, trial.config_digest)) FROM (
  SELECT t.config_digest, (t.workload_id, t.target_id, t.device_id, t.space_fingerprint) AS task_id
  FROM trial t JOIN run r ON r.id = t.run_id WHERE r.sampler <> 'finalists') trial
"""
"""Configs that searches measured more than once, on PostgreSQL."""
STORE = 80 << 20


@contextlib.contextmanager
def simulated(devices: int, nodes: int, seconds: float) -> Iterator[str]:
    """A cluster on this machine that announces replayed devices; its address."""
    os.environ["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, sys.path))
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    os.environ["RAY_AUTH_MODE"] = "disabled"  # loopback only
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    try:
        for node in range(nodes):
            mine = range(node, devices, nodes)
            announced = [Announced(replayed_kind(seconds), f"node{node}", 0, (k,)) for k in mine]
            cluster.add_node(
                num_cpus=BUILDERS,
                resources={name(one): 1 for one in announced},
                object_store_memory=STORE,
            )
        yield cluster.address
    finally:
        cluster.shutdown()


def drive(
    address: str, log: str, trials: int, seconds: float, seed: int, searches: int
) -> dict[str, Any]:
    """One search, in this process; when each of its trials was recorded, and what it cost."""
    from proposals import task_of

    times: list[float] = []
    marks: list[dict[str, float]] = []

    def note(task: Any, trial: Any) -> None:
        times.append(time.monotonic())
        if len(times) in (trials // searches // 4, trials // searches * 3 // 4):
            marks.append(seconds_by_thread() | {"trials": len(times), "at": times[-1]})

    begin = time.monotonic()
    result = whet.tune(
        task_of(), trials=trials, log=log, sampler="xgb", seed=seed, workers=address,
        device=replayed_kind(seconds), callbacks=[note], progress=False,
    )  # fmt: skip
    return {
        "begin": begin,
        "times": times,
        "marks": marks,
        "seconds": dict(result.seconds),
        "best": result.best.cost,
    }


def driven(options: argparse.Namespace, address: str, log: str) -> list[subprocess.Popen[str]]:
    """The drivers, each a process."""
    command = [sys.executable, __file__, "--drive", address, "--log", log]
    command += ["--trials", str(options.trials), "--seconds", str(options.seconds)]
    command += ["--searches", str(options.searches)]
    if options.profile:
        command += ["--profile"]
    return [
        subprocess.Popen([*command, "--seed", str(k)], stdout=subprocess.PIPE, text=True)
        for k in range(options.searches)
    ]


class Watch:
    """Looks at the processes every few seconds.

    Attributes:
        most: MiB of all actors, how many there were, and how many of them hosted devices.
        seen: ``time.monotonic()`` with the processor seconds of all processes so far, by role.
    """

    def __init__(self) -> None:
        self.most = (0.0, 0, 0)
        self.seen: list[tuple[float, dict[str, float]]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Look once more, then no longer."""
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(5):
            self.most = max(self.most, memory_of_actors())
            self.seen.append((time.monotonic(), seconds_by_role()))

    def between(self, first: float, last: float) -> dict[str, float]:
        """Processor seconds a second by role, between two times."""
        inside = [one for one in self.seen if first <= one[0] <= last]
        if len(inside) < 2:
            return {}
        (begin, before), (end, after) = inside[0], inside[-1]
        # Processes that have ended since take their seconds with them.
        grown = {role: max(0.0, after[role] - before.get(role, 0.0)) for role in after}
        return {role: seconds / (end - begin) for role, seconds in grown.items()}


def figures(options: argparse.Namespace, found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Throughput of all searches together, beside the ideal."""
    times = sorted(at for one in found for at in one["times"])
    first, last = 2 * options.devices, len(times) - 4 * options.devices
    if last - first < options.devices:
        first, last = min(options.devices, len(times) // 4), len(times) - 1
    ideal = options.devices / options.seconds
    steady = (last - first) / (times[last] - times[first])
    whole = len(times) / (times[-1] - min(one["begin"] for one in found))
    return {
        "trials": len(times),
        "ideal": ideal,
        "steady": steady,
        "steady_from_to": [first, last],
        "steady_times": [times[first], times[last]],
        "whole": whole,
        "share": steady / ideal,
        "whole_share": whole / ideal,
    }


def processor_lines(found: Sequence[dict[str, Any]]) -> list[str]:
    """Milliseconds of processor time a trial that the drivers spent, by thread."""
    lines = []
    for one in found:
        if len(one["marks"]) < 2:
            continue
        before, after = one["marks"]
        count = after["trials"] - before["trials"]
        spent = {
            name: (after[name] - before.get(name, 0.0)) / count * 1e3
            for name in after
            if name not in ("trials", "at")
        }
        parts = sorted(spent.items(), key=lambda item: -item[1])
        said = ", ".join(f"{part} {ms:.1f}" for part, ms in parts if ms >= 0.05)
        lines.append(f"driver: {sum(spent.values()):.1f} ms of processor time a trial: {said}")
    return lines


def repeated(url: str) -> int:
    """Configs that the searches of a PostgreSQL log measured twice."""
    import psycopg

    with psycopg.connect(url) as connection:
        row = connection.execute(TWICE).fetchone()
        assert row is not None
        return int(row[0])


@contextlib.contextmanager
def a_log(shared: bool) -> Iterator[str]:
    """Where an empty log may be: a file, or a PostgreSQL server of its own."""
    with contextlib.ExitStack() as stack:
        if not shared:
            yield stack.enter_context(tempfile.TemporaryDirectory()) + "/cluster.db"
            return
        sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "servers"))
        from postgres_server import PostgresServer

        yield stack.enter_context(PostgresServer()).url


def measured(options: argparse.Namespace) -> tuple[list[str], dict[str, Any]]:
    """The whole benchmark."""
    shared = options.searches > 1 or options.postgresql
    with (
        a_log(shared) as log,
        simulated(options.devices, options.nodes, options.seconds) as address,
    ):
        watch = Watch()
        drivers = driven(options, address, log)
        try:
            said = [driver.communicate()[0] for driver in drivers]
        finally:
            for driver in drivers:
                driver.kill()
            watch.close()
        if any(driver.returncode for driver in drivers):
            raise SystemExit("a search failed")
        found = [json.loads(text.splitlines()[-1]) for text in said]
        data = figures(options, found)
        data["twice"] = repeated(log) if shared else None
    mib, actors, hosts = watch.most
    data["cores"] = watch.between(*data.pop("steady_times"))
    data |= {"actors": actors, "hosts": hosts, "actors_mib": mib, "searches": options.searches}
    data["phases"] = [one["seconds"] for one in found]
    goal = GOALS.get(options.searches, GOALS[4])
    lines = [
        f"{options.searches} search(es) with xgb, {data['trials']} trials on {options.devices} "
        f"replayed devices of {options.nodes} Ray nodes, {options.seconds:g} s a measurement, log: "
        + ("PostgreSQL" if shared else "SQLite"),
        f"steady: {data['steady']:.1f} trials a second, {data['share']:.3f} of the ideal "
        f"{data['ideal']:.1f} (goal: {goal}); trials {first_to_last(data)}",
        f"whole, with the start of all actors: {data['whole']:.1f}, {data['whole_share']:.3f}",
        f"{actors} actors: {mib / 1024:.2f} GiB (goal: {GIB}); {hosts} of them host the replayed "
        f"devices, at most {HOSTED} each (a device that measures has a process of its own)",
        cores_line(data),
        *processor_lines(found),
    ]
    if shared:
        lines.append(f"configs measured twice, counted in the log: {data['twice']} (goal: 0)")
    for one in found:
        parts = sorted(one["seconds"].items(), key=lambda item: -item[1])
        lines.append("wall: " + ", ".join(f"{part} {spent:.1f} s" for part, spent in parts[:8]))
    return lines, data


def cores_line(data: dict[str, Any]) -> str:
    """Processor time of all that runs here, a trial, and how many cores the ideal would hold."""
    each = {role: spent / data["steady"] * 1e3 for role, spent in data["cores"].items()}
    total = sum(each.values())
    said = ", ".join(f"{role} {ms:.1f}" for role, ms in sorted(each.items(), key=lambda r: -r[1]))
    held = f"{total * data['ideal'] / 1e3:.2f} of {os.cpu_count()} cores"
    return f"all processes: {total:.1f} ms of processor time a trial ({said}); at the ideal {held}"


def first_to_last(data: dict[str, Any]) -> str:
    """The trials that steady throughput counts."""
    first, last = data["steady_from_to"]
    return f"{first} to {last}"


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--searches", type=int, default=1)
    parser.add_argument("--devices", type=int, default=64)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--trials", type=int, default=4000, help="of all searches together")
    parser.add_argument("--postgresql", action="store_true", help="for one search, too")
    parser.add_argument("--profile", action="store_true", help="profile each driver's loop")
    parser.add_argument("--drive", help=argparse.SUPPRESS)
    parser.add_argument("--log", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/")
    options = parser.parse_args()
    if not options.drive:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # nothing of it shall stay
        name = f"scale_cluster_{options.searches}"
        name += "_postgresql" if options.searches > 1 or options.postgresql else ""
        harness.report(name, *measured(options), threads=f"{os.cpu_count()} cores")
        return
    arguments = (
        options.drive,
        options.log,
        options.trials,
        options.seconds,
        options.seed,
        options.searches,
    )
    if options.profile:
        import cProfile
        import pstats

        profile = cProfile.Profile(time.thread_time)
        found = profile.runcall(drive, *arguments)
        pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(45)
    else:
        found = drive(*arguments)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
