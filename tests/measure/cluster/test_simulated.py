"""Replayed devices, and the benchmark of a simulated cluster on a small one."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from measure_fakes import candidate

import whet
from whet.compiler.errors import WorkerLostError
from whet.measure import MeasureOptions
from whet.measure.pool.engine import StagedPool
from whet.measure.pool.ray_actor import RemoteHost, RemoteStage, _that_leaves
from whet.measure.stage.replayed import (
    ReplayedBuild,
    ReplayedDevice,
    ReplayedDevices,
    landscape,
    replayed_kind,
    replayed_s,
)

ROOT = Path(__file__).parents[3]


def test_a_replayed_device_answers_after_its_time_with_the_cost_of_the_config() -> None:
    kind = replayed_kind(0.05)
    device = ReplayedDevice(0.05)
    device.kind = kind  # type: ignore[attr-defined]
    inputs = [candidate("good", number) for number in range(4)]
    with StagedPool([ReplayedBuild()], [device], MeasureOptions(), inputs[0]) as pool:
        begin = time.monotonic()
        tickets = {pool.submit(inp): inp for inp in inputs}
        found = {}
        while len(found) < 4:
            found |= dict(pool.collect(10))
        assert time.monotonic() - begin >= 4 * 0.05
        assert pool.devices == {kind: 1} and replayed_s(kind) == 0.05
    for ticket, result in found.items():
        assert result.ok and result.cost == landscape(tickets[ticket].config)
        assert result.environment["replayed"] == 0.05


def test_who_waits_for_an_answer_hears_at_once_that_the_pool_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = threading.Event()

    def ask(*_: Any) -> Any:
        asked.set()
        return SimpleNamespace(future=Future)

    def begin(stage: Any) -> None:
        stage._created = "start"
        method = SimpleNamespace(remote=ask)
        stage._actor = SimpleNamespace(start=method, run_on=method, leave=method)

    monkeypatch.setattr(RemoteStage, "_begin", begin)
    ray = SimpleNamespace(
        is_initialized=lambda: True,
        exceptions=SimpleNamespace(RayTaskError=KeyError, RayError=LookupError),
        wait=lambda *_, **__: ([], ["start"]),
    )
    with contextlib.ExitStack() as opened, ThreadPoolExecutor() as threads:
        host = RemoteHost(2, ray, partial(ReplayedDevices, 1.0, 2), {}, 60.0, opened)
        first, second = host.stages
        assert host._resources["max_concurrency"] == 3  # one is left for its end
        running = threads.submit(second.run, None)
        assert asked.wait(10)
        first.close()
        assert not host._closed and not running.done()
        second.close()  # the last one ends the actor
        begin = time.monotonic()
        with pytest.raises(WorkerLostError, match="the pool is closed"):
            running.result(10)
        assert host._closed and time.monotonic() - begin < 5


def test_what_an_actor_has_imported_is_no_garbage_to_look_for() -> None:
    before = gc.get_freeze_count()
    try:
        actor = _that_leaves(ReplayedDevices)(0.0, 2)
        assert gc.get_freeze_count() > before and len(actor._devices) == 2
    finally:
        gc.unfreeze()


def test_a_sampler_can_learn_the_landscape() -> None:
    space = whet.create_task("matmul", args=(64, 64, 64), target="llvm").config_space
    import numpy as np

    points = space.sample_points(np.random.default_rng(0), 200)
    costs = [landscape(space.decode(point)) for point in points]
    assert min(costs) >= 1e-4 and max(costs) > 2 * min(costs)
    assert costs == [landscape(space.decode(point)) for point in points]


@pytest.mark.faults
@pytest.mark.usefixtures("one_cluster_at_a_time")
def test_searches_on_a_simulated_cluster_measure_nothing_twice() -> None:
    command = [sys.executable, str(ROOT / "benchmarks/scale/cluster.py"), "--searches", "2"]
    command += ["--devices", "4", "--nodes", "2", "--seconds", "0.2", "--trials", "60"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    assert "counted in the log: 0 (goal: 0)" in done.stdout
    assert re.search(r"2 search\(es\) with xgb, (\d+) trials on 4 replayed devices", done.stdout)
