"""Hybrid scripts in the threads of a GPU: bound by the script, by the schedule, by themselves."""

from __future__ import annotations

import numpy as np
import pytest
from emulated import TARGET, agree
from hybrid_check import numbers, run_compiled

import whet
from whet import te
from whet.compiler.te.primitives.auto_bind import AutoBindWarning

script = te.hybrid.script


@pytest.fixture
def rng(seeds):
    return np.random.default_rng(seeds(1)[0])


def compare(s, args, arrays, outs, wanted, **close):
    """The numbers in the emulator and on a CPU."""
    agree(s, [*args, *outs], arrays, [(w.shape, t.dtype) for t, w in zip(outs, wanted)], wanted,
          orders=("forwards", 5), **close)  # fmt: skip
    for got, want in zip(run_compiled(s, args, arrays, outs), wanted):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_threads_of_the_script(rng):
    @script
    def add(a, b):
        c = output_tensor((100,), "float32")
        for tx in bind("threadIdx.x", 100):
            c[tx] = a[tx] + b[tx]
        return c

    a, b = te.placeholder((100,), name="a"), te.placeholder((100,), name="b")
    c = add(a, b)
    assert c.op.axis == ()
    x, y = numbers(100, "float32", rng), numbers(100, "float32", rng)
    np.testing.assert_allclose(add(x, y), x + y)
    compare(te.create_schedule(c.op), [a, b], [x, y], [c], [x + y])


def test_threads_of_the_schedule(rng):
    @script
    def add(a, b):
        c = output_tensor((100,), "float32")
        for i in range(100):
            c[i] = a[i] + b[i]
        return c

    a, b = te.placeholder((100,), name="a"), te.placeholder((100,), name="b")
    c = add(a, b)
    x, y = numbers(100, "float32", rng), numbers(100, "float32", rng)
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], 32)
    s[c].bind(outer, te.thread_axis("blockIdx.x"))
    s[c].bind(inner, te.thread_axis("threadIdx.x"))
    compare(s, [a, b], [x, y], [c], [x + y])
    with pytest.warns(AutoBindWarning):
        compare(te.create_schedule(c.op), [a, b], [x, y], [c], [x + y])


def test_memory_of_a_thread_and_of_a_block(rng):
    @script
    def sums(a):
        c = output_tensor((a.shape[0],), a.dtype)
        total = allocate((1,), a.dtype, "local")
        for i in bind("threadIdx.x", a.shape[0]):
            total[0] = 0.0
            for k in const_range(a.shape[1]):
                total[0] += a[i, k]
            c[i] = total[0]
        return c

    @script
    def shared_add(a, b):
        c = output_tensor((64,), "float32")
        shared = allocate((64,), "float32", "shared")
        for i in bind("threadIdx.x", 64):
            shared[i] = a[i]
        local = allocate((64,), "float32", "local")
        for i in bind("threadIdx.x", 64):
            local[i] = b[i]
        for i in bind("threadIdx.x", 64):
            c[i] = shared[63 - i] + local[i]
        return c

    a = te.placeholder((8, 4), name="a")
    c = sums(a)
    x = numbers((8, 4), "float32", rng)
    compare(te.create_schedule(c.op), [a], [x], [c], [x.sum(1)])
    a, b = te.placeholder((64,), name="a"), te.placeholder((64,), name="b")
    c = shared_add(a, b)
    x, y = numbers(64, "float32", rng), numbers(64, "float32", rng)
    compare(te.create_schedule(c.op), [a, b], [x, y], [c], [x[::-1] + y])


def test_variables_in_threads(rng):
    @script
    def means(a):
        c = output_tensor((a.shape[0],), a.dtype)
        for i in bind("blockIdx.x", a.shape[0]):
            t = 0.0
            for k in range(a.shape[1]):
                t += a[i, k]
            c[i] = t / a.shape[1]
        return c

    a = te.placeholder((5, 9), name="a")
    c = means(a)
    x = numbers((5, 9), "float32", rng)
    compare(te.create_schedule(c.op), [a], [x], [c], [x.mean(1)])


def test_as_many_threads_as_the_target_has(rng):
    @script
    def double(a):
        b = output_tensor(a.shape, a.dtype)
        n = a.shape[0]
        m = max_num_threads(True)
        for i in bind("threadIdx.x", m):
            for j in bind("blockIdx.x", ceil_div(n, m)):
                if j * m + i < n:
                    b[j * m + i] = a[j * m + i] + a[j * m + i]
        return b

    a = te.placeholder((1500,), name="a")
    x = numbers(1500, "float32", rng)
    with whet.Target(f"{TARGET} -max_num_threads=64"):
        c = double(a)
        np.testing.assert_allclose(double(x), x + x)
    agree(te.create_schedule(c.op), [a, c], [x], [((1500,), "float32")], [x + x])


def test_zeros_that_a_bound_script_begins_with(rng):
    @script
    def add_up(a):
        c = output_tensor((a.shape[1],), a.dtype)
        for k in range(a.shape[0]):
            for j in range(a.shape[1]):
                c[j] += a[k, j]
        return c

    a = te.placeholder((6, 40), name="a")
    c = add_up(a)
    x = numbers((6, 40), "float32", rng)
    s = te.create_schedule(c.op)
    k, j = c.op.axis
    s[c].reorder(j, k)
    outer, inner = s[c].split(j, 16)
    s[c].bind(outer, te.thread_axis("blockIdx.x"))
    s[c].bind(inner, te.thread_axis("threadIdx.x"))
    compare(s, [a], [x], [c], [x.sum(0)])
