"""
Schedule primitives
===================

A schedule is changed by *primitives*. Each one changes the loops and never the result. This
lesson shows each primitive with its loops before and after, and says what it is good for.

The loops are printed by ``whet.lower``, for a processor with AVX2.
"""

import numpy as np

import whet
from whet import te

TARGET = whet.Target("llvm -mcpu=x86-64 -mattr=+avx2,+fma")


def show(s, args):
    """Print the loops of a schedule, without the tails that LoopPartition would split off."""
    with TARGET:
        print(whet.lower(s, args, simple_mode=True))


def doubled(*shape):
    """A schedule of ``B = 2 A``, with its tensors."""
    A = te.placeholder(shape, name="A")
    B = te.compute(shape, lambda *i: A[i] * 2.0, name="B")
    return te.create_schedule(B.op), A, B


def row_sums(rows, columns):
    """A schedule of ``B[i] = sum of A[i, k] over k``, with its tensors and the axis k."""
    A = te.placeholder((rows, columns), name="A")
    k = te.reduce_axis((0, columns), name="k")
    B = te.compute((rows,), lambda i: te.sum(A[i, k], axis=k), name="B")
    return te.create_schedule(B.op), A, B, k


def smoothed(n):
    """A schedule of two stages: ``T = 2 A``, and ``U[i] = T[i] + T[i + 1]``."""
    A = te.placeholder((n + 1,), name="A")
    T = te.compute((n + 1,), lambda i: A[i] * 2.0, name="T")
    U = te.compute((n,), lambda i: T[i] + T[i + 1], name="U")
    return te.create_schedule(U.op), A, T, U


# %%
# The default
# -----------
#
# Without any primitive there is one loop for each axis, in the order of the dimensions.

s, A, B = doubled(4, 8)
show(s, [A, B])

# %%
# split
# -----
#
# One loop becomes two. ``factor`` is the number of iterations of the inner loop, ``nparts`` that of
# the outer one. It is the first step of most others: the inner loop fits a vector, a cache, or
# a thread's share.

s, A, B = doubled(16)
outer, inner = s[B].split(B.op.axis[0], factor=4)
show(s, [A, B])

# %%
# With ``nparts``:

s, A, B = doubled(16)
outer, inner = s[B].split(B.op.axis[0], nparts=2)
show(s, [A, B])

# %%
# Where the factor does not divide, a guard leaves the last steps out. It is marked ``likely``.
# Without ``simple_mode``, the pass LoopPartition splits a tail off.

s, A, B = doubled(10)
s[B].split(B.op.axis[0], factor=4)
show(s, [A, B])
with TARGET:
    print(whet.lower(s, [A, B]))

# %%
# With ``tail="shift"`` the last steps begin earlier, so that vectors stay whole.

s, A, B = doubled(10)
s[B].split(B.op.axis[0], factor=4, tail="shift")
show(s, [A, B])

# %%
# tile
# ----
#
# Two splits and a reorder: the loops run over small rectangles. The rows and columns that a
# tile reads stay in the cache while it is computed.

s, A, B = doubled(8, 8)
i, j = B.op.axis
io, jo, ii, ji = s[B].tile(i, j, x_factor=2, y_factor=4)
show(s, [A, B])

# %%
# fuse
# ----
#
# Neighbouring loops become one. A single long loop is easier to share among threads than two
# short ones.

s, A, B = doubled(4, 6)
fused = s[B].fuse(*B.op.axis)
show(s, [A, B])

# %%
# reorder
# -------
#
# The named loops change places. Memory is read fastest when the innermost loop walks along the
# last dimension; and a loop that should be a vector must be the innermost one.

s, A, B = doubled(4, 6)
i, j = B.op.axis
s[B].reorder(j, i)
show(s, [A, B])

# %%
# compute_root and compute_inline
# -------------------------------
#
# With two stages, the first one is computed as a whole before the second one begins: at the
# *root*.

s, A, T, U = smoothed(8)
show(s, [A, U])

# %%
# ``compute_inline`` computes it inside the expressions that read it. That saves memory, and
# costs work where an element is read twice, as here.

