"""
Groups, layouts and rolling buffers
===================================

Three primitives that change where stages stand, and how their results lie in memory.
"""

import numpy as np

import whet
from whet import te

# %%
# create_group
# ------------
#
# The stages from ``T`` to ``U`` are moved together: they are computed for one row at a time.

A = te.placeholder((6, 8), name="A")
T = te.compute(A.shape, lambda i, j: A[i, j] * 2.0, name="T")
U = te.compute(A.shape, lambda i, j: T[i, j] + 1.0, name="U")
V = te.compute(A.shape, lambda i, j: U[i, j] * U[i, j], name="V")

s = te.create_schedule(V.op)
group = s.create_group(outputs=U, inputs=A)
group.compute_at(s[V], V.op.axis[0])
print(whet.lower(s, [A, V]))

# %%
# transform_layout
# ----------------
#
# ``T`` is kept in blocks of four columns, and is computed in their order. Who reads it need not
# know: the places follow.

s = te.create_schedule(V.op)
s[T].transform_layout(lambda i, j: [j // 4, i, j % 4])
print(whet.lower(s, [A, V]))

x = np.random.default_rng(0).random((6, 8), "float32")
out = np.empty_like(x)
whet.build(s, [A, V], target="llvm")(x, out)
np.testing.assert_allclose(out, (2 * x + 1) ** 2, rtol=1e-6)

# %%
# rolling_buffer
# --------------
#
# Each step of ``W`` reads three elements of ``P``, two of which the step before has computed: the
# buffer keeps them, and a step computes the new one.

X = te.placeholder((18,), name="X")
P = te.compute((18,), lambda i: X[i] * 2.0, name="P")
W = te.compute((16,), lambda i: P[i] + P[i + 1] + P[i + 2], name="W")

s = te.create_schedule(W.op)
s[P].compute_at(s[W], W.op.axis[0])
s[P].rolling_buffer()
print(whet.lower(s, [X, W]))

x = np.random.default_rng(1).random(18, "float32")
out = np.empty(16, "float32")
whet.build(s, [X, W], target="llvm")(x, out)
np.testing.assert_allclose(out, 2 * (x[:-2] + x[1:-1] + x[2:]), rtol=1e-6)
