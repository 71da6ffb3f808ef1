"""CUDA and processes: what is missing is named, nothing comes early, forks and exits are clean."""

import os
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path

import pytest

from whet.compiler.runtime.gpu.driver.driver_folders import FOLDERS
from whet.compiler.runtime.gpu.driver.pycuda_driver import _why_not_imported

with_pycuda = pytest.mark.skipif(not find_spec("pycuda"), reason="pycuda is not installed")

no_driver = pytest.mark.skipif(
    any(Path(f, "libcuda.so.1").exists() for f in FOLDERS), reason="this machine has a driver"
)

HEAD = """
    import atexit, gc, os, sys, threading
    import numpy as np
    import whet
    from device_programs import added
"""
STANDIN = """
    from whet.compiler.emulator import compile_emulated
    from whet.compiler.runtime.gpu.driver.interface import use_driver
    from whet.compiler.runtime.gpu.driver.pycuda_driver import PycudaDriver

    def emulated(source, arch):
        return compile_emulated(source, checks=True, quick=True).read_bytes()

    def start():
        use_driver("cuda", PycudaDriver(compile=emulated))

    def run(device=whet.cuda(0)):
        a = whet.nd.array(np.arange(8, dtype="float32"), device)
        c = whet.nd.empty((8,), "float32", device)
        f = added(8)
        f(a, a, c)
        assert (c.numpy() == 2 * np.arange(8)).all()
        return a, c, f
"""


def said(text, devices=None, rc=0, head=HEAD):
    """The output of a program; ``devices``: how many the stand-in has, None: there is no driver."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "kernels")}
    if devices is not None:
        from whet.compiler.emulator.standin import folder

        environment["LD_LIBRARY_PATH"] = str(folder(devices))
        head += STANDIN
    text = textwrap.dedent(head) + textwrap.dedent(text)
    done = subprocess.run(
        [sys.executable, "-c", text], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == rc, done.stderr[-3000:]
    assert "PyCUDA" not in done.stderr, done.stderr[-3000:]
    return done.stdout.strip() if rc == 0 else done.stderr


CATCH = """
    def why(ask):
        try:
            ask()
        except whet.compiler.errors.TargetError as error:
            return " | ".join(str(error).splitlines())
        return "nothing was wrong"
"""
WITHOUT = """
    f = added(8)
    assert "__global__" in f.get_source("cuda") and not whet.cuda().exist
    assert not whet.runtime.enabled("cuda") and whet.device("cuda_host").exist is False
    print(why(whet.cuda().sync))
    emulator = whet.device("cuda-emulator")
    a, c = (whet.nd.array(np.ones(8, "float32"), emulator) for _ in range(2))
    f(a, a, c)
    assert (c.numpy() == 2).all()
    from whet.compiler.runtime.gpu.driver.interface import driver_of
    print(why(lambda: driver_of("cuda")))
    assert whet.runtime.cuda(1) == whet.cuda(1)  # no module has taken the function's place
    try:
        whet.nd.array(np.ones(8), whet.cuda())
    except whet.compiler.errors.ArgumentError as error:
        print(" | ".join(str(error).splitlines()))
