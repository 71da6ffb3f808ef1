"""Arguments that are computed inside other stages, or inlined: what the caller's arrays hold."""

import warnings

import numpy as np
import pytest

from whet.compiler import te
from whet.compiler.driver import build, lower

RNG = np.random.default_rng()
POISON = 77.0


def run(s, args, *arrays, shapes=()):
    """Results in arrays that have guards around them: (arrays, whether the guards stand)."""
    outs, whole = [], []
    for t in args[len(arrays) :]:
        dims = tuple(int(d) for d in t.shape)
        memory = np.full(int(np.prod(dims)) + 256, POISON, t.dtype)
        whole.append(memory)
        outs.append(memory[128:-128].reshape(dims))
    build(s, args)(*arrays, *outs)
    for memory in whole:
        assert (memory[:128] == POISON).all() and (memory[-128:] == POISON).all()
    return outs


def chain(n, m):
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] * 2 + 1, name="B")
    c = te.compute((n, m), lambda i, j: b[i, j] * b[i, j], name="C")
    return a, b, c


@pytest.mark.parametrize(("n", "m"), [(8, 16), (13, 37), (1, 5)])
@pytest.mark.parametrize("at", range(4))
def test_the_tail_of_a_tile_stays_in_the_argument(n, m, at):
    a, b, c = chain(n, m)
    s = te.create_schedule(c.op)
    loops = s[c].tile(*c.op.axis, 4, 16)
    s[b].compute_at(s[c], loops[at])
    x = RNG.random((n, m), "float32")
    got_b, got_c = run(s, [a, b, c], x)
    np.testing.assert_allclose(got_b, x * 2 + 1, rtol=1e-6)
    np.testing.assert_allclose(got_c, (x * 2 + 1) ** 2, rtol=1e-5)


@pytest.mark.parametrize("how", ["vectorize", "unroll", "split"])
def test_loops_of_the_argument_itself(how):
    n, m = 11, 29
    a, b, c = chain(n, m)
    s = te.create_schedule(c.op)
    loops = s[c].tile(*c.op.axis, 3, 8)
    s[b].compute_at(s[c], loops[1])
    _, inner = s[b].split(b.op.axis[1], factor=5 if how == "split" else 8)
    if how != "split":
        getattr(s[b], how)(inner)
    x = RNG.random((n, m), "float32")
    got_b, got_c = run(s, [a, b, c], x)
    np.testing.assert_allclose(got_b, x * 2 + 1, rtol=1e-6)
    np.testing.assert_allclose(got_c, (x * 2 + 1) ** 2, rtol=1e-5)


def test_the_tutorial_of_schedule_primitives():
    m = te.var("m")
    a = te.placeholder((m,), name="A")
    b = te.compute((m,), lambda i: a[i] + 1, name="B")
    c = te.compute((m,), lambda i: b[i] * 2, name="C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], c.op.axis[0])
    text = str(lower(s, [a, b, c], simple_mode=True))
    assert "B[i]" in text.replace("B[i * ", "B[i") and "allocate" not in text
    x = np.arange(7, dtype="float32")
    got_b, got_c = np.zeros(7, "float32"), np.zeros(7, "float32")
    build(s, [a, b, c])(x, got_b, got_c)
    np.testing.assert_array_equal(got_b, x + 1)
    np.testing.assert_array_equal(got_c, (x + 1) * 2)


def test_an_inlined_argument_is_not_used():
    a, b, c = chain(5, 7)
    s = te.create_schedule(c.op)
    s[b].compute_inline()
    with pytest.warns(UserWarning, match="the argument B is not used: it is inlined"):
        assert "B[" not in str(lower(s, [a, b, c], simple_mode=True)).split("\n", 1)[1]
    x = RNG.random((5, 7), "float32")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got_b, got_c = run(s, [a, b, c], x)
    assert (got_b == POISON).all()
    np.testing.assert_allclose(got_c, (x * 2 + 1) ** 2, rtol=1e-5)


@pytest.mark.parametrize("at", range(4))
def test_a_reduction_in_the_argument(at):
    n, m, r = 13, 19, 7
    a, w = te.placeholder((n, r), name="A"), te.placeholder((r, m), name="W")
    k = te.reduce_axis((0, r), name="k")
    b = te.compute((n, m), lambda i, j: te.sum(a[i, k] * w[k, j], axis=k), name="B")
    c = te.compute((n, m), lambda i, j: te.max(b[i, j], te.const(0.0, "float32")), name="C")
    s = te.create_schedule(c.op)
    loops = s[c].tile(*c.op.axis, 4, 8)
    s[b].compute_at(s[c], loops[at])
    x, y = array_of(n, r), array_of(r, m)
    got_b, got_c = run(s, [a, w, b, c], x, y)
    np.testing.assert_allclose(got_b, x @ y, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got_c, np.maximum(x @ y, 0), rtol=1e-4, atol=1e-5)


def array_of(*shape):
    return RNG.standard_normal(shape).astype("float32")


def test_neighbours_that_overlap():
    n = 23
    a = te.placeholder((n + 2,), name="A")
    b = te.compute((n + 2,), lambda i: a[i] * 3, name="B")
    c = te.compute((n,), lambda i: b[i] + b[i + 1] + b[i + 2], name="C")
    s = te.create_schedule(c.op)
    o, _ = s[c].split(c.op.axis[0], factor=4)
    s[b].compute_at(s[c], o)
    x = array_of(n + 2)
    got_b, got_c = run(s, [a, b, c], x)
    np.testing.assert_allclose(got_b, x * 3, rtol=1e-6)
    np.testing.assert_allclose(got_c, 3 * (x[:-2] + x[1:-1] + x[2:]), rtol=1e-5, atol=1e-5)


def test_borders_outside_on_both_sides():
    n = 21
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 3, name="B")
    c = te.compute(
        (n + 4,),
        lambda i: te.if_then_else(te.all(i >= 2, i < n + 2), b[i - 2], te.const(0, "float32")),
        name="C",
    )
    s = te.create_schedule(c.op)
    o, _ = s[c].split(c.op.axis[0], factor=8)
    s[b].compute_at(s[c], o)
    x = array_of(n)
    got_b, got_c = run(s, [a, b, c], x)
    np.testing.assert_allclose(got_b, x * 3, rtol=1e-6)
    np.testing.assert_allclose(got_c, np.pad(x * 3, 2), rtol=1e-6)


