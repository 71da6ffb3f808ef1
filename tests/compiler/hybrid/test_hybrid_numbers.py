"""Hybrid scripts against numpy: every construct, compiled, as Python, and printed."""

from __future__ import annotations

import numpy as np
import pytest
from hybrid_check import check

from whet import te, tir

SIZES = (4, 3)
WEIGHTS = [[2, 5], [3, 7]]
script = te.hybrid.script


@pytest.fixture
def rng(seeds):
    return np.random.default_rng(seeds(1)[0])


def placeholder(*shape, dtype="float32", name="a"):
    return te.placeholder(shape, dtype, name)


@script
def outer(n, m, a, b):
    """A docstring is no statement."""
    c = output_tensor((n, m), a.dtype)
    for i in range(n):
        for j in range(m):
            assert i < n and j < m, "an index is out of range"
            c[i, j] = a[i] * b[j]
    return c


def test_symbolic_sizes_and_an_assertion(rng):
    n, m = te.size_var("n"), te.size_var("m")
    a, b = placeholder(n), placeholder(m, name="b")
    (_, _, x, y), (z,) = check(outer, [n, m, a, b], {n: 9, m: 11}, rng)
    np.testing.assert_allclose(z, np.outer(x, y))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_variables_of_a_loop(rng, dtype):
    @script
    def mean_of_three(n, a):
        three = 3.0
        b = output_tensor((a.shape[0] - 2,), a.dtype)
        for i in range(a.shape[0] - 2):
            total = 0.0
            for j in range(3):
                total += a[i + j]
            total = total / three
            b[i] = total
        return b

    n = te.size_var("n")
    (_, x), (y,) = check(mean_of_three, [n, placeholder(n, dtype=dtype)], {n: 13}, rng)
    np.testing.assert_allclose(y, (x[:-2] + x[1:-1] + x[2:]) / 3, rtol=1e-5, atol=1e-6)


def test_variables_get_the_widest_type_that_is_assigned(rng):
    @script
    def total(a):
        c = output_tensor((1,), "float64")
        t = 0
        for i in range(a.shape[0]):
            t += a[i] * 0.1
        c[0] = t
        return c

    a = placeholder(1000, dtype="float64")
    (x,), (y,) = check(total, [a], rng=rng, tol=1e-12)
    np.testing.assert_allclose(y[0], (x * 0.1).sum(), rtol=1e-12)


def test_kinds_of_loops(rng):
    @script
    def kinds(a, b):
        c = output_tensor((16,), "int32")
        d = output_tensor((16,), "int32")
        e = output_tensor((16,), "int32")
        f = output_tensor((16,), "int32")
        for i in parallel(16):
            c[i] = a[i] + b[i]
        for j in vectorize(16):
            d[j] = a[j] - b[j]
        for k in unroll(16):
            e[k] = a[k] * b[k]
        for k in serial(1, 16, 3):
            f[k] = a[k]
        for k in range(15, -1, -1):
            f[k] += b[k]
        return c, d, e, f

    a, b = placeholder(16, dtype="int32"), placeholder(16, dtype="int32", name="b")
    (x, y), (*_, f) = check(kinds, [a, b], rng=rng)
    want = y.copy()
    want[1::3] += x[1::3]
    np.testing.assert_array_equal(f, want)


def test_conditions(rng):
    @script
    def choose(a):
        b = output_tensor((12,), "int32")
        c = output_tensor((12,), "int32")
        for i in range(12):
            if 2 <= i < 5:
                b[i] = a[i]
            elif i % 2 == 0 and not a[i] > 3 or i == 11:
                b[i] = -a[i]
            else:
                b[i] = 100
        for i in range(12):
            c[i] = a[i - 1] if i > 0 else a[11]
            if likely(i < 7):
                c[i] += 1
            else:
                c[i] -= 1
        return b, c

    a = placeholder(12, dtype="int32")
    (x,), (_, c) = check(choose, [a], rng=rng)
    np.testing.assert_array_equal(c, np.roll(x, 1) + np.where(np.arange(12) < 7, 1, -1))


