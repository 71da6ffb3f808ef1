"""A real cluster of this machine, by the command line: a head, a worker, and who is refused."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from whet.compiler.errors import MeasureError
from whet.compiler.target.machine import host
from whet.measure.cluster import listeners, reader
from whet.measure.cluster.announce import Announced

pytestmark = pytest.mark.usefixtures("one_cluster_at_a_time")

CORES = sorted(os.sched_getaffinity(0))
LONG_S = 240.0
DRIVER = """
import sys
import time
from measure_fakes import candidate
from whet.measure import MeasureOptions, RayPool

options = MeasureOptions(min_repeat_ms=0.5, max_measure_s=0.02, memory_limit=1 << 29)
with RayPool(
    sys.argv[1],
    options=options,
    build_function="measure_fakes:fake_build",
    run_function="measure_fakes:fake_run",
    prepare_function="measure_fakes:fake_prepare",
) as pool:
    given, results, lines = 0, [], []
    while not any("leaves once it is done" in line for line in lines):
        while given < len(results) + 2:  # one is always at work
            pool.submit(candidate("slow", given))
            given += 1
        found = pool.collect(0.2)
        if found and not results:
            print("at work", flush=True)
        results += found
        lines += pool.notes()
    print("leaving", sum(pool.devices.values()), flush=True)
    while found := pool.collect(3):
        results += found
    print("left", *{result.status for _, result in results}, flush=True)
    time.sleep(1000)
"""


class Place:
    """A machine of its own: home, temporary folder, and its processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen[str]] = []

    def start(self, name: str, *words: str, path: str = "", home: str = "home"):
        """A program in the background; what it says goes to a file of that name."""
        roots = [path] if path else []
        environment = os.environ | {
            "HOME": str(self.folder / home),
            "TMPDIR": str(self.folder),
            "PYTHONPATH": os.pathsep.join([*roots, *map(os.path.abspath, sys.path)]),
            "COLUMNS": "200",
        }
        for variable in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_ADDRESS"):
            environment.pop(variable, None)
        with open(self.folder / name, "w") as said:
            command = [sys.executable, *words]
            child = subprocess.Popen(  # a checkout's own metadata would come before ``path``
                command, env=environment, stdout=said, stderr=said, text=True, cwd=self.folder
            )
        self.started.append(child)
        return child

    def worker(self, name: str, *words: str, **more: str):
        return self.start(name, "-m", "whet.cli", "worker", *words, **more)

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()

    def await_text(self, name: str, text: str, child) -> None:
        end = time.monotonic() + LONG_S
        while text not in self.text(name):
            assert child.poll() is None and time.monotonic() < end, self.text(name)
            time.sleep(0.05)

    def close(self) -> None:
        for child in reversed(self.started):
            for _ in range(2):  # the second ends a worker at once
                child.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(5)
            child.kill()
            child.wait()


@pytest.fixture(scope="module")
def place():
    folder = Path(tempfile.mkdtemp(prefix="wt", dir="/tmp"))  # sockets' paths are short
    (folder / "home").mkdir()
    here = Place(folder)
    yield here
    here.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def ports():
    with socket.socket() as one, socket.socket() as other:
        for each in (one, other):
            each.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


@pytest.fixture(scope="module")
def head(place, ports):
    port, client = ports
    words = (f"--port={port}", f"--client-port={client}", f"--cores={CORES[0]}", "--build")
    child = place.worker("head", *words, "--drain=60s")
    place.await_text("head", "ready after", child)
    return child


@pytest.fixture(scope="module")
def address(head, ports):
    return f"127.0.0.1:{ports[0]}"


@pytest.fixture
def with_token(place, monkeypatch):
    """This process shows the cluster's token."""
    for variable in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(place.folder / "home/.ray/auth_token"))


def refused(place, name, *words, **more):
    child = place.worker(name, *words, **more)
    assert child.wait(LONG_S) == 1, place.text(name)
    return place.text(name)


def alive(pids):
    return {pid for pid in pids if Path(f"/proc/{pid}").exists()}


