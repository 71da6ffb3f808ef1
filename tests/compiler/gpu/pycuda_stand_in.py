"""Two devices of the stand-in by pycuda, and what each check with them starts and ends with."""

import ctypes

import numpy as np
import pytest

import whet
from whet.compiler.emulator import compile_emulated
from whet.compiler.runtime.gpu.driver.interface import use_driver
from whet.compiler.runtime.gpu.driver.pycuda_driver import PycudaDriver

# pytest looks for doctests here, too, in processes that have no driver
drv = pytest.importorskip("pycuda.driver", exc_type=ImportError)


def emulated(source, arch):
    return compile_emulated(source, checks=True, quick=True).read_bytes()


use_driver("cuda", PycudaDriver(compile=emulated))
GPU, OTHER = whet.cuda(0), whet.cuda(1)
# Nothing is done before somebody waits for it: what is not waited for, and should be, is wrong.
ctypes.c_int.in_dll(ctypes.CDLL("libcuda.so.1"), "standin_lazy").value = 1


@pytest.fixture(autouse=True)
def nothing_is_current():
    yield
    with pytest.raises(drv.Error, match="cannot pop"):
        drv.Context.pop()


def numbers(seed, shape, dtype="float32"):
    return np.random.default_rng(seed).integers(-9, 9, shape).astype(dtype)


def poisoned(shape, device=GPU):
    return whet.nd.array(np.full(shape, np.nan, "float32"), device)
