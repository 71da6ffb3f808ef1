"""
Tuning a matmul
===============

Which tile sizes are best depends on the processor. Whet measures it: a *template* leaves some
choices of a schedule open, and a search tries them. This lesson writes a template for a matrix
multiplication, tunes it in a few dozen trials, and looks at what the search did.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import whet
from whet import te

N = 480
TRIALS = 40

# %%
# The template
# ------------
#
# A template is a function that returns a schedule and its arguments. It asks for the *config*
# in force, defines its *knobs*, and applies what the config says. Each candidate of the search
# is one call of this function.
#
# The result is summed up in a tile of registers (``cache_write``). How large this tile is, is
# left open, and whether its loops are unrolled. A *constraint* over two knobs leaves out tiles
# that no processor has the registers for.


@whet.template("lesson/matmul")
def matmul(n):
    """C = A B, for square matrices."""
    A = te.placeholder((n, n), name="A")
    B = te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")

    s = te.create_schedule(C.op)
    tile = s.cache_write(C, "local")
    i, j = s[C].op.axis

    cfg = whet.get_config()
    cfg.define_split("tile_i", i, num_outputs=2, filter=lambda e: e.size[-1] <= 16)
    cfg.define_split("tile_j", j, num_outputs=2, filter=lambda e: 8 <= e.size[-1] <= 64)
    cfg.define_knob("unroll", [False, True])
    cfg.multi_filter(lambda c: c["tile_i"].size[-1] * c["tile_j"].size[-1] <= 256)

    io, ii = cfg["tile_i"].apply(s, C, i)
    jo, ji = cfg["tile_j"].apply(s, C, j)
    s[C].reorder(io, jo, ii, ji)
    s[C].vectorize(ji)

    s[tile].compute_at(s[C], jo)
    ti, tj = s[tile].op.axis
    (tk,) = s[tile].op.reduce_axis
    s[tile].reorder(tk, ti, tj)
    s[tile].vectorize(tj)
    if cfg["unroll"].val:
        s[C].unroll(ii)
        s[tile].unroll(ti)
    return s, [A, B, C]


# %%
# The task and its space
# ----------------------
#
# A *task* is a template with its arguments, for a target. Its *space* is every combination of
# the knobs that the constraint admits.

task = whet.create_task("lesson/matmul", args=(N,), target="llvm")
print(task.config_space)

# %%
# The search
# ----------
#
# Each trial is compiled and measured in a process of its own. Its number and its result go into
# the log at once: a search that is stopped goes on where it was. The sampler ``xgb`` learns
# from the trials so far, and from what the log knows of other tasks, which configs to try next:
# it looks at the knobs, and at the loops that each config makes.

log = Path(tempfile.mkdtemp()) / "lesson.db"
result = whet.tune(task, trials=TRIALS, log=log, progress=False)
print(result)

# %%
# At the end, the fastest configs and the default were measured again, in turns. The interval
# behind the speed-up says where the true one lies with 95 % confidence. If it does not lie above
# 1, nothing is better than the default, and the default is what is built.

print(result.better, result.speedup_interval)

# %%
# What the search did
# -------------------
#
# Each point is a trial; the line is the best one so far. Trial 0 is the default config. Failed
# trials have no time and are left out. (``whet report lesson.db`` draws this and more, into one
# HTML file.)

worked = [trial for trial in result.trials if trial.result.ok]
numbers = [trial.number for trial in worked]
times = [trial.cost * 1e3 for trial in worked]

figure, axes = plt.subplots(figsize=(7, 4))
axes.scatter(numbers, times, s=18, label="one trial")
axes.step(numbers, np.minimum.accumulate(times), where="post", color="C1", label="best so far")
axes.set(xlabel="trial", ylabel="milliseconds a call", ylim=(0, None))
axes.legend()
figure.tight_layout()
plt.show()

# %%
# What the choices are worth
# --------------------------
#
# The same trials by the size of the register tile, which is the product of both inner factors.

sizes = [trial.config["tile_i"].size[-1] * trial.config["tile_j"].size[-1] for trial in worked]
figure, axes = plt.subplots(figsize=(7, 4))
axes.scatter(sizes, [trial.gflops for trial in worked], s=18)
axes.set(xlabel="elements of the register tile", ylabel="GFLOP/s", xscale="log")
figure.tight_layout()
plt.show()

# %%
# The kernel
# ----------
#
# ``whet.build`` takes the best config of this workload out of the log, in this process or in
# any other.

f = whet.build(task, log=log)
a = np.random.rand(N, N).astype("float32")
b = np.random.rand(N, N).astype("float32")
c = np.empty((N, N), "float32")
f(a, b, c)
np.testing.assert_allclose(c, a @ b, rtol=1e-4)

timer = f.time_evaluator(f.entry_name, whet.cpu(0), number=10, repeat=3)
print(f"{timer(a, b, c).median * 1e3:.3f} ms")

# %%
# The log can also be in force for a block. Then the template itself gives the best schedule,
# and its loops can be read.

with whet.apply_best(log), whet.Target("llvm"):
    s, args = matmul(N)
    print(whet.lower(s, args, simple_mode=True))
