"""Workers that come, go and die under a pool, by fakes: no cluster, no process."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from measure_fakes import candidate

import whet
from whet.compiler.errors import ArgumentError, MeasureError, WorkerLostError
from whet.measure import MeasureOptions, MeasureResult
from whet.measure.cluster.announce import Announced, name
from whet.measure.device.selection import select_device
from whet.measure.pool import ray_members
from whet.measure.pool.engine import StagedPool
from whet.measure.pool.ray_cluster import MEASURER, Node, head_lost
from whet.measure.pool.ray_members import (
    Members,
    builders_of,
    check_builds,
    of_one_kind,
    offers,
    version_differs,
)
from whet.measure.stage.builder import Built
from whet.measure.stage.replayed import HOSTED
from whet.measure.stage.runner import Measurement, RunReport

OPTIONS = MeasureOptions()
LOST = WorkerLostError("build on 'whet build 0 @here'", "ActorDiedError: its node is gone")


class Worker:
    """A stage of either role; ``act`` is called before it answers."""

    apart = True

    def __init__(self, act: Callable[[Any], None] = lambda _: None, kind: str = "") -> None:
        self.act, self.kind = act, kind
        self.closed = False
        self.had: list[str] = []

    def start(self) -> str:
        if self.closed:
            raise WorkerLostError("start", "it is closed")
        return "here"

    def overlaps_builds(self) -> bool:
        return False

    def build(self, inp: Any) -> Built:
        self.had.append(f"{inp.workload.key} {inp.config.choice('number')}")
        self.act(self)
        return Built("ok", program_hash=inp.config.key)

    def run(self, measurement: Measurement) -> RunReport:
        self.had.append(measurement.built.program_hash)
        self.act(self)
        return RunReport("ok", (1e-3,), environment={"reference": bool(measurement.reference)})

    def close(self) -> None:
        self.closed = True


def results(pool: StagedPool, count: int) -> list[MeasureResult]:
    found: list[MeasureResult] = []
    end = time.monotonic() + 30
    while len(found) < count:
        assert time.monotonic() < end, f"{len(found)} of {count} results"
        found += [result for _, result in pool.collect(0.2)]
    return found


def until(it_is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not it_is_so():
        assert time.monotonic() < end
        time.sleep(0.005)


def dies(times: int = 1, error: Exception = LOST) -> Callable[[Any], None]:
    """Raises so many times, then works."""
    left = [times]

    def act(_: Any) -> None:
        if left[0]:
            left[0] -= 1
            raise error

    return act


def test_a_lost_builder_costs_no_candidate_and_holds_up_no_measurer() -> None:
    dead = threading.Event()

    def never(worker: Any) -> None:
        worker.closed = True  # nor does it start again
        dead.set()
        raise LOST

    mortal = Worker(never)
    with StagedPool([mortal], [Worker()], OPTIONS, reference=candidate("good", 99)) as pool:
        pool.submit(candidate("good", 1))  # the builder has the reference in hand when it dies
        assert dead.wait(10)
        pool.join(Worker())
        pool.leave(mortal, "whet: node a (0 devices, 1 builder) is lost", gone=True)
        (result,) = results(pool, 1)
        assert result.ok and result.environment["reference"]
        assert any("node a" in line for line in pool.notes()) and pool.notes() == []


def test_a_candidate_that_loses_every_worker_is_an_infra_error() -> None:
    with StagedPool([Worker(dies(100))], [Worker()], OPTIONS) as pool:
        pool.submit(candidate("good", 1))
        (result,) = results(pool, 1)
    assert result.status == "infra_error" and "3 workers were lost" in result.error
    assert "its node is gone" in result.error


def test_what_a_lost_machine_had_in_hand_others_measure() -> None:
    held, gone = threading.Event(), threading.Event()

    def hold(_: Any) -> None:
        held.set()
        gone.wait(30)

    mortal = Worker(hold)
    with StagedPool([Worker()], [mortal], OPTIONS) as pool:
        for number in range(3):
            pool.submit(candidate("good", number))
        assert held.wait(10)
        pool.join(other := Worker(), measures=True)
        pool.leave(mortal, gone=True)
        gone.set()  # its answer comes too late: it looks like a fault of the candidate's
        assert [r.status for r in results(pool, 3)] == ["ok"] * 3
        assert len(other.had) == 3 and mortal.closed


def test_one_that_leaves_finishes_what_it_has() -> None:
    held, go = threading.Event(), threading.Event()

    def hold(_: Any) -> None:
        held.set()
        go.wait(30)

    leaving, other = Worker(hold), Worker()
    with StagedPool([Worker()], [leaving], OPTIONS) as pool:
        pool.submit(candidate("good", 0))
        assert held.wait(10)
        pool.join(other, measures=True)
        pool.leave(leaving)
        pool.submit(candidate("good", 1))
        assert results(pool, 1)[0].ok and len(other.had) == 1
        go.set()
        assert results(pool, 1)[0].ok and len(leaving.had) == len(other.had) == 1
        until(lambda: leaving.closed)
        assert pool.devices == {"": 1}


def test_two_prepared_candidates_wait_for_a_device_and_no_more() -> None:
    go = threading.Event()
    builder = Worker()
    with StagedPool([builder], [Worker(lambda _: go.wait(30))], OPTIONS) as pool:
        assert pool.capacity == 1 + 3
        for number in range(10):
            pool.submit(candidate("good", number))
        until(lambda: len(pool._traffic._to_run[""]) == 2)
        time.sleep(0.1)
        assert len(builder.had) == 1 + 2  # one is measured, two wait
        pool.join(Worker(lambda _: go.wait(30)), measures=True)
        assert pool.capacity == 1 + 3 * 2
        until(lambda: len(builder.had) == 2 + 4)
        go.set()
        assert len(results(pool, 10)) == 10


def test_each_kind_has_its_own_queue_program_and_best_cost() -> None:
    a, b = Worker(kind="cpu-a"), Worker(kind="cpu-b")
    with StagedPool([Worker()], [a, b], OPTIONS) as pool:
        assert pool.devices == {"cpu-a": 1, "cpu-b": 1}
        for device in ("cpu-a", "cpu-b", "cpu-b"):
            pool.submit(replace(candidate("good", 1), device=device))
        results(pool, 3)
        assert len(a.had) == len(b.had) == 1  # the third is the second's program
        assert len(pool.best_costs) == 2
        for device in ("", "cpu-c"):
            with pytest.raises(MeasureError, match=r"(?s)the pool has cpu-a, cpu-b"):
                pool.submit(replace(candidate("good", 2), device=device))


class Four:
    """Four rounds of all; it keeps account of them."""

    left = 4

    def __call__(self, costs: list[list[float]]) -> Iterator[int]:
        self.left -= 1
        return iter(range(len(costs)) if self.left >= 0 else [])


@pytest.mark.parametrize("rounds", [4, Four()])
def test_finalists_meet_on_one_machine_and_start_again_where_it_is_lost(rounds: Any) -> None:
    dying, other = Worker(dies(1)), Worker()
    inputs = [candidate("good", n) for n in range(3)]
    with StagedPool([Worker(dies(1))], [dying, other], OPTIONS) as pool:
        measured = pool.remeasure(inputs, rounds)
    assert [len(r.costs) for r in measured] == [4, 4, 4]
    whole = [worker for worker in (dying, other) if len(worker.had) >= 12]
    assert len(whole) == 1 and Counter(whole[0].had[-12:]).most_common()[0][1] == 4


def test_waiting_ends_where_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whet.measure.pool.news.WAIT_S", 0.2)
    only = Worker()
    with StagedPool([only], [Worker()], OPTIONS) as pool:
        pool.submit(candidate("good", 0))
        results(pool, 1)
        pool.leave(only, "whet: node a (0 devices, 1 builder) is lost", gone=True)
        pool.submit(candidate("good", 1))
        with pytest.raises(MeasureError, match=r"(?s)nothing is left that can build.*:.*node a"):
            results(pool, 1)


# --- members of a cluster ----------------------------------------


def node(ident: str, *resources: str, cpus: float = 4, alive: bool = True, **labels: str) -> Node:
    shares = {"CPU": cpus} | dict.fromkeys(resources, 1.0)
    return Node(ident, f"host-{ident}", alive, shares, {k: v for k, v in labels.items()})


def announced(kind: str, *cores: int) -> str:
    return name(Announced(kind, "h", 0, cores))


def test_a_cluster_on_which_nothing_builds_is_refused() -> None:
    measuring = node("1", announced("cpu-a", 0), cpus=0)
    with pytest.raises(MeasureError, match=r"(?s)no machine of the cluster builds.*--build"):
        check_builds([measuring])
    check_builds([measuring, node("2", cpus=1)])


def test_offers_are_of_one_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        ray_members.ray_cluster, "describe", lambda ray, node: {"fingerprint": "cpu-c"}
    )
    nodes = [
        node("1", announced("cpu-a", 2, 3), announced("cpu-a", 6, 7)),
        node("2", announced("cpu-b", 0)),
    ]
    found = offers(None, nodes)
    assert [(o.kind, o.cores) for o in found] == [
        ("cpu-a", (2, 3)),
        ("cpu-a", (6, 7)),
        ("cpu-b", (0,)),
    ]
    with pytest.raises(MeasureError, match=r"(?s)several kinds: cpu-a \(2\), cpu-b \(1\).*'cpu-a'"):
        of_one_kind(found, "cpu", {})
    assert of_one_kind(found, "cpu-b", {}) == found[2:]
    with pytest.raises(MeasureError, match="there are: cpu-a, cpu-b"):
        of_one_kind(found, "cpu-c", {})
    with pytest.raises(MeasureError, match=r"no machine of the cluster offers.*whet_measurer"):
        of_one_kind([], "cpu", {})
    replayed = [announced("replay-50ms", core) for core in range(HOSTED + 2)]
    beside = [one for one in offers(None, [node("4", *replayed, announced("cpu-b", 99))])]
    assert [(o.kind, o.count, o.label) for o in beside] == [
        ("cpu-b", 1, "n0"),
        ("replay-50ms", HOSTED, f"{HOSTED} devices"),
        ("replay-50ms", 2, "2 devices"),
    ]
    held = [name for one in beside[1:] for name in one.share["resources"]]
    assert sorted(held) == sorted(replayed)
    (by_hand,) = offers(None, [node("3", MEASURER)])
    assert (by_hand.kind, by_hand.cores) == ("cpu-c", None)
    assert [builders_of(n) for n in (nodes[0], node("3", MEASURER), node("4", cpus=0))] == [4, 3, 0]


def test_members_come_and_are_lost_and_a_silent_head_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ray_members, "POLL_S", 0.01)
    seen: list[str] = []
    now: list[list[Node]] = [[node("1")]]

    def listed() -> list[Node]:
        if not now:
            raise ConnectionError("no route to the head")
        return now[0]

    members = Members(
        listed, [node("1")], lambda n: seen.append(f"+{n.id}"), lambda n: seen.append(f"-{n.id}")
    )
    now[0] = [node("1"), node("2")]
    until(lambda: seen == ["+2"])
    now[0] = [node("1", alive=False), node("2")]
    until(lambda: seen == ["+2", "-1"])
    members.check_head()
    now.clear()
    monkeypatch.setattr(ray_members, "HEAD_S", 0.05)
    time.sleep(0.2)
    with pytest.raises(MeasureError, match=r"(?s)head has not answered.*since.*no route"):
        members.check_head()
    assert head_lost.is_set()
    head_lost.clear()
    members.close()


def test_another_version_does_not_take_part() -> None:
    assert not version_differs(node("1"))
    other = Node("2", "h", True, {"CPU": 4.0}, {"whet/version": "0.0.0"})
    assert version_differs(other) == "0.0.0"


# --- whose records ----------------------------------------


def test_records_are_of_the_machine_that_measures() -> None:
    task = whet.create_task("matmul", args=(16, 16, 16), target="llvm")
    there = task.target.to_json() | {"num_threads": 64}
    asked: list[Any] = []

    def remote(workers: str, device: str, kinds: Any) -> dict[str, Any]:
        asked.append((workers, device, list(kinds)))
        return {"fingerprint": "cpu-0123456789ab", "cpu": "far", "targets": {"llvm": there}}

    def place(device: Any = None, workers: Any = "ray") -> Any:
        return select_device(device, "w", [task.target], workers, lambda _: "", remote)

    chosen = place()
    assert chosen.identity == {"fingerprint": "cpu-0123456789ab", "cpu": "far"}
    assert chosen.device == "cpu-0123456789ab"
    assert task.on(chosen.target_of).target.to_json() == there
    place("cpu-0123456789ab")
    assert asked == [("ray", "cpu", ["llvm"]), ("ray", "cpu-0123456789ab", ["llvm"])]
    assert place(workers=None).identity is None and len(asked) == 2
    assert task.on(place(workers=2).target_of) is task
    lesser = there | {"mattr": "+sse4.2", "mcpu": "x86-64-v2"}
    own = whet.create_task("matmul", args=(16, 16, 16), target="llvm -mcpu=x86-64-v3")
    there = lesser
    if own.target.attrs["mtriple"] == lesser["mtriple"] and "x86" in lesser["mtriple"]:
        with pytest.raises(ArgumentError, match=r"(?s)that processor lacks.*leave the target out"):
            own.on(place().target_of)
