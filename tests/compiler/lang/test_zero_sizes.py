"""Dimensions of size 0: nothing is computed, and a reduction over nothing is its identity."""

import numpy as np
import pytest

import whet
from whet import te, topi
from whet.autotune.features import LoopFeatures
from whet.compiler import driver
from whet.compiler.runtime import cpu, load_module


def filled(shape, dtype="float32"):
    return np.full(shape, 77, dtype)


def elementwise(shape):
    a = te.placeholder(shape, name="A")
    b = te.compute(shape, lambda *i: a(*i) + 1.0, name="B")
    return te.create_schedule(b.op), a, b


def plain(s, b):
    pass


def split(s, b):
    s[b].split(b.op.axis[0], factor=4)


def parts(s, b):
    s[b].split(b.op.axis[-1], nparts=3)


def fused(s, b):
    s[b].vectorize(s[b].split(s[b].fuse(*b.op.axis), factor=8)[1])


def vectors(s, b):
    s[b].vectorize(b.op.axis[-1])


def unrolled(s, b):
    s[b].unroll(b.op.axis[0])


def parallel(s, b):
    s[b].parallel(b.op.axis[0])


@pytest.mark.parametrize("how", [plain, split, parts, fused, vectors, unrolled, parallel])
@pytest.mark.parametrize("shape", [(0,), (0, 9), (9, 0), (3, 0, 5)])
def test_a_kernel_of_nothing_runs(shape, how):
    targets = ("llvm", "c") if shape == (9, 0) else ("llvm",)
    for target in targets:
        s, a, b = elementwise(shape)
        how(s, b)
        f = driver.build(s, [a, b], target)
        f(filled(shape), filled(shape))
        with pytest.raises(whet.WhetError, match=r"shape\[0\] is 2"):
            f(filled((2, *shape[1:])), filled(shape))


def reduction(n, k, m, reducer, tiled):
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="k")
    c = te.compute((n, m), lambda i, j: reducer(a[i, r] * b[r, j], axis=r), name="C")
    s = te.create_schedule(c.op)
    if tiled:
        acc = s.cache_write(c, "local")
        _, jo, ii, ji = s[c].tile(*s[c].op.axis, 4, 8)
        s[c].unroll(ii)
        s[c].vectorize(ji)
        s[acc].compute_at(s[c], jo)
        ko, ki = s[acc].split(s[acc].op.reduce_axis[0], factor=4)
        i, j = s[acc].op.axis
        s[acc].reorder(ko, ki, i, j)
        s[acc].unroll(ki)
        s[acc].vectorize(j)
    return s, [a, b, c]


@pytest.mark.parametrize("tiled", [False, True])
@pytest.mark.parametrize("sizes", [(0, 3, 4), (5, 0, 9), (5, 3, 0), (0, 0, 0)])
def test_a_reduction_over_nothing_is_its_identity(sizes, tiled):
    n, k, m = sizes
    cases = [("llvm", te.sum, 0), ("llvm", te.max, -np.inf), ("c", te.min, np.inf)]
    for target, reducer, identity in cases:
        s, args = reduction(n, k, m, reducer, tiled)
        out = filled((n, m))
        driver.build(s, args, target)(filled((n, k)), filled((k, m)), out)
        np.testing.assert_array_equal(out, np.full((n, m), identity))


def test_other_schedules_of_a_reduction_over_nothing():
    for how in ("rfactor", "packed", "ahead"):
        s, (a, b, c) = reduction(5, 0, 9, te.sum, False)
        if how == "rfactor":
            s.rfactor(c, s[c].split(s[c].op.reduce_axis[0], factor=4)[1])
        else:
            p = s.cache_read(b, "global", [c])
            s[p].compute_ahead() if how == "ahead" else s[p].compute_at(s[c], c.op.axis[0])
        f = driver.build(s, [a, b, c])
        w, out = filled((0, 9)), filled((5, 9))
        f(filled((5, 0)), f.pack_weights(w) if how == "ahead" else w, out)
        assert not out.any()


@pytest.mark.parametrize("at", ["root", "attached", "inline"])
def test_stages_of_nothing_between_others(at):
    a = te.placeholder((4, 8), name="A")
    t = te.compute((4, 0), lambda i, j: a[i, j] * 2.0, name="T")
    k = te.reduce_axis((0, 0), name="k")
    u = te.compute((4,), lambda i: te.sum(t[i, k], axis=k), name="U")
    s = te.create_schedule(u.op)
    if at == "attached":
        s[t].compute_at(s[u], u.op.axis[0])
    elif at == "inline":
        s[t].compute_inline()
    out = filled((4,))
    driver.build(s, [a, u])(filled((4, 8)), out)
    assert not out.any()


def test_sizes_that_turn_out_to_be_zero():
    n = te.size_var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    k = te.reduce_axis((0, n), name="k")
    d = te.compute((1,), lambda i: te.sum(a[k], axis=k), name="D")
    s = te.create_schedule([b.op, d.op])
    s[b].vectorize(s[b].split(b.op.axis[0], factor=8)[1])
    out = filled((1,))
    driver.build(s, [a, b, d])(filled((0,)), filled((0,)), out)
    assert out[0] == 0


def test_the_timer_and_a_library(tmp_path):
    s, a, b = elementwise((0, 4))
    f = driver.build(s, [a, b])
    f.export_library(tmp_path / "f.so")
    for g in (f, load_module(tmp_path / "f.so")):
        g(filled((0, 4)), filled((0, 4)))
        time = g.time_evaluator(g.entry_name, cpu(0), number=2)
        assert time(filled((0, 4)), filled((0, 4))).mean >= 0


