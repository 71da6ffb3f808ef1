"""The GPUs of a process, by NVML, CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER."""

import ctypes

import pytest

from whet.compiler.runtime.arrays.device import Device
from whet.compiler.target.machine import local_gpu, nvml
from whet.measure.gpu.stage import lock_of

GPUS = {"GPU-aa11": (8, 0), "GPU-bb22": (9, 0), "GPU-bb33": (12, 0)}
PART = "MIG-cc44"  # of the second


class Nvml:
    """As the library, with handles that are numbers from 1."""

    sessions = 0

    def nvmlInit_v2(self):
        Nvml.sessions += 1
        return 0

    def nvmlShutdown(self):
        Nvml.sessions -= 1
        return 0

    def nvmlDeviceGetCount_v2(self, count):
        count._obj.value = len(GPUS)
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index, handle):
        handle._obj.value = index + 1
        return 0 if index < len(GPUS) else 2

    def nvmlDeviceGetUUID(self, handle, text, length):
        text.value = list(GPUS)[handle.value - 1].encode()
        return 0

    def nvmlDeviceGetHandleByUUID(self, uuid, handle):
        handle._obj.value = 102
        return 0 if uuid == PART.encode() else 6

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, part, handle):
        handle._obj.value = part.value - 100
        return 0

    def nvmlDeviceGetCudaComputeCapability(self, handle, major, minor):
        major._obj.value, minor._obj.value = list(GPUS.values())[handle.value - 1]
        return 0


BUS = "PCI_BUS_ID"


@pytest.fixture
def environment(monkeypatch):
    """Sets CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER; None: it is not set."""

    def forget():
        nvml._library.cache_clear()
        local_gpu._every_gpu.cache_clear()
        local_gpu._part.cache_clear()

    def set_both(visible, order):
        for name, value in (("CUDA_VISIBLE_DEVICES", visible), ("CUDA_DEVICE_ORDER", order)):
            monkeypatch.delenv(name, raising=False)
            if value is not None:
                monkeypatch.setenv(name, value)

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Nvml())
    forget()
    yield set_both
    assert Nvml.sessions == 0, "a fork would share the library's session"
    forget()


@pytest.mark.parametrize(
    "visible, order, arch",
    [
        (None, BUS, "sm_80"),
        (None, None, "sm_120"),  # the fastest is the first
        (None, "FASTEST_FIRST", "sm_120"),
        ("1", BUS, "sm_90"),
        ("1", None, "sm_90"),
        ("2", None, "sm_80"),
        ("2, 0", BUS, "sm_120"),
        ("GPU-bb22", None, "sm_90"),
        ("GPU-bb3,0", BUS, "sm_120"),
        (PART, None, "sm_90"),
        ("", BUS, ""),
        (" ", None, ""),
        ("-1", BUS, ""),
        ("7", BUS, ""),
        ("GPU-dd", None, ""),
        ("MIG-dd", None, ""),
        ("none", BUS, ""),
    ],
)
def test_the_first_gpu_that_is_visible(environment, visible, order, arch):
    environment(visible, order)
    assert local_gpu.local_arch() == arch


@pytest.mark.parametrize(
    "visible, order, uuids",
    [
        (None, BUS, ["GPU-aa11", "GPU-bb22", "GPU-bb33", ""]),
        (None, None, ["GPU-bb33", "GPU-bb22", "GPU-aa11", ""]),
        ("2,GPU-bb22", BUS, ["GPU-bb33", "GPU-bb22", ""]),
        ("2,GPU-bb2", None, ["GPU-aa11", "GPU-bb22", ""]),
        (f"0,{PART},1", BUS, ["GPU-aa11", PART, "GPU-bb22", ""]),
        ("0,-1,1", BUS, ["GPU-aa11", "", ""]),  # CUDA stops at what it does not know
    ],
)
def test_every_gpu_has_a_name_that_all_processes_know(environment, visible, order, uuids):
    environment(visible, order)
    assert [local_gpu.local_uuid(k) for k in range(len(uuids))] == uuids


def test_one_gpu_has_one_lock(environment):
    locks = set()
    for visible, index in ((None, 1), ("1", 0), ("GPU-bb22", 0), ("0,GPU-bb", 1)):
        environment(visible, BUS)
        locks.add(lock_of(Device("cuda", index)))
    assert locks == {"cuda-GPU-bb22"}


def test_a_machine_without_a_driver(environment, monkeypatch):
    def missing(name):
        raise OSError(f"{name}: cannot open shared object file")

    environment(None, None)
    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert local_gpu.local_arch() == "" and local_gpu.local_uuid(0) == ""
    assert lock_of(Device("cuda", 3)) == "cuda-3"