@pytest.mark.parametrize("given", ["B", "C", "BC"])
def test_stages_attached_to_each_other(given):
    n, m = 13, 22
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((n, m), lambda i, j: b[i, j] * 2, name="C")
    d = te.compute((n, m), lambda i, j: c[i, j] - 3, name="D")
    s = te.create_schedule(d.op)
    io, _, _, _ = s[d].tile(*d.op.axis, 4, 8)
    s[c].compute_at(s[d], io)
    s[b].compute_at(s[c], s[c].op.axis[0])
    x = array_of(n, m)
    extra = [t for t in (b, c) if t.name in given]
    got = run(s, [a, *extra, d], x)
    wanted = {"B": x + 1, "C": (x + 1) * 2, "D": (x + 1) * 2 - 3}
    for t, g in zip([*extra, d], got):
        np.testing.assert_allclose(g, wanted[t.name], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("given", [0, 1, 2])
def test_one_of_two_outputs_is_an_argument(given):
    n = 19
    a = te.placeholder((n,), name="A")
    p, q = te.compute((n,), lambda i: (a[i] + 1, a[i] * 2), name="P")
    c = te.compute((n,), lambda i: p[i] * q[i], name="C")
    s = te.create_schedule(c.op)
    o, _ = s[c].split(c.op.axis[0], factor=8)
    s[p].compute_at(s[c], o)
    extra = [[p], [q], [p, q]][given]
    x = array_of(n)
    got = run(s, [a, *extra, c], x)
    wanted = {p.name: x + 1, q.name: x * 2, "C": (x + 1) * (x * 2)}
    for t, g in zip([*extra, c], got):
        np.testing.assert_allclose(g, wanted[t.name], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["c", "llvm"])
def test_in_threads_of_a_gpu_checked_on_the_cpu(kind):
    n, m = 13, 37
    a, b, c = chain(n, m)
    s = te.create_schedule(c.op)
    io, jo, ii, _ = s[c].tile(*c.op.axis, 4, 16)
    for x, tag in ((io, "blockIdx.y"), (jo, "blockIdx.x"), (ii, "threadIdx.y")):
        s[c].bind(x, te.thread_axis(tag))
    s[b].compute_at(s[c], ii)
    x = RNG.random((n, m), "float32")
    outs = [np.full((n, m), POISON, "float32") for _ in "BC"]
    build(s, [a, b, c], target=kind)(x, *outs)
    np.testing.assert_allclose(outs[0], x * 2 + 1, rtol=1e-6)
    np.testing.assert_allclose(outs[1], (x * 2 + 1) ** 2, rtol=1e-5)
