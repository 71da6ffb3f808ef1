"""transform_layout: where elements are kept, in which order they are computed, and errors."""

# ruff: noqa: RUF059  (what a helper makes is unpacked whole)
import random

import numpy as np
import pytest
from sched_check import refused, replays
from te_check import check

from whet.compiler import driver, te, tir
from whet.compiler.errors import LowerError


def blocks(i, j):
    return [i // 4, j, i % 4]


def turned(i, j):
    return [j, i]


def digits(i, j):
    return [j % 3, i // 6, i % 2, j // 3, i // 2 % 3]


def one_row(i, j):
    return [i * 9 + j]


def row_in_blocks(i, j):
    return [(i * 9 + j) // 8, te.AXIS_SEPARATOR, (i * 9 + j) % 8]


def with_a_one(*i):
    return [0, *i]


MAPS = [blocks, turned, digits, one_row, row_in_blocks, with_a_one]


def plain(s, t, u, loops):
    pass


def split(s, t, u, loops):
    s[t].split(loops[-1], factor=3)


def vectors(s, t, u, loops):
    _, inner = s[t].split(loops[-1], factor=4)
    s[t].vectorize(inner)


def fused(s, t, u, loops):
    s[t].parallel(s[t].fuse(*loops))


def reordered(s, t, u, loops):
    s[t].reorder(*reversed(loops))


def attached(s, t, u, loops):
    outer, _ = s[u].split(u.op.axis[0], factor=3)
    s[t].compute_at(s[u], outer)


def cached(s, t, u, loops):
    s[s.cache_write(t, "local")].compute_at(s[t], s[t].leaf_iter_vars[0])


def normalized(s, t, u, loops):
    s.normalize()


HOW = [plain, split, vectors, fused, reordered, attached, cached, normalized]


def sums(dtype="float64", n=7, m=9):
    a = te.placeholder((n, m), dtype, name="A")
    k = te.reduce_axis((0, m), name="k")
    t = te.compute((n, m), lambda i, j: te.sum(a[i, k] * (j + 1), axis=k), name="T")
    u = te.compute((n, m), lambda i, j: t[i, j] + t[n - 1 - i, m - 1 - j] * 2, name="U")
    return te.create_schedule(u.op), a, t, u


@pytest.fixture
def seed():
    made = random.randrange(2**31)
    print(f"seed {made}")
    return made


@pytest.mark.parametrize("how", HOW, ids=lambda f: f.__name__)
def test_numbers_and_the_trace(how, seed):
    for k, layout in enumerate(MAPS):
        s, a, t, u = sums(("float64", "int32")[k % 2])
        how(s, t, u, s[t].transform_layout(layout))
        check(s, [a, u], seed=seed)


@pytest.mark.parametrize("layout", MAPS, ids=lambda f: f.__name__)
def test_arguments_have_the_shape_of_their_layout(layout, seed):
    rng = np.random.default_rng(seed)
    s, a, t, u = sums()
    loops = s[u].transform_layout(layout)
    assert s[a].transform_layout(layout) is None and loops == s[u].leaf_iter_vars
    f = driver.build(s, [a, u], "llvm -num_threads=2")
    x = rng.standard_normal((7, 9))
    t = x.sum(1)[:, None] * np.arange(1, 10)
    got = np.full_like(laid_out(layout, x), 77.0)
    f(laid_out(layout, x), got)
    want = laid_out(layout, t + t[::-1, ::-1] * 2)
    np.testing.assert_allclose(got, np.where(np.isnan(want), 77.0, want), rtol=1e-12, atol=1e-12)


def laid_out(layout, x):
    """An array laid out by numpy; NaN where no element is."""
    places = {
        i: [int(p) for p in layout(*i) if p != te.AXIS_SEPARATOR] for i in np.ndindex(*x.shape)
    }
    out = np.full(np.max(list(places.values()), axis=0) + 1, np.nan)
    for i, p in places.items():
        out[tuple(p)] = x[i]
    return out


def test_one_after_the_other(seed):
    s, a, t, u = sums()
    s[t].transform_layout(lambda i, j: [j // 4, i, j % 4])
    loops = s[t].transform_layout(lambda a, b, c: [c, te.AXIS_SEPARATOR, a, b // 2, b % 2])
    assert [x.name for x in loops] == ["axis0", "axis1", "axis2", "axis3"]
    assert s[t].axis_separators == [1] and len(s[t].layout_transforms) == 2
    assert all(isinstance(r, te.schedule.Transform) for r in s[t].relations)
    assert str(s[t].layout_transforms[0]) == "IndexMap(lambda i, j: [j // 4, i, j % 4])"
    check(s, [a, u], seed=seed)


def test_a_map_as_a_value_and_its_relation():
    s, a, t, u = sums()
    m = tir.IndexMap.from_func(blocks)
    loops = s[t].transform_layout(m)
    (relation,) = s[t].relations
    assert relation.forward_transform is m and list(relation.transformed_variables) == loops
    assert relation.original_variables == t.op.axis
    assert str(relation.inverse_transform).endswith("[axis0 * 4 + axis2, axis1])")
    assert str(relation).startswith("Transform(original_variables=(iter_var(i, extent=7)")
    assert "laid out by IndexMap(lambda i, j: [i // 4, j, i % 4])" in s.show().svg
    replays(s, [a, u])


def test_a_size_that_is_a_symbol(seed):
    n = te.size_var("n")
    a = te.placeholder((n, 5), name="A")
    t = te.compute((n, 5), lambda i, j: a[i, j] + 1.0, name="T")
    u = te.compute((n, 5), lambda i, j: t[n - 1 - i, j] * 2.0, name="U")
    s = te.create_schedule(u.op)
    s[t].transform_layout(lambda i, j: [i // 4, j, i % 4])
    for size in (0, 1, 9):
        check(s, [a, u], {n: size}, seed=seed)


def test_ahead_of_the_calls_and_under_triangles(seed):
    w = te.placeholder((9, 9), "float64", name="W")
    p = te.compute((9, 9), lambda i, j: w[i, j] * 2.0, name="P")
    x = te.placeholder((9,), "float64", name="X")

    def element(i):
        k = te.reduce_axis((0, i + 1), name="k")
        return te.sum(p[i, k] * x[k], axis=k)

    y = te.compute((9,), element, name="Y")
    s = te.create_schedule(y.op)
    s[p].transform_layout(blocks)
    s[y].transform_layout(lambda i: [i % 4, i // 4])
    s[p].compute_ahead()
    f = driver.build(s, [w, x, y], "llvm -num_threads=2")
    rng = np.random.default_rng(seed)
    weights, vector = rng.standard_normal((9, 9)), rng.standard_normal(9)
    out = np.full((4, 3), 77.0)
    packed = f.pack_weights(weights)
    assert packed.shape == (3, 9, 4)
    f(packed, vector, out)
    want = np.full(12, 77.0)
    want[:9] = np.tril(weights * 2) @ vector
    np.testing.assert_allclose(out, want.reshape(3, 4).T, rtol=1e-12)


def test_errors():
    s, a, t, u = sums()
    lay = s[t].transform_layout
    for m, why in (
        (lambda i, j: [i], "the index j is in none of them"),
        (lambda i, j: [i, i // 2, j], "the digits of i overlap, or leave some of it out"),
        (lambda i, j: [i * j], "i * j is no sum of indices and their digits"),
        (lambda i, j: [i * 10 + j], "one step is 10, and should be 9"),
        (lambda i: [i], "the function takes 1 indices, and there are 2"),
        (lambda i, j: i, "the function gives a Var, no list of indices"),
        (lambda i, j: [i, j * 0.5], "no integer"),
        (lambda **k: [], "takes **k"),
        (3, "a int is no function of indices"),
        (tir.IndexMap.from_func(lambda i: [i]), "the map takes 1 indices, 2 were given"),
    ):
        refused(s, lambda m=m: lay(m), "transform_layout(T, ", why)
    one = te.compute((), lambda: u[0, 0], name="one")
    s1 = te.create_schedule(one.op)
    refused(s1, lambda: s1[one].transform_layout(lambda *i: [*i]), "one has no dimensions")
    s[t].storage_align(t.op.axis[0], 8, 1)
    refused(s, lambda: lay(turned), "the rows of T are padded by storage_align")


def test_what_must_not_be_lost():
    s, a, t, u = sums()
    s[t].compute_at(s[u], u.op.axis[0])
    refused(s, lambda: s[u].transform_layout(turned), "T is attached at i", "first")
    s[t].compute_root()
    s[u].vectorize(u.op.axis[1])
    refused(s, lambda: s[u].transform_layout(turned), "j is vectorized already")
    s[t].transform_layout(turned)
    refused(s, lambda: s[t].storage_align(t.op.axis[0], 8, 1), "T is laid out by transform_layout")
    s, a, t, u = sums()
    s[t].reorder(t.op.axis[0], t.op.reduce_axis[0], t.op.axis[1])
    refused(s, lambda: s[t].transform_layout(turned), "its axes were reordered apart")
    s[t].split(t.op.axis[0], factor=2)
    refused(s, lambda: s[t].transform_layout(turned), "i is no longer a loop")


def test_buffers_of_a_callers_own():
    s, a, t, u = sums()
    s[a].transform_layout(turned)
    wide = tir.decl_buffer((7, 9), "float64", "wide", strides=[te.var("p"), 1])
    with pytest.raises(LowerError, match=r"the buffer wide has strides of its own"):
        driver.lower(s, [a, u], binds={a: wide})
    flat = tir.decl_buffer((7, 9), "float64", "flat")
    assert "flat: float64[63]" in str(driver.lower(s, [a, u], binds={a: flat}))


def test_in_threads():
    s, a, t, u = sums("float32")
    loops = s[u].transform_layout(blocks)
    s[t].transform_layout(turned)
    s[t].compute_at(s[u], loops[0])
    s[u].bind(loops[0], te.thread_axis("blockIdx.x"))
    s[u].bind(loops[1], te.thread_axis("threadIdx.x"))
    s[t].set_scope("shared")
    s[t].bind(s[t].leaf_iter_vars[0], te.thread_axis("threadIdx.x"))
    f = driver.build(s, [a, u], "cuda -arch=sm_80")
    from emulated import on_device

    x = np.random.default_rng().standard_normal((7, 9)).astype("float32")
    sum_of = x.astype("float64").sum(1)[:, None] * np.arange(1, 10)
    want = laid_out(blocks, sum_of + sum_of[::-1, ::-1] * 2)
    (_, got) = on_device(f, [x, np.full(want.shape, 77, "float32")], "backwards")
    np.testing.assert_allclose(got, np.where(np.isnan(want), 77, want), rtol=1e-4, atol=1e-4)


def test_several_indices_that_are_always_0_are_loops_of_their_own():
    a = te.placeholder((5,), name="A")
    t = te.compute((5,), lambda i: a[i] * 2.0, name="T")
    u = te.compute((5,), lambda i: t[i] + 1.0, name="U")
    s = te.create_schedule(u.op)
    axes = s[t].transform_layout(lambda i: [0, i, 0])
    assert len({id(x.var) for x in axes}) == 3
    x, out = np.random.default_rng().random(5, "float32"), np.full(5, np.nan, "float32")
    driver.build(s, [a, u], target="llvm")(x, out)
    np.testing.assert_allclose(out, 2.0 * x.astype("float64") + 1, rtol=1e-6)


def test_a_second_layout_after_rfactor():
    """The loops that rfactor has made are over elements, and stay so; memory is laid out anew."""
    A, B = te.placeholder((7, 3), name="A"), te.placeholder((3, 6), name="B")
    k = te.reduce_axis((0, 3), name="k")
    C = te.compute((7, 6), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    s[C].transform_layout(lambda i, j: [j, i // 5, i % 5])
    s.rfactor(C, s[C].op.reduce_axis[0], factor_axis=2)
    assert s[C].transform_layout(lambda i, j, k: [k, i, j]) is None
    s[C].vectorize(s[C].op.axis[1])
    a, b = (np.random.default_rng(0).random(n, dtype=np.float32) for n in ((7, 3), (3, 6)))
    got = np.full((5, 6, 2), 77, np.float32)
    driver.build(s, [A, B, C])(a, b, got)
    rows = np.arange(7)
    np.testing.assert_allclose(got[rows % 5, :, rows // 5], a @ b, rtol=1e-5)
    replayed = s.trace.replay([C])
    assert str(driver.lower(replayed, [A, B, C])) == str(driver.lower(s, [A, B, C]))
