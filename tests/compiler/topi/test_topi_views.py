"""Windows, queues, sparse tensors, transforms and losses beside numpy."""

import numpy as np
import pytest
from topi_check import results, topi

from whet.compiler import te
from whet.compiler.errors import ArgumentError


def equal(made, wanted, close=0.0):
    wanted = np.asarray(wanted)
    assert made.shape == wanted.shape
    np.testing.assert_allclose(made, wanted, rtol=close, atol=close * (1 + np.abs(wanted).max()))


@pytest.fixture
def rng(seeds):
    (seed,) = seeds(1)
    return np.random.default_rng(seed)


def test_indices_and_windows(rng):
    x = rng.standard_normal((5, 7, 3))
    i, j = rng.integers(-5, 5, (4, 1)), rng.integers(-7, 7, 6)
    equal(results(lambda a, p, q: topi.adv_index(a, [p, q]), x, i, j), x[i, j])
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 2), (1, 2))[:, ::2, ::1]
    equal(results(lambda a: topi.sliding_window(a, 1, (3, 2), (2, 1)), x), windows)
    for axis in (0, 2):
        new = rng.standard_normal([2 if k == axis else d for k, d in enumerate(x.shape)])
        wanted = np.concatenate([x, new], axis).take(range(2, 2 + x.shape[axis]), axis)
        made = results(lambda d, b, k=axis: topi.nn.fifo_buffer(d, b, k), new, x)
        equal(made, wanted)


def test_shapes_of_others(rng):
    x, like = rng.standard_normal((4, 3)), np.zeros((4, 2, 3, 5))
    wanted = np.broadcast_to(x[:, None, :, None], like.shape)
    equal(results(lambda a, b: topi.expand_like(a, b, (1, -1)), x, like), wanted)
    y = rng.standard_normal((2, 4, 3))
    equal(results(lambda a: topi.collapse_sum(a, (4, 1)), y), y.sum((0, 2))[:, None], 1e-12)
    equal(results(lambda a: topi.collapse_sum(a, (2, 4, 3)), y), y)
    equal(results(lambda a: topi.shape(a, "int64"), y), [2, 4, 3])
    equal(results(topi.ndarray_size, y), 24)


def test_what_is_found(rng):
    x = rng.integers(0, 2, (4, 5)).astype("float32")
    wanted = np.argwhere(x)
    rows = len(wanted)
    equal(results(lambda a: topi.argwhere((rows + 2, 2), a), x)[:rows], wanted)
    equal(results(lambda a: topi.argwhere((rows - 1, 2), a), x), wanted[: rows - 1])
    x = rng.integers(0, 6, 23)
    values, first, inverse, counts = np.unique(x, True, True, True)
    for ascending in (True, False):
        order = np.arange(len(values)) if ascending else np.argsort(first)
        made = results(lambda a, s=ascending: topi.unique(a, s, True), x)
        many = len(values)
        assert made[3] == [many]
        assert (made[0][many:] == 0).all() and (made[1][many:] == 23).all()
        equal(made[0][:many], values[order])
        equal(made[1][:many], first[order])
        equal(made[2], np.argsort(order)[inverse])
        equal(made[4][:many], counts[order])


def test_rows_of_which_a_part_counts(rng):
    x, many = rng.integers(0, 5, (3, 9)).astype("float32"), np.array([4, 0, 9], "int32")
    for ascending in (True, False):
        made = results(lambda a, n, s=ascending: topi.argsort(a, n, 1, s, "int32"), x, many)
        for row, n, got in zip(x, many, made):
            keys = row[:n] if ascending else -row[:n]
            equal(got, [*np.argsort(keys, kind="stable"), *range(n, 9)])


def test_sparse_tensors(rng):
    at = np.array([[0, 1], [2, 3], [2, 0], [9, 0]], "int32")
    values = rng.standard_normal(4)
    wanted = np.full((3, 4), 0.5)
    wanted[tuple(at[:3].T)] = values[:3]
    made = results(lambda i, v: topi.sparse_to_dense(i, (3, 4), v, 0.5), at, values)
    equal(made, wanted)
    at = np.array([1, 4], "int64")
    equal(
        results(lambda i, v: topi.sparse_to_dense(i, (6,), v), at, np.array(3.0)),
        [0, 3, 0, 0, 3, 0],
    )
    flat = np.sort(rng.choice(24, 5, False))
    at = np.stack(np.unravel_index(flat, (2, 3, 4)), 1)
    old, new = np.array([2, 3, 4]), np.array([6, -1])
    made = results(lambda *t: topi.sparse_reshape(*t, (5, 2), (2,)), at, old, new)
    equal(made[0], np.stack(np.unravel_index(flat, (6, 4)), 1))
    equal(made[1], [6, 4])
    at, values = np.array([[1, 2], [1, 3], [4, 0]]), np.array([5, 6, 7])
    made = results(
        lambda *t: topi.sparse_fill_empty_rows(*t, (7, 2), (7,), (6,)),
        at, values, np.array([6, 4]), np.array([-3]),
    )  # fmt: skip
    equal(made[0], [[0, 0], [1, 2], [1, 3], [2, 0], [3, 0], [4, 0], [5, 0]])
    equal(made[1], [-3, 5, 6, -3, -3, 7, -3])
    equal(made[2], [1, 0, 1, 1, 0, 1])


