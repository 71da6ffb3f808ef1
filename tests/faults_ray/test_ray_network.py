"""A machine is cut off from its cluster, and back: what it had is measured elsewhere, once."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator

import pytest
from ray_machines import QUICK_HEALTH, Machine, RayMachines, until
from ray_search import Search

pytestmark = pytest.mark.faults
SHORT_S, HEALTH_S = 3.0, 60.0


class Network:
    """A bridge with one network namespace for each machine: needs root, and Linux's ``ip``."""

    def __init__(self) -> None:
        number = os.getpid() % 200
        self.bridge, self.net = f"wfb{number}", f"10.77.{number}"
        self.namespaces: dict[str, str] = {}

    def start(self) -> None:
        ip("link", "add", self.bridge, "type", "bridge")
        ip("addr", "add", f"{self.net}.1/24", "dev", self.bridge)
        ip("link", "set", self.bridge, "up")

    def close(self) -> None:
        for namespace in self.namespaces.values():
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True)
        subprocess.run(["ip", "link", "del", self.bridge], capture_output=True)

    def place(self, name: str) -> tuple[str, list[str]]:
        """A namespace for a machine: its address, and the words before its commands."""
        namespace = f"{self.bridge}-{name}"
        number = len(self.namespaces) + 2
        self.namespaces[name] = namespace
        ip("netns", "add", namespace)
        outer, inner = self.port(name), f"{self.port(name)}i"
        ip("link", "add", outer, "type", "veth", "peer", "name", inner)
        ip("link", "set", inner, "netns", namespace)
        within = ("netns", "exec", namespace, "ip")
        ip(*within, "addr", "add", f"{self.net}.{number}/24", "dev", inner)
        ip(*within, "link", "set", inner, "up")
        ip(*within, "link", "set", "lo", "up")
        ip("link", "set", outer, "master", self.bridge, "up")
        return f"{self.net}.{number}", ["ip", "netns", "exec", namespace]

    def port(self, name: str) -> str:
        return f"{self.bridge}{name}"

    def cut(self, name: str) -> None:
        """Let a machine's packets vanish, without a word to anybody."""
        ip("link", "set", self.port(name), "nomaster")

    def mend(self, name: str) -> None:
        ip("link", "set", self.port(name), "master", self.bridge)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    if os.getuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root, and `ip` of iproute2")
    network = Network()
    try:
        try:
            network.start()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network bridge can be made here: {error.stderr.strip()}")
        yield network
    finally:
        network.close()


@pytest.fixture(scope="module")
def cluster(one_cluster_at_a_time: None, network: Network) -> Iterator[RayMachines]:
    with RayMachines(QUICK_HEALTH, f"{network.net}.1") as machines:
        yield machines


@pytest.fixture(scope="module")
def machines(network: Network, cluster: RayMachines) -> list[Machine]:
    """``a`` beside the head, ``b`` on a network of its own."""
    address, within = network.place("b")
    pair = [cluster.add("a"), cluster.add("b", address=address, within=within)]
    cluster.await_machines(*pair)
    return pair


def test_a_machine_that_was_cut_off_shortly_takes_part_again(
    network: Network, machines: list[Machine], search: Callable[..., Search]
) -> None:
    import time

    _, b = machines
    one = search(40)
    until(lambda: one.is_at(3), why=lambda: one.said)
    until(lambda: b.at_work("run"))
    network.cut("b")
    time.sleep(SHORT_S)
    network.mend("b")
    did = len(b.did("run"))
    until(lambda: len(b.did("run")) >= did + 2, 60, lambda: one.said)
    assert "is lost" not in one.said
    assert one.wait(150) == 0, one.whole()
    assert one.finished == ("finished", 40) and one.statuses == {"ok": 40}


def test_what_a_machine_had_that_was_cut_off_for_long_is_measured_elsewhere_once(
    network: Network,
    cluster: RayMachines,
    machines: list[Machine],
    search: Callable[..., Search],
) -> None:
    a, b = machines
    one = search(60)
    until(lambda: one.is_at(3), why=lambda: one.said)
    until(lambda: b.at_work("run") and b.at_work("build"))
    network.cut("b")
    until(lambda: "(1 device, 1 builder) is lost" in one.said, HEALTH_S, lambda: one.said)
    at, did = len(one.reported), len(a.did("run"))
    until(lambda: one.is_at(at + 4), why=lambda: one.said)
    assert len(a.did("run")) > did
    network.mend("b")
    # Ray has given it up, and it ends, with all that it had in hand: nothing of that comes twice.
    until(lambda: not b.pids("raylet/raylet"), HEALTH_S, b.said)
    assert one.wait(180) == 0, one.whole()
    assert one.finished == ("finished", 60) and one.statuses == {"ok": 60}
    # Started again, it takes part.
    b.kill()
    address, within = f"{network.net}.2", ["ip", "netns", "exec", network.namespaces["b"]]
    cluster.await_machines(cluster.add("b", address=address, within=within))
    (b.marks / "began").unlink()
    two = search(70)
    assert two.wait(120) == 0, two.whole()
    assert b.did("run") and not set(one.reported.values()) & set(two.reported.values())