def ends_with_all(child, pids, seconds):
    """True if a worker ends with exit code 0, and everything below it is gone by then."""
    return child.wait(seconds) == 0 and not alive(pids)


@pytest.mark.faults
@pytest.mark.skipif(len(CORES) < 2, reason="a head and a worker need a core each")
def test_a_cluster_from_its_start_to_its_end(place, address, ports, head, with_token, monkeypatch):
    core = CORES[-1]
    own = listeners.tree(head.pid)
    assert all(listeners.is_loopback(a) for a, _ in listeners.listeners(own))
    assert ports[0] in {port for _, port in listeners.listeners(own)}

    # Another version, and another token, are refused before anything is started.
    other = place.folder / "other" / "whet_autotune-9.9.9.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: whet-autotune\nVersion: 9.9.9\n")
    join = (f"--address={address}", f"--cores={core}", "--measure")
    said = refused(place, "mismatch", *join, path=str(other.parent))
    assert "Whet 9.9.9 here" in said and "install the head's versions" in said
    (place.folder / "thief/.ray").mkdir(parents=True)
    (place.folder / "thief/.ray/auth_token").write_text("guessed")
    assert "refuses this machine's token" in refused(place, "token", *join, home="thief")
    assert "scp" in refused(place, "none", *join, home="nobody")
    client = f"ray://127.0.0.1:{ports[1]}"
    with monkeypatch.context() as patch:
        patch.setenv("RAY_AUTH_TOKEN_PATH", str(place.folder / "thief/.ray/auth_token"))
        with pytest.raises(MeasureError, match="refuses this machine's token"):
            reader.read_cluster(client)
    said = place.start("stolen", "-c", DRIVER, client, home="thief")
    assert said.wait(LONG_S) == 1
    assert "refuses this machine's token" in place.text("stolen")
    alone = place.start("alone", "-c", DRIVER, client)
    assert alone.wait(LONG_S) == 1  # the head builds, and nobody measures yet

    worker = place.worker("worker", *join, "--drain=60s")
    place.await_text("worker", "ready after", worker)
    cluster = reader.read_cluster(address)
    devices = {d: count for node in cluster.nodes for d, count in node.devices.items()}
    numa = [d.numa for d in devices]
    expected = Announced(host.fingerprint(), platform.node(), *numa, (core,))
    assert devices == {expected: (1, 1)}
    assert sorted(node.cpus[0] for node in cluster.nodes) == [0, 1]
    assert "gives it already" in refused(place, "overlap", *join)

    # A worker that is asked to leave lets what is measured there end; then nothing of it is left.
    driver = place.start("driver", "-c", DRIVER, f"ray://127.0.0.1:{ports[1]}")
    place.await_text("driver", "at work", driver)
    own = listeners.tree(worker.pid)
    worker.send_signal(signal.SIGTERM)
    place.await_text("driver", "leaving 0\nleft ok\n", driver)
    assert ends_with_all(worker, own, 30), place.text("worker")
    folders = [path.parent for path in place.folder.glob("whet-ray-*/owner")]
    assert len(folders) == 1  # the head's

    # Twice ends at once, though somebody builds.
    own = listeners.tree(head.pid)
    head.send_signal(signal.SIGINT)
    place.await_text("head", "leaving", head)
    head.send_signal(signal.SIGINT)
    assert ends_with_all(head, own, 15), place.text("head")
    assert not list(place.folder.glob("whet-ray-*"))
    driver.kill()


def test_what_a_killed_worker_left_is_removed_by_the_next(place, monkeypatch):
    from whet.measure.cluster.node_folder import node_folder

    monkeypatch.setattr("tempfile.tempdir", str(place.folder))
    left = place.folder / "whet-ray-left"
    left.mkdir()
    (left / "owner").write_text("")
    with node_folder() as mine:
        assert not left.exists()
        with node_folder() as other:
            assert Path(mine).exists() and mine != other
    assert not Path(mine).exists()
