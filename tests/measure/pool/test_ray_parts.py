"""Parts of a Ray pool: requests to actors, a connection that fails. Without a cluster."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from measure_fakes import candidate

from whet.compiler.errors import MeasureError, WorkerLostError
from whet.measure.cluster.last_word import ENDED
from whet.measure.gpu.stage import DeviceStage
from whet.measure.pool import ray_actor, ray_cluster
from whet.measure.pool.engine import StagedPool
from whet.measure.pool.ray_actor import RemoteStage, _that_leaves
from whet.measure.pool.ray_cluster import Node
from whet.measure.pool.ray_crew import Dealt
from whet.measure.pool.ray_members import Members
from whet.measure.pool.ray_pool import RayPool
from whet.measure.stage.stages import BuildStage, RunStage
from whet.measure.values import MeasureOptions


def connect(address):
    with ray_cluster.connected(address):
        pass


def test_actors_are_asked_only_what_their_classes_define():
    """Who comes in by ``ray://`` sees no methods that Ray itself adds to its actors."""
    for stage in (BuildStage, RunStage, DeviceStage):
        left = _that_leaves(stage)
        assert issubclass(left, stage) and {"start", "leave"} <= set(dir(left))
    assert not re.search(r"__ray_\w+__", Path(ray_actor.__file__).read_text())


def test_a_pool_that_outlives_its_connection_starts_no_other(monkeypatch):
    asked = []
    gone = SimpleNamespace(is_initialized=lambda: False)
    for name in ("get", "wait", "kill"):
        setattr(gone, name, asked.append)
    monkeypatch.setattr(RemoteStage, "_begin", lambda self: None)
    with contextlib.ExitStack() as opened:
        one = RemoteStage(gone, partial(BuildStage), {}, 1.0, opened)
        with pytest.raises(MeasureError, match=r"(?s)no longer connected.*after the search"):
            one.start()
    assert one._closed and not asked
    ray_cluster.wait_for_gpus(gone, 1)  # returns, and asks nobody


def test_an_actor_that_waits_for_its_device_is_not_made_again(monkeypatch):
    """Another one would wait behind it."""
    errors = SimpleNamespace(RayTaskError=KeyError, RayError=LookupError)
    ray = SimpleNamespace(
        is_initialized=lambda: True, exceptions=errors, wait=lambda *_, **__: ([], ["start"])
    )
    never = SimpleNamespace(remote=lambda: SimpleNamespace(future=Future))
    actor = SimpleNamespace(start=never, leave=never)

    def begin(stage):
        stage._actor, stage._created = actor, "start"

    monkeypatch.setattr(RemoteStage, "_begin", begin)
    monkeypatch.setattr(ray_actor, "START_S", 0.01)
    with contextlib.ExitStack() as opened:
        one = RemoteStage(ray, partial(BuildStage), {}, 0.01, opened)
        monkeypatch.delattr(RemoteStage, "_begin")
        with pytest.raises(WorkerLostError, match=r"(?s)no answer.*not made yet: `ray"):
            one.start()


class Failing:
    """A Ray that cannot start."""

    def __init__(self, error):
        self.error = error
        self.ended = 0

    def is_initialized(self):
        return False

    def init(self, *_, **__):
        raise self.error

    def shutdown(self):
        self.ended += 1


@pytest.mark.parametrize(
    ("error", "address", "raised", "said"),
    [
        (Exception("timed out during startup"), None, MeasureError, "machine: Exception: tim"),
        (
            OSError("no route"),
            "ray://one:10001",
            MeasureError,
            r"(?s)one:10001: OSError.*`ray",
        ),
        (KeyboardInterrupt(), None, KeyboardInterrupt, None),
    ],
)
def test_a_connection_that_fails_leaves_nothing_behind(monkeypatch, error, address, raised, said):
    ray, users = Failing(error), ray_cluster._users
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr(ray_cluster, "find_spec", lambda name: object())
    monkeypatch.setattr(ray_cluster, "check_listens", lambda address: "10.0.0.2")
    monkeypatch.setattr(ray_cluster, "check_token", lambda address: None)
    with pytest.raises(raised, match=said):
        connect(address)
    assert ray.ended == 1 and ray_cluster._users == users


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1"])
def test_a_head_that_is_not_there_is_named_at_once(monkeypatch, address):
    """Ray itself would knock for minutes."""
    monkeypatch.setitem(sys.modules, "ray", Failing(AssertionError("Ray was asked")))
    with pytest.raises(MeasureError, match=r"(?s)at .*127.0.0.1:1.*nobody answers there"):
        connect(address)


