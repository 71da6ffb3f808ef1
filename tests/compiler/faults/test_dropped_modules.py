"""Memory that modules leave behind when they are gone."""

import gc
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from raw_kernels import FAILING, FAILING_RAW, VADD, VADD_RAW, module

# Bytes of the C library's heap in use, before and after modules that nobody holds.
PROGRAM = """
import ctypes, gc
import numpy as np
from raw_kernels import VADD, VADD_RAW, module

class Heap(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "abcdefghij"]

mallinfo2 = ctypes.CDLL(None).mallinfo2
mallinfo2.restype = Heap
arrays = [np.ones(16, np.float32) for _ in range(3)]

def in_use():
    gc.collect()
    return mallinfo2().h + mallinfo2().e

def drop(count):
    for _ in range(count):
        module((VADD, VADD_RAW))["vadd"](*arrays)

drop(16)
before = in_use()  # of engines as full as they are behind the next line
drop(32)
print((in_use() - before) // 32)
"""


def test_a_module_that_is_dropped_leaves_nothing():
    tests = Path(__file__).parents[1] / "kernels"
    code = f"import sys; sys.path.insert(0, {str(tests)!r})\n{PROGRAM}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if "mallinfo2" in done.stderr:
        pytest.skip("this C library does not tell")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 3000  # 21,000 where one engine loads everything


def test_objects_do_not_need_those_that_were_loaded_beside_them():
    a, b = (np.random.default_rng().standard_normal(9, np.float32) for _ in range(2))
    modules = [module((VADD, VADD_RAW), (FAILING, FAILING_RAW)) for _ in range(20)]
    functions = [one["vadd"].fast for one in modules]
    for kept in (slice(0, None, 7), slice(1, None, 2), slice(-1, None)):
        functions = functions[kept]
        modules = modules[kept] if kept.start == 0 else []
        gc.collect()
        later = module((VADD, VADD_RAW))
        for function in (*functions, later["vadd"]):
            c = np.full(9, np.nan, np.float32)
            function(a, b, c)
            np.testing.assert_array_equal(c, a + b)
