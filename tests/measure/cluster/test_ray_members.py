"""A cluster of several nodes on this machine: they join, are killed, and the pool goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from measure_fakes import candidate

import whet
from whet.compiler.errors import MeasureError
from whet.compiler.target import Target
from whet.measure import MeasureOptions, MeasureResult, RayPool
from whet.measure.cluster.announce import Announced, name
from whet.measure.device.names import fingerprint_of, this_device
from whet.measure.stage.replayed import HOSTED, replayed_kind

pytestmark = pytest.mark.usefixtures("one_cluster_at_a_time")

QUICK = MeasureOptions(
    build_timeout=60.0,
    run_timeout=60.0,
    min_repeat_ms=0.5,
    max_measure_s=0.02,
    memory_limit=1 << 29,
)
FAKES = {
    "build_function": "measure_fakes:fake_build",
    "run_function": "measure_fakes:fake_run",
    "prepare_function": "measure_fakes:fake_prepare",
}
CHANGED = ("PYTHONPATH", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER")
CORES = sorted(os.sched_getaffinity(0))[:2]
SMALL = {"object_store_memory": 80 << 20}
DRIVER = """
import sys
from test_ray_members import FAKES, QUICK, RayPool, candidate
if __name__ == "__main__":
    with RayPool(sys.argv[1], options=QUICK, **FAKES) as pool:
        pool.say = lambda line: print(line, file=sys.stderr)
        pool.submit(candidate("good", 1))
        for _ in range(240):
            if found := pool.collect(1):
                break
        print(found[0][1].status, flush=True)
        pool.submit(candidate("hang"))
        pool.collect(600)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head that does nothing else, until the module ends."""
    before = {key: os.environ.get(key) for key in CHANGED}
    here = str(Path(__file__).parent)
    os.environ["PYTHONPATH"] = os.pathsep.join([here, *sys.path])
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **SMALL})
    try:
        ray.init(address=cluster.address, log_to_driver=False)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()
        for key, value in before.items():
            os.environ.pop(key) if value is None else os.environ.update({key: value})


def add(cluster: Any, place: int) -> Any:
    """A node that builds, and measures on a core of its own."""
    device = Announced(this_device(), f"node{place}", 0, (CORES[place % len(CORES)],))
    return cluster.add_node(num_cpus=1, resources={name(device): 1}, **SMALL)


def until(it_is_so: Callable[[], object], seconds: float = 90.0) -> float:
    begin = time.monotonic()
    while not it_is_so():
        assert time.monotonic() < begin + seconds, f"not so after {seconds:g} s"
        time.sleep(0.05)
    return time.monotonic() - begin


def actors(words: str) -> list[int]:
    """The processes of living actors whose name holds these words."""
    from ray._private import state

    every = state.actors().values()
    return [one["Pid"] for one in every if one["State"] == "ALIVE" and words in one["Name"]]


def alive(pid: int) -> bool:
    """True for a process that is there, and not only a number that waits for its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Heard:
    """Collects results and lines of a pool."""

    def __init__(self, pool: RayPool) -> None:
        self.pool, self.lines = pool, []
        self.results: dict[int, MeasureResult] = {}

    def submit(self, count: int, behaviour: str = "good") -> None:
        first = 1000 * (1 + len(self.results))
        for number in range(count):
            self.pool.submit(candidate(behaviour, first + number))

    def look(self) -> bool:
        self.results |= dict(self.pool.collect(0.2))
        self.lines += self.pool.notes()
        return len(self.results) == self.pool._tickets


