"""
From the naive matmul to the fastest
====================================

One multiplication of matrices, and eight schedules of it. Nothing changes in *what* is computed;
each step changes one thing in *how*, says which limit of the processor it is about, and measures
what it brings. The first schedule reaches about one percent of what a core can do, the last ones
most of it.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import whet
from whet import te
from whet.compiler.target.machine import host
from whet.compiler.target.machine.fma import fma_peak

N = 1024
TRIALS = 40

# %%
# The limit
# ---------
#
# Know the limit before you begin. A core can start so many fused multiply-adds a cycle, each on a
# whole vector, and multiplying two n x n matrices takes n * n * n of them. Memory is no limit
# here: n * n numbers are read for n * n * n operations, if they are used well.

single = whet.Target("llvm -num_threads=1").canonical()
lanes = single.vector_bytes // 4
peak = fma_peak() / 1e9
print(f"vectors of {lanes} floats; at most {peak:.1f} GFLOP/s on one core")
print(f"the matmul takes at least {2 * N**3 / peak / 1e6:.2f} ms")

# %%
# What is computed
# ----------------
#
# The sum over ``k`` of each element. Every schedule below is built, compared with numpy's matmul,
# and timed. ``speeds`` remembers it.

rng = np.random.default_rng(0)
a = rng.standard_normal((N, N), dtype=np.float32)
b = rng.standard_normal((N, N), dtype=np.float32)
right = a.astype(np.float64) @ b.astype(np.float64)
speeds = {}


def graph():
    """C = A B."""
    A = te.placeholder((N, N), name="A")
    B = te.placeholder((N, N), name="B")
    k = te.reduce_axis((0, N), name="k")
    C = te.compute((N, N), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return A, B, C, k


def measure(name, f, second=b):
    """Check a kernel's numbers, time it, and say what share of the peak it reaches."""
    c = np.full((N, N), np.nan, np.float32)
    f(a, second, c)
    assert np.abs(c - right).max() < 1e-5 * N, name
    once = f.time_evaluator(f.entry_name, whet.cpu(0), number=1, repeat=1)(a, second, c).mean
    repeat = 7 if once < 0.5 else 1
    timer = f.time_evaluator(f.entry_name, whet.cpu(0), number=1, repeat=repeat)
    seconds = min(once, *timer(a, second, c).results)
    speeds[name] = 2e-9 * N**3 / seconds
    print(f"{name}: {seconds * 1e3:.2f} ms, {speeds[name]:.1f} GFLOP/s, "
          f"{speeds[name] / peak:.0%} of the peak of one core")  # fmt: skip


# %%
# 1. Naive
# --------
#
# The schedule as it comes: a loop for each axis, the sum innermost. Each step of that loop needs
# the one before it, because all add to the same number: the processor waits for an addition to
# end (four cycles or so) before it starts the next, one number at a time. And ``B`` is read down
# its columns, a new cache line for each number.

A, B, C, k = graph()
s = te.create_schedule(C.op)
print(whet.lower(s, [A, B, C], simple_mode=True))
measure("naive", whet.build(s, [A, B, C], target=single))

# %%
# 2. Tiled
# --------
#
# Computing ``C`` in tiles, with ``k`` outside a tile, changes the order of the same operations:
# neighbours in the innermost loop are different sums, which do not wait for each other, and they
# read a row of ``B`` in order. A tile and what it reads stay in the L1 cache.

A, B, C, k = graph()
s = te.create_schedule(C.op)
i, j = s[C].op.axis
io, jo, ii, ji = s[C].tile(i, j, 8, 64)
s[C].reorder(io, jo, k, ii, ji)
measure("tiled", whet.build(s, [A, B, C], target=single))

# %%
# 3. Vectorised
# -------------
#
# A vector register holds several floats, and one instruction works on all of them. The innermost
# loop runs along rows of ``B`` and ``C``, so that its steps can be the lanes of vectors.

A, B, C, k = graph()
s = te.create_schedule(C.op)
i, j = s[C].op.axis
io, jo, ii, ji = s[C].tile(i, j, 8, 64)
s[C].reorder(io, jo, k, ii, ji)
s[C].vectorize(ji)
measure("vectorised", whet.build(s, [A, B, C], target=single))

# %%
# 4. A tile of registers
# ----------------------
#
# Each operation still loads a part of ``C`` and stores it again; the ports of the cache are the
# limit now, not the multipliers. ``cache_write`` gives the tile a place of its own. Where its
# size fits the registers and its loops are unrolled, that place *is* registers: for each ``k`` the
# kernel loads two vectors of ``B`` and one number a row of ``A``, and nothing is stored until the
# sum is done. The tile is as large as the registers allow: 6 rows of 2 vectors are 12 of 16
# registers; with 32 registers, 12 rows fit.

rows, columns = (12 if lanes >= 16 else 6), 2 * lanes


def with_registers(s, C, k):
    """C in register tiles; returns the loops over them."""
    tile = s.cache_write(C, "local")
    i, j = s[C].op.axis
    io, jo, ii, ji = s[C].tile(i, j, rows, columns)
    s[C].unroll(ii)
    s[C].vectorize(ji)
    s[tile].compute_at(s[C], jo)
    ti, tj = s[tile].op.axis
    s[tile].reorder(k, ti, tj)
    s[tile].unroll(ti)
    s[tile].vectorize(tj)
    return io, jo, tile


