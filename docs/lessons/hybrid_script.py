"""
Loops written in Python: hybrid script
======================================

Some computations are loops rather than expressions: a histogram, a search, a sum whose bounds
depend on the step outside. ``te.hybrid.script`` reads a function from its source, in a subset of
Python. With tensors it makes a stage whose loops can be scheduled; with arrays it runs as Python.
"""

import numpy as np

import whet
from whet import te


@te.hybrid.script
def triangle(a, b):
    c = output_tensor((a.shape[0], b.shape[0]), a.dtype)
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            c[i, j] = a[i] * b[j] if j >= i else 0.0
    return c


# %%
# A tensor of it
# --------------
#
# ``c.op.axis`` are the loops of the script, and primitives change them. Loops that stand directly
# inside each other can be fused and reordered.

n = te.size_var("n")
A, B = te.placeholder((n,), name="A"), te.placeholder((64,), name="B")
C = triangle(A, B)
s = te.create_schedule(C.op)
i, j = C.op.axis
outer, inner = s[C].split(j, factor=8)
s[C].vectorize(inner)
s[C].parallel(i)
print(whet.lower(s, [A, B, C]))

x, y = np.random.default_rng(0).random((2, 64), "float32")
z = np.empty((64, 64), "float32")
whet.build(s, [A, B, C], target="llvm")(x, y, z)
np.testing.assert_allclose(z, triangle(x, y))  # the same function, as Python
print("the triangle is right")

# %%
# Variables, arrays, threads
# --------------------------
#
# A variable that is assigned again lives in the loop where it was assigned first. Its type is the
# widest that is assigned to it. ``allocate`` makes arrays; one that is read before all of it was
# written begins with zeros, as it does in Python. ``range``, ``serial``, ``unroll``, ``vectorize``
# and ``parallel`` are loops, ``const_range`` is written out while the script is read, and
# ``bind("threadIdx.x", n)`` runs its steps in the threads of a GPU.


@te.hybrid.script
def histogram(values, bins):
    counts = output_tensor((bins,), "int32")
    for i in range(values.shape[0]):
        k = int32(values[i] * bins)
        k = min(max(k, 0), bins - 1)
        counts[k] += 1
    return counts


V = te.placeholder((1000,), name="V")
H = histogram(V, 10)
s = te.create_schedule(H.op)
v, counts = np.random.default_rng(1).random(1000, "float32"), np.empty(10, "int32")
whet.build(s, [V, H], target="llvm")(v, counts)
np.testing.assert_array_equal(counts, histogram(v, 10))
print("the histogram is right")

# %%
# A schedule as a script
# ----------------------
#
# ``te.hybrid.build`` prints any schedule's loops as a script: to be read, stored, and called.

module = te.hybrid.build(s, [V], [H], name="count")
print(module.get_source())
np.testing.assert_array_equal(module(v), counts)
