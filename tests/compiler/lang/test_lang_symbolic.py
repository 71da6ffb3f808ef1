"""Symbolic sizes under every primitive: one kernel for sizes 0, 1 and odd ones, against numpy."""

import numpy as np
import pytest
from te_check import run_and_compare

from whet.compiler import driver, te, tir
from whet.compiler.errors import ArgumentError, WhetError

SIZES = (0, 1, 2, 7, 8, 37)


def symbol(kind, name="n"):
    make, dtype = kind
    return make(name, dtype)


KINDS = [(te.size_var, "int32"), (te.size_var, "int64"), (te.var, "int32"), (te.var, "int64")]
IDS = ["size_var", "size_var64", "var", "var64"]


def everywhere(f, args, n, sizes=SIZES, **options):
    for size in sizes:
        run_and_compare(f, args, {n: size}, **options)


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_axes_have_the_type_of_their_extents(kind):
    n = symbol(kind)
    a = te.placeholder((n,), name="A")
    b = te.compute((n, 4), lambda i, j: a[i] + j, name="B")
    assert [x.dtype for x in b.op.axis] == [kind[1], "int32"]
    k = te.reduce_axis((0, n), name="k")
    assert k.dtype == kind[1]
    everywhere(driver.build(te.create_schedule(b.op), [a, b]), [a, b], n)


def primitives():
    def split_guarded(s, b):
        s[b].split(b.op.axis[0], factor=8)

    def split_nparts(s, b):
        s[b].split(b.op.axis[0], nparts=3)

    def split_twice(s, b):
        o, i = s[b].split(b.op.axis[0], factor=12)
        s[b].split(i, factor=5)
        s[b].split(o, nparts=2)

    def fused(s, b):
        f = s[b].fuse(*b.op.axis)
        s[b].split(f, factor=7)

    def fused_and_vectorized(s, b):
        f = s[b].fuse(*b.op.axis)
        s[b].vectorize(s[b].split(f, factor=8)[1])

    def tiled(s, b):
        _io, _jo, ii, ji = s[b].tile(*b.op.axis, 4, 8)
        s[b].vectorize(ji)
        s[b].unroll(ii)

    def parallel(s, b):
        o, _i = s[b].split(b.op.axis[0], factor=3)
        s[b].parallel(o)
        s[b].vectorize(s[b].split(b.op.axis[1], factor=8)[1])

    def reordered(s, b):
        o, i = s[b].split(b.op.axis[1], factor=6)
        s[b].reorder(o, b.op.axis[0], i)

    return [
        split_guarded, split_nparts, split_twice, fused, fused_and_vectorized, tiled, parallel,
        reordered,
    ]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS[:3], ids=IDS[:3])
@pytest.mark.parametrize("primitive", primitives(), ids=lambda f: f.__name__)
def test_loops_over_symbols(primitive, kind):
    n = symbol(kind)
    a = te.placeholder((n + 1, n * 2), name="A")
    b = te.compute((n + 1, n * 2), lambda i, j: a[n - i, j] * 2.0 + i, name="B")
    s = te.create_schedule(b.op)
    primitive(s, b)
    f = driver.build(s, [a, n, b])
    for size in SIZES[:5] + (21,):
        x = np.random.default_rng(size).standard_normal((size + 1, size * 2)).astype("f4")
        out = np.full_like(x, np.nan)
        f(x, size, out)
        want = x[::-1] * 2 + np.arange(size + 1, dtype="f4")[:, None]
        np.testing.assert_allclose(out, want, rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS[:2], ids=IDS[:2])
@pytest.mark.parametrize("attach", ["root", "inline", "outer", "inner"])
def test_stencils_over_symbols(attach, kind):
    n = symbol(kind)
    a = te.placeholder((n,), name="A")
    pad = te.compute(
        (n + 2,), lambda i: te.if_then_else(te.all(i >= 1, i < n + 1), a[i - 1], 0.0), name="P"
    )
    b = te.compute((n,), lambda i: pad[i] + pad[i + 1] * 2.0 + pad[i + 2], name="B")
    s = te.create_schedule(b.op)
    o, i = s[b].split(b.op.axis[0], factor=8)
    s[b].vectorize(i)
    if attach == "inline":
        s[pad].compute_inline()
    elif attach != "root":
        s[pad].compute_at(s[b], o)
    if attach == "inner":
        s[pad].vectorize(s[pad].split(pad.op.axis[0], factor=4)[1])
    everywhere(driver.build(s, [a, b]), [a, b], n)