A, B, C, k = graph()
s = te.create_schedule(C.op)
with_registers(s, C, k)
f = whet.build(s, [A, B, C], target=single)
measure("register tile", f)

# %%
# The innermost loop in assembly: multiply-adds whose results stay in registers.

lines = f.get_source("asm").splitlines()
fused = [n for n, line in enumerate(lines) if "fmadd" in line or "fmla" in line]
if fused:
    print("\n".join(lines[fused[0] - 4 : fused[0] + 16]))

# %%
# 5. B packed
# -----------
#
# A tile reads a narrow panel of ``B``, whose rows lie ``4 * N`` bytes apart. For large matrices
# that is a new page of memory for each row, and rows that are a power of two apart fall on each
# other in the cache. A stage ``P`` lays the panels out one after the other. It is computed once,
# costs n * n of n * n * n, and ``B`` is then read in order. Columns beyond the last are zeros.


def packed_graph():
    """C = A B, with B packed into panels of the tile's columns."""
    A = te.placeholder((N, N), name="A")
    B = te.placeholder((N, N), name="B")
    k = te.reduce_axis((0, N), name="k")
    P = te.compute(
        (-(-N // columns), N, columns),
        lambda p, k, c: te.if_then_else(p * columns + c < N, B[k, p * columns + c], 0.0),
        name="P",
    )
    C = te.compute(
        (N, N),
        lambda i, j: te.sum(A[i, k] * P[j // columns, k, j % columns], axis=k),
        name="C",
    )
    return A, B, P, C, k


def pack(s, P):
    """Fill P by rows of B, whole vectors at a time."""
    p, r, c = s[P].op.axis
    s[P].reorder(r, p, c)
    s[P].vectorize(c)


A, B, P, C, k = packed_graph()
s = te.create_schedule(C.op)
with_registers(s, C, k)
pack(s, P)
measure("packed", whet.build(s, [A, B, C], target=single))

# %%
# 6. Blocked for the caches
# -------------------------
#
# The tiles of a row each read all of ``P``, which no cache near the core holds: it is read
# again for every ``rows`` rows of ``A``. In a *block* of rows, all tiles of one panel come first:
# the panel stays in the L1 or L2 cache for them, and ``P`` is read once a block. What that brings
# depends on the cache that ``P`` fits: where the last one is large and quick, little at this size.

block = 16


def blocked(s, C, k):
    """Register tiles in blocks of rows; returns the loop over blocks."""
    io, jo, tile = with_registers(s, C, k)
    ib, it = s[C].split(io, factor=block)
    s[C].reorder(ib, jo, it)
    s[tile].compute_at(s[C], it)
    return ib


A, B, P, C, k = packed_graph()
s = te.create_schedule(C.op)
blocked(s, C, k)
pack(s, P)
print(whet.lower(s, [A, B, C], simple_mode=True))
measure("blocked", whet.build(s, [A, B, C], target=single))

# %%
# 7. Prepacked
# ---------------
#
# The ``B`` of a layer of a model is its weights, the same in every call. ``compute_ahead`` takes
# the packing out of the kernel: ``pack_weights`` does it once, and the kernel takes what it
# returns where it took ``B``.

A, B, P, C, k = packed_graph()
s = te.create_schedule(C.op)
blocked(s, C, k)
pack(s, P)
s[P].compute_ahead()
f = whet.build(s, [A, B, C], target=single)
measure("prepacked", f, f.pack_weights(b))

# %%
# 8. In parallel
# --------------
#
# Blocks of rows do not depend on each other: each thread takes some of them. This is the only step
# that uses more than one core, so that it may exceed the peak of one.

A, B, P, C, k = packed_graph()
s = te.create_schedule(C.op)
s[C].parallel(blocked(s, C, k))
pack(s, P)
f = whet.build(s, [A, B, C])
measure("parallel", f)
print(f"{host.num_threads()} threads")

# %%
# And then: measured instead of chosen
# ------------------------------------
#
# Rows, columns, block: all of these numbers were guesses. The template ``"matmul"`` leaves them,
# and some more, open; a search finds them for this processor and this size.
# (``docs/cpu_kernels.md`` has its knobs.)

task = whet.create_task("matmul", args=(N, N, N), target=single)
log = Path(tempfile.mkdtemp()) / "lesson.db"
result = whet.tune(task, trials=TRIALS, log=log, progress=False)
print(result.best.config)
measure("tuned", whet.build(task, log=log))

# %%
# All steps
# ---------

figure, axes = plt.subplots(figsize=(7, 4))
axes.barh(list(speeds), list(speeds.values()))
axes.axvline(peak, color="C3", label="FMA peak of one core")
axes.invert_yaxis()
axes.set(xlabel="GFLOP/s")
axes.legend()
figure.tight_layout()
plt.show()

for name, speed in speeds.items():
    print(f"{name:14s} {speed:7.1f} GFLOP/s {speed / speeds['naive']:7.1f} x naive")
