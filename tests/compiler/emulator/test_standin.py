"""The stand-in for NVIDIA's driver library: what it computes, and the driver's manners."""

import subprocess
import sys
import textwrap

import pytest

from whet.compiler.codegen.cuda import nvrtc
from whet.compiler.emulator.standin.symbols import NAMES

KERNELS = """
extern "C" __global__ void add(WHET_GLOBAL(const float) A, WHET_GLOBAL(float) B, int n) {
    const int k = blockIdx.x * 64 + threadIdx.x;
    B[k] = A[k] + n;
}
extern "C" __global__ void endless(WHET_GLOBAL(int) B) {
    volatile int one = 1;
    while (one) {}
}
"""
HEAD = f"""
import ctypes, os, sys, time
import numpy as np
from whet.compiler.emulator import compile_emulated, standin
KERNELS = {KERNELS!r}
cu = standin.load(DEVICES)
P = ctypes.c_void_p

def ok(result):
    assert result == 0, result

def started():
    ok(cu.cuInit(0))
    context, device = P(), ctypes.c_int()
    ok(cu.cuDeviceGet(ctypes.byref(device), 0))
    ok(cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    ok(cu.cuCtxPushCurrent_v2(context))

def kernel(name):
    module, function = P(), P()
    ok(cu.cuModuleLoadData(ctypes.byref(module), compile_emulated(KERNELS, True).read_bytes()))
    ok(cu.cuModuleGetFunction(ctypes.byref(function), module, name))
    return function

def alloc(nbytes):
    address = ctypes.c_uint64()
    ok(cu.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(nbytes)))
    return address

def launch(function, blocks, *values):
    each = (P * len(values))(*(ctypes.cast(ctypes.pointer(v), P) for v in values))
    return cu.cuLaunchKernel(function, blocks, 1, 1, 64, 1, 1, 0, None, each, None)
"""


def run(lines, devices=2, limit=300):
    """Run lines in a process of their own; what they print."""
    text = HEAD.replace("DEVICES", str(devices)) + textwrap.dedent(lines)
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=limit
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_launch_computes():
    out = run("""
        started()
        a, b = alloc(256 * 4), alloc(256 * 4)
        x, y = np.arange(256, dtype="f4"), np.zeros(256, "f4")
        ok(cu.cuMemcpyHtoD_v2(a, x.ctypes.data_as(P), ctypes.c_size_t(1024)))
        ok(launch(kernel(b"add"), 4, a, b, ctypes.c_int(5)))
        ok(cu.cuMemcpyDtoH_v2(y.ctypes.data_as(P), b, ctypes.c_size_t(1024)))
        print(np.array_equal(y, x + 5))
    """)
    assert out == "True\n"


def test_an_error_comes_later_and_stays():
    out = run("""
        started()
        a, b = alloc(256 * 4), alloc(256 * 4)
        ok(cu.cuMemsetD8_v2(a, 0, ctypes.c_size_t(1024)))
        print(launch(kernel(b"add"), 5, a, b, ctypes.c_int(5)))
        print(cu.cuCtxSynchronize(), cu.cuCtxSynchronize())
        print(cu.cuMemsetD8_v2(a, 0, ctypes.c_size_t(1024)))
        text = ctypes.c_char_p()
        ok(cu.cuGetErrorString(700, ctypes.byref(text)))
        print(text.value.decode())
    """)
    assert out.splitlines() == ["0", "700 700", "700", "an illegal memory access was encountered"]


def test_a_launch_returns_before_its_work_is_done():
    out = run("""
        started()
        print(launch(kernel(b"endless"), 1, alloc(4)), end=" ")
        time.sleep(0.2)  # one that the compiler has left out would be over
        print(cu.cuStreamQuery(None), flush=True)
        os._exit(0)
    """)
    assert out == "0 600\n"


def test_what_the_driver_refuses():
    out = run("""
        print(cu.cuDeviceGetCount(ctypes.byref(ctypes.c_int())))
        ok(cu.cuInit(0))
        print(cu.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(4)))
        started()
        print(cu.cuDeviceGet(ctypes.byref(ctypes.c_int()), 7))
        module = P()
        print(cu.cuModuleLoadData(ctypes.byref(module), b"\\x7fELF" + bytes(200)))
        add, a = kernel(b"add"), alloc(4)
        print(cu.cuLaunchKernel(add, 1, 1, 1, 2048, 1, 1, 0, None, None, None))
        print(cu.cuLaunchKernel(add, 1, 1, 1, 64, 1, 1, 60000, None, None, None))
        print(cu.cuMemsetD8_v2(a, 0, ctypes.c_size_t(5)))
        sys.stdout.flush()
        if os.fork() == 0:
            print(cu.cuCtxSynchronize(), flush=True)
            os._exit(0)
        os.wait()
    """)
    assert out.split() == ["3", "201", "101", "200", "1", "1", "1", "3"]