def test_sparse_matrices(rng):
    w = rng.standard_normal((4, 5)) * (rng.random((4, 5)) < 0.5)
    rows, columns = np.nonzero(w)
    begins = np.searchsorted(rows, range(5)).astype("int32")
    csr = (w[rows, columns], columns.astype("int32"), begins)
    x, y, b = rng.standard_normal((4, 5)), rng.standard_normal((5, 3)), rng.standard_normal(4)
    equal(results(topi.nn.sparse_add, x, *csr), x + w, 1e-12)
    equal(results(topi.sparse.csrmm, *csr, y, b), w @ y + b[:, None], 1e-12)
    equal(results(topi.sparse.csrmv, *csr, y[:, :1].copy()), w @ y[:, :1], 1e-12)
    equal(results(topi.sparse.dense, *csr, x, b), x @ w.T + b, 1e-12)


def test_fourier(rng):
    re, im = rng.standard_normal((2, 3, 11))
    for inverse, wanted in ((False, np.fft.fft(re + 1j * im)), (True, np.fft.ifft(re + 1j * im))):
        made = results(lambda a, b, i=inverse: topi.dft(a, b, i), re, im)
        equal(made[0] + 1j * made[1], wanted, 1e-12)
    x, w = rng.standard_normal((2, 20)), rng.standard_normal(7)
    pieces = np.stack([x[:, t : t + 7] * w for t in range(0, 14, 3)], 1)
    wanted = np.moveaxis(np.fft.fft(pieces)[..., :4], 1, 2) / np.sqrt(7)
    made = results(lambda a, b: topi.stft(a, 7, 3, 7, b, True, True, (2, 4, 5, 2)), x, w)
    equal(made[..., 0] + 1j * made[..., 1], wanted, 1e-12)


def test_fixed_point(rng):
    x = rng.integers(-(2**20), 2**20, (3, 4)).astype("int32")
    for multiplier, shift in ((1 << 30, -3), (1717986918, 2), (-5, 0)):
        wide = (x.astype("int64") << max(shift, 0)) * multiplier
        right = 31 + max(-shift, 0)
        wanted = (wide + (1 << (right - 1))) >> right
        made = results(lambda a, m=multiplier, s=shift: topi.fixed_point_multiply(a, m, s), x)
        equal(made, wanted)
    by, left = rng.integers(1 << 29, 1 << 30, 4), np.array([0, 1, 3, 2], "int32")
    right = np.array([1, 0, 2, 4], "int32")
    behind = 31 + right.astype("int64")
    wanted = ((x.astype("int64") << left) * by + (1 << (behind - 1))) >> behind
    made = results(
        lambda *t: topi.fixed_point_multiply_per_axis(*t, 1, 1, (1,)),
        x, by.astype("int32"), left, right,
    )  # fmt: skip
    equal(made, wanted)
    many = np.arange(1, 70, dtype="int32")
    equal(results(topi.ceil_log2, many), np.ceil(np.log2(many)))
    y = rng.standard_normal(9).astype("float32")
    equal(results(lambda a: topi.reinterpret(a, "int32"), y), y.view("int32"))


@pytest.mark.parametrize("how", ["none", "sum", "mean"])
def test_losses(how, rng):
    p, w = np.log(rng.random((2, 4, 3))), rng.random(4)
    t = rng.integers(0, 4, (2, 3))
    t[0, 0], t[1, 1] = -100, 2
    known = t >= 0
    each = -np.take_along_axis(p, t.clip(0)[:, None], 1)[:, 0] * w[t.clip(0)] * known
    total = (w[t.clip(0)] * known).sum()
    wanted = {"none": each, "sum": each.sum(), "mean": each.sum() / total}[how]
    equal(results(lambda *a: topi.nn.nll_loss(*a, how, -100), p, t, w), wanted, 1e-12)