OPERATORS = {
    "softmax": topi.nn.softmax,
    "sum": lambda x: topi.sum(x, axis=1),
    "rows": lambda x: topi.sum(x, axis=0),
    "max": lambda x: topi.max(x, axis=1),
    "transpose": topi.transpose,
    "relu": topi.nn.relu,
    "concatenate": lambda x: topi.concatenate((x, x), axis=1),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_and_their_derived_spaces(name):
    x = te.placeholder((3, 0), name="X")
    y = OPERATORS[name](x)
    shape = tuple(int(d) for d in y.shape)
    task = whet.create_task(outputs=[y], target="llvm")
    rows = LoopFeatures(task).of_points(np.zeros((1, len(task.config_space.knobs)), np.int64))
    assert not np.isinf(rows).any()
    for s, args in (task.instantiate(), (te.create_schedule(y.op), [x, y])):
        out = filled(shape)
        driver.build(s, args)(filled((3, 0)), out)
        want = {"sum": np.zeros(3), "max": np.full(3, -np.inf)}.get(name, np.zeros(shape))
        np.testing.assert_array_equal(out, want)


MOVED = {
    "tile": (lambda a: topi.tile(a, (2, 3)), lambda a: np.tile(a, (2, 3))),
    "tile, more axes": (lambda a: topi.tile(a, (2, 1, 3)), lambda a: np.tile(a, (2, 1, 3))),
    "tile, none": (lambda a: topi.tile(a, (0, 2)), lambda a: np.tile(a, (0, 2))),
    "repeat": (lambda a: topi.repeat(a, 3, 1), lambda a: np.repeat(a, 3, 1)),
    "repeat, none": (lambda a: topi.repeat(a, 0, 0), lambda a: np.repeat(a, 0, 0)),
    "reshape": (lambda a: topi.reshape(a, (0, 4)), lambda a: a.reshape(0, 4)),
    "reshape, more": (lambda a: topi.reshape(a, (2, 0, 5)), lambda a: a.reshape(2, 0, 5)),
    "reshape, one": (lambda a: topi.reshape(a, -1), lambda a: a.reshape(-1)),
    "flatten": (topi.nn.flatten, lambda a: a.reshape(a.shape[0], -1) if a.size else a),
    "transpose": (topi.transpose, np.transpose),
    "flip": (lambda a: topi.flip(a, 0), lambda a: np.flip(a, 0)),
    "stack": (lambda a: topi.stack([a, a], 1), lambda a: np.stack([a, a], 1)),
    "concatenate": (lambda a: topi.concatenate([a, a], 0), lambda a: np.concatenate([a, a], 0)),
    "expand_dims": (lambda a: topi.expand_dims(a, 1), lambda a: a[:, None]),
    "pad": (lambda a: topi.nn.pad(a, (1, 0), (0, 2)), lambda a: np.pad(a, ((1, 0), (0, 2)))),
    "dilate": (
        lambda a: topi.nn.dilate(a, (2, 3)),
        lambda a: np.zeros([max(2 * a.shape[0] - 1, 0), max(3 * a.shape[1] - 2, 0)]),
    ),
    "cumsum": (lambda a: topi.cumsum(a, 0), lambda a: np.cumsum(a, 0)),
    "softmax": (lambda a: topi.nn.softmax(a, 1), lambda a: a),
    "broadcast_to": (
        lambda a: topi.broadcast_to(a, (2, *a.shape)),
        lambda a: np.broadcast_to(a, (2, *a.shape)),
    ),
}


@pytest.mark.parametrize("name", MOVED)
@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (0, 0)])
def test_operators_on_tensors_of_nothing(name, shape):
    made, reference = MOVED[name]
    wanted = reference(np.zeros(shape, "float32"))
    a = te.placeholder(shape, name="A")
    b = made(a)
    out = filled(tuple(int(d) for d in b.shape))
    assert out.shape == wanted.shape
    driver.build(te.create_schedule(b.op), [a, b])(filled(shape), out)
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("mode", ["clip", "wrap", "fast"])
def test_nothing_is_taken_of_nothing(mode):
    a, i = te.placeholder((3, 0), name="A"), te.placeholder((0,), "int32", name="I")
    for axis in (1, None):
        b = topi.take(a, i, axis, mode=mode)
        out = filled(tuple(int(d) for d in b.shape))
        assert out.shape == np.take(np.zeros((3, 0)), np.zeros(0, int), axis).shape
        driver.build(te.create_schedule(b.op), [a, i, b])(filled((3, 0)), filled(0, "int32"), out)
    two = te.placeholder((2,), "int32", name="I")
    with pytest.raises(whet.WhetError, match="there is no element to take"):
        topi.take(a, two, 1, mode=mode)


def test_convolutions_without_channels_of_results():
    a, w = te.placeholder((1, 4, 5, 5), name="A"), te.placeholder((0, 2, 3, 3), name="W")
    b = topi.nn.group_conv2d_nchw(a, w, 1, 1, 1, 2)
    assert tuple(b.shape) == (1, 0, 5, 5)
    w = te.placeholder((4, 0, 3, 3), name="W")
    assert tuple(topi.nn.depthwise_conv2d_nchw(a, w, (1, 1), (1, 1), (1, 1)).shape) == (1, 0, 5, 5)