def test_a_variable_that_both_branches_assign(rng):
    @script
    def clipped(a):
        c = output_tensor(a.shape, a.dtype)
        for i in range(a.shape[0]):
            if a[i] > 0.5:
                x = 0.5
            else:
                x = a[i]
            c[i] = x * 2.0
        return c

    (x,), (y,) = check(clipped, [placeholder(21)], rng=rng)
    np.testing.assert_allclose(y, np.minimum(x, 0.5) * 2, rtol=1e-6)


def test_mathematics(rng):
    @script
    def functions(a, k):
        b = output_tensor((14,), "float32")
        c = output_tensor((4,), "int32")
        b[0] = sqrt(a[0])
        b[1] = log(a[1])
        b[2] = exp(a[2])
        b[3] = sigmoid(a[3])
        b[4] = power(a[4], a[5])
        b[5] = tanh(a[5])
        b[6] = min(a[4], a[5])
        b[7] = max(a[5], a[6], a[7])
        b[8] = round(a[6] * 10.0)
        b[9] = rsqrt(a[7])
        b[10] = floor(a[0]) + ceil(a[1]) + trunc(a[2] * -3.0)
        b[11] = abs(-a[1]) ** 2
        b[12] = float32(int32(a[3] * 10.0)) + cast(k[0], "float32")
        b[13] = sin(a[0]) + cos(a[0]) + erf(a[1])
        c[0] = popcount(k[0])
        c[1] = (k[1] << 2) ^ (k[2] | 5) & ~k[3]
        c[2] = k[0] // 3 + k[1] % 4
        c[3] = ceil_div(k[2] + 20, 7)
        return b, c

    a, k = placeholder(8), placeholder(4, dtype="int32", name="k")

    class Positive:
        def uniform(self, low, high, shape):
            return rng.uniform(0.5, 2.0, shape)

        def integers(self, low, high, shape):
            return rng.integers(low, high, shape)

    check(functions, [a, k], rng=Positive())


def test_bounds_that_begin_elsewhere(rng):
    @script
    def blur(a):
        b = output_tensor((30, 29), "float32")
        for i in range(2, 32):
            for j in range(2, 31):
                s = 0.0
                for di in range(3):
                    for dj in range(3):
                        s += a[i - di, j - dj]
                b[i - 2, j - 2] = s / 9.0
        return b

    @script
    def triangle(a, b):
        c = output_tensor((10, 10), dtype="float32")
        for i in range(10):
            for j in range(i, 10):
                c[i, j] = a[i] * b[j]
            for j in range(i):
                c[i, j] = 0.0
        return c

    (x,), (y,) = check(blur, [placeholder(32, 31)], rng=rng)
    want = sum(x[i : i + 30, j : j + 29] for i in range(3) for j in range(3)) / 9
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)
    (x, y), (z,) = check(triangle, [placeholder(10), placeholder(10, name="b")], rng=rng)
    np.testing.assert_allclose(z, np.triu(np.outer(x, y)))


def test_allocations(rng):
    @script
    def sums(a):
        b = output_tensor((6, 7), "float32")
        for i in range(6):
            rows = allocate((3, 9), "float32", "local")
            for j in range(3):
                for k in range(9):
                    rows[j, k] = a[i + j, k]
            for j in range(7):
                b[i, j] = rows[0, j] + rows[1, j + 1] + rows[2, j + 2]
        return b

    (x,), (y,) = check(sums, [placeholder(8, 9)], rng=rng)
    np.testing.assert_allclose(y, x[:6, :7] + x[1:7, 1:8] + x[2:8, 2:9], rtol=1e-5)


