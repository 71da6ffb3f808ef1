"""The parts of measuring on GPUs: clocks, timers, names of devices, resources."""

import subprocess
import traceback
from dataclasses import replace

import numpy as np
import pytest
from gpu_fakes import fake_build

from whet.compiler.abi.artifact import Resources
from whet.compiler.errors import ArgumentError, MeasureError, PrunedError, TargetError
from whet.compiler.runtime.arrays.device import Device
from whet.compiler.runtime.gpu.driver.properties import DeviceProperties
from whet.compiler.target.machine import nvml
from whet.db.values.identity import device_key, device_name
from whet.measure.device import identity
from whet.measure.device.identity import device_of
from whet.measure.device.names import is_device_key, is_model, names_device
from whet.measure.gpu import gpu_state
from whet.measure.gpu.pruning import SPILLS, block_threads, check_resources, facts_of
from whet.measure.gpu.runner import is_lost
from whet.measure.gpu.stage import _raised, lock_of

# --- names


@pytest.mark.parametrize(
    ("text", "device"),
    [
        ("cuda", Device("cuda", 0)),
        ("cuda:3", Device("cuda", 3)),
        ("cuda-emulator", Device("cuda-emulator", 0)),
        ("cpu", Device("cpu", 0)),
        ("cuda:x", None),
        ("cuda-0123456789ab", None),
        ("opencl", None),
        ("mine", None),
    ],
)
def test_names_of_devices(text, device):
    assert identity.named_device(text) == device
    assert names_device(text) == (device is not None)
    if device is not None:
        assert identity.named_device(identity.text_of(device)) == device


H200 = DeviceProperties("NVIDIA H200", "sm_90", 132, memory_bytes=150_000_000_000)


def test_two_alike_are_one_device_and_others_are_not():
    one = identity.described(H200)
    two = identity.described(replace(H200, pci_bus_id="0000:AA:00.0", driver_version="13.1"))
    assert device_key(one) == device_key(two) and is_device_key(device_key(one))
    others = [
        replace(H200, name="X"),
        replace(H200, multiprocessors=1),
        replace(H200, arch="sm_80"),
    ]
    assert len({device_key(identity.described(p)) for p in (H200, *others)}) == 4
    assert device_name(one).startswith("NVIDIA H200 (cuda-")


def test_the_emulator_is_the_gpu_that_it_models():
    emulator, sm80 = Device("cuda-emulator"), "cuda -arch=sm_80"
    told = device_of(sm80, "cuda-emulator")
    assert told == device_of(sm80, emulator) == device_of(sm80, told)
    assert device_name(told).startswith("cuda-emulator (model of NVIDIA A100")
    assert device_key(told) != device_key(device_of("cuda -arch=sm_90", emulator))
    assert is_model(device_key(told)) and not is_model("cuda-0123456789ab")
    assert device_of(sm80, "cuda-0123456789ab") == "cuda-0123456789ab"
    with pytest.raises(TargetError, match="no GPU of that architecture is modelled"):
        device_of("cuda -arch=sm_61", "cuda-emulator")


@pytest.mark.parametrize("text", ["cuda-emu", "cuda-emulator-a100", "cuda-0123", "cuda0"])
def test_a_name_is_matched_whole(text):
    with pytest.raises(ArgumentError, match=f"device='{text}': there is no.*\n  did you mean"):
        device_of("cuda -arch=sm_80", text)
    with pytest.raises(MeasureError, match=f"measurement on '{text}': there is no such device"):
        identity.measured_device(text)


def test_of_a_traceback_only_what_was_raised_is_shown():
    try:
        raise TargetError("a device", "it fell off", "plug it in")
    except TargetError:
        text = traceback.format_exc()
    assert _raised(text) == "TargetError: a device: it fell off\n  plug it in"
    assert _raised("killed by signal 9") == "killed by signal 9"