s, A, T, U = smoothed(8)
s[T].compute_inline()
show(s, [A, U])

# %%
# compute_at
# ----------
#
# Between the two: a stage is computed within a loop of its reader, and only what is read in one
# step of this loop. Each tile of four needs five elements of T, which stay in the nearest
# cache. The fifth is computed once more by the next tile.

s, A, T, U = smoothed(8)
outer, inner = s[U].split(U.op.axis[0], factor=4)
s[T].compute_at(s[U], outer)
show(s, [A, U])

# %%
# ``compute_root`` takes it back.

s[T].compute_root()
show(s, [A, U])

# %%
# compute_ahead
# -------------
#
# What is made of weights alone need not be made anew in each call. Such a stage, and what is
# computed for it alone, becomes a function of its own, and its result an argument of the kernel.
# Here a matrix is laid out by columns, so that each sum reads memory in order.

W, x = te.placeholder((8, 3), name="W"), te.placeholder((8,), name="x")
P = te.compute((3, 8), lambda i, k: W[k, i], name="P")
k = te.reduce_axis((0, 8), name="k")
y = te.compute((3,), lambda i: te.sum(P[i, k] * x[k], axis=k), name="y")
s = te.create_schedule(y.op)
s[P].compute_ahead()
show(s, [W, x, y])

# %%
# ``pack_weights`` of the module that is built calls it.

f = whet.build(s, [W, x, y])
w, v, out = np.ones((8, 3), "float32"), np.ones(8, "float32"), np.empty(3, "float32")
packed = f.pack_weights(w)
f(packed, v, out)
print(out)

# %%
# cache_write
# -----------
#
# The result is computed in another place first, and then copied. In the scope ``local``, an
# accumulator lives in registers, and memory is written once, at the end. Call it before the
# stage's loops are split.

s, A, B, k = row_sums(8, 6)
cache = s.cache_write(B, "local")
outer, inner = s[B].split(B.op.axis[0], factor=4)
s[cache].compute_at(s[B], outer)
show(s, [A, B])

# %%
# cache_read
# ----------
#
# An input is copied first, and the readers that are named read the copy. It is used where a
# copy in another layout, or in a nearer memory, is read more than once.

s, A, B, k = row_sums(8, 6)
copied = s.cache_read(A, "local", [B])
s[copied].compute_at(s[B], B.op.axis[0])
show(s, [A, B])

# %%
# vectorize
# ---------
#
# A loop of constant length becomes vector operations. ``ramp(0, 1, 8)`` is the vector of the
# indices 0 to 7.

s, A, B = doubled(16)
s[B].vectorize(B.op.axis[0])
show(s, [A, B])

# %%
# unroll
# ------
#
# The iterations of a loop are expanded, one after the other, when code is generated. Short loops
# of a register tile are unrolled, so that their indices become constants.

s, A, B = doubled(4, 4)
s[B].unroll(B.op.axis[1])
show(s, [A, B])

# %%
# parallel
# --------
#
# The steps of a loop are shared among threads. Choose an outer loop with enough work: a step of
# a few hundred nanoseconds is not worth a thread. Each thread gets an even share; with ``grain=4``
# it takes four steps at a time and comes back for more, which evens out steps of unequal length.

s, A, B = doubled(4, 6)
s[B].parallel(B.op.axis[0])
show(s, [A, B])

# %%
# rfactor
# -------
#
# The steps of a reduction depend on each other: each one adds to the same sum. ``rfactor``
# makes two stages of it. The first one has a sum of its own for each step of one loop, and the
# second one adds these up. The loop can then be a vector, or run in parallel.
#
# The order of the additions changes, and with it the last digits of a floating-point sum.

s, A, B, k = row_sums(4, 64)
ko, ki = s[B].split(k, factor=8)
partial = s.rfactor(B, ki)
s[partial].vectorize(s[partial].op.axis[0])
s[partial].reorder(s[partial].op.axis[1], s[partial].op.reduce_axis[0], s[partial].op.axis[0])
s[partial].compute_at(s[B], s[B].op.axis[0])
show(s, [A, B])