"""


@no_driver
@with_pycuda
def test_without_a_driver_the_error_says_so_and_the_rest_works():
    lines = said(CATCH + WITHOUT).splitlines()
    assert "there is no libcuda.so.1 on this machine" in lines[0]
    assert lines[0].startswith("cuda(0).sync(): this machine has no such device")
    assert lines[1].startswith("using a CUDA device: NVIDIA's driver is missing")
    assert "install the driver" in lines[1]
    assert "an array on cuda(0): this machine has no such device" in lines[2]
    assert "libcuda.so.1" in lines[2]


def test_without_pycuda_the_error_says_how_to_install_it():
    blocked = 'import sys\nsys.modules["pycuda"] = None\n'
    text = said(CATCH + WITHOUT, head=blocked + textwrap.dedent(HEAD))
    assert "the Python module pycuda" in text and "pip install " in text and "[cuda]" in text
    assert "scripts/build_pycuda" in text


@with_pycuda
def test_a_driver_without_a_device_is_named():
    text = said(
        CATCH
        + """
    print(why(start))
    print(whet.cuda(0).exist, why(lambda: whet.cuda(0).sync()))
    """,
        devices=0,
    )
    first, second = text.splitlines()
    assert "NVIDIA's driver finds no GPU" in first and "nvidia-smi should list one" in first
    assert second.startswith("False cuda(0).sync(): this machine has no such device")


def test_a_pycuda_for_a_newer_driver_is_named():
    why, out = _why_not_imported("_driver.so: undefined symbol: cuCtxCreate_v4")
    assert "built for a newer CUDA than this machine's driver has" in why
    assert "scripts/build_pycuda" in out
    why, _ = _why_not_imported("numpy.core.multiarray failed to import")
    assert why == "pycuda cannot be imported: numpy.core.multiarray failed to import"


@with_pycuda
def test_after_a_fault_all_calls_say_it_and_nothing_is_destroyed():
    text = said(
        """
    from whet.compiler.errors import KernelError
    start()
    a, c, f = run()
    context, image = c.context, emulated(f.get_source("cuda"), "sm_80")
    nowhere = context.load(image).kernel("add_kernel0")
    stream, dropped = c.device.create_raw_stream(), added(8)
    c.device.set_raw_stream(stream)
    dropped(a, a, c)
    c.device.set_raw_stream(None)
    context.launch(nowhere, (1, 1, 1), (8, 1, 1), bytes(24))
    del dropped, stream
    gc.collect()
    for ask in (context.synchronize, lambda: context.load(image), lambda: f(a, a, c), c.numpy,
                lambda: whet.nd.empty((4,), "int8", c.device), c.device.create_raw_stream):
        try:
            ask()
        except KernelError as error:
            print("illegal memory access" in str(error))
    del a, c, f, nowhere, context
    """,
        devices=1,
    )
    assert text.split() == ["True"] * 6


@with_pycuda
def test_a_fault_in_somebody_elses_stream_leaves_nothing_to_destroy():
    text = said(
        """
    import ctypes
    from whet.compiler.errors import KernelError
    from whet.compiler.runtime.gpu.driver.streams import current_stream
    start()
    a, c, f = run()
    context, theirs, device = c.context, ctypes.c_void_p(), c.device
    with context:
        ctypes.CDLL("libcuda.so.1").cuStreamCreate(ctypes.byref(theirs), 1)
    nowhere = context.load(emulated(f.get_source("cuda"), "sm_80")).kernel("add_kernel0")
    device.set_raw_stream(theirs.value)
    args = (1, 1, 1), (8, 1, 1), bytes(24), 0, current_stream(context)
    for ask in (lambda: context.launch(nowhere, *args), lambda: device.sync(theirs.value)):
        try:
            ask()
            error = None  # it may come while the launch is still asked for
        except KernelError as raised:
            error = str(raised)
    print("illegal memory access" in error)
    del a, c, f, nowhere, context, args
    """,
        devices=1,
    )
    assert text == "True"


@with_pycuda
def test_a_device_that_somebody_has_reset_is_an_error():
    text = said(
        """
    import ctypes
    from whet.compiler.errors import KernelError
    start()
    a, c, f = run()
    ctypes.CDLL("libcuda.so.1").cuDevicePrimaryCtxRelease_v2(0)
    for ask in (lambda: f(a, a, c), c.numpy):
        try:
            ask()
        except KernelError as error:
            print("invalid device context" in str(error))
    del a, c, f
    """,
        devices=1,
    )
    assert text.split() == ["True"] * 2


@with_pycuda
def test_the_checkup_tells_what_does_not_fit_the_driver():
    text = said(
        """
    from types import SimpleNamespace
    from whet.commands import checkup
    from whet.compiler.codegen.cuda import library
    print(checkup.cuda_device().text)
    print(checkup.pycuda().found)
    library.load = lambda: SimpleNamespace(version=(14, 0), architectures=(90,), path="it")
    print(checkup.nvrtc())
    sys.modules["pycuda.driver"] = None
    print(checkup.pycuda().text)
    """,
        devices=2,
    )
    device, found, nvrtc, missing = text.splitlines()
    assert device == "Whet stand-in (sm_80), Whet stand-in (sm_80); the driver's is CUDA 13.0"
    assert found == "True" and missing == "the Python module pycuda.driver is missing"
    assert "14.0 is newer than the driver's CUDA 13" in nvrtc and "[nvrtc]" in nvrtc


DOCTOR = """
    from pathlib import Path
    from whet.compiler.runtime.gpu.driver import driver_folders, pycuda_driver
    from whet.commands import checkup
    driver_folders.FOLDERS = (str(Path.cwd()), {folder!r})
    found = checkup.cuda_device()
    print(found.found, found.text, "|", found.gives)
    print(*pycuda_driver._why_not_imported("libcuda.so.1: cannot open shared object file"))
