"""GPUs of a Ray cluster: a measuring actor for each one that is free, builders without any."""

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec

import pytest
from gpu_fakes import candidate

from whet.compiler.errors import MeasureError
from whet.measure import MeasureOptions, RayPool
from whet.measure.device.identity import check_alike
from whet.measure.pool.ray_cluster import MEASURER, free_gpus
from whet.measure.pool.ray_crew import describe_remote_gpu

FAKES = {
    "build_function": "gpu_fakes:fake_build",
    "run_function": "gpu_fakes:visible_run",
    "prepare_function": "gpu_fakes:no_reference",
}
PATIENT = MeasureOptions(build_timeout=60.0, run_timeout=60.0)
CHANGED = ("LD_LIBRARY_PATH", "PYTHONPATH", "WHET_TEST_MEETING")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """A cluster that says it has two GPUs; where pycuda is, a stand-in driver shows them."""
    before = {name: os.environ.get(name) for name in CHANGED}
    if find_spec("pycuda"):
        from whet.compiler.emulator.standin import folder

        os.environ["LD_LIBRARY_PATH"] = str(folder())
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    os.environ["WHET_TEST_MEETING"] = str(tmp_path_factory.mktemp("meeting"))
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    import ray

    ray.init(
        "local",
        num_cpus=2,
        num_gpus=2,
        resources={MEASURER: 1},
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=100 << 20,
    )
    yield ray
    ray.shutdown()
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})


needs_pycuda = pytest.mark.skipif(not find_spec("pycuda"), reason="pycuda is not installed")


@needs_pycuda
def test_each_free_gpu_has_a_measurer_of_its_own(cluster):
    told = describe_remote_gpu(cluster)
    assert told["fingerprint"].startswith("cuda-") and told["arch"].startswith("sm_")
    with RayPool(workers=1, device="cuda", options=PATIENT, **FAKES) as pool:
        assert pool.capacity == 1 + 3 * 2
        for k in range(6):
            pool.submit(candidate("good", k))
        found = []
        while len(found) < 6:
            found += [result for _, result in pool.collect(60)]
        assert all(r.ok for r in found)
        assert {r.environment["visible"] for r in found} == {"0", "1"}
        assert {r.environment["device"] for r in found} == {"cuda:0"}  # the only one it sees
        with pytest.raises(MeasureError, match="all of its 2 GPUs are in use"):
            RayPool(workers=1, device="cuda", **FAKES)
        with pytest.raises(MeasureError, match="all of its 2 GPUs are in use"):
            describe_remote_gpu(cluster)
    assert free_gpus(cluster) == 2  # at once: the next search would measure on those that are


def test_the_emulator_needs_no_gpu(cluster):
    with RayPool(
        workers=1,
        device="cuda-emulator",
        options=PATIENT,
        reference=candidate("good", 99),
        build_function="gpu_fakes:fake_build",
    ) as pool:
        for behaviour in ("good", "wrong"):
            pool.submit(candidate(behaviour))
        found = []
        while len(found) < 2:
            found += [result for _, result in pool.collect(60)]
    assert sorted(r.status for r in found) == ["ok", "wrong_answer"], found
    assert {r.predicted for r in found} == {"a fake", ""}


def test_gpus_of_different_kinds_are_refused():
    one, two = {"name": "A", "fingerprint": "cuda-1"}, {"name": "B", "fingerprint": "cuda-2"}
    check_alike("a cluster", [one, one], "")
    with pytest.raises(MeasureError, match=r"(?s)a cluster: .*different GPUs: A, B.*those of one"):
        check_alike("a cluster", [one, two], "name those of one kind")


def test_a_cluster_without_gpus():
    class Empty:
        @staticmethod
        def cluster_resources():
            return {"CPU": 2}

        available_resources = cluster_resources

    with pytest.raises(MeasureError, match=r"(?s)offers no GPU.*--num-gpus=N"):
        free_gpus(Empty())
