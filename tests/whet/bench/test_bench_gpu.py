"""`whet.bench.gpu`: its clock, limits and contest, on the emulator and on a made-up device."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from importlib.util import find_spec

import numpy as np
import pytest

import whet
from whet.bench import contest
from whet.bench.arguments import arrays_of
from whet.bench.check import error_of
from whet.bench.contest import compare
from whet.bench.gpu import place
from whet.bench.gpu.clock import EventClock
from whet.bench.gpu.limits import CHAINS, PEAK, THREADS, CopyProbe, PeakProbe
from whet.bench.gpu.place import gpu
from whet.bench.gpu.right import exact_of
from whet.bench.operators.table import expected, laid_out
from whet.bench.table import bound_of, table_of
from whet.bench.turns import interleaved
from whet.cli import main
from whet.compiler.codegen.cuda import nvrtc
from whet.compiler.runtime.arrays.device import context_of
from whet.compiler.runtime.gpu.driver.interface import driver_of
from whet.compiler.runtime.gpu.driver.properties import DeviceProperties
from whet.measure.gpu import events

EMULATOR = whet.device("cuda-emulator")
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch")


class Device:
    """A device on which everything takes as long as it is told; it notes what it does."""

    properties = DeviceProperties("made up", "sm_80", 1, l2_bytes=100)

    def __init__(self):
        self.now, self.done, self.freed, self.late = 0.0, [], [], False

    def memory(self):
        return 10**12, 10**12

    def alloc(self, nbytes):
        return nbytes

    def free(self, address):
        self.freed.append(address)

    def fill(self, address, byte, nbytes):
        self.work("flush", 100.0)

    def work(self, name, seconds):
        self.done.append(name)
        self.now += seconds

    def synchronize(self):
        pass

    def event(self):
        return Event(self)


class Event:
    def __init__(self, device):
        self.device, self.at = device, None

    def record(self):
        self.at = self.device.now
        self.device.done.append("event")

    def synchronize(self):
        assert self.at is not None

    def reached(self):
        return self.device.late

    def seconds_since(self, earlier):
        return self.at - earlier.at


def test_each_call_is_timed_alone_behind_a_flush():
    device = Device()
    timer = EventClock(device)
    found = interleaved(
        {"a": lambda: device.work("a", 0.002), "b": lambda: device.work("b", 3.0)}, 4, timer
    )
    assert found["a"].seconds == pytest.approx([0.002] * 4)
    assert found["b"].seconds == pytest.approx([3.0] * 4)
    assert not (found["a"].late or found["b"].late)
    text = " ".join(device.done)
    assert "flush event a event flush event a event" in text  # two calls fit into 5 ms
    assert device.done.count("a") == 2 + 3 + 4 * 2 and device.done.count("b") == 2 + 3 + 4
    order = [n for n, after in zip(device.done, device.done[1:]) if n in "ab" and n != after]
    assert "".join(dict.fromkeys(order)) == "ab"
    timer.close()
    assert device.freed == [events.LEAST_BYTES]


def test_without_flushing_calls_follow_each_other():
    device = Device()
    costs = iter([9.0] * 5 + [1e-3, 3e-3] * 10)
    clock = EventClock(device, flush=False, seconds=180.0)
    found = interleaved({"a": lambda: device.work("a", next(costs))}, 1, clock)
    assert found["a"].seconds == pytest.approx([2e-3])  # 20 calls between two events
    assert device.done[-22:] == ["event", *["a"] * 20, "event"]


def test_a_host_that_comes_late_is_said():
    device = Device()

    def slow():
        device.late = True

    def quick():
        device.late = False
        device.work("a", 1.0)

    found = interleaved({"slow": slow, "a": quick}, 2, EventClock(device))
    assert found["slow"].late and not found["a"].late


def test_limits_do_the_work_that_they_count():
    context, driver = context_of(EMULATOR), driver_of("cuda-emulator")
    probe = PeakProbe(driver, context, steps=3)
    probe()
    blocks = 8 * context.properties.multiprocessors
    assert probe.flop == 2 * CHAINS * 3 * THREADS * blocks
    out = np.empty(THREADS * blocks, "float32")
    context.copy_out(out, probe._address)
    sums = np.arange(THREADS)[:, None] + np.arange(CHAINS)
    for _ in range(3):
        sums = sums * 0.5 + 0.5
    np.testing.assert_allclose(out, np.tile(sums.sum(1), blocks), rtol=1e-6)
    copy = CopyProbe(context, 1000)
    copy()
    copied = np.zeros(500, "uint8")
    context.copy_out(copied, copy._to)
    assert copy.bytes == 1000 and (copied == 1).all()
    probe.close()
    copy.close()


@pytest.mark.skipif(not nvrtc.available(), reason="needs NVRTC")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_the_peak_is_compiled_without_spills(arch):
    (kernel,) = nvrtc.compile_cubin(
        PEAK.format(threads=THREADS, chains=CHAINS), arch
    ).resources.values()
    assert kernel.spill_stores == 0 and CHAINS <= kernel.registers <= 64


def matmul(m=20, template="matmul"):
    task = whet.create_task(template, args=(12, 8, m), target="cuda")
    return task, whet.build(task)


@pytest.fixture
def quick(monkeypatch):
    """Little to flush, and a short peak: the emulator is no GPU."""
    monkeypatch.setattr(events, "LEAST_BYTES", 1 << 12)
    monkeypatch.setattr(place, "PeakProbe", lambda driver, context: PeakProbe(driver, context, 1))


def test_a_contest_has_everyone_in_it(quick):
    task, kernel = matmul()
    said = []
    found = compare(
        gpu(EMULATOR),
        task,
        {"default": kernel, "tuned": kernel},
        2,
        compiled=False,
        say=said.append,
    )
    assert found.ours == ("default", "tuned") and said == ["peers", "reference", "in turns"]
    assert all(len(s.seconds) == 2 and s.best > 0 for s in found.samples.values())
    assert (found.flop, found.bytes) == (2 * 12 * 8 * 20, 4 * (12 * 8 + 8 * 20 + 12 * 20))
    assert len(found.peaks) == len(found.streams) == 2 and found.errors["tuned"] < 1e-6
    assert contest.PEAK not in found.samples and contest.STREAM not in found.samples
    assert found.place == "cuda-emulator" == found.to_json()["place"]
    assert " on cuda-emulator: " in bound_of(found) and len(table_of(found)) > 3
    if find_spec("torch") is not None:
        assert {"torch", "torch out="} <= set(found.samples)
    if find_spec("triton") is None:
        assert any(said.startswith("triton: Triton is not installed") for said in found.left_out)


def test_wrong_numbers_are_refused(quick):
    task, _ = matmul()
    clipped = (12, 8, 20, False, False, "float32", (("clip", -0.1, 0.1),))
    wrong = whet.build(whet.create_task("matmul", args=clipped, target="cuda"))
    with pytest.raises(whet.MeasureError, match="tuned: its worst element is wrong by"):
        compare(gpu(EMULATOR), task, {"tuned": wrong}, 1, compiled=False)


def test_what_has_no_elements_is_not_compared():
    task = whet.create_task("softmax", args=((0, 5),), target="cuda")
    with pytest.raises(whet.MeasureError, match=r"shape \(0, 5\): 0 elements take no time"):
        compare(gpu(EMULATOR), task, {}, 1)


def test_errors_are_parts_of_the_largest_number():
    right = (np.array([1.0, 4.0]),)
    assert error_of("k", [np.array([1.0, 4.0002], "float32")], right) == pytest.approx(5e-5, 0.1)
    with pytest.raises(whet.MeasureError, match=r"k: its worst element is wrong by 0\.25"):
        error_of("k", [np.array([2.0, 4.0], "float32")], right)
    with pytest.raises(whet.MeasureError, match="wrong by nan"):
        error_of("k", [np.array([np.nan, 4.0], "float32")], right)
    with pytest.raises(whet.MeasureError, match=r"shape \(2, 1\), not \(2,\)"):
        error_of("k", [np.ones((2, 1), "float32")], right)
    assert error_of("k", [np.array([1.0, 4.01], "float16")], right) < 1e-2


TORCH = {
    "matmul": (5, 7, 9, True, True),
    "dense": (3, 5, 17, "float32", ("bias", "relu")),
    "conv2d_nchw": (1, 4, 7, 7, 6, 3, 2, 1, (1, 0, 0, 2), 2, 2),
    "conv2d_nhwc": (1, 3, 9, 8, 5, 3, 3, 2, 1),
    "depthwise_conv2d_nchw": (1, 3, 9, 8, 3, 3, 2, 1, 1, 2),
    "softmax": ((3, 11),),
    "layer_norm": ((3, 4, 5), (-2, -1)),
    "bias_gelu": ((3, 11),),
    "transpose": ((3, 4, 5), (2, 0, 1)),
    "sum": ((3, 4, 5), (0, 2)),
}


@needs_torch
@pytest.mark.parametrize("name", TORCH)
def test_pytorch_in_float64_is_as_right_as_numpy(name):
    import torch

    from whet.bench.gpu.libraries import exact_by_torch

    task = whet.create_task(name, args=TORCH[name], target="llvm")
    inputs = arrays_of(task).inputs
    found = laid_out(task, exact_by_torch(whet.cpu(0), task, inputs))
    assert all(x.dtype == torch.float64 for x in found)
    assert error_of(name, found, expected(task, inputs)) < 1e-12
    assert error_of(name, [x.numpy() for x in found], found) == 0.0


@needs_torch
def test_pytorch_computes_float32_in_float32():
    import torch

    from whet.bench.gpu.libraries import sees, true_float32

    true_float32()
    assert not torch.backends.cuda.matmul.allow_tf32 and not torch.backends.cudnn.allow_tf32
    assert torch.backends.cudnn.benchmark and not torch.is_grad_enabled()
    assert sees(EMULATOR) == ""
    if not torch.cuda.is_available():
        assert "sees no GPU" in sees(whet.cuda(0))
        task = whet.create_task("add", args=((3,), (3,)), target="llvm")
        inputs = arrays_of(task).inputs
        assert isinstance(exact_of(whet.cuda(0), task, inputs)[0], np.ndarray)


def test_a_layout_of_pytorchs_own_is_compared_as_plain_numbers():
    torch = pytest.importorskip("torch")
    numbers = torch.randn(1, 2, 3, 3)
    assert error_of("it", [numbers.to_mkldnn()], [numbers.double().numpy()]) == 0
    with pytest.raises(whet.MeasureError, match="it: its worst element is wrong by"):
        error_of("it", [numbers.to_mkldnn()], [numbers.double().numpy() + 1])


INTERPRETED = """
    import whet
    from whet.bench.arguments import arrays_of
    from whet.bench.check import error_of
    from whet.bench.gpu.right import exact_of
    from whet.bench.gpu.libraries import add_triton
    from whet.bench.operators.table import OPERATORS
    from whet.bench.operators.operator import Peers

    CASES = {
        "matmul": [(65, 33, 70), (17, 40, 18, True, True)],
        "batch_matmul": [(2, 33, 17, 40, False, True)],
        "dense": [(17, 33, 40)],
        "softmax": [((5, 33),), ((2, 3, 7),)],
        "log_softmax": [((3, 17),)],
        "layer_norm": [((6, 33),), ((2, 3, 5), (-2, -1))],
        "rms_norm": [((6, 33),)],
        "add": [((7, 33), (7, 33))],
        "bias_gelu": [((7, 33),)],
        "transpose": [((37, 65),)],
        "sum": [((130, 33), (0,)), ((9, 33), (1,))],
        "mean": [((9, 33), (1,)), ((130, 33), (0,))],
        "max": [((9, 33), (0,)), ((9, 33), (1,))],
    }
    NOT = {"add": ((3, 4), (1, 4)), "sum": ((3, 4, 5), (0, 2)), "softmax": ((3, 4), 0),
           "dense": (3, 4, 5, "float32", ("relu",))}
    assert set(CASES) == {name for name, row in OPERATORS.items() if row.triton}
    for name, cases in CASES.items():
        for args in cases:
            task = whet.create_task(name, args=args, target="llvm")
            inputs, found = arrays_of(task).inputs, Peers()
            add_triton(whet.cpu(0), found, task, inputs)
            assert list(found.calls) == ["triton"], (name, args, found.left_out)
            right = exact_of(whet.cpu(0), task, inputs)
            assert error_of(name, [found.calls["triton"]()], right) < 1e-6
    for name, args in NOT.items():
        task, found = whet.create_task(name, args=args, target="llvm"), Peers()
        add_triton(whet.cpu(0), found, task, arrays_of(task).inputs)
        assert not found.calls, (name, args)
    print("right")
"""


@needs_torch
@pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton")
def test_triton_is_right_by_its_interpreter():
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(INTERPRETED)],
        env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout == "right\n", done.stderr


def test_the_command_refuses_what_is_no_gpu(capsys):
    words = ["bench", "matmul", "8", "8", "8", "--device"]
    assert main([*words, "cuda-emulator"]) == 1
    assert "times of cuda-emulator say nothing about a GPU" in capsys.readouterr().err
    if not whet.cuda(0).exist:
        assert main([*words, "cuda:0"]) == 1
        assert main(["bench", "matmul", "8", "8", "8", "--target", "cuda"]) == 1
        text = capsys.readouterr().err
        assert text and "Traceback" not in text