"""


@no_driver
def test_a_driver_where_the_loader_does_not_look_is_named():
    from whet.compiler.emulator.standin import folder

    there = folder()
    checkup, imported = said(DOCTOR.format(folder=str(there))).splitlines()
    for line in (checkup, imported):
        assert f"NVIDIA's driver is in {there}, where the system's loader does not look" in line
        assert f"export LD_LIBRARY_PATH={there}:$LD_LIBRARY_PATH" in line and "ldconfig" in line
    assert checkup.startswith("False")
    checkup, imported = said(DOCTOR.format(folder="/nowhere")).splitlines()
    assert checkup.startswith("False no NVIDIA driver (libcuda.so.1) |")
    assert "there is no libcuda.so.1 on this machine" in imported


@no_driver
def test_a_driver_that_cannot_be_loaded_or_has_no_device_says_why(tmp_path, monkeypatch):
    (tmp_path / "libcuda.so.1").touch()  # as in images of containers that run without a GPU
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    ask = "from whet.commands import checkup\nprint(checkup.cuda_device().text)"
    text = said(ask, head="")
    assert "NVIDIA's driver cannot be loaded" in text and "libcuda.so.1: file too short" in text
    text = said("    from whet.commands import checkup\n    print(checkup.cuda_device().text)", 0)
    assert text.endswith("no device answers: CUDA_ERROR_NO_DEVICE")


@with_pycuda
def test_no_context_is_made_and_no_driver_loaded_before_it_is_needed():
    text = said(
        """
    f = added(8)
    f.get_source("cuda")
    print("pycuda" in sys.modules)
    start()
    from whet.compiler.runtime.gpu.driver.interface import driver_of
    print(whet.cuda(1).exist, whet.cuda(0).device_name, len(driver_of("cuda")._contexts))
    run()
    print(sorted(driver_of("cuda")._contexts))
    """,
        devices=2,
    )
    assert text.splitlines() == ["False", "True Whet stand-in 0", "[0]"]


@with_pycuda
def test_a_forked_child_has_no_context_and_ends_well():
    text = said(
        CATCH
        + """
    start()
    kept = run()
    stream = whet.cuda(0).create_raw_stream()
    child = os.fork()
    if child == 0:
        print("child:", why(whet.cuda(0).sync))
        print("child:", why(lambda: kept[2](kept[0], kept[0], kept[1])))
        print("child:", why(kept[1].numpy))
        print("child:", whet.cuda(0).exist)
        del kept, stream
        gc.collect()
        sys.stdout.flush()
        sys.exit(0)  # with all destructors, not os._exit
    print("ended with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    run()
    """,
        devices=1,
    )
    lines = text.splitlines()
    assert lines[-1] == "ended with 0" and lines[3] == "child: False"
    for line in lines[:3]:
        assert "was forked from" in line and "forked child" in line and "spawn" in line


@with_pycuda
@pytest.mark.parametrize(
    "end, rc",
    [
        ("pass", 0),
        ("raise SystemExit(3)", 3),
        ("raise ValueError('as it may happen')", 1),
        ("threading.Thread(target=lambda: everything.append(run(whet.cuda(1)))).start()", 0),
        ("atexit.register(lambda: print(everything[0][1].numpy().sum(), file=sys.stderr))", 0),
    ],
)
def test_a_process_with_arrays_modules_and_streams_ends_well(end, rc):
    said(
        f"""
    start()
    everything = [run()]
    everything.append(whet.cuda(0).create_raw_stream())
    everything.append(whet.nd.array(np.ones(3), whet.device("cuda_host")))
    everything.append(everything[0][0].context.event())
    whet.kept_until_the_end = everything
    {end}
    """,
        devices=2,
        rc=rc,
    )


@with_pycuda
def test_a_failed_kernel_is_an_error_at_the_next_wait_and_stays_one():
    text = said(
        """
    from whet import te
    from device_programs import bound
    start()
    A, B = te.placeholder((8,), "int32", name="A"), te.placeholder((64,), "int32", name="B")
    C = te.compute((8,), lambda i: B[A[i]], name="C")
    s = te.create_schedule(C.op)
    bound(s, C)
    f = whet.build(s, [A, B, C], "cuda -arch=sm_80", name="take")
    places = whet.nd.array(np.full(8, 1 << 30, "int32"), whet.cuda())
    b, c = whet.nd.array(np.ones(64, "int32"), whet.cuda()), whet.nd.empty(8, "int32", whet.cuda())
    f(places, b, c)
    for ask in (whet.cuda().sync, c.numpy, lambda: whet.nd.empty(8, "int8", whet.cuda())):
        try:
            ask()
        except whet.compiler.errors.KernelError as error:
            print(str(error).replace("\\n", " | "))
    """,
        devices=1,
    ).splitlines()
    assert len(text) == 3 and text[0].startswith("waiting for cuda(0): cuCtxSynchronize failed")
    assert "illegal" in text[0].lower() or "719" in text[0] or "700" in text[0], text[0]
    for line in text:
        assert "CUDA does nothing more in this process; start another" in line
