"""One search for several kinds of devices: a goal, a winner and records of its own for each."""

from __future__ import annotations

import pytest
from autotune_pools import Recorder
from autotune_synthetic import gemm_cost, small_cost

import whet
from whet import te
from whet.autotune import best_from_log, create_task, tune
from whet.compiler.errors import ArgumentError, MeasureError
from whet.compiler.target import Target
from whet.db import TuningLog
from whet.measure import MeasureOptions
from whet.measure.device.names import this_device
from whet.measure.device.selection import select_devices
from whet.measure.pool.local import LocalPool
from whet.measure.values import MeasureInput
from whet.search_spaces import get_config, template

NEAR, FAR = "cpu-00000000000a", "cpu-00000000000b"


def wanted(kind):
    """Configs that are fast on one kind are slow on the other."""
    return {NEAR: "x", FAR: "z"}[kind]


def cost(inp):
    return small_cost(inp.config) * (1.0 if inp.config.choice("a") == wanted(inp.device) else 9.0)


@pytest.fixture
def pool():
    return Recorder(cost)


def test_each_kind_has_its_winner_and_its_records(small, pool, tmp_path):
    found = tune(small, 60, tmp_path / "a.db", "random", pool, [NEAR, FAR], progress=False)
    assert [one.device for one in found] == [NEAR, FAR]
    assert [one.best.config.choice("a") for one in found] == ["x", "z"]
    assert sum(len(one.trials) for one in found) == 60  # of both together
    assert NEAR in str(found[0]) and FAR in repr(found[1])
    with TuningLog(tmp_path / "a.db", write=False) as log:
        for one in found:
            best = best_from_log(small, log, device=one.device)
            assert best.config == one.best.config
            key = {"device": one.device, "target": small.target}
            assert log.best(small.workload, **key).config == one.best.config
    # Finalists of one search meet on one kind of machine, each kind's own with its own default.
    assert [{inp.device for inp in inputs} for inputs in pool.remeasured] == [{NEAR}, {FAR}]
    assert {inp.device for inp in pool.references} == {NEAR, FAR}


def test_a_finished_search_of_several_kinds_measures_nothing(small, pool, tmp_path):
    first = tune(small, 40, tmp_path / "a.db", "random", pool, [NEAR, FAR], progress=False)
    count = len(pool.submitted)
    again = tune(small, 40, tmp_path / "a.db", "random", pool, [NEAR, FAR], progress=False)
    assert len(pool.submitted) == count == 40
    assert [one.best for one in again] == [one.best for one in first]
    # One of the kinds alone has its trials already.
    had = len(first[0].trials)
    alone = tune(small, had, tmp_path / "a.db", "random", pool, NEAR, progress=False)
    assert len(pool.submitted) == count and alone.best == first[0].best and alone.device == ""


def test_many_tasks_on_many_kinds_come_task_by_task(small, gemm, tmp_path):
    pool = Recorder(
        lambda inp: (small_cost if inp.workload.template == "test/small" else gemm_cost)(inp.config)
    )
    tasks = [gemm, small]
    found = tune(tasks, 80, tmp_path / "a.db", "random", pool, [NEAR, FAR], progress=False)
    said = [(one.task.name, one.device) for one in found]
    assert said == [(name, kind) for name in ("test/gemm", "test/small") for kind in (NEAR, FAR)]
    assert sum(len(one.trials) for one in found) == 80 and all(one.best for one in found)


def test_fewer_trials_than_searches_are_refused(small, pool, tmp_path):
    with pytest.raises(ArgumentError, match=r"(?s)1 trial cannot be shared by 2 searches.*least 2"):
        tune(small, 1, tmp_path / "a.db", "random", pool, [NEAR, FAR], progress=False)


def places(device, *targets, workers=None, remote=None):
    tasks = [Target(target).canonical() for target in targets or ("llvm",)]
    return select_devices(device, "w", tasks, workers, lambda _: "", remote)


def test_a_kind_twice_is_refused():
    for twice in ([NEAR, NEAR], ["cpu", this_device()], f"cpu, {this_device()}"):
        with pytest.raises(ArgumentError, match=r"(?s)named twice.*each kind of device once"):
            places(twice)


