"""Operators of TVM's in groups, blocks and compressed rows, beside numpy in float64."""

import numpy as np
import pytest
from topi_check import drawn, holds

import whet
from whet.compiler import te, topi
from whet.compiler.driver import build

nn = topi.nn
RNG = np.random.default_rng()


def images(*shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(dtype)


def by_windows(x, w, groups, stride=1, pad=0):
    """A convolution (N, CI, H, W) by (CO, CI / groups, KH, KW) in float64."""
    x = np.pad(x.astype("f8"), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    (n, _, h, v), (co, per, kh, kw) = x.shape, w.shape
    out = np.zeros((n, co, (h - kh) // stride + 1, (v - kw) // stride + 1))
    for o in range(co):
        first = o // (co // groups) * per
        for y, z in np.ndindex(out.shape[2:]):
            part = x[:, first : first + per, y * stride :, z * stride :][:, :, :kh, :kw]
            out[:, o, y, z] = (part * w[o]).sum((1, 2, 3))
    return out


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("groups", [1, 3])
def test_convolutions_of_groups(groups, dtype):
    x, w = images(2, 6, 7, 5, dtype=dtype), images(9, 6 // groups, 3, 3, dtype=dtype)
    right = by_windows(x, w, groups, 2, 1)
    holds(
        lambda a, b: nn.group_conv2d_nhwc(a, b, 2, 1, 1, groups),
        right.transpose(0, 2, 3, 1),
        x.transpose(0, 2, 3, 1).copy(),
        w.transpose(2, 3, 1, 0).copy(),
        tolerance=1e-5,
    )
    x, w = x[:, :, :1].copy(), w[:, :, :1].copy()
    right, row, window = by_windows(x, w, groups)[:, :, 0], x[:, :, 0].copy(), w[:, :, 0].copy()
    holds(
        lambda a, b: nn.group_conv1d_ncw(a, b, 1, 0, 1, groups), right, row, window, tolerance=1e-5
    )
    holds(
        lambda a, b: nn.group_conv1d_nwc(a, b, 1, 0, 1, groups),
        right.transpose(0, 2, 1),
        row.transpose(0, 2, 1).copy(),
        window.transpose(2, 1, 0).copy(),
        tolerance=1e-5,
    )


def spread(x, w, groups, stride):
    """A transposed convolution in float64: each element puts a window down."""
    (n, ci, h, v), (_, per, kh, kw) = x.shape, w.shape
    out = np.zeros((n, per * groups, (h - 1) * stride + kh, (v - 1) * stride + kw))
    for c in range(ci):
        group = c // (ci // groups)
        for y, z in np.ndindex(h, v):
            at = out[:, group * per : (group + 1) * per, y * stride :, z * stride :]
            at[:, :, :kh, :kw] += x[:, c, y, z][:, None, None, None] * w[c].astype("f8")
    return out


@pytest.mark.parametrize("groups", [1, 2])
def test_transposed_convolutions_of_groups(groups):
    x, w = images(2, 4, 3, 5), images(4, 3, 2, 3)
    holds(
        lambda a, b: nn.group_conv2d_transpose_nchw(a, b, 2, 0, "float32", 0, groups),
        spread(x, w, groups, 2), x, w, tolerance=1e-5,
    )  # fmt: skip
    x, w = x[:, :, :1].copy(), w[:, :, :1].copy()
    right = spread(x, w, groups, 1)[:, :, 0]
    holds(
        lambda a, b: nn.group_conv1d_transpose_ncw(a, b, 1, 0, "float32", 0, groups),
        right, x[:, :, 0].copy(), w[:, :, 0].copy(), tolerance=1e-5,
    )  # fmt: skip
    with pytest.raises(whet.ArgumentError, match="no 3 groups"):
        nn.group_conv2d_transpose_nchw(te.placeholder((1, 4, 3, 3)), te.placeholder((4, 1, 2, 2)),
                                       1, 0, "float32", 0, 3)  # fmt: skip


@pytest.mark.parametrize("many", [1, 2])
def test_depthwise_layouts(many):
    x, w = images(2, 4, 6, 5), images(4, many, 3, 3)
    right = by_windows(x, w.reshape(4 * many, 1, 3, 3), 4, 1, 1)
    last = x.transpose(0, 2, 3, 1).copy()
    for layout, order in (("HWOI", (2, 3, 0, 1)), ("HWIO", (2, 3, 1, 0))):
        holds(
            lambda a, b, layout=layout: nn.depthwise_conv2d_nhwc(a, b, 1, 1, 1, layout),
            right.transpose(0, 2, 3, 1), last, w.transpose(order).copy(), tolerance=1e-5,
        )  # fmt: skip
    blocked = x.reshape(2, 2, 2, 6, 5).transpose(0, 1, 3, 4, 2).copy()
    weights = w.reshape(2 * many, 2, 3, 3).transpose(0, 2, 3, 1)[:, None, :, :, None].copy()
    holds(
        lambda a, b: nn.depthwise_conv2d_NCHWc(a, b, 1, 1, 1, "NCHW2c"),
        right.reshape(2, 2 * many, 2, 6, 5).transpose(0, 1, 3, 4, 2), blocked, weights,
        tolerance=1e-5,
    )  # fmt: skip


def test_adaptive_pools_of_rows_and_volumes():
    x = images(2, 3, 7)
    cuts = [(k * 7 // 3, -(-(k + 1) * 7 // 3)) for k in range(3)]
    right = np.stack([x[..., b:e].astype("f8").mean(-1) for b, e in cuts], -1)
    holds(lambda a: nn.adaptive_pool1d(a, 3, "avg"), right, x, tolerance=1e-6)
    x = images(1, 2, 4, 6, 2)
    right = x.reshape(1, 2, 2, 2, 3, 2, 2, 1).max((3, 5, 7))
    holds(lambda a: nn.adaptive_pool3d(a, (2, 3, 2), "max"), right, x)


def test_blocks_of_space_and_batch():
    x = images(2, 5, 4, 3)
    wide = np.pad(x, ((0, 0), (1, 0), (0, 2), (0, 0)), constant_values=7)
    cut = wide.reshape(2, 3, 2, 2, 3, 3).transpose(2, 4, 0, 1, 3, 5).reshape(12, 3, 2, 3)
    holds(lambda a: nn.space_to_batch_nd(a, [2, 3], [1, 0], [0, 2], 7.0), cut, x)
    holds(lambda a: nn.batch_to_space_nd(a, [2, 3], [1, 0], [0, 2]), x, cut.copy())
    with pytest.raises(whet.ArgumentError, match="do not divide"):
        nn.space_to_batch_nd(te.placeholder((1, 5, 4)), [2], [0], [0])
    with pytest.raises(whet.ArgumentError, match="do not divide a batch"):
        nn.batch_to_space_nd(te.placeholder((3, 5, 4)), [2], [0], [0])


def test_upsampling():
    x = images(1, 2, 3, 4)
    holds(lambda a: nn.upsampling(a, 2, 3), x.repeat(2, 2).repeat(3, 3), x)
    ends = np.stack([x[..., 0], (x[..., 0].astype("f8") + x[..., -1]) / 2, x[..., -1]], -1)
    holds(
        lambda a: nn.upsampling(a, 1, 1.5, method="bilinear", align_corners=True),
        ends, x[..., [0, 3]].copy(), tolerance=1e-6,
    )  # fmt: skip


@pytest.mark.parametrize("block", [(), (2, 3)])
def test_matrices_in_compressed_rows(block):
    r, c = block or (1, 1)
    kept = RNG.random((3, 4)) < 0.5
    begins = np.r_[0, kept.sum(1).cumsum()].astype("int32")
    columns = np.nonzero(kept)[1].astype("int32")
    if not len(columns):
        return
    data, dense = images(len(columns), *block), images(5, 4 * c)
    full = np.zeros((3 * r, 4 * c))
    for k, (i, j) in enumerate(np.argwhere(kept)):
        full[i * r : i * r + r, j * c : j * c + c] = data[k]
    right = dense.astype("f8") @ full.T
    holds(nn.sparse_dense, right, dense, data, columns, begins, tolerance=1e-5, gpu=False)


def test_transposed_compressed_rows():
    full = drawn(6, 6, seed=int(RNG.integers(1 << 30))) * (RNG.random((6, 6)) < 0.4)
    at = np.argwhere(full)
    begins = np.r_[0, (full != 0).sum(1).cumsum()].astype("int32")
    given = [full[tuple(at.T)], at[:, 1].astype("int32"), begins]
    if not len(at):
        return
    tensors = [te.placeholder(a.shape, str(a.dtype)) for a in given]
    outs = nn.sparse_transpose(*tensors)
    got = [np.full(a.shape, -7, a.dtype) for a in given]
    build(te.create_schedule(outs[0].op), [*tensors, *outs])(*given, *got)
    back = np.argwhere(full.T)
    np.testing.assert_array_equal(got[0], full.T[tuple(back.T)])
    np.testing.assert_array_equal(got[1], back[:, 1])
    np.testing.assert_array_equal(got[2], np.r_[0, (full.T != 0).sum(1).cumsum()])


@pytest.mark.parametrize(
    ("name", "numpys"),
    [("sinh", np.sinh), ("cosh", np.cosh), ("asin", np.arcsin), ("acos", np.arccos),
     ("atan", np.arctan), ("asinh", np.arcsinh), ("acosh", np.arccosh), ("atanh", np.arctanh),
     ("fast_exp", np.exp), ("fast_tanh", np.tanh)],
)  # fmt: skip
def test_functions_of_elements(name, numpys):
    low, high = (1, 3) if name == "acosh" else (-0.9, 0.9)
    x = RNG.uniform(low, high, (5, 7)).astype("float32")
    holds(getattr(topi, name), numpys(x.astype("f8")), x, tolerance=1e-6)
