"""Which GPU the target is made for where none is named, by NVML and CUDA_VISIBLE_DEVICES."""

import ctypes

import pytest

from whet.compiler.target import local_gpu

GPUS = {"GPU-aa11": (8, 0), "GPU-bb22": (9, 0), "GPU-bb33": (12, 0)}
PART = "MIG-cc44"  # of the second


class Nvml:
    """As the library, with handles that are numbers from 1."""

    def nvmlInit_v2(self):
        return 0

    def nvmlShutdown(self):
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


@pytest.mark.parametrize(
    "visible, arch",
    [
        (None, "sm_80"),
        ("1", "sm_90"),
        ("2, 0", "sm_120"),
        ("GPU-bb22", "sm_90"),
        ("GPU-bb3,0", "sm_120"),
        (PART, "sm_90"),
        ("", ""),
        (" ", ""),
        ("-1", ""),
        ("7", ""),
        ("GPU-dd", ""),
        ("MIG-dd", ""),
        ("none", ""),
    ],
)
def test_the_first_gpu_that_is_visible(monkeypatch, visible, arch):
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: Nvml())
    local_gpu._arch_of.cache_clear()
    try:
        assert local_gpu.local_arch() == arch
    finally:
        local_gpu._arch_of.cache_clear()


def test_a_machine_without_a_driver(monkeypatch):
    def missing(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    local_gpu._arch_of.cache_clear()
    assert local_gpu.local_arch() == ""
    local_gpu._arch_of.cache_clear()