def test_arrays_begin_with_zeros_where_that_is_seen(rng):
    @script
    def counts(a):
        c = output_tensor((8,), "int32")
        for i in range(a.shape[0]):
            c[a[i]] += 1
        return c

    @script
    def before(a):
        t = allocate((a.shape[0] + 1,), a.dtype)
        c = output_tensor(a.shape, a.dtype)
        for i in range(a.shape[0]):
            t[i + 1] = t[i] + a[i]
        for i in range(a.shape[0]):
            c[i] = t[i]
        return c

    class Small:
        def integers(self, low, high, shape):
            return rng.integers(0, 8, shape)

    (x,), (y,) = check(counts, [placeholder(50, dtype="int32")], rng=Small())
    np.testing.assert_array_equal(y, np.bincount(x, minlength=8))
    (x,), (y,) = check(before, [placeholder(17)], rng=rng)
    np.testing.assert_allclose(y, np.cumsum(x) - x, rtol=1e-4, atol=1e-5)


def test_lists_of_numbers_and_of_tensors(rng):
    @script
    def mix(inputs, w):
        c = output_tensor(inputs[0].shape, inputs[0].dtype)
        for i in range(c.shape[0]):
            for j in const_range(len(inputs)):
                if j < len(w):
                    c[i] += inputs[j][i] * w[j]
                else:
                    c[i] += inputs[j][i]
        return c

    tensors = [placeholder(10, name=f"t{k}") for k in range(5)]
    out = mix(tensors, [3, 4])
    assert list(out.op.inputs) == tensors
    (x, _), (y,) = check(mix, [tensors, [3, 4]], rng=rng)
    np.testing.assert_allclose(y, 3 * x[0] + 4 * x[1] + x[2] + x[3] + x[4], rtol=1e-5, atol=1e-5)


def test_names_from_outside(rng):
    offset = 3

    @script
    def weighted(a):
        c = output_tensor((SIZES[0],), "int32")
        for i in range(SIZES[0]):
            c[i] = a[i] * WEIGHTS[1][0] + offset
        return c

    (x,), (y,) = check(weighted, [placeholder(4, dtype="int32")], rng=rng)
    np.testing.assert_array_equal(y, x * 3 + 3)


def test_constant_scalars(rng):
    @script
    def plus(a, b):
        c = output_tensor(a.shape, a.dtype)
        for i in range(a.shape[0]):
            c[i] = a[i] + b
        return c

    a = placeholder(11, dtype="int32")
    c = plus(a, tir.const(5, "int32"))
    s = te.create_schedule(c.op)
    from hybrid_check import numbers, run_compiled

    x = numbers(11, "int32", rng)
    np.testing.assert_array_equal(run_compiled(s, [a], [x], [c])[0], plus(x, 5))
    k = te.var("k", "float32")
    a = placeholder(11)
    c = plus(a, k)
    x = numbers(11, "float32", rng)
    got = run_compiled(te.create_schedule(c.op), [a, k], [x, 2.5], [c])[0]
    np.testing.assert_allclose(got, x + 2.5)


def test_scripts_that_call_scripts_and_store_to_inputs(rng):
    @script
    def scaled(a, by):
        c = output_tensor(a.shape, a.dtype)
        for i in range(a.shape[0]):
            c[i] = a[i] * by
        return c

    @script
    def all_of_it(a, b):
        for i in range(len(a)):
            b[i] = b[i] + 1.0
        t = 2.0
        t += a[0]
        d = scaled(a, t)
        e = scaled(b, 3.0)
        c = outer(10, 10, d, e)
        out = output_tensor(c.shape, c.dtype)
        for i in range(10):
            for j in range(10):
                out[i, j] = c[i, j] + i * j
        return out

    a, b = placeholder(10), placeholder(10, name="b")
    (x, y), (z,) = check(all_of_it, [a, b], rng=rng, tol=1e-4)
    want = np.outer(x * (2 + x[0]), (y + 1) * 3) + np.outer(np.arange(10), np.arange(10))
    np.testing.assert_allclose(z, want, rtol=1e-4, atol=1e-4)


def test_values_are_exchanged_as_python_does(rng):
    @script
    def fibonacci(a):
        c = output_tensor(a.shape, a.dtype)
        x = a[0]
        y = a[1]
        for i in range(a.shape[0]):
            c[i] = x
            x, y = y, (x + y) % 1000
        return c

    check(fibonacci, [placeholder(12, dtype="int32")], rng=rng)
