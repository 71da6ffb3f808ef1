"""te.hybrid.build: any schedule's loops as a script that is stored, called and read again."""

from __future__ import annotations

import numpy as np
import pytest
from hybrid_check import numbers, run_compiled

import whet
from whet import te

script = te.hybrid.script


@pytest.fixture
def rng(seeds):
    return np.random.default_rng(seeds(1)[0])


@script
def rows(ptr, idx, val, x):
    y = output_tensor((ptr.shape[0] - 1,), "float32")
    for r in range(ptr.shape[0] - 1):
        t = 0.0
        for k in range(ptr[r], ptr[r + 1]):
            t += val[k] * x[idx[k]]
        y[r] = t
    return y


@script
def bubble_sort(a):
    c = output_tensor(a.shape, a.dtype)
    for i in range(a.shape[0]):
        c[i] = a[i]
    for i in range(a.shape[0]):
        for j in range(a.shape[0] - 1 - i):
            if c[j] > c[j + 1]:
                c[j], c[j + 1] = c[j + 1], c[j]
    return c


@script
def largest(a):
    c = output_tensor((a.shape[0],), a.dtype)
    at = output_tensor((a.shape[0],), "int32")
    for i in parallel(a.shape[0]):
        best = a[i, 0]
        place = 0
        for j in range(1, a.shape[1]):
            if a[i, j] > best:
                best = a[i, j]
                place = j
        c[i] = best
        at[i] = place
    return c, at


def test_bounds_that_are_read(rng):
    m, z = te.size_var("m"), te.size_var("z")
    ptr, idx = te.placeholder((m,), "int32", "ptr"), te.placeholder((z,), "int32", "idx")
    val, x = te.placeholder((z,), name="val"), te.placeholder((8,), name="x")
    y = rows(ptr, idx, val, x)
    s = te.create_schedule(y.op)
    s[y].parallel(y.op.axis[0])
    ends = np.sort(rng.integers(0, 9, 6)).astype("int32")
    ends[0] = 0
    ends[-1] += 1
    count = int(ends[-1])
    arrays = [ends, rng.integers(0, 8, count).astype("int32"), numbers(count, "float32", rng)]
    arrays.append(numbers(8, "float32", rng))
    want = [
        sum(arrays[2][k] * arrays[3][arrays[1][k]] for k in range(ends[r], ends[r + 1]))
        for r in range(5)
    ]
    got = run_compiled(s, [ptr, idx, val, x], arrays, [y], {m: 6, z: count})[0]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    again = te.hybrid.build(s, [ptr, idx, val, x], y)
    np.testing.assert_allclose(again(*arrays), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
def test_values_that_are_exchanged_and_compared(rng, dtype):
    a = te.placeholder((23,), dtype, "a")
    c = bubble_sort(a)
    x = numbers(23, dtype, rng)
    s = te.create_schedule(c.op)
    for got in (run_compiled(s, [a], [x], [c])[0], bubble_sort(x), te.hybrid.build(s, [a], c)(x)):
        np.testing.assert_array_equal(got, np.sort(x))
    b = te.placeholder((7, 9), dtype, "b")
    best, at = largest(b)
    x = rng.permutation(63).reshape(7, 9).astype(dtype)
    got = run_compiled(te.create_schedule(best.op), [b], [x], [best, at])
    np.testing.assert_array_equal(got[0], x.max(1))
    np.testing.assert_array_equal(got[1], x.argmax(1))


def test_a_reduction_is_printed_stored_and_read_again(rng, tmp_path):
    a = te.placeholder((7, 9), name="a")
    k = te.reduce_axis((0, 9), "k")
    b = te.compute((7,), lambda i: te.sum(a[i, k], axis=k), name="b")
    s = te.create_schedule(b.op)
    s[b].split(k, 4)
    s[b].parallel(b.op.axis[0])
    module = te.hybrid.build(s, [a], [b], name="sums")
    assert module.name == "sums"
    assert module.get_source() == (
        "from whet import te\n\n\n@te.hybrid.script\ndef sums(a):\n"
        "    b = output_tensor((7,), 'float32')\n"
        "    for i in parallel(7):\n"
        "        b[i] = cast(0.0, 'float32')\n"
        "        for k_outer in range(3):\n"
        "            for k_inner in range(min(4, ((k_outer * -4) + 9))):\n"
        "                b[i] = (b[i] + a[i, ((k_outer * 4) + k_inner)])\n"
        "    return b\n"
    )
    module.save(str(tmp_path / "sums"))
    loaded = te.hybrid.HybridModule()
    loaded.load(str(tmp_path / "sums.py"))
    x = numbers((7, 9), "float32", rng)
    np.testing.assert_allclose(loaded(x), x.sum(1), rtol=1e-5, atol=1e-5)
    c = loaded(a)
    got = run_compiled(te.create_schedule(c.op), [a], [x], [c])[0]
    np.testing.assert_allclose(got, x.sum(1), rtol=1e-5, atol=1e-5)


def test_a_module_is_a_script_of_a_schedule_with_stages(rng):
    a = te.placeholder((12, 5), name="a")
    t = te.compute((12, 5), lambda i, j: te.exp(a[i, j]), name="t")
    u = te.compute((12, 5), lambda i, j: te.max(t[i, j], t[11 - i, j]), name="u")
    s = te.create_schedule(u.op)
    outer, inner = s[u].split(u.op.axis[0], 5)
    s[t].compute_at(s[u], outer)
    s[u].vectorize(u.op.axis[1])
    s[u].unroll(inner)
    x = numbers((12, 5), "float32", rng)
    got = te.hybrid.build(s, [a], [u])(x)
    np.testing.assert_allclose(got, np.exp(np.maximum(x, x[::-1])), rtol=1e-5)


def test_an_index_that_changes_is_another_element(rng):
    @script
    def moved(a):
        c = output_tensor((8,), a.dtype)
        x = 0
        c[x] = a[0]
        x += 3
        c[7] = c[x] + 1.0
        return c

    a = te.placeholder((8,), name="a")
    c = moved(a)
    f = whet.build(te.create_schedule(c.op), [a, c], "llvm -num_threads=2")
    x, y = numbers((8,), "float32", rng), np.full(8, np.nan, "float32")
    f(x, y)
    assert (y[0], y[7]) == (x[0], 1)
