"""Checks one thing that the runtime promises on a device; prints what it found.

    python tests/gpu_check/check_runtime.py launches --device cuda:0

A process of its own for each: some of them end badly on purpose. What is not to be had here, such
as PyTorch, ends with 77 and the reason.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import argparse
import tempfile
import time
from collections.abc import Callable

import numpy as np
from check_device import STAND_IN, device_of, is_gpu, name_of
from check_exchange import both, capture, cupy, library, peers, tensors, torch
from check_prelude import prelude
from check_processes import ending, forked, hung
from check_programs import adding, call_us, numbers, on, skip

import whet
from whet import te
from whet.compiler.runtime.arrays.device import Device

LAUNCH = 10.0
"""Microseconds that a launch from Python may take."""

PATIENT = whet.MeasureOptions(build_timeout=60.0)
"""For workers, beside which others compile, too."""


def told(device: Device) -> str:
    """The device, its driver and the compiler, in words."""
    from whet.compiler.codegen.cuda import library, nvrtc
    from whet.compiler.runtime.arrays.device import context_of
    from whet.compiler.runtime.gpu.driver.interface import driver_of

    p = context_of(device).properties
    compiler = "no NVRTC"
    if nvrtc.available():
        compiler = "NVRTC {}.{}".format(*library.load().version)
    memory, cuda = p.memory_bytes / 2**30, p.driver_version or "none"
    return (
        f"{p.name}, {p.arch}, {p.multiprocessors} multiprocessors, {memory:.0f} GiB, "
        f"CUDA {cuda}; {driver_of(device.type).name}, {compiler}"
    )


def launches(device: Device) -> str:
    """A launch from Python takes no more than ten microseconds."""
    name = name_of(device)
    best = call_us(adding(), on(device, *numbers()), device, 1000 if is_gpu(name) else 100)
    if is_gpu(name):
        assert best <= LAUNCH, f"{best:.1f} us a launch, more than {LAUNCH:g}"
    if device.type == "cuda":
        return f"{best:.2f} us a launch with three arrays"
    return "the kernel ran 501 times; the emulator's times say nothing"


def in_a_fork(device: Device) -> str:
    """A forked child gets an error that says so."""
    if device.type != "cuda":
        skip("the emulator has no driver that a fork could spoil")
    return forked(device)


def dtypes(device: Device) -> str:
    """Every dtype is computed in, and comes back as it was sent."""
    import ml_dtypes

    for dtype in ("float16", "bfloat16", "float32", "float64", "int8", "int32", "int64", "uint8"):
        host = numbers(257, "float32" if dtype == "bfloat16" else dtype)
        if dtype == "bfloat16":
            host = [x.astype(ml_dtypes.bfloat16) for x in host]
        a, b, c = on(device, *host)
        adding(257, dtype)(a, b, c)
        np.testing.assert_array_equal(c.numpy(), host[0] + host[1], err_msg=dtype)
    return "eight dtypes"


def symbols(device: Device) -> str:
    """One kernel for all sizes; none where there is nothing to do."""
    f = adding(te.var("n"))
    for n in (1, 127, 128, 129, 100_003, 0):
        host = numbers(n)
        a, b, c = on(device, *host)
        f(a, b, c)
        np.testing.assert_array_equal(c.numpy(), host[0] + host[1])
    return "sizes from 0 to 100003"


def several(device: Device) -> str:
    """Several kernels from one build, what is between them on the device."""
    n, m = 67, 129
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    S = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="S")
    C = te.compute((n, m), lambda i, j: A[i, j] / S[i], name="C")
    s = te.create_schedule(C.op)
    for stage in (S, C):
        block, thread = s[stage].split(stage.op.axis[0], factor=32)
        s[stage].bind(block, te.thread_axis("blockIdx.x"))
        s[stage].bind(thread, te.thread_axis("threadIdx.x"))
    f = whet.build(s, [A, C], "cuda")
    x = np.random.default_rng(0).uniform(1, 2, (n, m)).astype("float32")
    a, c = on(device, x, np.full_like(x, np.nan))
    for _ in range(3):
        f(a, c)
    np.testing.assert_allclose(c.numpy(), x / x.sum(1, keepdims=True), rtol=1e-5)
    return "two kernels and a temporary"


def streams(device: Device) -> str:
    """Work goes to the stream that is set, and a stream can be waited for."""
    f, host = adding(), numbers()
    made = [device.create_raw_stream() for _ in range(2)]
    results = []
    for k, stream in enumerate(made):
        device.set_raw_stream(stream)
        a, b, c = on(device, host[0] * (k + 1), host[1], host[2])
        f(a, b, c)
        results.append(c)
    for stream in made:
        device.sync(stream)
    device.set_raw_stream(None)
    for k, c in enumerate(results):
        np.testing.assert_array_equal(c.numpy(), host[0] * (k + 1) + host[1])
    for stream in made:
        device.free_raw_stream(stream)
    return "two streams"


def misuse(device: Device) -> str:
    """Arrays of the host are refused with the way out."""
    try:
        adding()(*numbers())
    except whet.WhetError as error:
        text = str(error)
        assert "nd.array" in text, f"the error does not say the way out: {text}"
        return text.splitlines()[0]
    raise AssertionError("a kernel of the device took arrays of the host")


def faults(device: Device) -> str:
    """A candidate that reads where there is no memory costs one trial, and no more."""
    from check_templates import CONFIGS

    task = whet.create_task("check/strays", args=(4096,), target="cuda")
    with tempfile.TemporaryDirectory(prefix="whet-gpu-") as folder:
        log = str(Path(folder) / "faults.db")
        result = whet.tune(
            task, len(CONFIGS), log, "random", device=device, options=PATIENT, progress=False
        )
    states = [trial.result.status for trial in result.trials]
    failed = [trial.result for trial in result.trials if not trial.result.ok]
    assert len(failed) == 1 and len(states) == len(CONFIGS), states
    assert failed[0].timings.get("build_s"), f"it was not even built: {failed[0].error}"
    return f"one of {len(states)} trials failed: {failed[0].status}"


def search(device: Device) -> str:
    """A search from end to end: tune, log, build from the log, run."""
    small = device.type != "cuda"
    n = 64 if small else 1024
    task = whet.create_task("matmul", args=(n, n, n), target="cuda")
    with tempfile.TemporaryDirectory(prefix="whet-gpu-") as folder:
        log = str(Path(folder) / "search.db")
        start = time.perf_counter()
        result = whet.tune(
            task, 4 if small else 32, log, device=device, options=PATIENT, progress=False
        )
        spent = time.perf_counter() - start
        f = whet.build(task, log=log, device=device)
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((n, n), dtype=np.float32) for _ in range(2))
    a, b, c = on(device, x, y, np.full((n, n), np.nan, "float32"))
    f(a, b, c)
    np.testing.assert_allclose(c.numpy(), x.astype("float64") @ y, rtol=1e-3, atol=1e-3)
    count = len(result.trials)
    return f"matmul {n}: {count} trials in {spent:.0f} s, {result.speedup:.2f} x the default config"


CHECKS: dict[str, Callable[[Device], str]] = {
    "device": told,
    "launches": launches,
    "prelude": prelude,
    "dtypes": dtypes,
    "symbols": symbols,
    "several": several,
    "streams": streams,
    "torch": torch,
    "tensors": tensors,
    "capture": capture,
    "cupy": cupy,
    "peers": peers,
    "both": both,
    "library": library,
    "misuse": misuse,
    "ending": ending,
    "hung": hung,
    "forked": in_a_fork,
    "faults": faults,
    "search": search,
}
"""The checks by name; each gives a sentence on what it found."""

MEASURED = ("faults", "search")
"""Those whose kernels run in workers."""


def main() -> None:
    """Check what the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("check", choices=list(CHECKS))
    parser.add_argument("--device", default="cuda:0")
    asked = parser.parse_args()
    if asked.device == STAND_IN and asked.check in MEASURED:
        skip("workers that measure take the system's driver")
    print(CHECKS[asked.check](device_of(asked.device)))


if __name__ == "__main__":
    main()
