"""
Recurrences: an LSTM cell with scan
===================================

A recurrence computes each step from the steps before it. ``te.scan`` says so: from the first step
of each state, and from what a step makes of the states. This lesson begins with a running sum, and
ends with an LSTM whose two states and four gates are stages that a schedule can change.
"""

import numpy as np

import whet
from whet import te

# %%
# A running sum
# -------------
#
# ``before`` stands for what the steps so far have made. ``step`` computes step ``t`` of the result,
# and may read ``before`` at any earlier step.

m, n = te.size_var("m"), te.size_var("n")
X = te.placeholder((m, n), name="X")
before = te.placeholder((m, n), name="before")
first = te.compute((1, n), lambda _, i: X[0, i], name="first")
step = te.compute((m, n), lambda t, i: before[t - 1, i] + X[t, i], name="step")
S = te.scan(first, step, before, inputs=[X], name="S")

s = te.create_schedule(S.op)
print(whet.lower(s, [X, S]))

# %%
# The first step and the update are stages of their own: each has loops, which primitives change.
# All of them compute in the memory of the result, so that nothing is copied.

outer, inner = s[step].split(step.op.axis[1], factor=8)
s[step].vectorize(inner)
running = whet.build(s, [X, S], target="llvm")

x = np.random.default_rng(0).random((100, 33), "float32")
sums = np.empty_like(x)
running(x, sums)
np.testing.assert_allclose(sums, x.cumsum(0), rtol=1e-4)
print("the sums are right")

# %%
# An LSTM
# -------
#
# An LSTM has two states, ``h`` and ``c``. At each step four gates are a product of the input and of
# the last ``h`` with weights; the states follow from them element by element.

STEPS, BATCH, INPUTS, HIDDEN = 20, 3, 16, 32

X = te.placeholder((STEPS, BATCH, INPUTS), name="X")
Wx = te.placeholder((4, HIDDEN, INPUTS), name="Wx")
Wh = te.placeholder((4, HIDDEN, HIDDEN), name="Wh")
h = te.placeholder((STEPS, BATCH, HIDDEN), name="h")
c = te.placeholder((STEPS, BATCH, HIDDEN), name="c")
zero = [te.compute((1, BATCH, HIDDEN), lambda *_: 0.0, name=f"{name}_first") for name in "hc"]

# %%
# The inputs' part of the gates needs no state: it is computed for all steps before the recurrence,
# as one matrix product. What reads a state is computed step by step.

j = te.reduce_axis((0, INPUTS), name="j")
k = te.reduce_axis((0, HIDDEN), name="k")
given = te.compute(
    (STEPS, 4, BATCH, HIDDEN),
    lambda t, g, b, i: te.sum(X[t, b, j] * Wx[g, i, j], axis=j),
    name="given",
)
fed = te.compute(
    (STEPS, 4, BATCH, HIDDEN),
    lambda t, g, b, i: te.sum(h[t - 1, b, k] * Wh[g, i, k], axis=k),
    name="fed",
)


def gate(t, g, b, i):
    """The sum that a gate is a function of."""
    return given[t, g, b, i] + fed[t, g, b, i]


new_c = te.compute(
    (STEPS, BATCH, HIDDEN),
    lambda t, b, i: (
        te.sigmoid(gate(t, 1, b, i)) * c[t - 1, b, i]
        + te.sigmoid(gate(t, 0, b, i)) * te.tanh(gate(t, 2, b, i))
    ),
    name="new_c",
)
new_h = te.compute(
    (STEPS, BATCH, HIDDEN),
    lambda t, b, i: te.sigmoid(gate(t, 3, b, i)) * te.tanh(new_c[t, b, i]),
    name="new_h",
)
H, C = te.scan(zero, [new_h, new_c], [h, c], inputs=[X, Wx, Wh], name="lstm")

# %%
# ``ScanGetBody`` names what is repeated. Its stages are scheduled like any others.

print([op.name for op in te.schedule.ScanGetBody(H.op)])

s = te.create_schedule(H.op)
for gates in (given, fed):
    t, g, b, i = gates.op.axis
    (over,) = gates.op.reduce_axis
    outer, inner = s[gates].split(i, factor=8)
    s[gates].reorder(t, g, b, outer, over, inner)
    s[gates].vectorize(inner)
for state in (new_c, new_h):
    s[state].vectorize(s[state].split(state.op.axis[2], factor=8)[1])
lstm = whet.build(s, [X, Wx, Wh, H, C], target="llvm")

# %%
# The same with numpy, in float64:

rng = np.random.default_rng(1)
x, wx, wh = (
    rng.standard_normal([int(d) for d in t.shape]).astype("float32") * 0.3 for t in (X, Wx, Wh)
)
made = [np.empty((STEPS, BATCH, HIDDEN), "float32") for _ in range(2)]
lstm(x, wx, wh, *made)


def sigmoid(v):
    """1 / (1 + exp(-v))."""
    return 1 / (1 + np.exp(-v))


last_h = last_c = np.zeros((BATCH, HIDDEN))
for at in range(1, STEPS):
    gates = np.einsum("bj,gij->gbi", x[at].astype("float64"), wx)
    gates = gates + np.einsum("bk,gik->gbi", last_h, wh)
    last_c = sigmoid(gates[1]) * last_c + sigmoid(gates[0]) * np.tanh(gates[2])
    last_h = sigmoid(gates[3]) * np.tanh(last_c)
    np.testing.assert_allclose(made[0][at], last_h, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(made[1][at], last_c, rtol=1e-4, atol=1e-5)
print("the LSTM is right")
