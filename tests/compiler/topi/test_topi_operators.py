"""Operators that move elements, reduce, and make layers, against numpy; and tensors' operators."""

import emulated
import numpy as np
import pytest

from whet.compiler import te, topi
from whet.compiler.driver import build
from whet.compiler.errors import ArgumentError
from whet.compiler.tir import Var

RNG = np.random.default_rng()


def holds(make, wanted, *arrays, exact=True, schedule=None):
    """Assert that an operator computes from arrays what numpy does."""
    tensors = [te.placeholder(a.shape, str(a.dtype), name=f"x{k}") for k, a in enumerate(arrays)]
    out = make(*tensors)
    assert tuple(int(d) for d in out.shape) == np.shape(wanted)
    s = (schedule or topi.generic.schedule_injective)([out])
    poison = True if out.dtype == "bool" else 77
    got = np.full(np.shape(wanted), poison, out.dtype)
    build(s, [*tensors, out])(*arrays, got)
    emulated.too(s, [*tensors, out], arrays, got)
    if exact:
        np.testing.assert_array_equal(got, wanted)
    else:
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def array(*shape, dtype="float32"):
    if dtype.startswith("int"):
        return RNG.integers(-9, 10, shape).astype(dtype)
    return RNG.standard_normal(shape).astype(dtype)


A, B = array(3, 5, 7), array(3, 5, 7)
MOVES = {
    "reshape": (lambda x: topi.reshape(x, (7, -1)), lambda x: x.reshape(7, -1)),
    "reshape_to_one": (lambda x: topi.reshape(x, (105,)), lambda x: x.reshape(105)),
    "expand_dims": (lambda x: topi.expand_dims(x, -1, 2), lambda x: x[..., None, None]),
    "expand_dims_1": (lambda x: topi.expand_dims(x, 1), lambda x: x[:, None]),
    "squeeze": (lambda x: topi.squeeze(topi.expand_dims(x, 1)), lambda x: x),
    "squeeze_one": (
        lambda x: topi.squeeze(topi.reshape(x, (1, 105, 1)), -1),
        lambda x: x.reshape(1, 105),
    ),
    "transpose": (lambda x: topi.transpose(x, (2, 0, 1)), lambda x: x.transpose(2, 0, 1)),
    "flip": (lambda x: topi.flip(x, 1), lambda x: x[:, ::-1]),
    "flip_last": (lambda x: topi.flip(x, -1), lambda x: x[..., ::-1]),
    "split": (lambda x: topi.split(x, [2, 3], 2)[2], lambda x: np.split(x, [2, 3], 2)[2]),
    "split_even": (lambda x: topi.split(x, 5, 1)[3], lambda x: np.split(x, 5, 1)[3]),
    "strided_slice": (
        lambda x: topi.strided_slice(x, [0, -4], [3, 5], [2, 3]),
        lambda x: x[0:3:2, -4:5:3],
    ),
    "strided_slice_back": (
        lambda x: topi.strided_slice(x, [6], [0], [-2], axes=[2]),
        lambda x: x[:, :, 6:0:-2],
    ),
    "tile": (lambda x: topi.tile(x, (2, 1, 3)), lambda x: np.tile(x, (2, 1, 3))),
    "tile_more": (lambda x: topi.tile(x, (2, 1, 1, 2)), lambda x: np.tile(x, (2, 1, 1, 2))),
    "tile_fewer": (lambda x: topi.tile(x, 2), lambda x: np.tile(x, 2)),
    "repeat": (lambda x: topi.repeat(x, 3, 1), lambda x: np.repeat(x, 3, 1)),
    "full_like": (lambda x: topi.full_like(x, 2.5), lambda x: np.full_like(x, 2.5)),
    "sign": (topi.sign, np.sign),
    "isnan": (topi.isnan, np.isnan),
    "flatten": (topi.nn.flatten, lambda x: x.reshape(3, 35)),
    "leaky_relu": (
        lambda x: topi.nn.leaky_relu(x, 0.25),
        lambda x: np.where(x > 0, x, x * np.float32(0.25)),
    ),
    "dilate": (lambda x: topi.nn.dilate(x, (1, 2, 3), 9.0), None),
}


def dilated(x):
    out = np.full((3, 9, 19), 9, "float32")
    out[:, ::2, ::3] = x
    return out


@pytest.mark.parametrize("schedule", [None, topi.x86.schedule_injective])
@pytest.mark.parametrize("name", list(MOVES))
def test_what_moves_elements(name, schedule):
    make, reference = MOVES[name]
    holds(make, (reference or dilated)(A), A, schedule=schedule)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_joins(axis):
    shape = [3, 5, 7]
    shape[axis] = 2
    c = array(*shape)
    wanted = np.concatenate([A, c, B], axis)
    holds(lambda *x: topi.concatenate(x, axis), wanted, A, c, B)
    holds(lambda *x: topi.stack(x, axis), np.stack([A, B], axis), A, B)
    holds(lambda *x: topi.elemwise_sum(x), A + B + A, A, B, A)