def matmul(kind):
    n, m, k = symbol(kind, "n"), symbol(kind, "m"), symbol(kind, "k")
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="r")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    return n, m, k, a, b, r, c


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_a_matmul_of_three_symbols(kind):
    n, m, k, a, b, r, c = matmul(kind)
    d = te.compute((n, m), lambda i, j: te.max(c[i, j], 0.0), name="D")
    s = te.create_schedule(d.op)
    cache = s.cache_write(c, "local")
    _io, jo, _ii, ji = s[d].tile(*d.op.axis, 4, 16)
    s[d].vectorize(ji)
    s[c].compute_at(s[d], jo)
    s[cache].compute_at(s[c], c.op.axis[0])
    _ro, ri = s[cache].split(r, factor=4)
    s[cache].unroll(ri)
    packed = s.cache_read(b, "global", [cache])
    s[packed].compute_at(s[d], jo)
    f = driver.build(s, [a, b, d])
    for sizes in [(0, 0, 0), (1, 1, 1), (5, 17, 0), (0, 3, 4), (37, 33, 13), (8, 32, 16)]:
        run_and_compare(f, [a, b, d], dict(zip((n, m, k), sizes)), rtol=1e-4)


def test_a_rfactor_of_a_symbolic_reduction():
    n = te.size_var("n")
    a = te.placeholder((5, n), name="A")
    k = te.reduce_axis((0, n), name="k")
    b = te.compute((5,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    _, ki = s[b].split(k, factor=8)
    part = s.rfactor(b, ki)
    s[part].compute_at(s[b], s[b].op.axis[0])
    everywhere(driver.build(s, [a, b]), [a, b], n, rtol=1e-4)


def test_a_tuple_reduction_over_a_symbol():
    n = te.size_var("n")
    a = te.placeholder((3, n), name="A")
    k = te.reduce_axis((0, n), name="k")
    argmax = te.comm_reducer(
        lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
        lambda t0, t1: (tir.const(-1, t0), te.min_value(t1)),
        name="argmax",
    )
    where, most = te.compute((3,), lambda i: argmax((k.var, a[i, k]), axis=k), name="R")
    s = te.create_schedule(where.op)
    s[where].split(k, factor=4)
    f = driver.build(s, [a, where, most])
    for size in SIZES:
        x = np.random.default_rng(size).standard_normal((3, size)).astype("f4")
        at, top = np.full(3, 77, "i4"), np.full(3, 77, "f4")
        f(x, at, top)
        if size:
            np.testing.assert_array_equal(at, x.argmax(axis=1))
            np.testing.assert_array_equal(top, x.max(axis=1))
        else:
            np.testing.assert_array_equal(at, -1)


@pytest.mark.parametrize("vector", [False, True])
def test_extents_that_are_expressions(vector):
    n = te.size_var("n")
    a = te.placeholder((n,), name="A")
    half = te.compute((n // 2,), lambda i: a[2 * i] + a[2 * i + 1], name="H")
    k = te.reduce_axis((0, n // 2), name="k")
    total = te.compute((), lambda: te.sum(half[k], axis=k), name="T")
    wide = te.compute((n * 4,), lambda i: a[i // 4] + total(), name="W")
    both = te.compute((te.max(n, 3),), lambda i: te.if_then_else(i < n, a[i], -1.0), name="M")
    s = te.create_schedule([wide.op, both.op])
    if vector:
        for t in (half, wide, both):
            s[t].vectorize(s[t].split(t.op.axis[0], factor=8)[1])
    f = driver.build(s, [a, wide, both])
    everywhere(f, [a, wide, both], n, rtol=1e-4)


def test_a_symbol_that_only_an_output_has():
    m = te.size_var("m")
    a = te.placeholder((5,), name="A")
    b = te.compute((m,), lambda i: a[i % 5] + m, name="B")
    s = te.create_schedule(b.op)
    s[b].vectorize(s[b].split(b.op.axis[0], factor=4)[1])
    f = driver.build(s, [a, b])
    everywhere(f, [a, b], m)


def test_symbols_are_scalar_arguments_too_and_checked():
    n, m = te.size_var("n"), te.size_var("m")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * m + n, name="B")
    f = driver.build(te.create_schedule(b.op), [n, a, m, b])
    x, out = np.arange(7, dtype="f4"), np.empty(7, "f4")
    f(7, x, 3, out)
    np.testing.assert_array_equal(out, x * 3 + 7)
    with pytest.raises((ArgumentError, WhetError), match="n"):
        f(8, x, 3, out)
    with pytest.raises((ArgumentError, WhetError), match="B"):
        f(7, x, 3, np.empty(6, "f4"))


def test_shapes_are_checked_against_their_expressions():
    n = te.size_var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n * 4,), lambda i: a[i // 4], name="B")
    f = driver.build(te.create_schedule(b.op), [a, b])
    f(np.ones(3, "f4"), np.empty(12, "f4"))
    with pytest.raises(WhetError, match="B"):
        f(np.ones(3, "f4"), np.empty(13, "f4"))


def test_symbolic_factors():
    n, factor = te.size_var("n"), te.size_var("factor")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    s[b].split(b.op.axis[0], factor=factor)
    f = driver.build(s, [a, factor, b])
    for size, step in [(0, 3), (1, 5), (7, 2), (8, 8), (37, 5)]:
        x, out = np.arange(size, dtype="f4"), np.full(size, np.nan, "f4")
        f(x, step, out)
        np.testing.assert_array_equal(out, x + 1)


@pytest.mark.parametrize("first", ["int32", "int64"])
def test_sizes_of_two_widths_meet(first):
    n = te.size_var("n", first)
    m = te.size_var("m", "int64" if first == "int32" else "int32")
    a, b = te.placeholder((n,), name="A"), te.placeholder((m,), name="B")
    c = te.compute((n, m), lambda i, j: a[i] * b[j], name="C")
    d = te.compute((n + m,), lambda f: te.if_then_else(f < n, a[f], b[f - n]), name="D")
    e = te.compute((n * m,), lambda f: c[f // m, f % m] + 1.0, name="E")
    s = te.create_schedule([d.op, e.op])
    s[d].vectorize(s[d].split(d.op.axis[0], factor=8)[1])
    outer, _inner = s[e].split(e.op.axis[0], factor=16)
    s[c].compute_at(s[e], outer)
    f = driver.build(s, [a, b, d, e])
    for sizes in [(0, 0), (0, 5), (1, 1), (7, 13), (16, 8)]:
        run_and_compare(f, [a, b, d, e], dict(zip((n, m), sizes)), rtol=1e-4)


def test_every_node_of_a_kernel_of_mixed_widths_is_well_typed():
    n, m = te.size_var("n", "int64"), te.size_var("m")
    a, b = te.placeholder((n, m), name="A"), te.placeholder((m, n), name="B")
    c = te.compute((n + m, n), lambda i, j: a[i % n, j % m] + b[j % m, (i + j) % n], name="C")
    s = te.create_schedule(c.op)
    s[c].tile(*c.op.axis, 4, 8)
    mod = driver.lower(s, [a, b, c])
    check_types(mod["main"].body)


def check_types(body):
    """Both operands of an operator have one type, which is its own."""
    from whet.compiler.tir import expr as e
    from whet.compiler.tir.visit.rewrite import post_order_visit

    def visit(x):
        if isinstance(x, e.BinaryOp):
            assert x.a.dtype == x.b.dtype, (x.a, x.b)
            if not isinstance(x, e.CmpOp):
                assert x.dtype == x.a.dtype

    post_order_visit(body, visit)