def test_nodes_come_and_go_during_a_run(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = this_device()
    first = add(cluster, 0)
    with RayPool(options=QUICK, reference=candidate("good", 9), **FAKES) as pool:
        heard = Heard(pool)
        heard.submit(2)
        until(heard.look)
        assert pool.devices == {kind: 1} and pool.capacity == 1 + 3
        # One that comes is used.
        second = add(cluster, 1)
        until(lambda: heard.look() and pool.devices[kind] == 2)
        heard.look()
        assert any("(1 device, 1 builder) joins" in line for line in heard.lines)
        assert pool.capacity == 2 + 3 * 2
        measured: set[int] = set()

        def on_both() -> bool:
            if heard.look():
                heard.submit(4, "slow")
            measured.update(r.environment["cores"][0] for r in heard.results.values())
            return measured >= set(CORES)

        until(on_both)
        # A process that is killed costs no trial.
        heard.submit(6, "slow")
        (killed,) = actors(f"whet measure {kind} n0 @")[:1]
        os.kill(killed, signal.SIGKILL)
        until(heard.look)
        assert any("on 'whet measure" in line for line in heard.lines)
        # Nor does a node, which builds and measures.
        until(lambda: len(actors("whet build")) == 2)
        heard.submit(12, "slow")
        cluster.remove_node(second, allow_graceful=False)
        until(heard.look)
        until(lambda: heard.look() and pool.devices[kind] == 1)
        heard.look()
        assert any("(1 device, 1 builder) is lost" in line for line in heard.lines)
        assert {r.status for r in heard.results.values()} == {"ok"}
        assert all(r.environment["checked"] for r in heard.results.values())
        # Without any, the search ends, and says what was lost.
        monkeypatch.setattr("whet.measure.pool.news.WAIT_S", 1.0)
        cluster.remove_node(first, allow_graceful=False)
        with pytest.raises(MeasureError, match=r"(?s)nothing is left that can.*\d\d .*is lost"):
            until(lambda: heard.look() and heard.submit(2))


def test_one_process_hosts_the_replayed_devices_of_a_node(cluster: Any) -> None:
    kind, count = replayed_kind(0.1), HOSTED + 2
    devices = [name(Announced(kind, "r", 0, (k,))) for k in range(count)]
    node = cluster.add_node(num_cpus=1, resources=dict.fromkeys(devices, 1), **SMALL)
    hosts = f"whet measure {kind}"
    with RayPool(device=kind, options=QUICK) as pool:
        heard = Heard(pool)
        heard.submit(2 * count)
        until(lambda: heard.look() and len(actors(hosts)) == 2)
        assert pool.devices == {kind: count} and pool.capacity == 1 + 3 * count
        # Ray counts each device: a search beside this one cannot take it.
        ray = pool._crew.ray
        assert not any(ray.available_resources().get(device) for device in devices)
        # Where the process is killed, its devices are lost together, and no trial is.
        os.kill(actors(f"{hosts} {HOSTED} devices")[0], signal.SIGKILL)
        heard.submit(2 * count)
        until(heard.look)
        assert {r.status for r in heard.results.values()} == {"ok"}
    until(lambda: not actors(hosts))
    cluster.remove_node(node, allow_graceful=False)


@pytest.mark.faults
def test_trials_are_of_the_machine_that_measures(cluster: Any, tmp_path: Path) -> None:
    if not cluster.worker_nodes:
        add(cluster, 0)
    task = whet.create_task("matmul", args=(16, 16, 16), target="llvm")
    log = tmp_path / "log.db"
    with pytest.raises(MeasureError, match=f"there are: {this_device()}"):
        whet.tune(task, trials=2, log=log, workers="ray", device="cpu-000000000000")
    whet.tune(task, trials=1, log=log, workers="ray", options=QUICK, progress=False)
    with whet.TuningLog(log, write=False) as opened:
        (run, *_) = opened.runs()
        assert fingerprint_of(run.device) == this_device()
        assert Target(run.target).num_threads == 1  # the size of the announced set


@pytest.mark.faults
def test_no_actor_outlives_a_killed_driver(cluster: Any, tmp_path: Path) -> None:
    if not cluster.worker_nodes:
        add(cluster, 0)
    (tmp_path / "driver.py").write_text(DRIVER)
    driver = subprocess.Popen(
        [sys.executable, "driver.py", cluster.address],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert driver.stdout is not None
    with driver.stdout as said:
        assert said.readline() == "ok\n"
    mine = actors(f"({driver.pid}.")
    assert len(mine) == 2
    driver.kill()
    driver.wait()
    assert until(lambda: not any(map(alive, mine))) < 10