@pytest.mark.parametrize(
    ("address", "here"), [("127.0.0.1:6379", True), ("localhost:1", True), ("one:6379", False)]
)
def test_an_address_of_this_machine_alone_is_told_apart(address, here):
    """Ray would look for it at another address of this machine, where nobody listens."""
    assert ray_cluster._is_here(address) is here


def test_what_ray_needs_for_its_clients_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", Failing(ValueError("requires more")))
    monkeypatch.setattr(ray_cluster, "find_spec", lambda name: None)
    monkeypatch.setattr(ray_cluster, "check_listens", lambda address: "10.0.0.2")
    with pytest.raises(MeasureError, match=r"pip install .*\[cluster\]"):
        connect("ray://one:10001")
    with pytest.raises(MeasureError, match="ray status"):
        connect("one:6379")


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(
        MeasureError, match=r"Ray cannot be imported.*\n.*pip install .*\[cluster\]"
    ):
        connect(None)


@pytest.mark.parametrize(
    "ends", ["", "with.__exit__(None, None, None)\n"], ids=["killed", "by itself"]
)
def test_of_a_process_that_ends_at_once_another_one_says_so(ends):
    text = (
        "import os\nfrom whet.measure.cluster.last_word import spoken\n"
        "block = spoken()\nblock.__enter__()\n" + ends.replace("with.", "block.") + "os._exit(1)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", text], stderr=subprocess.PIPE, text=True
    ) as process:
        _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert said == ("" if ends else ENDED.format(pid=process.pid) + "\n")


def test_a_connection_that_is_lost_is_said_at_once():
    members = Members(list, [], print, print, connected=lambda: False)
    with pytest.raises(MeasureError, match=r"(?s)connection to it is lost.*start the head"):
        members.check_head()
    members.close()
    assert ray_cluster.head_lost.is_set()
    ray_cluster.head_lost.clear()


def pool_of(**parts):
    """A pool on Ray without a cluster: its parts are given."""
    pool = object.__new__(RayPool)
    StagedPool.__init__(pool, [], [], MeasureOptions())
    pool._moving, pool._others = threading.Lock(), ()
    pool._waits = pool._short = False
    pool._crew = SimpleNamespace(waits=False, share=(0, 1), short_lived=list)
    pool._members = SimpleNamespace(close=lambda wait_s=0.0: None)
    pool._opened = contextlib.ExitStack()
    for name, part in parts.items():
        setattr(pool, name, part)
    return pool


class Quiet:
    """A stage that counts how often it was closed."""

    node = "1"

    def __init__(self):
        self.closed = 0

    def start(self):
        return "here"

    def close(self):
        self.closed += 1


def test_what_is_dealt_has_joined_before_its_machine_takes_it_along(monkeypatch):
    """Machines come and go in threads of their own."""
    stage, asked = Quiet(), []

    class Dealer:
        waits, share, kinds = False, (0, 1), ()

        def short_lived(self):
            return []

        def deal(self, others):
            return Dealt(builders=[stage])

        def remove(self, node):
            return [stage], (0, 1)

    pool = pool_of(_crew=Dealer())
    gone = threading.Thread(target=lambda: pool._gone(Node("1", "m7", False, {}, {})))
    join = pool.join

    def slowly(*words, **more):  # the machine is lost between deal and join
        gone.start()
        gone.join(0.2)
        asked.append(gone.is_alive())
        join(*words, **more)

    monkeypatch.setattr(pool, "join", slowly)
    pool._deal()
    gone.join(10)
    assert asked == [True] and stage.closed and not pool._traffic.seats
    assert pool.notes() == ["whet: node m7 (0 devices, 1 builder) is lost"]
    pool.close()


def test_a_worker_that_comes_to_a_closed_pool_is_ended():
    pool, late = pool_of(), Quiet()
    pool.close()
    pool.join(late)
    assert late.closed == 1 and not pool._traffic.seats


def test_a_pool_that_ends_waits_for_who_deals_and_deals_no_more():
    ended, begun, go = [], threading.Event(), threading.Event()

    def deal(others):
        begun.set()
        go.wait(10)
        ended.append("dealt")
        return Dealt()

    pool = pool_of()
    pool._crew.deal = deal
    pool._members = Members(list, [], print, print, looked=pool._deal)
    pool._opened.callback(ended.append, "closed")
    assert begun.wait(10)
    closing = threading.Thread(target=pool.close)
    closing.start()
    closing.join(0.2)
    go.set()
    closing.join(10)
    pool._deal()
    assert ended == ["dealt", "closed"] and not pool._members._thread.is_alive()


