"""Several GPUs of one machine: a worker each, candidates for whoever is free, a lost device."""

from __future__ import annotations

import re
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec

import pytest
from gpu_fakes import candidate

import whet
from whet.cli import main
from whet.compiler.errors import ArgumentError, DeviceLostError, MeasureError, TargetError
from whet.compiler.runtime.gpu.driver.interface import use_driver
from whet.compiler.runtime.gpu.driver.properties import DeviceProperties
from whet.measure import LocalPool, MeasureInput, MeasureOptions, MeasureResult, RayPool
from whet.measure.device.identity import device_of, measured_devices
from whet.measure.device.selection import select_devices
from whet.measure.gpu import stage
from whet.measure.pool.engine import StagedPool
from whet.measure.pool.open import describe_remote_gpu
from whet.measure.stage.builder import Built
from whet.measure.stage.machine import builder_cores, measuring_core
from whet.measure.stage.runner import Measurement, RunReport

FAKES = {
    "build_function": "gpu_fakes:fake_build",
    "run_function": "gpu_fakes:mortal_run",
    "prepare_function": "gpu_fakes:no_reference",
}
PATIENT = MeasureOptions(build_timeout=60.0, run_timeout=60.0)
BOTH = "cuda:0,cuda:1"

needs_pycuda = pytest.mark.skipif(not find_spec("pycuda"), reason="pycuda is not installed")


@pytest.fixture
def mortal(monkeypatch, tmp_path):
    """The stand-in's two devices, each of which dies when its file is there; the files' folder."""
    from whet.compiler.emulator.standin import folder

    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder()))
    monkeypatch.setenv("WHET_TEST_MEETING", str(tmp_path))
    monkeypatch.setattr(stage, "WAKE", "gpu_fakes:mortal_wake")
    return tmp_path


def collected(pool: StagedPool, count: int) -> list[MeasureResult]:
    found: list[MeasureResult] = []
    while len(found) < count:
        found += [result for _, result in pool.collect(60)]
    return found


def places_of(results: list[MeasureResult]) -> set[str]:
    return {r.environment["device"] for r in results if r.ok}


@needs_pycuda
def test_candidates_go_to_whoever_is_free_and_a_lost_device_costs_one_trial(mortal, monkeypatch):
    """The others measure on, finalists too; without any other, the search ends with the reason."""
    monkeypatch.setattr("whet.measure.pool.calls.TRIES", 2)
    with LocalPool(1, device=BOTH, options=PATIENT, **FAKES) as pool:
        assert pool.capacity == 1 + 3 * 2
        for k in range(4):
            pool.submit(candidate("good", k))
        found = collected(pool, 4)
        assert places_of(found) == {"cuda:0", "cuda:1"}
        assert len({r.environment["pid"] for r in found}) == 2  # a process each
        # Finalists are compared with each other, and so on one device.
        finals = pool.remeasure([candidate("good", 1), candidate("good", 2)], 2)
        assert [len(r.costs) for r in finals] == [2, 2] and len(places_of(finals)) == 1
        (mortal / "cuda:0").touch()
        with pytest.warns(RuntimeWarning, match=r"(?s)measurement on cuda:0: a new.*1 other dev"):
            for k in range(4, 10):
                pool.submit(candidate("good", k))
            found = collected(pool, 6)
        lost = [r for r in found if not r.ok]
        assert [r.status for r in lost] == ["run_crash"] and places_of(found) == {"cuda:1"}
        (final,) = pool.remeasure([candidate("good", 1)], 2)
        assert final.ok and final.environment["device"] == "cuda:1"
        (mortal / "cuda:1").touch()
        pool.submit(candidate("good", 20))
        assert collected(pool, 1)[0].status == "run_crash"
        pool.submit(candidate("good", 21))
        with pytest.raises(DeviceLostError, match=r"(?s)cuda:1.*cannot use the device.*fell off"):
            collected(pool, 1)
        with pytest.raises(DeviceLostError, match="cuda:1"):
            pool.remeasure([candidate("good", 1)], 2)