@pytest.mark.parametrize("mode", ["clip", "wrap"])
def test_take(mode):
    i = np.array([[0, 6, -1], [99, 3, 2]], "int32")
    kinds = {"mode": mode}
    wanted = np.take(A, i, 2, **kinds) if mode == "wrap" else A[:, :, np.clip(i, 0, 6)]
    holds(lambda x, y: topi.take(x, y, 2, 0, mode), wanted, A, i)
    flat = A.reshape(-1)
    wanted = np.take(flat, i, **kinds) if mode == "wrap" else flat[np.clip(i, 0, 104)]
    holds(lambda x, y: topi.take(x, y, mode=mode), wanted, A, i)


def test_where_and_truths():
    c, d = array(3, 1, 7, dtype="int32"), array(5, 1, dtype="int32")
    holds(topi.where, np.where(c, A, B), c, A, B)
    holds(lambda x: topi.where(x > 0, x, 0.0), np.where(A > 0, A, 0), A)
    for name in ("not_equal", "greater_equal", "less_equal", "logical_and", "logical_or",
                 "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor"):  # fmt: skip
        holds(getattr(topi, name), getattr(np, name)(c, d), c, d)
    holds(topi.logical_not, np.logical_not(c), c)
    holds(topi.bitwise_not, ~c, c)
    e = np.abs(d) + 1
    holds(topi.floor_divide, c // e, c, e)
    holds(topi.floor_mod, c % e, c, e)
    holds(topi.mod, np.fmod(c, e), c, e)


@pytest.mark.parametrize("axis", [None, 0, 2, (0, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_places_and_products(axis, keepdims):
    x = array(3, 4, 5, dtype="int32").astype("float32")  # equal ones among them
    rows = x
    if axis == (0, 2):
        rows = x.transpose(1, 0, 2).reshape(4, 15)
    for op, reference in ((topi.argmax, np.argmax), (topi.argmin, np.argmin)):
        wanted = reference(rows, -1 if axis == (0, 2) else axis)
        if keepdims:
            wanted = wanted.reshape(np.sum(x, axis=axis, keepdims=True).shape)
        holds(lambda t, op=op: op(t, axis, keepdims), wanted, x)
    p = np.sign(x) + np.float32(0.5)
    holds(lambda t: topi.prod(t, axis, keepdims), np.prod(p, axis=axis, keepdims=keepdims), p,
          exact=False)  # fmt: skip
    b = x > -4
    holds(lambda t: topi.all(t > -4.0, axis, keepdims), b.all(axis, keepdims=keepdims), x)
    holds(lambda t: topi.any(t <= -4.0, axis, keepdims), (~b).any(axis, keepdims=keepdims), x)


def test_the_first_of_equal_ones_and_infinities():
    x = np.full((2, 6), -np.inf, "float32")
    holds(lambda t: topi.argmax(t, 1), x.argmax(1), x)
    holds(lambda t: topi.argmin(t, 1), x.argmin(1), -x)


def test_matrices():
    a, b = array(5, 7), array(7, 9)
    for p, q in ((0, 0), (0, 1), (1, 0), (1, 1)):
        x, y = np.ascontiguousarray(a.T if p else a), np.ascontiguousarray(b.T if q else b)
        holds(lambda s, t, p=p, q=q: topi.matmul(s, t, p, q), a @ b, x, y, exact=False)
    x, y = array(4, 5, 7), array(4, 9, 7)
    wanted = x @ y.transpose(0, 2, 1)
    holds(topi.nn.batch_matmul, wanted, x, y, exact=False)
    one = y[:1]
    holds(topi.nn.batch_matmul, x @ one.transpose(0, 2, 1), x, one, exact=False)
    y = np.ascontiguousarray(y.transpose(0, 2, 1))
    holds(lambda s, t: topi.nn.batch_matmul(s, t, transpose_b=False), wanted, x, y, exact=False)


def test_layers():
    x, bias, last = array(2, 5, 3, 4), array(5), array(4)
    holds(topi.nn.bias_add, x + bias[:, None, None], x, bias)
    holds(lambda s, t: topi.nn.bias_add(s, t, -1), x + last, x, last)
    scale = array(5)
    wanted = x * scale[:, None, None] + bias[:, None, None]
    holds(topi.nn.scale_shift_nchw, wanted, x, scale, bias, exact=False)
    g, b = array(3, 4), array(3, 4)
    mean, var = x.mean((2, 3), keepdims=True), x.var((2, 3), keepdims=True)
    wanted = (x - mean) / np.sqrt(var + 1e-5) * g + b
    holds(lambda *t: topi.nn.layer_norm(*t, axis=(2, 3)), wanted, x, g, b, exact=False)
    y = array(5, 11) * 9
    top = y - y.max(1, keepdims=True)
    wanted = top - np.log(np.exp(top).sum(1, keepdims=True))
    holds(topi.nn.log_softmax, wanted, y, exact=False)


def images(x, kernel, stride, padding, dilation, fill):
    """Every window of an image, as (N, C, OH, OW, KH, KW)."""
    top, left, bottom, right = padding
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)
    span = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
    w = np.lib.stride_tricks.sliding_window_view(x, span, (2, 3))
    return w[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]


WINDOWS = [((1, 1), 0, (1, 1)), ((2, 1), (2, 1), (1, 1)), ((1, 2), (2, 1, 0, 1), (2, 1))]


@pytest.mark.parametrize(("stride", "padding", "dilation"), WINDOWS)
def test_convolutions_and_pools(stride, padding, dilation):
    x, w, own = array(2, 3, 9, 11), array(4, 3, 3, 2), array(3, 2, 3, 2)
    sides = topi.nn.get_pad_tuple(padding, (3, 2))
    cut = images(x, (3, 2), stride, sides, dilation, 0)
    made = (stride, padding, dilation)
    wanted = np.einsum("bchwyx,ocyx->bohw", cut, w)
    holds(lambda s, t: topi.nn.conv2d(s, t, *made), wanted, x, w, exact=False)
    wanted = np.einsum("bchwyx,cmyx->bcmhw", cut, own)
    wanted = wanted.reshape(2, 6, *wanted.shape[3:])
    holds(lambda s, t: topi.nn.depthwise_conv2d_nchw(s, t, *made), wanted, x, own, exact=False)
    for kind, fill, reduce in (("max", -np.inf, np.max), ("avg", 0, np.mean)):
        wanted = reduce(images(x, (3, 2), stride, sides, dilation, fill), (4, 5))
        holds(lambda t, kind=kind: topi.nn.pool2d(t, (3, 2), stride, dilation, padding, kind),
              wanted, x, exact=False)  # fmt: skip
    many = images(np.ones_like(x), (3, 2), stride, sides, dilation, 0).sum((4, 5))
    holds(
        lambda t: topi.nn.pool2d(
            t, (3, 2), stride, dilation, padding, "avg", count_include_pad=False
        ),
        cut.sum((4, 5)) / np.maximum(many, 1), x, exact=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "dilation", "padding", "said"),
    [
        ((1, 1, 8, 8), 1, 2, "window 0 of the height takes -2, -1 of 8 pixels"),
        ((1, 1, 8, 8), 1, (0, 0, 0, 2), "window 8 of the width takes 8, 9 of 8 pixels"),
        ((1, 1, 1, 8), 2, 1, "window 0 of the height takes -1, 1 of 1 pixels"),
    ],
)
def test_a_window_of_padding_only_is_refused(shape, dilation, padding, said):
    x = te.placeholder(shape, "float32", "x")
    for kind, whole in (("max", True), ("avg", False)):
        with pytest.raises(ArgumentError, match=f"{said}, which is padding only\n  pad less"):
            topi.nn.pool2d(x, 2, 1, dilation, padding, kind, count_include_pad=whole)
    topi.nn.pool2d(x, 2, 1, dilation, padding, "avg")  # zeros that count


def test_gather_from_nothing_is_refused():
    x, i = te.placeholder((3, 0), name="x"), te.placeholder((3, 4), "int32", name="i")
    with pytest.raises(ArgumentError, match="axis 1 of x has 0 elements to point at"):
        topi.gather(x, 1, i)


def test_global_pools_and_same_padding():
    x = array(2, 3, 5, 7)
    for kind, reduce in (("max", np.max), ("avg", np.mean)):
        wanted = reduce(x, (2, 3), keepdims=True)
        holds(lambda t, kind=kind: topi.nn.global_pool(t, kind), wanted, x, exact=False)
    assert topi.nn.utils.get_pad_tuple("SAME", (3, 4)) == (1, 2, 1, 1)
    assert topi.nn.get_pad_tuple("VALID", (3, 4)) == (0, 0, 0, 0)


# operators of whole tensors

WHOLE = {
    "A + B": lambda a, b: a + b,
    "A - B": lambda a, b: a - b,
    "A * B": lambda a, b: a * b,
    "A / 2": lambda a, b: a / 2.0,
    "2 / B": lambda a, b: 2.0 / b,
    "1 - A": lambda a, b: 1 - a,
    "2 * A + 1": lambda a, b: 2 * a + 1,
    "-A": lambda a, b: -a,
    "A > B": lambda a, b: a > b,
    "A <= 0": lambda a, b: a <= 0.0,
    "A.astype": lambda a, b: a.astype("int32"),
}


@pytest.mark.parametrize("name", list(WHOLE))
def test_operators_of_whole_tensors(name):
    f = WHOLE[name]
    a, b = array(5, 7), array(7)
    ta, tb = te.placeholder((5, 7), name="A"), te.placeholder((7,), name="B")
    out = f(ta, tb)
    assert isinstance(out, te.Tensor)
    wanted = f(a, b)
    got = np.full(wanted.shape, 77, out.dtype)
    build(te.create_schedule(out.op), [ta, tb, out])(a, b, got)
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_integer_operators_of_whole_tensors():
    c, d = array(5, 7, dtype="int32"), np.abs(array(7, dtype="int32")) + 1
    for f in (
        lambda a, b: a // b, lambda a, b: a % b, lambda a, b: a & b, lambda a, b: a | b,
        lambda a, b: a ^ b, lambda a, b: a << (b % 4), lambda a, b: a >> (b % 4),
        lambda a, b: ~a,
    ):  # fmt: skip
        tc, td = te.placeholder((5, 7), "int32", name="A"), te.placeholder((7,), "int32", name="B")
        out = f(tc, td)
        got = np.full((5, 7), 77, "int32")
        build(te.create_schedule(out.op), [tc, td, out])(c, d, got)
        np.testing.assert_array_equal(got, f(c, d))


def test_a_tensor_without_axes_is_its_element():
    x = te.placeholder((), name="x")
    assert not isinstance(x + 1.0, te.Tensor) and not isinstance(-x, te.Tensor)
    a = te.placeholder((3,), name="A")
    assert isinstance(a + x, te.Tensor) and isinstance(x * a, te.Tensor)
    assert (a == a) is True and (a == te.placeholder((3,))) is False


# helpers of TVM's


def test_constants_and_what_to_inline():
    n = Var("n")
    assert topi.utils.get_const_tuple((te.const(3), 4, n))[:2] == (3, 4)
    assert topi.utils.get_const_int(te.const(7)) == 7
    assert topi.utils.get_const_float(te.const(1.5)) == 1.5
    with pytest.raises(ArgumentError, match="n is not a constant"):
        topi.utils.get_const_int(n)
    a, w = te.placeholder((1, 2, 5, 5)), te.placeholder((3, 2, 3, 3))
    conv = topi.nn.conv2d_nchw(topi.add(a, 1.0), w)
    out = topi.nn.relu(conv)
    s = te.create_schedule(out.op)
    seen = []
    topi.utils.traverse_inline(s, out.op, lambda op: seen.append(op.name))
    assert seen == ["T_add", "conv", "T_relu"]
    assert s[conv].attach_type != s[conv.op.input_tensors[0]].attach_type


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: topi.reshape(x, (4, 4)), "105 elements do not fill 16"),
        (lambda x: topi.reshape(x, (-1, -1)), "only one extent can be -1"),
        (lambda x: topi.squeeze(x, 0), "the extent of axis 0 is 3, not 1"),
        (lambda x: topi.flip(x, 3), "there is no axis 3 in 3 dimensions"),
        (lambda x: topi.concatenate([]), "there is no tensor"),
        (lambda x: topi.concatenate([x, te.placeholder((3, 4, 7))]), "axis 1 has the extents 5"),
        (lambda x: topi.split(x, 2, 1), "5 is not 2 parts"),
        (lambda x: topi.strided_slice(x, [0], [3], [0]), "a stride is 0"),
        (lambda x: topi.take(x, x), "not integers"),
        (lambda x: topi.nn.dilate(x, (1, 0, 1)), "at least 1"),
        (lambda x: topi.nn.pool2d(x, 2), "images are"),
        (lambda x: topi.nn.conv2d(x, x, data_layout="HWCN"), "NCHW and for NHWC only"),
        (lambda x: topi.nn.bias_add(x, x), "has 3 dimensions, not 1"),
        (lambda x: topi.nn.get_pad_tuple("ALL", (3, 3)), "'VALID' and 'SAME'"),
        (lambda x: x + te.placeholder((4,)), "do not go together"),
    ],
)
def test_what_does_not_fit(make, message):
    with pytest.raises(ArgumentError, match=message):
        make(te.placeholder((3, 5, 7)))


def test_names_that_are_not_there():
    with pytest.raises(AttributeError, match="did you mean concatenate"):
        topi.concatenat  # noqa: B018
    with pytest.raises(AttributeError, match=r"topi\.nn has no"):
        topi.nn.conv3d_winograd  # noqa: B018