def test_only_what_is_waited_for_is_done():
    out = run("""
        ctypes.c_int.in_dll(cu, "standin_lazy").value = 1
        started()
        a, one, nbytes = alloc(4), np.zeros(1, "i4"), ctypes.c_size_t(4)

        def stream(flags):
            made = P()
            ok(cu.cuStreamCreate(ctypes.byref(made), flags))
            return made

        def fill(byte, where):
            ok(cu.cuMemsetD8Async(a, byte, nbytes, where))

        def read():
            ok(cu.cuMemcpyDtoH_v2(one.ctypes.data_as(P), a, nbytes))
            return int(one[0])

        apart, ours = stream(1), stream(0)
        fill(1, None)
        print(read() == 0x01010101, cu.cuStreamQuery(None))
        fill(2, apart)
        print(read() == 0x01010101, cu.cuStreamQuery(apart))  # the default stream waits for others,
        fill(3, ours)
        print(read() == 0x03030303)  # but for those that are apart
        event = P()
        ok(cu.cuEventCreate(ctypes.byref(event), 2))
        ok(cu.cuEventRecord(event, apart))
        ok(cu.cuStreamWaitEvent(None, event, 0))
        print(read() == 0x02020202, cu.cuEventQuery(event))
    """)
    assert out.split("\n")[:4] == ["True 0", "True 600", "True", "True 0"]


def test_events_streams_and_memory_are_a_contexts_own():
    out = run("""
        def current(number):
            device, context = ctypes.c_int(), P()
            ok(cu.cuDeviceGet(ctypes.byref(device), number))
            ok(cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
            ok(cu.cuCtxPushCurrent_v2(context))

        ok(cu.cuInit(0))
        current(1)
        there, event, stream = alloc(1024), P(), P()
        ok(cu.cuEventCreate(ctypes.byref(event), 0))
        ok(cu.cuStreamCreate(ctypes.byref(stream), 0))
        current(0)
        here, timed, untimed = alloc(1024), P(), P()
        print(cu.cuEventRecord(event, None), cu.cuStreamSynchronize(stream))
        print(cu.cuMemsetD8_v2(there, 0, ctypes.c_size_t(4)))
        for made, flags in ((timed, 0), (untimed, 2)):
            ok(cu.cuEventCreate(ctypes.byref(made), flags))
        milliseconds = ctypes.byref(ctypes.c_float())
        print(cu.cuEventElapsedTime(milliseconds, timed, timed))  # it was never recorded
        for one in (timed, untimed):
            ok(cu.cuEventRecord(one, None))
            ok(cu.cuEventSynchronize(one))
            print(cu.cuEventElapsedTime(milliseconds, one, one))
        ok(cu.cuEventDestroy_v2(timed))
        print(cu.cuEventQuery(timed))
        ok(launch(kernel(b"add"), 1, there, here, ctypes.c_int(5)))
        print(cu.cuCtxSynchronize())  # nobody has let this device reach the other's memory
    """)
    assert out.split() == ["400", "400", "1", "400", "0", "400", "400", "700"]


def test_code_must_not_go_before_its_work_is_done():
    out = run("""
        ctypes.c_int.in_dll(cu, "standin_lazy").value = 1
        started()
        module, function, a, b = P(), P(), alloc(256), alloc(256)
        ok(cu.cuModuleLoadData(ctypes.byref(module), compile_emulated(KERNELS, True).read_bytes()))
        ok(cu.cuModuleGetFunction(ctypes.byref(function), module, b"add"))
        ok(launch(function, 1, a, b, ctypes.c_int(5)))
        print(cu.cuModuleUnload(module), cu.cuCtxSynchronize())
    """)
    assert out.split() == ["719", "719"]


def test_as_many_devices_as_asked_for():
    lines = """
        n = ctypes.c_int()
        ok(cu.cuInit(0))
        ok(cu.cuDeviceGetCount(ctypes.byref(n)))
        print(n.value)
    """
    assert run(lines, devices=3) == "3\n"
    assert run("print(cu.cuInit(0))", devices=0) == "100\n"


def test_names_are_there():
    names = ["cuMemAlloc_v2", "cuCtxCreate_v2", "cuCtxCreate_v4", *NAMES[:3]]
    # elsewhere: in this process all tests that come later would find a GPU
    assert run(f"print([name for name in {names} if not hasattr(cu, name)])") == "[]\n"


def test_nvrtc_refuses_code_beside_it():
    """Its assembler asks the driver that it finds in the process, when something is wrong."""
    if not nvrtc.available():
        pytest.skip("no NVRTC here")
    out = run("""
        from whet.compiler.codegen.cuda.nvrtc import NvrtcError, compile_cubin
        try:
            compile_cubin('__global__ void k() { asm volatile("nothing.of.that;"); }', "sm_80")
        except NvrtcError as error:
            print("ptxas" in str(error))
    """)
    assert out == "True\n"


def test_pycuda_runs_on_it():
    pytest.importorskip("pycuda")
    out = run("""
        import pycuda.driver as drv
        drv.init()
        context = drv.Device(1).retain_primary_context()
        context.push()
        image = compile_emulated(KERNELS, True).read_bytes()
        add = drv.module_from_buffer(image).get_function("add")
        x = np.arange(128, dtype="f4")
        a, b = drv.to_device(x), drv.mem_alloc(512)
        first, last = drv.Event(), drv.Event()
        first.record()
        add(a, b, np.int32(3), grid=(2, 1), block=(64, 1, 1))
        last.record()
        last.synchronize()
        print(np.array_equal(drv.from_device_like(b, x), x + 3), first.time_till(last) >= 0)
        context.pop()
    """)
    assert out == "True True\n"
