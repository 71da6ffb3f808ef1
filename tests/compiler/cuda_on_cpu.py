"""CUDA C text run on the CPU: one fiber a thread, switched at barriers, in any order.

Between two barriers each thread of a block runs alone, so that a barrier that is missing shows as
wrong numbers in one of the orders, and one that only some threads reach as an error.
"""

import ctypes
import subprocess

import numpy as np

from whet.compiler.codegen.cuda import generate
from whet.compiler.codegen.cuda.dialect import CudaDialect
from whet.compiler.signature import BufferParam
from whet.compiler.target import Target

_PRELUDE = r"""
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ucontext.h>
#include <vector>
#define __global__
#define __device__
#define __launch_bounds__(n)
#define __forceinline__ inline
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define __trap() abort()
struct Place { int x, y, z; };
static Place blockIdx, threadIdx;
struct __align__(8) float2 { float x, y; };
struct __align__(16) float4 { float x, y, z, w; };
struct __align__(8) int2 { int x, y; };
struct __align__(16) int4 { int x, y, z, w; };
struct __align__(8) uint2 { unsigned x, y; };
struct __align__(16) uint4 { unsigned x, y, z, w; };
struct __align__(16) double2 { double x, y; };
static float __int_as_float(int x) { float y; memcpy(&y, &x, 4); return y; }
static ucontext_t home;
static std::vector<ucontext_t> fibers;
static int current;
static std::vector<char> done;
static void __syncthreads() { swapcontext(&fibers[current], &home); }
"""
_LAUNCH = r"""
static void **given;
static void body() { CALL; done[current] = 1; swapcontext(&fibers[current], &home); }
extern "C" int launch(void **args, const int *grid, const int *block, int backwards)
{
    const int count = block[0] * block[1] * block[2];
    std::vector<std::vector<char>> stacks(count, std::vector<char>(1 << 16));
    given = args;
    fibers.resize(count);
    for (blockIdx.z = 0; blockIdx.z < grid[2]; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < grid[1]; ++blockIdx.y)
    for (blockIdx.x = 0; blockIdx.x < grid[0]; ++blockIdx.x) {
        done.assign(count, 0);
        for (int k = 0; k < count; ++k) {
            getcontext(&fibers[k]);
            fibers[k].uc_stack.ss_sp = stacks[k].data();
            fibers[k].uc_stack.ss_size = stacks[k].size();
            makecontext(&fibers[k], body, 0);
        }
        for (int left = count; left > 0;) {
            int ended = 0;
            for (int step = 0; step < count; ++step) {
                current = backwards ? count - 1 - step : step;
                if (done[current]) continue;
                const int row = current / block[0];
                threadIdx = {current % block[0], row % block[1], row / block[1]};
                swapcontext(&home, &fibers[current]);
                ended += done[current];
            }
            if (ended != 0 && ended != left) return 1;  // some are at a barrier, some have left
            left -= ended;
        }
    }
    return 0;
}
"""


class CudaOnCpu:
    """The one kernel of a lowered module."""

    def __init__(self, mod, folder):
        artifact = generate(mod, Target("cuda"))
        (self.signature,) = artifact.signatures
        types = CudaDialect()
        call = ", ".join(
            f"({types.memory_type(p.dtype)} *)given[{k}]"
            if isinstance(p, BufferParam)
            else f"*({types.memory_type(p.dtype)} *)given[{k}]"
            for k, p in enumerate(self.signature.params)
        )
        text = (
            _PRELUDE + artifact.source + _LAUNCH.replace("CALL", f"{self.signature.name}({call})")
        )
        source, library = folder / "kernel.cpp", folder / "kernel.so"
        source.write_text(text)
        made = ["g++", "-std=c++17", "-O0", "-fPIC", "-shared", "-Wno-unknown-pragmas"]
        subprocess.run([*made, str(source), "-o", str(library)], check=True, capture_output=True)
        self.launch = ctypes.CDLL(str(library)).launch
        self.source = artifact.source

    def __call__(self, named, grid, block, backwards=False):
        """Run with arrays and numpy scalars by the names of parameters."""
        values = [named[p.name] for p in self.signature.params]
        held = [v if v.ndim else v.reshape(1) for v in map(np.asarray, values)]
        args = (ctypes.c_void_p * len(held))(*(v.ctypes.data for v in held))
        sizes = [(ctypes.c_int * 3)(*(list(x) + [1] * (3 - len(x)))) for x in (grid, block)]
        result = self.launch(args, *sizes, int(backwards))
        assert result == 0, "a barrier that some threads do not reach"
