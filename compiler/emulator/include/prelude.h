// What stands in front of CUDA C when g++ compiles it: CUDA's words, on fibers and checked memory.
#pragma once
#define __global__
#define __device__
#define __host__
#define __managed__
#define __constant__ static const
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#define __restrict__ __restrict
#include <utility>
#include "launch.h"
#include "types.h"
#include "intrinsics.h"
#include "functions.h"
#include "buffers.h"
#include "printing.h"
#include "host_only.h"
