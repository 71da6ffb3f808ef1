"""Layers, pools, products and images, beside numpy in float64."""

import math

import numpy as np
import pytest
from topi_check import results

from whet.compiler import te, topi
from whet.compiler.errors import ArgumentError


def near(made, wanted, tolerance=None):
    wanted = np.asarray(wanted, "float64")
    assert made.shape == wanted.shape
    tolerance = tolerance or (1e-12 if made.dtype == "float64" else 3e-5)
    scale = max(1.0, float(np.abs(wanted).max(initial=0)))
    np.testing.assert_allclose(made.astype("float64"), wanted, rtol=0, atol=tolerance * scale)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.logaddexp(x, 0)


ACTIVATIONS = {
    "softplus": softplus,
    "softsign": lambda x: x / (1 + np.abs(x)),
    "mish": lambda x: x * np.tanh(softplus(x)),
    "hardsigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "hardswish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "celu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "selu": lambda x: (
        1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0)))
    ),
    "swish": lambda x: x * sigmoid(x),
    "thresholded_relu": lambda x: np.where(x > 1, x, 0),
    "shrink": lambda x: np.where(np.abs(x) > 0.5, x, 0),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_activations(dtype):
    x = np.concatenate([np.random.default_rng().standard_normal(29) * 4, [0.0, 40.0, -40.0]])
    names = list(ACTIVATIONS)
    made = results(lambda t: [getattr(topi.nn, n)(t) for n in names], x.astype(dtype))
    for name, one in zip(names, made):
        near(one, ACTIVATIONS[name](x.astype(dtype).astype("float64")), 1e-6)