def test_locks_are_of_the_gpu_and_not_of_its_number(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert lock_of(Device("cuda", 1)) == "cuda-1"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1, GPU-ab/c")
    assert lock_of(Device("cuda", 0)) == "cuda-1"
    assert lock_of(Device("cuda", 1)) == "cuda-GPU-ab-c"


# --- resources


def artifact():
    from gpu_fakes import candidate

    return fake_build(candidate("good")).artifact


def test_resources_that_a_gpu_does_not_have():
    made = artifact()
    assert block_threads(made) == {"add_kernel0": 64}
    check_resources(made, {"add_kernel0": Resources(255), "another": Resources(9999)})
    check_resources(made, {"add_kernel0": Resources(64, spill_stores=SPILLS)})
    launch = replace(made.plans[0].launches[0], block=(512, 2, 1))
    wide = replace(made, plans=(replace(made.plans[0], launches=(launch,)),))
    check_resources(wide, {"add_kernel0": Resources(64)})
    with pytest.raises(PrunedError, match=r"(?s)1024 threads of 65 reg.*73728 reg.*65536.*fewer"):
        check_resources(wide, {"add_kernel0": Resources(65)})
    with pytest.raises(PrunedError, match=r"1028 bytes of a thread's values do not fit its 255"):
        check_resources(made, {"add_kernel0": Resources(255, spill_stores=SPILLS + 4)})
    assert facts_of({"a": Resources(5, 8), "b": Resources(7, 4)}) == {
        "registers": 7,
        "spilt_bytes": 8,
    }
    assert facts_of({}) == {"registers": 0, "spilt_bytes": 0}


# --- contexts


class FakeGpu:
    """A context that works, or one in which every call fails."""

    def __init__(self, lost=False):
        self.lost = lost

    def alloc(self, nbytes):
        if self.lost:
            raise RuntimeError("an illegal memory access was encountered")
        return 256

    def free(self, address):
        assert address == 256

    def fill(self, address, byte, nbytes, stream=None):
        assert (address, nbytes) == (256, 256)

    def synchronize(self):
        pass


def test_a_context_after_an_illegal_address_is_lost():
    assert not is_lost(FakeGpu())
    assert is_lost(FakeGpu(lost=True))


# --- NVML

NVML = """
#include <string.h>
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **out) {
  *out = (void *)1; return strcmp(id, "0000:3B:00.0") ? 6 : 0;
}
int nvmlDeviceGetClockInfo(void *d, int which, unsigned *out) {
  *out = which == 1 ? 1755 : 2619; return 0;
}
int nvmlDeviceGetTemperature(void *d, int which, unsigned *out) { *out = 41; return which ? 2 : 0; }
int nvmlDeviceGetPowerUsage(void *d, unsigned *out) { return 3; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *d, unsigned long long *out) {
  *out = 0x41 | 0x4; return 0;
}
int nvmlSystemGetDriverVersion(char *text, unsigned size) { strcpy(text, "580.65.06"); return 0; }
"""


@pytest.fixture
def library(tmp_path, monkeypatch):
    source = tmp_path / "nvml.c"
    source.write_text(NVML)
    made = tmp_path / "libnvidia-ml.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", made], check=True)
    monkeypatch.setattr(nvml, "LIBRARY", str(made))
    forget()
    yield made
    forget()


def forget():
    nvml._library.cache_clear()
    gpu_state._begun.cache_clear()
    gpu_state._handle.cache_clear()


def test_clocks_and_temperature(library):
    assert gpu_state.state_of("0000:3B:00.0") == {
        "sm_mhz": 1755,
        "memory_mhz": 2619,
        "celsius": 41,
        "driver": "580.65.06",
        "slowed": ["power cap", "hardware thermal slowdown"],
    }  # it does not say what power it takes
    assert gpu_state.state_of("0000:00:00.0") == {} == gpu_state.state_of("")


def test_without_nvml_a_record_does_without(monkeypatch):
    monkeypatch.setattr(nvml, "LIBRARY", "libno-such-nvml.so.1")
    forget()
    assert gpu_state.state_of("0000:3B:00.0") == {}
    forget()


def test_inputs_are_those_of_a_processor():
    """A candidate for a GPU computes with the numbers that one for the CPU does."""
    from whet.measure.gpu.processor import GpuProcessor
    from whet.measure.stage.arguments import Arguments, stray_writes

    signature = artifact().signatures[0]
    params = dict(enumerate(signature.params))
    there = Arguments(params, 5, processor=GpuProcessor("cuda-emulator"))
    here = Arguments(params, 5).at(range(3))
    for buffer, array in zip(there.buffers[:2], here):
        np.testing.assert_array_equal(buffer.read(), array)
    assert stray_writes(there.buffers) == []
    there.poison()
    there.buffers[0].poison()
    assert stray_writes(there.buffers) == ["its input A"]
    np.testing.assert_array_equal(there.buffers[0].read(), here[0])  # as it was


def test_weights_are_packed_once_and_are_inputs_then():
    from whet import te
    from whet.compiler import driver
    from whet.compiler.target import Target
    from whet.measure import MeasureOptions
    from whet.measure.gpu.processor import GpuProcessor
    from whet.measure.gpu.runner import RUNNER
    from whet.measure.stage.arguments import stray_writes
    from whet.measure.stage.runner import Kernel

    X, W = te.placeholder((5, 3), name="X"), te.placeholder((3, 5), name="W")
    P = te.compute((5, 3), lambda i, j: W[j, i] * 2.0, name="P")
    Y = te.compute((5, 3), lambda i, j: X[i, j] + P[i, j], name="Y")
    s = te.create_schedule(Y.op)
    s[P].compute_ahead()
    for t in (P, Y):
        s[t].bind(s[t].fuse(*s[t].op.axis), te.thread_axis("threadIdx.x"))
    with Target("cuda -arch=sm_80") as target:
        artifact = driver.compile_module(driver.lower(s, [X, W, Y]), target)
    kernel = Kernel.load(artifact, GpuProcessor("cuda-emulator"))
    call = kernel.call(RUNNER.arguments(kernel, seed=5))
    (w,), (x, p, _) = call.arguments.at([1]), call.values
    assert (x.shape, w.shape) == ((5, 3), (3, 5))
    np.testing.assert_array_equal(p.numpy(), w.numpy().T * 2)
    assert stray_writes([*call.arguments.buffers, *call.packed]) == []
    p.copyfrom(np.zeros((5, 3), "float32"))
    assert stray_writes([*call.arguments.buffers, *call.packed]) == ["its input P"]
    assert RUNNER.measure(kernel, MeasureOptions()).status == "ok"
