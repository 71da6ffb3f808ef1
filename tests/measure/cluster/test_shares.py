"""Several searches on one cluster: who has which devices and builders, how they change hands."""

from __future__ import annotations

import contextlib
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from test_pool_members import announced, node, until

from whet.compiler.errors import MeasureError, WorkerLostError
from whet.measure import MeasureOptions
from whet.measure.cluster.shares import Search, actor_name, new_uid, searches_of, shares
from whet.measure.pool import ray_crew, ray_members
from whet.measure.pool.ray_crew import Crew

PLACES = [f"node{n} core{k}" for n in range(4) for k in range(16)]


@pytest.mark.parametrize(("searches", "least"), [(1, 64), (3, 21), (4, 16), (100, 0)])
def test_shares_are_equal_within_one(searches: int, least: int) -> None:
    uids = [f"{k:04x}" for k in range(searches)]
    owner = shares(PLACES, uids)
    count = [sum(mine == uid for mine in owner.values()) for uid in uids]
    assert sum(count) == 64 and set(count) <= {least, least + 1}
    assert count == sorted(count, reverse=True)  # what is left over goes to who began first
    assert shares(PLACES[::-1], uids[::-1]) == owner  # each search computes the same


def test_few_devices_change_hands_when_a_search_comes() -> None:
    three = shares(PLACES, ["a", "b", "c"])
    four = shares(PLACES, ["a", "b", "c", "d"])
    moved = [p for p in PLACES if three[p] != four[p]]
    assert sum(four[p] == "d" for p in moved) == 16 and len(moved) <= 16 + 12


def test_searches_are_read_from_the_names_of_their_actors() -> None:
    one, other = Search(new_uid(), ("cpu-a", "cpu-b")), Search(new_uid(), ("",))
    assert one.uid < other.uid  # in the order in which they began
    names = [
        actor_name("whet measure cpu-a n0 @host one", one, 12, 0),
        actor_name("whet build 3", one, 12, 1),
        actor_name("whet build 0 @h", other, 12, 7),
        "whet describe gpu (12.3)",
        "another's actor",
    ]
    assert searches_of(names) == {one.uid: one, other.uid: other}


class All(dict[str, float]):
    """The free shares of a machine of which nobody holds any."""

    def get(self, name: str, other: Any = None) -> float:
        return 100.0

    def __missing__(self, name: str) -> float:
        return 100.0


ALL = All()


class Actor:
    """Stands for an actor of a crew."""

    starts = False

    def __init__(self, words: str, share: dict[str, Any], node: str = "", kind: str = "") -> None:
        self.words, self.share, self.node, self.kind = words, share, node, kind
        self.stages = [self]