# %%
# bind
# ----
#
# The steps of a loop become the threads of a GPU. The loop IR keeps them as loops, which say
# which thread they are: on a CPU they run one after the other, so that the schedule of a GPU
# can be tried and checked on any machine.

s, A, B = doubled(256)
block, thread = s[B].split(B.op.axis[0], factor=64)
s[B].bind(block, te.thread_axis("blockIdx.x"))
s[B].bind(thread, te.thread_axis("threadIdx.x"))
show(s, [A, B])

# %%
# A loop that is bound to a *virtual thread* is not launched: its steps are written into the
# innermost loops, side by side.

s, A, B = doubled(16)
outer, inner = s[B].split(B.op.axis[0], nparts=2)
s[B].bind(outer, te.thread_axis("vthread"))
show(s, [A, B])

# %%
# set_scope
# ---------
#
# It says where a stage's result is kept. ``shared`` is memory that the threads of a block
# share, ``local`` belongs to one thread. Without it, the threads around a stage decide.

s, A, T, U = smoothed(8)
outer, inner = s[U].split(U.op.axis[0], factor=4)
s[T].compute_at(s[U], outer)
s[T].set_scope("local")
show(s, [A, U])

# %%
# storage_align
# -------------
#
# Rows of a buffer are padded, so that one step along an axis is ``k * factor + offset``
# elements. On a GPU, it keeps threads that read a column off the same bank of shared memory.

A = te.placeholder((8, 8), name="A")
T = te.compute((8, 8), lambda i, j: A[i, j] * 2.0, name="T")
U = te.compute((8, 8), lambda i, j: T[j, i], name="U")
s = te.create_schedule(U.op)
s[T].storage_align(T.op.axis[0], factor=8, offset=1)
show(s, [A, U])

# %%
# pragma
# ------
#
# A remark at a loop, for passes and generators. ``auto_unroll_max_step`` has the loops inside
# unrolled where they have few steps altogether.

s, A, B = doubled(4, 4)
s[B].pragma(B.op.axis[0], "auto_unroll_max_step", 4)
show(s, [A, B])

# %%
# set_store_predicate
# -------------------
#
# Results are stored where a condition holds. On a GPU, all threads may compute a sum, and one
# of them stores it.

s, A, B = doubled(8)
s[B].set_store_predicate(B.op.axis[0].var < 5)
show(s, [A, B])

# %%
# env_threads
# -----------
#
# A whole stage is run by each thread: for stages whose loops cannot be bound, as those of
# ``te.extern``.

s, A, B = doubled(4)
s[B].env_threads(te.thread_axis((0, 2), "threadIdx.x"))
show(s, [A, B])

# %%
# double_buffer
# -------------
#
# It marks a stage that should be filled for the next step while this one is read. The mark stays.

s, A, T, U = smoothed(8)
outer, inner = s[U].split(U.op.axis[0], factor=4)
s[T].compute_at(s[U], outer)
s[T].double_buffer()
show(s, [A, U])

# %%
# store_nontemporal
# -----------------
#
# A result that is larger than the caches is stored past them: its lines are not read before they
# are written, and what else the caches hold stays there. On a processor of today that makes a
# streaming kernel a fifth to a third faster; a result that fits a cache becomes slower by it.

s, A, B = doubled(64)
outer, inner = s[B].split(B.op.axis[0], factor=8)
s[B].vectorize(inner)
s[B].store_nontemporal()
show(s, [A, B])

# %%
# prefetch
# --------
#
# Each iteration asks for what a later one will read, where hardware cannot guess that: short rows.

s, A, B, k = row_sums(8, 32)
s[B].prefetch(A, B.op.axis[0], 2)
show(s, [A, B])

# %%
# normalize
# ---------
#
# A reduction may begin at another index than 0. ``normalize`` gives a schedule in which each loop
# counts from 0, as ``lower`` does by itself: for code that looks at a schedule's relations.

A = te.placeholder((8,), name="A")
k = te.reduce_axis((2, 4), name="k")
B = te.compute((1,), lambda i: te.sum(A[k], axis=k), name="B")
s = te.create_schedule(B.op).normalize()
print(s[B].relations)
show(s, [A, B])