def pooled(x, window, stride, dilation, before, after, kind, ceil, include):
    """A pool with windows that begin inside, loop by loop."""
    rank = len(window)
    counts = []
    for d, w, s, e, b, a in zip(x.shape[2:], window, stride, dilation, before, after):
        room = d + b + a - e * (w - 1) - 1
        n = (math.ceil(room / s) if ceil else room // s) + 1
        counts.append(n - 1 if ceil and (n - 1) * s >= d + b else n)
    out = np.zeros((*x.shape[:2], *counts))
    for at in np.ndindex(*counts):
        values, many = [], 0
        for k in np.ndindex(*window):
            p = [i * s + j * e - b for i, s, j, e, b in zip(at, stride, k, dilation, before)]
            if all(0 <= p[d] < x.shape[2 + d] for d in range(rank)):
                values.append(x[(slice(None), slice(None), *p)])
            many += include and all(
                -before[d] <= p[d] < x.shape[2 + d] + after[d] for d in range(rank)
            )
        total = np.stack(values)
        value = total.max(0) if kind == "max" else total.sum(0) / (many if include else len(total))
        out[(slice(None), slice(None), *at)] = value
    return out


def test_pools_of_any_rank(seeds):
    for seed in seeds(6):
        rng = np.random.default_rng(seed)
        rank = int(rng.integers(1, 4))
        x = rng.standard_normal((2, 3, *rng.integers(5, 9, rank)))
        window, stride, dilation = (rng.integers(1, n, rank).tolist() for n in (4, 4, 3))
        before, after = ([int(rng.integers(0, (w + 1) // 2)) for w in window] for _ in "ab")
        kind = rng.choice(["max", "avg"])
        ceil, include = bool(rng.integers(2)), bool(rng.integers(2))
        pool = getattr(topi.nn, f"pool{rank}d")
        layout = "NC" + "DHW"[-rank:]
        args = window, stride, dilation, [*before, *after], kind, ceil, layout, include, True
        try:
            made = results(lambda t, p=pool, a=args: p(t, *a), x)
        except ArgumentError as error:
            assert "padding only" in str(error)
            continue
        near(made, pooled(x, window, stride, dilation, before, after, kind, ceil, include))


def test_places_of_maxima():
    x = np.random.default_rng().integers(0, 5, (2, 3, 7, 6)).astype("float32")  # many are equal
    made = results(lambda t: topi.nn.max_pool_places(t, [3, 2], 2, 1, [1, 0, 1, 0]), x)
    for n, c, i, j in np.ndindex(made.shape):
        rows = range(max(2 * i - 1, 0), min(2 * i + 2, 7))
        places = [r * 6 + k for r in rows for k in (2 * j, 2 * j + 1)]
        values = x[n, c].reshape(-1)[places]
        assert made[n, c, i, j] == places[int(values.argmax())]


def test_norms():
    rng = np.random.default_rng()
    x, g, b = rng.standard_normal((2, 6, 5, 3)), rng.standard_normal(6), rng.standard_normal(6)
    each = [v[:, None, None] for v in (g, b)]

    def normal(v, axes):
        v = v - v.mean(axes, keepdims=True)
        return v / np.sqrt((v * v).mean(axes, keepdims=True) + 1e-3)

    made = results(lambda *t: topi.nn.instance_norm(*t, [2, 3], 1e-3), x, g, b)
    near(made, normal(x, (2, 3)) * each[0] + each[1])
    made = results(lambda *t: topi.nn.group_norm(*t, 2, 1, [2, 3], 1e-3), x, g, b)
    parts = normal(x.reshape(2, 2, 3, 5, 3), (2, 3, 4)).reshape(x.shape)
    near(made, parts * each[0] + each[1])
    squares = np.stack(
        [(x[:, max(k - 1, 0) : k + 3] ** 2).sum(1) for k in range(6)], 1
    )  # four around each, one in front
    made = results(lambda t: topi.nn.lrn(t, 4, 1, 0.2, 0.7, 2), x)
    near(made, x / (2 + 0.05 * squares) ** 0.7)
    made = results(lambda t: topi.nn.l2_normalize(t, 1e-9, [1, 3]), x)
    near(made, x / np.sqrt((x * x).sum((1, 3), keepdims=True)))


def test_recurrent_networks():
    rng = np.random.default_rng()
    steps, batch, size, hidden = 4, 3, 5, 7
    x, h, c = (rng.standard_normal(s) for s in ((steps, batch, size), *[(batch, hidden)] * 2))

    def weights(gates):
        shapes = (gates * hidden, size), (gates * hidden, hidden), *[(gates * hidden,)] * 2
        return [rng.standard_normal(s) / 2 for s in shapes]

    w, r, bw, br = weights(1)
    state, wanted = h, []
    for t in reversed(range(steps)):
        state = np.tanh(x[t] @ w.T + bw + state @ r.T + br)
        wanted.insert(0, state)
    near(results(lambda *t: topi.nn.rnn(*t, reverse=True), x, w, r, bw, br, h), wanted)

    w, r, bw, br = weights(4)
    state, cell, wanted = h, c, []
    for t in range(steps):
        i, f, g, o = np.split(x[t] @ w.T + bw + state @ r.T + br, 4, 1)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        state = sigmoid(o) * np.tanh(cell)
        wanted.append(state)
    made = results(lambda *t: topi.nn.lstm(*t), x, w, r, bw, br, h, c)
    near(made[0], wanted)
    near(made[1][-1], cell)

    for before in (True, False):
        w, r, bw, br = weights(3)
        state, wanted = h, []
        for t in range(steps):
            gx, gh = x[t] @ w.T + bw, state @ r.T + br
            reset, z = (sigmoid(gx[:, k] + gh[:, k]) for k in (slice(0, 7), slice(7, 14)))
            part = reset * gh[:, 14:] if before else (reset * state) @ r[14:].T + br[14:]
            state = z * state + (1 - z) * np.tanh(gx[:, 14:] + part)
            wanted.append(state)
        made = results(
            lambda *t, k=before: topi.nn.gru(*t, linear_before_reset=k), x, w, r, bw, br, h
        )
        near(made, wanted)


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("ij,jk->ik", [(3, 5), (5, 4)]),
        ("ij,jk", [(3, 5), (5, 4)]),
        ("bij,bkj->bik", [(2, 3, 5), (2, 4, 5)]),
        ("...ij,...jk->...ik", [(2, 1, 3, 5), (7, 5, 4)]),
        ("ii->i", [(4, 4)]),
        ("ii", [(4, 4)]),
        ("i,i", [(6,), (6,)]),
        ("i,j,k->kji", [(2,), (3,), (4,)]),
        ("ijk->kj", [(2, 3, 4)]),
    ],
)
def test_einsum(text, shapes):
    rng = np.random.default_rng()
    arrays = [rng.standard_normal(s) for s in shapes]
    near(results(lambda *t: topi.einsum(text, *t), *arrays), np.einsum(text, *arrays))


def test_products():
    rng = np.random.default_rng()
    a, b = rng.standard_normal((3, 4, 5)), rng.standard_normal((5, 4, 2))
    made = results(lambda *t: topi.tensordot(*t, ((1, 2), (1, 0))), a, b)
    near(made, np.tensordot(a, b, ((1, 2), (1, 0))))
    near(results(lambda *t: topi.tensordot(*t, 1), a, b), np.tensordot(a, b, 1))
    for left, right in (((4, 3, 5), (5, 2)), ((5,), (2, 5, 3)), ((2, 1, 3, 5), (4, 5, 6))):
        a, b = rng.standard_normal(left), rng.standard_normal(right)
        near(results(topi.matmul, a, b), a @ b)
    w = np.where(rng.random((6, 5)) < 0.6, 0, rng.standard_normal((6, 5)))
    x = rng.standard_normal((3, 5))
    rows, columns = np.nonzero(w)
    begins = np.searchsorted(rows, np.arange(7)).astype("int32")
    made = results(topi.nn.sparse_dense, x, w[rows, columns], columns.astype("int32"), begins)
    near(made, x @ w.T)
    m = rng.standard_normal((2, 3, 5, 5))
    m[0, 0, 2] = m[0, 0, 1]
    near(results(topi.det, m), np.linalg.det(m))


def test_convolutions_of_other_layouts():
    rng = np.random.default_rng()
    x, w = rng.standard_normal((2, 4, 6, 5)), rng.standard_normal((8, 4, 3, 2))
    plain = results(lambda *t: topi.nn.conv2d_nchw(*t, 2, 1), x, w)
    made = results(
        lambda *t: topi.nn.conv2d_hwcn(*t, 2, 1),
        x.transpose(2, 3, 1, 0).copy(), w.transpose(2, 3, 1, 0).copy(),
    )  # fmt: skip
    near(made.transpose(3, 2, 0, 1), plain)
    blocks = x.reshape(2, 2, 2, 6, 5).transpose(0, 1, 3, 4, 2).copy()
    weights = w.reshape(2, 4, 2, 2, 3, 2).transpose(0, 2, 4, 5, 3, 1).copy()
    made = results(lambda *t: topi.nn.conv2d_NCHWc(*t, 2, 1), blocks, weights)
    near(made.transpose(0, 1, 4, 2, 3).reshape(plain.shape), plain)
    x, w = rng.standard_normal((2, 3, 7)), rng.standard_normal((4, 3, 3))
    plain = results(lambda *t: topi.nn.conv1d(*t, 1, 1, 2), x, w)
    made = results(
        lambda *t: topi.nn.conv1d(*t, 1, 1, 2, data_layout="NWC"),
        x.transpose(0, 2, 1).copy(), w.transpose(2, 1, 0).copy(),
    )  # fmt: skip
    near(made.transpose(0, 2, 1), plain)
    x, w = rng.standard_normal((1, 2, 3, 4, 5)), rng.standard_normal((3, 2, 2, 2, 2))
    plain = results(lambda *t: topi.nn.conv3d_ncdhw(*t), x, w)
    made = results(
        topi.nn.conv3d_ndhwc, x.transpose(0, 2, 3, 4, 1).copy(), w.transpose(2, 3, 4, 1, 0).copy()
    )
    near(made.transpose(0, 4, 1, 2, 3), plain)


def test_transposed_convolutions():
    rng = np.random.default_rng()
    for rank, name in ((1, "conv1d_transpose_ncw"), (3, "conv3d_transpose_ncdhw")):
        x, w = rng.standard_normal((2, 3, *[3] * rank)), rng.standard_normal((3, 2, *[2] * rank))
        wanted = np.zeros((2, 2, *[2 * 2 + 3 + 1] * rank))
        for at in np.ndindex(*[3] * rank):
            for k in np.ndindex(*[2] * rank):
                place = (slice(None), slice(None), *(i * 2 + 3 * j for i, j in zip(at, k)))
                wanted[place] += x[(slice(None), slice(None), *at)] @ w[(..., *k)]
        make = getattr(topi.nn, name)
        near(results(lambda *t, m=make: m(*t, 2, 0, None, 0, 3), x, w), wanted)


def test_images():
    rng = np.random.default_rng()
    x = rng.standard_normal((2, 8, 4, 6))
    for layout, order in (("NCHW", (0, 1, 2, 3)), ("NHWC", (0, 2, 3, 1))):
        given = x.transpose(order).copy()
        for mode in ("DCR", "CRD"):
            parts = x.reshape((2, 2, 2, 2, 4, 6))
            turned = parts.transpose((0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3))
            wanted = turned.reshape(2, 2, 8, 12).transpose(order)
            made = results(lambda t, a=layout, m=mode: topi.nn.depth_to_space(t, 2, a, m), given)
            near(made, wanted)
            if mode == "DCR":
                back = results(lambda t, a=layout: topi.nn.space_to_depth(t, 2, a), made)
                near(back, given)
    theta = rng.standard_normal((2, 2, 3))
    made = results(lambda t: topi.image.affine_grid(t, (3, 5), False), theta)
    ys, xs = (np.arange(3) * 2 + 1) / 3 - 1, (np.arange(5) * 2 + 1) / 5 - 1
    places = np.stack([*np.meshgrid(xs, ys), np.ones((3, 5))], -1)
    near(made, np.einsum("nkc,yxc->nyxk", theta, places))


def cubic(x, size, half):
    """Resized along the last axis by Keys' weights, edges repeated."""
    have, a = x.shape[-1], -0.5
    made = []
    for k in range(size):
        c = (k + 0.5) * have / size - 0.5 if half else k * have / size
        low, total = math.floor(c), 0.0
        for i in range(low - 1, low + 3):
            t = abs(c - i)
            near_ = (a + 2) * t**3 - (a + 3) * t**2 + 1
            w = near_ if t <= 1 else a * (t**3 - 5 * t**2 + 8 * t - 4)
            total = total + w * x[..., min(max(i, 0), have - 1)]
        made.append(total)
    return np.stack(made, -1)


def test_cubic_resize_of_any_rank():
    x = np.random.default_rng().standard_normal((2, 3, 5, 4))
    made = results(lambda t: topi.image.resize2d(t, None, (7, 3), method="cubic"), x)
    near(made, cubic(cubic(x.swapaxes(2, 3), 7, True).swapaxes(2, 3), 3, True))
    row = x[:, 0].copy()
    how = {"method": "cubic", "coordinate_transformation_mode": "asymmetric"}
    near(results(lambda t: topi.image.resize1d(t, None, (9,), **how), row), cubic(row, 9, False))
    volume = x[:, :, :, :, None].repeat(3, 4)
    made = results(lambda t: topi.image.resize3d(t, None, (7, 3, 3), method="cubic"), volume)
    near(made[..., 0], cubic(cubic(x.swapaxes(2, 3), 7, True).swapaxes(2, 3), 3, True))


def test_what_does_not_fit():
    x = te.placeholder((2, 3, 5, 5), name="x")
    for make, text in (
        (lambda: topi.nn.depth_to_space(x, 2), "block's square divides C"),
        (lambda: topi.einsum("ij->i", x), "for another number than 4 dimensions"),
        (lambda: topi.nn.group_norm(x, None, None, 2, 1, [2, 3]), "2 groups do not divide 3"),
        (lambda: topi.image.grid_sample(x, x), "a grid of 2 dimensions"),
        (lambda: topi.det(te.placeholder((2, 3), name="m")), "square matrices"),
        (lambda: topi.nn.pool3d(x, 2), "images are"),
        (lambda: topi.image.resize3d(x, None, (1, 2, 3)), "images are"),
    ):
        with pytest.raises(ArgumentError, match=text):
            make()