class Stage:
    """Builds, and measures on a device that may be lost."""

    def __init__(self, other_lost: threading.Event, lost: bool = False) -> None:
        self.other_lost, self.lost = other_lost, lost

    def start(self) -> str:
        return "here"

    def overlaps_builds(self) -> bool:
        return False

    def build(self, inp: MeasureInput) -> Built:
        return Built("ok")

    def run(self, measurement: Measurement) -> RunReport:
        if self.lost:
            self.other_lost.set()
            raise DeviceLostError("measurement on cuda:0", "it is gone")
        self.other_lost.wait(60)  # the other one takes a candidate, too
        return RunReport("ok", (1e-3,))

    def close(self) -> None:
        pass


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_no_candidate_is_lost_where_warnings_are_errors(monkeypatch):
    monkeypatch.setattr("whet.measure.pool.calls.TRIES", 1)
    lost = threading.Event()
    pool = StagedPool([Stage(lost)], [Stage(lost, lost=True), Stage(lost)], PATIENT)
    with pool, warnings.catch_warnings():
        warnings.simplefilter("error")
        for k in range(4):
            pool.submit(candidate("good", k))
        found: list[MeasureResult] = []
        until = time.monotonic() + 60
        while len(found) < 4 and time.monotonic() < until:
            found += [result for _, result in pool.collect(1)]
    assert [r.status for r in found] == ["ok"] * 4


@needs_pycuda
def test_a_device_that_is_not_there_is_no_pools(mortal):
    with pytest.raises(MeasureError, match=r"(?s)measurement on cuda:2.*may use 2 GPUs"):
        LocalPool(1, device="cuda:0,cuda:2", options=PATIENT, **FAKES)


def test_measurers_have_cores_of_their_own(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {1, 3, 5, 7})
    monkeypatch.setattr("whet.measure.stage.machine._siblings", lambda core: set())
    assert [measuring_core(k) for k in range(5)] == [7, 5, 3, 1, 7]
    assert builder_cores() == [1, 3, 5] and builder_cores(2) == [1, 3]
    assert builder_cores(4) == [1, 3, 5, 7]  # none is left: they share


@pytest.mark.parametrize(("device", "builders"), [("cuda-emulator", 4), ("cuda:0", 3)])
def test_costs_of_a_model_leave_builders_all_cores(monkeypatch, device, builders):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {1, 3, 5, 7})
    monkeypatch.setattr("whet.measure.stage.machine._siblings", lambda core: set())
    asked = []
    monkeypatch.setattr(
        "whet.measure.stage.stages.Supervisor", lambda **how: asked.append(how["cpus"])
    )
    monkeypatch.setattr(StagedPool, "__init__", lambda *_: None)  # nothing is started
    LocalPool(device=device, options=PATIENT)
    assert asked == [[1, 3, 5, 7][:builders]] * builders


