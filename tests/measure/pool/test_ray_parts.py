"""Parts of a Ray pool: requests to actors, a connection that fails. Without a cluster."""

from __future__ import annotations

import contextlib
import re
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from whet.compiler.errors import MeasureError
from whet.measure.gpu.stage import DeviceStage
from whet.measure.pool import ray_actor, ray_cluster
from whet.measure.pool.ray_actor import RemoteStage, _that_leaves
from whet.measure.stage.stages import BuildStage, RunStage


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
    with pytest.raises(raised, match=said):
        connect(address)
    assert ray.ended == 1 and ray_cluster._users == users


def test_what_ray_needs_for_its_clients_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", Failing(ValueError("requires more")))
    monkeypatch.setattr(ray_cluster, "find_spec", lambda name: None)
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
