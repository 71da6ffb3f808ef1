"""Checks of what is shared: arrays and streams of PyTorch and CuPy, two GPUs, libraries."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from check_programs import adding, call_us, numbers, on, skip

import whet
from whet import te
from whet.compiler.errors import TargetError
from whet.compiler.runtime.arrays.device import Device, context_of
from whet.compiler.runtime.gpu.driver.interface import driver_of

CALL = 15.0
"""Microseconds that a call on somebody else's arrays may take."""


def torch(device: Device) -> str:
    """Arrays are shared with PyTorch in both directions, and its streams are kept to."""
    found = _torch(device)
    host, where = numbers(), f"cuda:{device.index}"
    theirs = [found.from_numpy(x).to(where) for x in host]
    found.cuda.synchronize(where)
    ours = [whet.nd.from_dlpack(x) for x in theirs]
    adding()(*ours)
    device.sync()
    assert found.equal(theirs[2].cpu(), found.from_numpy(host[0] + host[1]))
    back = found.from_dlpack(ours[0])
    assert back.data_ptr() == theirs[0].data_ptr(), "DLPack made a copy"
    again = found.as_tensor(ours[0], device=theirs[0].device)
    assert again.data_ptr() == theirs[0].data_ptr(), "__cuda_array_interface__ made a copy"
    with found.cuda.device(device.index):
        side = found.cuda.Stream()
        busy = found.ones((4096, 4096), device=where)

        def work() -> None:
            for _ in range(20):
                busy.mul_(1.0)

        _in_order(device, side, found.cuda.stream(side), work, found.full, found.empty, where)
    return "DLPack in both directions, __cuda_array_interface__, a side stream"


def cupy(device: Device) -> str:
    """Arrays are shared with CuPy in both directions, and its streams are kept to."""
    if device.type != "cuda" or find_spec("cupy") is None:
        skip("needs CuPy and a GPU")
    import cupy as found

    try:
        if found.cuda.runtime.getDeviceCount() <= device.index:
            skip(f"CuPy {found.__version__} sees no such GPU")
    except found.cuda.runtime.CUDARuntimeError as error:
        skip(f"CuPy {found.__version__} sees no GPU: {error}")
    with found.cuda.Device(device.index):
        host = numbers()
        theirs = [found.asarray(x) for x in host]
        for take in (whet.nd.from_dlpack, lambda x: x):
            theirs[2].fill(77)
            adding()(*map(take, theirs))
            np.testing.assert_array_equal(found.asnumpy(theirs[2]), host[0] + host[1])
        ours = whet.nd.from_dlpack(theirs[0])
        for back in (found.from_dlpack(ours), found.asarray(ours)):
            assert back.data.ptr == theirs[0].data.ptr, "it was copied"
        side = found.cuda.Stream(non_blocking=True)
        busy = found.ones((4096, 4096), "float32")

        def work() -> None:
            for _ in range(20):
                busy.__imul__(1.0)

        def full(shape: Any, value: float, device: object) -> Any:
            return found.full(shape, value, "float32")

        def empty(shape: Any, device: object) -> Any:
            return found.empty(shape, "float32")

        _in_order(device, side, side, work, full, empty, None)
    return "DLPack and __cuda_array_interface__ in both directions, a side stream"


def _in_order(
    device: Device,
    side: Any,
    inside: Any,
    work: Callable[[], None],
    full: Callable[..., Any],
    empty: Callable[..., Any],
    where: object,
) -> None:
    """Calls on arrays of a library come between its own work before and after, in its stream.

    Args:
        device: where.
        side: the library's stream.
        inside: enters it.
        work: keeps the stream busy, so that what does not wait comes too early.
        full, empty: make arrays of the library.
        where: its device, as these take it.
    """
    f = adding()
    for kept in (False, True):  # the stream is left to us; or is our current one
        device.set_raw_stream(side if kept else None)
        with inside:
            for k in range(3):
                work()
                a = full((1000,), float(k), device=where)
                c = empty((1000,), device=where)
                f(a, a, c)
                later = c * 2
                c.fill_(-1.0) if hasattr(c, "fill_") else c.fill(-1.0)
                side.synchronize()
                said = later.tolist()
                assert said == [4.0 * k] * 1000, f"call {k} was out of order: {said[:4]}"
    device.set_raw_stream(None)


def _torch(device: Device) -> Any:
    if device.type != "cuda" or find_spec("torch") is None:
        skip("needs PyTorch and a GPU")
    import torch as found

    if not found.cuda.is_available():
        skip(f"PyTorch {found.__version__} sees no GPU")
    return found