@pytest.fixture
def crew(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes crews whose actors are only noted."""

    def remote(self: Crew, words: str, stage: Any, share: Any, budget: float, **more: Any) -> Actor:
        return Actor(words, share, more["node"], more.get("kind", ""))

    monkeypatch.setattr(Crew, "_remote", remote)
    monkeypatch.setattr(ray_crew.ray_cluster, "free_of_nodes", lambda _: dict.fromkeys("0123", ALL))
    ray = SimpleNamespace(cluster_resources=dict)

    def make(device: str = "cpu", **more: Any) -> Crew:
        options, none = MeasureOptions(), (None, None, None)
        return Crew(ray, device, options, none, contextlib.ExitStack(), **more)

    return make


def test_a_crew_takes_and_gives_up_its_share(crew: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [node(str(n), *(announced("cpu-a", k) for k in range(4)), cpus=2) for n in range(2)]
    first, second = crew(), crew()
    first.begin(nodes)
    second.begin(nodes)
    monkeypatch.setattr(ray_crew, "STARTING", 100)
    dealt = first.deal([])
    assert (len(dealt.measurers), len(dealt.builders), first.others) == (8, 4, 0)
    assert not any(vars(first.deal([first.search])).values())  # nothing new
    both = [first.search, second.search]
    given, taken = first.deal(both), second.deal(both)
    assert sorted("build" in one.words for one in given.given_up) == [False] * 4 + [True] * 2
    assert {one.words for one in given.given_up if "measure" in one.words} == {
        one.words for one in taken.measurers
    }
    assert len(taken.builders) == 2 and not first.waits and not second.waits
    again = first.deal([first.search])  # the other one has ended
    assert len(again.measurers) == 4 and len(again.builders) == 2


def test_a_machine_starts_a_few_actors_at_a_time(
    crew: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Actor, "starts", True)
    nodes = [node(str(n), *(announced("cpu-a", k) for k in range(6)), cpus=2) for n in range(2)]
    one = crew()
    one.begin(nodes)
    dealt = one.deal([])
    assert (len(dealt.measurers), len(dealt.builders)) == (4, 4) and one.share == (12, 4)
    assert one.deal([]).measurers == []
    monkeypatch.setattr(Actor, "starts", False)
    assert [len(one.deal([]).measurers) for _ in range(3)] == [8, 0, 0]


def test_a_share_is_told_while_ray_makes_actors(crew: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made, go, begun = Crew._remote, threading.Event(), threading.Event()

    def slow(*words: Any, **more: Any) -> Any:
        begun.set()
        assert go.wait(10)
        return made(*words, **more)

    monkeypatch.setattr(Crew, "_remote", slow)
    one = crew()
    one.begin([node("1", announced("cpu-a", 0), announced("cpu-a", 1), cpus=3)])
    assert one.share == (0, 1) and not one.waits
    dealing = threading.Thread(target=one.deal, args=([],))
    dealing.start()
    told: list[Any] = []
    asking = threading.Thread(target=lambda: told.extend([one.share, one.waits]))
    assert begun.wait(10)
    asking.start()
    asking.join(1)
    assert told == [(2, 3), False] and dealing.is_alive()
    go.set()
    dealing.join(10)
    assert one.share == (2, 3)
    one.remove(node("1"))
    assert one.share == (0, 1) and not one.waits


def test_nothing_is_begun_that_would_wait_for_another_search(
    crew: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices = [announced("cpu-a", k) for k in range(4)]
    nodes, other = [node("0", *devices, cpus=4)], crew()
    one = crew()
    one.begin(nodes)
    other.begin(nodes)
    free: dict[str, float] = {}  # the other search came first, and has all
    monkeypatch.setattr(ray_crew.ray_cluster, "free_of_nodes", lambda _: {"0": dict(free)})
    both = [one.search, other.search]
    dealt = one.deal(both)
    # Its name is there, and it builds; for what is its share it waits without an actor.
    assert dealt.measurers == [] and [b.share for b in dealt.builders] == [{"num_cpus": 0}]
    assert one.share == (2, 2)
    assert not any(vars(one.deal(both)).values())
    free |= dict.fromkeys(devices, 1.0) | {"CPU": 1.0}
    dealt = one.deal(both)
    assert len(dealt.measurers) == 2 and [b.share for b in dealt.builders] == [{"num_cpus": 1}]
    assert [b.share for b in dealt.given_up] == [{"num_cpus": 0}]
    assert [len(one.deal(both).builders) for _ in range(2)] == [1, 0]


def test_a_machine_that_is_listed_and_dead_is_tried_again(
    crew: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [node(str(n), announced("cpu-a", n), cpus=1) for n in range(2)]
    one, made = crew(), Crew._remote

    def refused(self: Crew, words: str, *args: Any, **more: Any) -> Any:
        if more["node"] == "1":
            raise WorkerLostError("start", "RaySystemError: Actor creation cancelled.")
        return made(self, words, *args, **more)

    one.begin(nodes)
    monkeypatch.setattr(Crew, "_remote", refused)
    dealt = one.deal([])
    assert [m.node for m in dealt.measurers] == ["0"] == [b.node for b in dealt.builders]
    monkeypatch.setattr(Crew, "_remote", made)  # it was only slow
    dealt = one.deal([])
    assert [m.node for m in dealt.measurers] == ["1"] == [b.node for b in dealt.builders]


def test_who_began_last_waits_where_there_are_too_few(crew: Any) -> None:
    nodes = [node("1", announced("cpu-a", 0), cpus=1)]
    crews = [crew() for _ in range(3)]
    for one in crews:
        one.begin(nodes)
    every = [one.search for one in crews]
    dealt = [one.deal(every) for one in crews]
    assert [one.waits for one in crews] == [False, True, True]
    assert [len(one.measurers) for one in dealt] == [1, 0, 0]
    # Nobody is without a builder: one beside another's holds no CPU.
    assert [[b.share for b in one.builders] for one in dealt] == [
        [{"num_cpus": 1}], [{"num_cpus": 0}], [{"num_cpus": 0}],
    ]  # fmt: skip
    assert len(crews[1].deal(every[1:]).measurers) == 1 and not crews[1].waits
    assert crews[2].deal(every[1:]).measurers == [] and crews[2].waits


def test_searches_of_other_kinds_share_builders_only(crew: Any) -> None:
    nodes = [node("1", announced("cpu-a", 0), announced("cpu-b", 1), cpus=4)]
    one, other = crew("cpu-a"), crew("cpu-b, cpu-a")
    for each in (one, other):
        each.begin(nodes)
    assert other.kinds == ("cpu-a", "cpu-b")
    both = [one.search, other.search]
    dealt = other.deal(both)
    assert [m.kind for m in dealt.measurers] == ["cpu-b"] and len(dealt.builders) == 2
    with pytest.raises(
        MeasureError, match=r"(?s)no machine of the cluster has cpu-c.*cpu-a, cpu-b"
    ):
        crew("cpu-c").begin(nodes)


def test_replayed_devices_have_to_be_named(crew: Any) -> None:
    nodes = [node("1", announced("replay-1000ms", 0), announced("cpu-b", 1))]
    plain, replayed = crew(), crew("replay-1000ms")
    plain.begin(nodes)
    replayed.begin(nodes)
    assert (plain.kinds, replayed.kinds) == (("cpu-b",), ("replay-1000ms",))


def test_gpus_of_machines_that_come_measure_too(crew: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def describe(ray: Any, ident: str) -> dict[str, str]:
        asked.append(ident)
        return {"fingerprint": "cuda-b" if ident == "4" else "cuda-a"}

    monkeypatch.setattr(ray_crew, "describe_remote_gpu", describe)
    monkeypatch.setattr(ray_crew.ray_cluster, "free_gpus", lambda ray: 1)
    monkeypatch.setattr(ray_crew.ray_cluster, "free_gpus_of_nodes", lambda ray: {"1": 1})

    def with_gpus(ident: str, count: float, *names: str) -> Any:
        one = node(ident, *names, cpus=1)
        one.resources.update({"GPU": count} | dict.fromkeys(names, count))
        return one

    one = crew("cuda")
    one.begin([with_gpus("1", 2.0)])  # somebody holds the other GPU
    dealt = one.deal([])
    assert one.kinds == ("cuda-a",) and [m.kind for m in dealt.measurers] == ["cuda-a"]
    announced_gpus = "whet|cuda-a|host-2"
    assert one.add(with_gpus("2", 2.0, announced_gpus)) == (2, 1)
    assert one.add(with_gpus("3", 1.0)) == (1, 1)
    assert one.add(with_gpus("4", 1.0)) == (0, 1)  # of another kind: it builds
    assert one.add(node("5")) == (0, 4)
    joined = one.deal([]).measurers
    assert sorted(m.node for m in joined) == ["2", "2", "3"] and asked == ["1", "3", "4"]
    assert joined[0].share == {"num_cpus": 0, "num_gpus": 1, "resources": {announced_gpus: 1}}
    assert len({m.words for m in joined}) == 3
    # Another search finds them held: they belong to who came first.
    other = Search("f" * 22, ("cuda-a",))
    assert one.deal([one.search, other]).given_up and one.devices == 4 and not one.waits


def test_a_machine_that_leaves_finishes_and_gets_nothing_new(
    crew: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_members, "POLL_S", 0.01)
    staying, leaving = node("1", announced("cpu-a", 0)), node("2", announced("cpu-a", 1))
    one, now, heard = crew(), [[staying, leaving]], []
    one.begin(now[0])
    one.deal([])

    def leaves(which: Any) -> None:
        heard.append(("leaves", *one.remove(which)))

    def gone(which: Any) -> None:
        heard.append(("gone", *one.remove(which)))

    members = ray_members.Members(
        lambda: now[0], now[0], lambda which: None, gone, leaves, lambda: one.deal([])
    )
    object.__setattr__(leaving, "leaving", True)
    until(lambda: bool(heard))
    said, stages, sizes = heard[0]
    assert said == "leaves" and sizes == (1, 4) and {stage.node for stage in stages} == {"2"}
    now[0] = [staying, node("3", announced("cpu-a", 2))]
    until(lambda: len(heard) == 2)
    assert heard[1] == ("gone", [], (0, 0))  # what it had has gone in peace
    assert not one.waits and one.devices == 1
    members.close()
