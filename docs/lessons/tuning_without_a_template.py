"""
Tuning without a template
=========================

A template says which programs are worth trying. For most computations nobody has to write one:
Whet derives the space from the compute graph. This lesson does so for a layer of a neural network,
a matrix multiplication with a bias and a ReLU, and then for a softmax, which is a chain of
reductions.
"""

import tempfile
from pathlib import Path

import numpy as np

import whet
from whet import te, topi

N, K, M = 128, 256, 256
TRIALS = 24

# %%
# The computation
# ---------------
#
# Only *what* is computed: no schedule.

X = te.placeholder((N, K), name="X")
W = te.placeholder((K, M), name="W")
bias = te.placeholder((M,), name="bias")
k = te.reduce_axis((0, K), name="k")
Y = te.compute((N, M), lambda i, j: te.sum(X[i, k] * W[k, j], axis=k), name="Y")
Z = te.compute((N, M), lambda i, j: te.max(Y[i, j] + bias[j], 0.0), name="Z")

# %%
# The space that is made of it
# ----------------------------
#
# ``create_task`` looks at the graph. ``Y`` reads its operands over and over, so it is tiled for
# registers and caches; ``Z`` is elementwise behind it, and is computed on a tile while that is
# there. What is left open are knobs, as if a template had defined them: the register tile, the
# blocks, the order of the loops, whether operands are copied into the layout of a tile.

task = whet.create_task("layer", outputs=[Z], target="llvm")
print(task.workload)
print(task.config_space)

# %%
# Without a search, there is a default config already, made for this processor's registers and
# caches.

print(task.config_space.default)
print(whet.lower(*task.instantiate(), simple_mode=True))

# %%
# The search
# ----------
#
# From here on, everything is as with a template: the samplers, the log, the report.

log = Path(tempfile.mkdtemp()) / "lesson.db"
result = whet.tune(task, trials=TRIALS, log=log, progress=False)
print(result)

# %%
# ``speed-up`` compares with the default config, measured in turns with the winner. Where nothing
# is faster beyond the noise, the default wins, and the text says so: the default of a derived
# space is often hard to beat for small sizes.

# %%
# The kernel
# ----------
#
# ``whet.build`` takes the best config out of the log. The kernel takes the inputs in the order in
# which the computation meets them, then the output.

f = whet.build(task, log=log)
x = np.random.rand(N, K).astype("float32")
w = np.random.rand(K, M).astype("float32")
b = np.random.rand(M).astype("float32")
z = np.empty((N, M), "float32")
f(x, w, b, z)
np.testing.assert_allclose(z, np.maximum(x @ w + b, 0), rtol=1e-4)

timer = f.time_evaluator(f.entry_name, whet.cpu(0), number=10, repeat=3)
print(f"{timer(x, w, b, z).median * 1e6:.1f} us")

# %%
# A chain of rows
# ---------------
#
# A softmax has no tiles: each row is read for its maximum, for the sum of its exponentials, and
# for the result. Its space has other knobs: how many vectors are summed up side by side, and
# whether the exponentials are kept or computed again.

S = te.placeholder((256, 1000), name="S")
rows = whet.create_task("softmax", outputs=[topi.nn.softmax(S)], target="llvm")
print(rows.config_space)

result = whet.tune(rows, trials=TRIALS // 2, log=log, progress=False)
print(result)

# %%
# Both searches are in one log, and another layer of other sizes would start from the best configs
# of this one.

with whet.TuningLog(log) as records:
    for task in records.summary():
        print(task.workload, task.trials, "trials, best", task.best.result.cost, "s")