def test_an_actor_with_one_gpu_of_several_has_a_core_of_its_own(monkeypatch):
    """Ray shows it that GPU alone; the core is another one than those of the others' actors."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {1, 3, 5, 7})
    cores = {}
    for visible in ("0", "2", "0,1,2", "GPU-0123", ""):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        (worker,) = stage.DeviceStage(PATIENT, whet.cuda(0))._workers
        cores[visible] = worker._spec["cpus"]
    assert cores == {"0": [7], "2": [3], "0,1,2": [7], "GPU-0123": [7], "": [7]}


# --- what tune() is told


class Driver:
    """GPUs by their properties alone."""

    def __init__(self, *devices: DeviceProperties) -> None:
        self.devices = devices

    def device_count(self) -> int:
        return len(self.devices)

    def properties(self, index: int) -> DeviceProperties:
        if index >= len(self.devices):
            raise TargetError(f"using cuda({index})", "there is none")
        return self.devices[index]


@pytest.fixture
def gpus() -> Iterator[type[Driver]]:
    """Two GPUs alike, and one that has less memory."""
    large = DeviceProperties("A GPU", "sm_90", 132, memory_bytes=141 << 30)
    small = DeviceProperties("A GPU", "sm_90", 132, memory_bytes=80 << 30)
    use_driver("cuda", Driver(large, large, small))  # type: ignore[arg-type]
    yield Driver
    use_driver("cuda", None)


def placed(device: object, workers: object = None, target: str = "cuda -arch=sm_90"):
    task = whet.create_task("matmul", args=(32, 32, 32), target=target)
    with ExitStack() as stack:
        remote = partial(describe_remote_gpu, stack=stack)
        return select_devices(device, str(task.workload), [task.target], workers, remote)[0]


@pytest.mark.parametrize(
    "asked",
    [
        ["cuda:0", "cuda:1"],
        (whet.cuda(0), "cuda:1"),
        [whet.cuda(0), whet.cuda(1)],
        "cuda:0,cuda:1",
        "cuda:0, cuda:1",
    ],
)
def test_several_devices_are_one_for_the_log(gpus, asked):
    alone, both = placed("cuda:1"), placed(asked)
    assert both.device == BOTH and both.identity == alone.identity
    assert both.identity["name"] == "A GPU" and alone.device == "cuda:1"


def test_all_devices(gpus):
    use_driver("cuda", gpus(*[DeviceProperties("A GPU", "sm_90", 132)] * 3))
    assert placed("cuda:*").device == placed(["cuda:*"]).device == "cuda:0,cuda:1,cuda:2"
    assert placed(["cuda:1"]).device == "cuda:1" and placed(None).device == "cuda:0"
    use_driver("cuda", gpus())
    with pytest.raises(TargetError, match=r"(?s)this machine has no GPU.*cuda-emulator"):
        placed("cuda:*")


WRONG = {
    "kinds": ("cuda:*", None, MeasureError, r"different GPUs: A GPU sm_90 132 141, A GPU.* 80"),
    "twice": (["cuda:1", "cuda:1"], None, MeasureError, "'cuda:1' is named twice"),
    "cpu": (["cuda:0", "cpu"], None, ArgumentError, "'cuda sm_90'.*does not run on 'cpu'"),
    "emulated": (["cuda-emulator"] * 2, None, ArgumentError, "'cuda-emulator' is .*named twice"),
    "fingerprint": (["cuda:0", "cuda-0123"], None, ArgumentError, "there is no such device"),
    "number": (["cuda:0", 1], None, ArgumentError, "a int does not name a machine"),
    "absent": ("cuda:0,cuda:3", None, TargetError, "using cuda\\(3\\)"),
    "none": ([], None, ArgumentError, "it names no device.*'cuda:0', 'cuda:1'"),
    "ray": (BOTH, "ray", ArgumentError, "have no numbers here.*leave device out"),
    "second": ("cuda:1", "ray", ArgumentError, "'cuda:1'.*have no numbers here.*leave device out"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_measured_on_together(gpus, name):
    asked, workers, kind, text = WRONG[name]
    with pytest.raises(kind) as caught:
        placed(asked, workers)
    assert re.search(text, str(caught.value), re.S), caught.value


@pytest.mark.parametrize("several", [["cuda:0", "cuda:1"], BOTH, "cuda:*", (whet.cuda(0),)])
def test_records_are_of_one_device(gpus, several):
    with pytest.raises(ArgumentError, match=r"(?s)a record is of one.*name one of them, 'cuda:0'"):
        device_of("cuda -arch=sm_90", several)
    assert device_of("cuda -arch=sm_90", "cuda:1") == device_of("cuda -arch=sm_90")
    assert device_of("cuda -arch=sm_90", "rack 3, slot 1") == "rack 3, slot 1"  # anybody's own name


def test_gpus_measure_nothing_for_processors(gpus):
    with pytest.raises(ArgumentError, match=r"cuda:0,cuda:1.*does not run code for target 'llvm'"):
        placed(BOTH, target="llvm")


def test_one_device_of_a_pool_is_one(gpus):
    assert measured_devices("cuda:1") == (whet.cuda(1),)
    assert measured_devices("some-lock") == (whet.cpu(0),)
    for device in (BOTH, "cuda:1"):
        with pytest.raises(MeasureError, match="have no numbers here"):
            RayPool(workers=1, device=device)


def test_the_command_line_takes_several(capsys):
    words = ["tune", "--op", "matmul", "--args", "8", "8", "8", "--target", "cuda", "--device"]
    assert main([*words, "cuda:0,cuda:0"]) == 1
    assert "'cuda:0' is named twice" in capsys.readouterr().err
