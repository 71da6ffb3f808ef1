"""Random schedules of hybrid scripts on GPUs and as Python, against numpy.

On CPUs scripts are stages of the random programs: tests/compiler/fuzz.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from emulated import on_device
from hybrid_check import numbers, poisoned

import whet
from whet import te

DRAWS = 8
script = te.hybrid.script


@script
def combine(a, b):
    c = output_tensor((a.shape[0], b.shape[1]), a.dtype)
    d = output_tensor((a.shape[0],), a.dtype)
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            t = 0.0
            for k in range(a.shape[1]):
                if a[i, k] > 0:
                    t += a[i, k] * b[k, j]
            c[i, j] = t
    for i in range(a.shape[0]):
        d[i] = a[i, 0] if i % 3 == 0 else b[0, 0]
    return c, d


def drawn(rng, s, stage, axes):
    """Primitives on a chain of loops; the loops that it is now."""
    loops, text = list(axes), []
    for _ in range(int(rng.integers(0, 5))):
        k = int(rng.integers(len(loops)))
        kind = rng.choice(["split", "nparts", "fuse", "reorder"])
        text.append(f"{kind} {loops[k].var.name}")
        size = int(rng.integers(1, 7))
        if kind == "fuse" and k + 1 < len(loops):
            loops[k : k + 2] = [s[stage].fuse(loops[k], loops[k + 1])]
        elif kind == "reorder":
            loops = [loops[x] for x in rng.permutation(len(loops))]
            s[stage].reorder(*loops)
        elif kind != "fuse":
            how = {"nparts": size} if kind == "nparts" else {"factor": size}
            loops[k : k + 1] = s[stage].split(loops[k], **how)
    return loops, text


def program(rng, gpu):
    """A schedule with a script, its arguments, arrays, and the results that are right."""
    n, m, q = (int(x) for x in rng.integers(1, 14, 3))
    dtype = str(rng.choice(["float32", "float64"]))
    a, b = te.placeholder((n, q), dtype, "a"), te.placeholder((q, m), dtype, "b")
    before = te.compute((n, q), lambda i, j: a[i, j] + 1, name="before")
    c, d = combine(before, b)
    after = te.compute((n, m), lambda i, j: c[i, j] - d[i], name="after")
    s = te.create_schedule(after.op)
    text = []
    second, i, j, _ = c.op.axis
    for axes in ((i, j), (second,)):
        loops, said = drawn(rng, s, c, axes)
        text += said
        if gpu:
            s[c].bind(loops[0], te.thread_axis("blockIdx.x"))
            if len(loops) > 1:
                s[c].bind(loops[-1], te.thread_axis("threadIdx.x"))
        else:
            how = rng.choice(["none", "parallel", "unroll"])
            text.append(how)
            if how != "none":
                getattr(s[c], how)(loops[0])
    place = rng.choice(["root", "inline"] if gpu else ["root", "inline", "at"])
    text.append(f"before: {place}")
    if place == "inline":
        s[before].compute_inline()
    elif place == "at":
        s[before].compute_at(s[after], after.op.axis[0])
        s[c].compute_at(s[after], after.op.axis[0])
    if gpu:
        s[after].bind(after.op.axis[0], te.thread_axis("blockIdx.x"))
        if place == "root":
            s[before].bind(before.op.axis[0], te.thread_axis("blockIdx.x"))
    x, y = numbers((n, q), dtype, rng), numbers((q, m), dtype, rng)
    z = x.astype("float64") + 1
    first = np.where(np.arange(n) % 3 == 0, z[:, 0], y[0, 0])
    want = np.where(z > 0, z, 0) @ y.astype("float64") - first[:, None]
    return s, [a, b, after], [x, y, poisoned((n, m), dtype)], want, ", ".join(text)


def test_random_schedules_as_python(seeds):
    for seed in seeds(DRAWS):
        rng = np.random.default_rng(seed)
        s, args, arrays, want, text = program(rng, False)
        print(f"seed {seed}: {text}")
        again = te.hybrid.build(s, args[:2], args[2])(*arrays[:2])
        np.testing.assert_allclose(again, want, rtol=2e-4, atol=2e-4)


@pytest.mark.filterwarnings("ignore")
def test_random_schedules_on_a_gpu(seeds):
    for seed in seeds(DRAWS // 4):
        rng = np.random.default_rng(seed)
        s, args, arrays, want, text = program(rng, True)
        print(f"seed {seed}: {text}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kernel = whet.build(s, args, "cuda -arch=sm_80")
        got = on_device(kernel, arrays)[-1]
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4)