def tensors(device: Device) -> str:
    """A call on PyTorch's tensors takes no more than fifteen microseconds."""
    found = _torch(device)
    theirs = [found.from_numpy(x).to(f"cuda:{device.index}") for x in numbers()]
    f = adding()
    spent = call_us(f, theirs, device, 1000)
    device.set_raw_stream(found.cuda.Stream(device.index))
    in_theirs = call_us(f, on(device, *numbers()), device, 1000)
    device.set_raw_stream(None)
    assert spent <= CALL, f"{spent:.1f} us a call on three tensors, more than {CALL:g}"
    return f"{spent:.2f} us a call on three tensors; {in_theirs:.2f} us in a stream of PyTorch's"


def capture(device: Device) -> str:
    """Objects that Python drops while PyTorch captures a graph do not end the capture."""
    found = _torch(device)
    where, graph = f"cuda:{device.index}", found.cuda.CUDAGraph()
    with found.cuda.device(device.index):
        x = found.ones(1000, device=where)
        arrays, f = on(device, *numbers()), adding()
        f(*arrays)
        found.cuda.synchronize()
        dropped: list[Any] = [f, arrays, device.create_raw_stream(), context_of(device).event()]
        del f, arrays
        with found.cuda.graph(graph):
            y = x * 2
            dropped.clear()
            gc.collect()
            y += 1
        x.fill_(3)
        graph.replay()
        device.sync()  # the code that was dropped goes here
        assert y.tolist() == [7.0] * 1000, y[:4]
    return "code, arrays, a stream and an event were dropped in a capture"


def peers(device: Device) -> str:
    """Arrays are copied between two GPUs, in the order of both devices' work."""
    if device.type != "cuda" or driver_of("cuda").device_count() < 2:
        skip("needs two GPUs")
    other = Device("cuda", (device.index + 1) % driver_of("cuda").device_count())
    f, host = adding(1 << 16), numbers(1 << 16)
    a, b, c = on(device, *host)
    for _ in range(3):
        f(a, b, c)
        there = c.copyto(other)
        c[:] = 0
        np.testing.assert_array_equal(there.numpy(), host[0] + host[1])
    there.copyto(device)
    return f"{device} to {other} and back"


def both(device: Device) -> str:
    """One module, stored as one library, has functions for the CPU and for the device."""
    A = te.placeholder((te.var("n"),), name="A")
    C = te.compute(A.shape, lambda i: A[i] * 3 + 1, name="C")
    gpu, cpu = te.create_schedule(C.op), te.create_schedule(C.op)
    block, thread = gpu[C].split(C.op.axis[0], factor=64)
    gpu[C].bind(block, te.thread_axis("blockIdx.x"))
    gpu[C].bind(thread, te.thread_axis("threadIdx.x"))
    parts = {"cuda": whet.lower(gpu, [A, C], name="g"), "llvm": whet.lower(cpu, [A, C], name="c")}
    x = np.arange(100, dtype="float32")
    a, c = on(device, x, np.full_like(x, np.nan))
    here = np.full_like(x, np.nan)
    with tempfile.TemporaryDirectory(prefix="whet-gpu-") as folder:
        path = str(Path(folder) / "both.so")
        whet.build(parts).export_library(path)
        f = whet.runtime.load_module(path)
        f["g"](a, c)
        f["c"](x, here)
    np.testing.assert_array_equal(c.numpy(), 3 * x + 1)
    np.testing.assert_array_equal(here, 3 * x + 1)
    return "exported and loaded"


def library(device: Device) -> str:
    """A library of the device's code runs where nothing compiles: by its cubin, and by its PTX."""
    driver = context_of(device).driver
    with tempfile.TemporaryDirectory(prefix="whet-gpu-") as folder:
        path = str(Path(folder) / "add.tar")
        adding().export_library(path)
        forms = {"cubin": whet.runtime.load_module(path), "ptx": whet.runtime.load_module(path)}
    if not driver.loads_cubins:
        forms = {"text": forms["cubin"]}
    for form, f in forms.items():
        (code,) = f.imported_modules
        if form == "ptx":
            code.artifact = replace(code.artifact, object=b"")
        if form != "text":
            vars(driver)["compile"] = _refused
        a, b, c = on(device, *numbers())
        try:
            f(a, b, c)
        finally:
            vars(driver).pop("compile", None)
        np.testing.assert_array_equal(c.numpy(), a.numpy() + b.numpy())
    return f"run by its {' and its '.join(forms)}"


def _refused(source: str, arch: str) -> bytes:
    raise TargetError("compile CUDA C", "nothing compiles in this check")