def test_a_kind_that_a_cluster_does_not_have_is_refused_with_those_that_it_has():
    from whet.measure.pool.ray_cluster import Node
    from whet.measure.pool.ray_members import Offer, of_one_kind

    machines = [Offer(Node(kind, kind, True, {}, {}), kind, "r") for kind in (NEAR, FAR)]

    def remote(workers, device, kinds):
        chosen = of_one_kind(machines, device, {})[0]
        there = Target("llvm").canonical().to_json() | {"num_threads": 1 + (chosen.kind == FAR)}
        return {"fingerprint": chosen.kind, "targets": {"llvm": there}}

    both = places([NEAR, FAR], workers="ray", remote=remote)
    assert [(one.kind, one.device, one.home) for one in both] == [
        (NEAR, NEAR, "cpu"),
        (FAR, FAR, "cpu"),
    ]
    # The target of each is the kind's own.
    task = create_task("matmul", args=(16, 16, 16))
    assert [task.on(one.target_of).target.attrs["num_threads"] for one in both] == [1, 2]
    unknown = "cpu-00000000000c"
    with pytest.raises(MeasureError, match=rf"(?s){unknown}.*there are: {NEAR}, {FAR}"):
        places([NEAR, unknown], workers="ray", remote=remote)


def test_a_task_is_made_for_the_target_of_each_kind():
    cpu, gpu = places(["cpu", "cuda-emulator"])
    assert (cpu.home, gpu.home) == ("cpu", "cuda") and gpu.kind.startswith("cuda-emulator-")
    task = create_task("matmul", args=(16, 16, 16))
    assert task.on(cpu.target_of) is task
    assert str(task.on(gpu.target_of).target.kind) == "cuda"
    with pytest.raises(ArgumentError, match=r"(?s)sm_90.*does not run on 'cpu'.*leave the target"):
        places(["cpu", "cuda-emulator"], "cuda -arch=sm_90")
    assert len(places("cpu")) == 1


def test_a_processor_elsewhere_is_refused_by_the_workers_of_this_machine(small, tmp_path):
    with pytest.raises(MeasureError, match=rf"(?s){FAR}.*processor of this machine is.*ray://"):
        tune(small, 8, tmp_path / "a.db", "random", 1, ["cpu", FAR], progress=False)


@template("test/add_one")
def add_one(n):
    """B = A + 1, for a processor or a GPU."""
    A = te.placeholder((n,), "float32", name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    cfg = get_config()
    cfg.define_knob("factor", [16, 64])
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(B.op.axis[0], factor=cfg["factor"].val)
    if str(Target.current().kind) == "cuda":
        s[B].bind(outer, te.thread_axis("blockIdx.x"))
        s[B].bind(inner, te.thread_axis("threadIdx.x"))
    return s, [A, B]


def test_a_processor_and_the_emulator_of_this_machine(tmp_path):
    task = create_task(add_one, args=(256,))
    options = MeasureOptions(build_timeout=60.0, run_timeout=60.0, min_repeats=2, repeat=2)
    kinds = ["cpu", "cuda-emulator"]
    found = tune(task, 4, tmp_path / "a.db", "grid", 1, kinds, options=options, progress=False)
    cpu, gpu = found
    assert [len(one.trials) for one in found] == [2, 2]
    assert cpu.device == this_device() and gpu.device.startswith("cuda-emulator-")
    assert not cpu.predicted and gpu.predicted
    assert all(t.result.ok and t.result.environment["checked"] for one in found for t in one.trials)
    with TuningLog(tmp_path / "a.db", write=False) as log:
        devices = {run.device["fingerprint"] for run in log.runs()}
    assert devices == {cpu.device, gpu.device}
    assert whet.build(task, log=tmp_path / "a.db") is not None


def test_a_pool_of_several_kinds_counts_the_devices_of_each():
    kinds = {this_device(): "cpu", "cuda-emulator-a100-v1": "cuda-emulator"}
    with LocalPool(1, options=MeasureOptions(), device=kinds) as pool:
        assert pool.devices == dict.fromkeys(kinds, 1)
        task = create_task(add_one, args=(64,))
        inp = MeasureInput(
            task.workload, task.target.to_json(), task.config_space.default, task.template.ref()
        )
        with pytest.raises(MeasureError, match=r"(?s)the pool has.*MeasureInput\(device=...\)"):
            pool.submit(inp)
