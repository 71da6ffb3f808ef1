"""The stand-in for NVIDIA's driver library: what it computes, and the driver's manners."""

import subprocess
import sys
import textwrap

import pytest

from whet.compiler.codegen.cuda import nvrtc
from whet.compiler.emulator import standin
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
import ctypes, os, sys
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


def run(lines, devices=2, limit=120):
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
        print(launch(kernel(b"endless"), 1, alloc(4)), cu.cuStreamQuery(None), flush=True)
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


def test_as_many_devices_as_asked_for():
    lines = """
        n = ctypes.c_int()
        ok(cu.cuInit(0))
        ok(cu.cuDeviceGetCount(ctypes.byref(n)))
        print(n.value)
    """
    assert run(lines, devices=3) == "3\n"
    assert run("print(cu.cuInit(0))", devices=0) == "100\n"


@pytest.mark.parametrize("name", ["cuMemAlloc_v2", "cuCtxCreate_v2", "cuCtxCreate_v4", *NAMES[:3]])
def test_names_are_there(name):
    import ctypes

    library = ctypes.CDLL(str(standin.folder() / standin.NAME))
    assert getattr(library, name)


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