@pytest.mark.parametrize("says", ["_gone", "_leaves"])
def test_a_machine_of_which_nothing_was_used_is_no_loss(says):
    """It drained before, or was refused."""
    pool = pool_of()
    for sizes, heard in (((0, 0), 0), ((1, 0), 1)):
        pool._crew.remove = lambda node, sizes=sizes: ([], sizes)
        getattr(pool, says)(Node("1", "m7", True, {}, {}))
        assert len(pool.notes()) == heard == pool._news.losses().count("m7")
    pool.close()


class Ending:
    """A Ray that ends the first actors as soon as they have answered, or before."""

    class RayError(Exception):
        pass

    class RayTaskError(RayError):
        pass

    def __init__(self, brief, answers):
        self.made, self.brief, self.answers = [], brief, answers
        self.exceptions = SimpleNamespace(RayError=self.RayError, RayTaskError=self.RayTaskError)

    def is_initialized(self):
        return True

    def wait(self, refs, timeout):
        return refs, []

    def kill(self, actor):
        pass

    def begin(self, stage):
        stage._began = time.monotonic()
        self.made.append(stage._began)
        left = int(self.answers) if len(self.made) <= self.brief else 100

        def answer():
            nonlocal left
            answered, left = Future(), left - 1
            if left < 0:
                answered.set_exception(self.RayError("destroying actor child"))
            else:
                answered.set_result("here")
            return SimpleNamespace(future=lambda: answered)

        stage._actor = SimpleNamespace(start=SimpleNamespace(remote=answer))
        stage._created = "made"


@pytest.fixture
def brief(monkeypatch):
    """Makes stages whose Ray ends the first actors; nothing takes longer than a second."""
    for name, seconds in (("BRIEF_S", 0.3), ("REST_S", 0.02), ("LONGEST_S", 0.1)):
        monkeypatch.setattr(ray_actor, name, seconds)
    with contextlib.ExitStack() as opened:

        def make(count, answers):
            ray = Ending(count, answers)
            monkeypatch.setattr(RemoteStage, "_begin", lambda stage: ray.begin(stage))
            return RemoteStage(ray, partial(BuildStage), {}, 1.0, opened, name="whet build 0"), ray

        yield make


@pytest.mark.parametrize("answers", [False, True], ids=["silent", "answers once"])
def test_actors_that_are_lost_at_once_are_made_at_growing_intervals(brief, answers):
    stage, ray = brief(8, answers)
    doubted = []
    while not stage._machine:
        try:
            stage.start()
            if stage._brief < ray_actor.FEW:  # it was believed, and is lost when it is asked
                stage._ask("start")
        except WorkerLostError:
            doubted.append(stage.short_lived)
    assert doubted == [False] * 2 + [True] * 6 and not stage.short_lived
    gaps = [after - before for before, after in zip(ray.made, ray.made[1:])]
    assert len(ray.made) == 9 and all(
        gap >= rest for gap, rest in zip(gaps, [0, 0, 0.02, 0.04, 0.08, 0.1, 0.1, 0.1])
    )
    assert time.monotonic() - ray.made[-1] >= ray_actor.BRIEF_S  # the one that is believed


def test_a_pool_whose_actors_are_all_lost_at_once_says_so_and_ends(brief, monkeypatch):
    monkeypatch.setattr("whet.measure.pool.news.WAIT_S", 1.0)
    monkeypatch.setattr("whet.measure.pool.news.FIRST_WAIT_S", 1.0)
    stage, ray = brief(10**6, answers=True)
    pool = pool_of()
    pool._crew.deal = lambda others: Dealt()
    pool._crew.short_lived = lambda: [stage] if stage.short_lived else []
    monkeypatch.setattr("whet.measure.pool.ray_members.POLL_S", 0.05)
    pool._members = Members(list, [], print, print, looked=pool._deal)
    pool._members.check_head = lambda: None
    # It answers, and is lost as soon as it builds.
    monkeypatch.setattr(stage, "build", lambda inp: stage._ask("start"))
    pool.join(stage)
    pool.join(Quiet(), measures=True)
    for number in range(3):  # the first one ends with the actors that were believed
        pool.submit(candidate("good", number))
    told = []
    with pytest.raises(MeasureError, match=r"(?s)build.*Ray ends the actors of 'whet build 0'"):
        while True:
            told += pool.collect(0.2)
    assert len(ray.made) < 30 and len(told) <= 1
    pool.close()


def test_a_cluster_of_its_own_asks_for_this_users_token(monkeypatch, tmp_path):
    """Other users of the machine reach its loopback, too."""
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    seen = []
    monkeypatch.setattr(ray_cluster, "_start", lambda ray: seen.append(dict(os.environ)))
    with ray_cluster.connected():
        assert seen[0]["RAY_AUTH_MODE"] == "token"
        assert len((tmp_path / ".ray" / "auth_token").read_text()) == 64
    assert "RAY_AUTH_MODE" not in os.environ
