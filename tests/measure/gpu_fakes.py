"""Candidates for GPUs that are right, wrong, endless or straying: CUDA C written by hand."""

import os
import time
from dataclasses import replace
from pathlib import Path

from whet.compiler.abi.artifact import Artifact
from whet.compiler.abi.launch import Launch, LaunchPlan
from whet.compiler.abi.signature import BufferParam, KernelSignature
from whet.compiler.emulator import compile_emulated
from whet.compiler.errors import KernelError, PrunedError
from whet.measure import MeasureInput, MeasureOptions
from whet.measure.gpu import runner
from whet.measure.stage.builder import Built
from whet.measure.stage.runner import RunReport
from whet.search_spaces import Config, TemplateRef, Workload

SIZE = 1000
PARAMS = tuple(BufferParam(x, "float32", (SIZE,), written=x == "C") for x in "ABC")
HEAD = """extern "C" __global__ void add_kernel0(
    float* __restrict__ A, float* __restrict__ B, float* __restrict__ C) {
  int i = blockIdx.x * 64 + threadIdx.x;
"""
BODIES = {
    "good": "if (i < 1000) C[i] = A[i] + B[i];",
    "wrong": "if (i < 1000) C[i] = A[i] + B[i] + (i == 104 ? 0.01f : 0.0f);",
    "unwritten": "if (i < 999) C[i] = A[i] + B[i];",
    "beside": "if (i < 1000) C[i] = A[i] + B[i]; if (i == 0) C[1001] = 1.0f;",
    "far": "if (i < 1000) C[i] = A[i] + B[i]; if (i == 0) C[1 << 28] = 1.0f;",
    "scribble": "if (i < 1000) { C[i] = A[i] + B[i]; A[i] = 0.0f; }",
    "sums": "if (i < 1000) C[i] += A[i] + B[i];",
    "endless": "volatile int on = 1; while (on) {} C[i % 1000] = A[0];",
    "race": (
        "__shared__ float T[64]; T[threadIdx.x] = i < 1000 ? A[i] + B[i] : 0.0f;\n"
        "  if (i < 1000) C[i] = T[threadIdx.x ^ 1] * 0.0f + T[threadIdx.x];"
    ),
}


def candidate(behaviour: str, number: int = 0) -> MeasureInput:
    """A candidate that does what ``behaviour`` says; ``number`` tells it apart."""
    config = Config((("behaviour", behaviour), ("number", number)), "fake", ("other", "other"))
    target = {"kind": "cuda", "arch": "sm_80"}
    return MeasureInput(Workload("fake", ()), target, config, TemplateRef("fake", 1, "00"))


def fake_build(inp: MeasureInput) -> Built:
    """Stands for the builder; a candidate's model says one microsecond more than its number."""
    behaviour, number = str(inp.config.choice("behaviour")), inp.config.choice("number")
    if behaviour == "pruned":
        text = str(PrunedError("launch", "a block would take too much", "less"))
        return Built("pruned", error=text, facts={"registers": 300})
    many = 1e12 if behaviour == "large" else 1e5
    body = BODIES["good" if behaviour == "large" else behaviour]
    source = f"{HEAD}  {body}\n}}\n"
    launch = Launch("add_kernel0", ("A", "B", "C"), (16, 1, 1), (64, 1, 1))
    artifact = Artifact(
        b"",
        (KernelSignature("add", PARAMS),),
        inp.target,
        source,
        (LaunchPlan("add", (), (launch,)),),
        (KernelSignature("add_kernel0", PARAMS),),
    )
    model = {"seconds": 1e-6 * (1 + int(number)), "gpu": "a fake", "instructions": many}
    facts = {"registers": 16, "model": model}
    # kept, so that a deadline of a run is the run's alone
    compile_emulated(source, checks=True, quick=True)
    return Built("ok", artifact, f"hash of {behaviour} {number}", facts=facts)


def emulated_build(inp: MeasureInput) -> Built:
    """A real candidate, compiled for the stand-in beforehand."""
    from whet.measure.stage.builder import build_candidate

    built = build_candidate(inp)
    if built.artifact is not None:
        compile_emulated(built.artifact.source, checks=True, quick=True)
    return built


def standin_prepare(
    key: str, artifact: Artifact, options: MeasureOptions, device: str
) -> tuple[str, ...]:
    """The reference, on the stand-in driver."""
    use_standin()
    return runner.prepare_reference(key, artifact, options, device)


def standin_run(
    artifact: Artifact,
    options: MeasureOptions,
    reference: str | None,
    best_cost: float | None,
    device: str,
) -> RunReport:
    """A candidate, on the stand-in driver."""
    use_standin()
    report = runner.run_candidate(artifact, options, reference, best_cost, device)
    return replace(report, environment=report.environment | {"pid": os.getpid()})


def visible_run(
    artifact: Artifact,
    options: MeasureOptions,
    reference: str | None,
    best_cost: float | None,
    device: str,
) -> RunReport:
    """The GPUs that the worker sees, and its device's name."""
    seen = {"visible": os.environ.get("CUDA_VISIBLE_DEVICES"), "device": device}
    _meet(f"visible {seen['visible']}")
    return RunReport("ok", (1e-3,), "", seen)


def mortal_run(
    artifact: Artifact,
    options: MeasureOptions,
    reference: str | None,
    best_cost: float | None,
    device: str,
) -> RunReport:
    """The worker and the device that ran it; the process ends where the device is dead."""
    if _is_dead(device):
        os._exit(3)
    _meet(f"alive {device}")
    return RunReport("ok", (1e-3,), "", {"pid": os.getpid(), "device": device})


def mortal_wake(device: str) -> None:
    """A fresh worker's first look at a device, which may be dead."""
    if _is_dead(device):
        _met(f"missed {device}").touch()
        raise KernelError(f"using {device}", "it fell off its bus")
    runner.wake(device)


def _is_dead(device: str) -> bool:
    return _met(device).exists()


def _meet(name: str) -> None:
    """Wait until two measurers have a candidate; or until the loss of a dead one is noticed."""
    kind, _ = name.split()
    _met(name).touch()
    end = time.monotonic() + 60.0
    while time.monotonic() < end:
        there = {path.name for path in _met("").iterdir()}
        dead = [n for n in there if n.startswith("cuda:")]
        if all(f"missed {n}" in there for n in dead) and sum(kind in n for n in there) >= 2:
            return
        time.sleep(0.01)


def _met(name: str) -> Path:
    return Path(os.environ["WHET_TEST_MEETING"], name)


def no_reference(
    key: str, artifact: Artifact, options: MeasureOptions, device: str
) -> tuple[str, ...]:
    """A reference of which nothing is kept."""
    return (key,)


def _emulated(source: str, arch: str) -> bytes:
    return compile_emulated(source, checks=True, quick=True).read_bytes()


def use_standin() -> None:
    """Let the real pycuda run emulated images: its libcuda is the stand-in."""
    from whet.compiler.runtime.gpu.driver.interface import driver_of, use_driver
    from whet.compiler.runtime.gpu.driver.pycuda_driver import PycudaDriver

    global _used
    if not _used:
        use_driver("cuda", PycudaDriver(compile=_emulated))
        assert driver_of("cuda").device_count() == 2
        _used = True


_used = False