def test_layers(rng):
    a, b, c = (rng.standard_normal(s) for s in ((5, 3), (4, 5), (4,)))
    made = results(lambda *t: topi.nn.matmul(*t, None, True, True), a, b, c)
    equal(made, a.T @ b.T + c, 1e-12)
    x = rng.standard_normal((3, 9)).astype("float32")
    raised = np.exp(x - x.max(1, keepdims=True))
    equal(results(topi.nn.fast_softmax, x), raised / raised.sum(1, keepdims=True), 1e-5)
    y = rng.standard_normal((2, 3, 4, 5))
    scale, shift = y[0, 0, 0], y[1, 0, 0]
    equal(results(topi.nn.scale_shift_nhwc, y, scale, shift), y * scale + shift, 1e-12)
    z = rng.standard_normal((2, 3, 2, 2, 4))
    s = rng.standard_normal((3, 4))
    wanted = z * s[:, None, None] + s[:, None, None]
    equal(results(lambda t, u: topi.nn.scale_shift_nchwc(t, u, u), z, s), wanted, 1e-12)
    v = rng.standard_normal((1, 2, 2, 3, 2))
    made = results(lambda t: topi.nn.upsampling3d(t, 2, 1, 3), v)
    equal(made, v.repeat(2, 2).repeat(3, 4))


@pytest.mark.parametrize("product", [True, False])
def test_correlation(product, rng):
    x, y = rng.standard_normal((2, 1, 3, 7, 8))
    made = results(lambda a, b: topi.nn.correlation_nchw(a, b, 3, 2, 2, 1, 2, product), x, y)
    p, q = (np.pad(t, ((0, 0), (0, 0), (2, 2), (2, 2))) for t in (x, y))
    rows, columns = (-(-(n + 4 - 2 * 3) // 2) for n in (7, 8))
    wanted = np.zeros((1, 25, rows, columns))
    for d, i, j in np.ndindex(25, rows, columns):
        u, v = i * 2 + 2, j * 2 + 2
        one = p[0, :, u : u + 3, v : v + 3]
        u, v = u + d // 5 - 2, v + d % 5 - 2
        two = q[0, :, u : u + 3, v : v + 3]
        wanted[0, d, i, j] = (one * two if product else abs(one - two)).mean()
    equal(made, wanted, 1e-12)


def test_dilation(rng):
    x, w = rng.standard_normal((1, 2, 7, 8)), rng.standard_normal((2, 3, 2))
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (0, 0)))
    wanted = np.full((1, 2, 3, 7), -np.inf)
    for u, v in np.ndindex(3, 2):
        part = padded[:, :, u * 2 : u * 2 + 5 : 2, v : v + 7]
        wanted = np.maximum(wanted, part + w[None, :, u, v, None, None])
    args = ((2, 1), (1, 0), (2, 1))
    equal(results(lambda a, b: topi.image.dilation2d_nchw(a, b, *args), x, w), wanted)
    last = [np.ascontiguousarray(np.moveaxis(t, -3, -1)) for t in (x, w)]
    made = results(lambda a, b: topi.image.dilation2d_nhwc(a, b, *args), *last)
    equal(made, np.moveaxis(wanted, 1, -1))


def test_what_does_not_fit():
    x = te.placeholder((3, 4), name="x")
    i = te.placeholder((3, 4), "int32", name="i")
    v = te.placeholder((4,), "int32", name="v")
    for make, text in (
        (lambda: topi.adv_index(x, [x]), "not integers"),
        (lambda: topi.adv_index(x, []), "0 indices for 2 dimensions"),
        (lambda: topi.sliding_window(x, 0, (4, 2), (1, 1)), "windows lie inside"),
        (lambda: topi.nn.fifo_buffer(x, i, 2), "there is no axis 2"),
        (lambda: topi.collapse_sum(x, (2, 4)), "is not broadcast"),
        (lambda: topi.argwhere((3, 1), x), "1 columns for 2 dimensions"),
        (lambda: topi.unique(x), "give a vector"),
        (lambda: topi.argsort(x, i), "not the 1 other dimensions"),
        (lambda: topi.sparse_to_dense(i, (3, 4), x), "4 indices for 2 dimensions"),
        (lambda: topi.fixed_point_multiply(x, 1, 1), "the numbers are float32"),
        (lambda: topi.dft(x, te.placeholder((4,)), False), "one shape and one type"),
        (lambda: topi.stft(x, 3, 1, 3, v, False, True, (3, 2, 9, 2)), "9 windows take 11"),
        (lambda: topi.nn.nll_loss(x, te.placeholder((3,)), v, "sum", -1), "not integers"),
        (lambda: topi.nn.nll_loss(x, v, v, "max", -1), "a reduction is"),
    ):
        with pytest.raises(ArgumentError, match=text):
            make()


@pytest.mark.parametrize("name", ["random", "nn.pool_grad", "nn.binary_dense", "vision.reorg"])
def test_names_that_are_not_here(name):
    module, _, last = name.rpartition(".")
    with pytest.raises(AttributeError, match=last):
        getattr(getattr(topi, module) if module else topi, last)
