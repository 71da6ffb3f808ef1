"""Every schedule primitive, alone and with others, gives numpy's numbers; odd sizes throughout."""

# ruff: noqa: RUF059  (what a helper makes is unpacked whole)
import numpy as np
import pytest
from te_check import check, run_and_compare

from whet.compiler import driver, te


def matmul(n=37, k=13, m=41, dtype="float32"):
    a, b = te.placeholder((n, k), dtype, name="A"), te.placeholder((k, m), dtype, name="B")
    r = te.reduce_axis((0, k), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    return te.create_schedule(c.op), a, b, c, r


def chain(n=37, m=23):
    """A stencil of an elementwise stage: T, then three neighbours of it, then their square."""
    a = te.placeholder((n + 2, m), name="A")
    t = te.compute((n + 2, m), lambda i, j: a[i, j] * 2.0 + j, name="T")
    u = te.compute((n, m), lambda i, j: t[i, j] + t[i + 1, j] - t[i + 2, j], name="U")
    v = te.compute((n, m), lambda i, j: u[i, j] * u[i, j], name="V")
    return te.create_schedule(v.op), a, t, u, v


@pytest.mark.parametrize("factor", [1, 2, 3, 7, 12, 13, 14, 100])
@pytest.mark.parametrize("by", ["factor", "nparts"])
def test_split_by_any_size(factor, by):
    s, a, b, c, k = matmul(13, 13, 7)
    s[c].split(c.op.axis[0], **{by: factor})
    s[c].split(k, **{by: factor})
    check(s, [a, b, c])


def test_split_again_fuse_and_reorder():
    s, a, b, c, k = matmul()
    i, j = c.op.axis
    io, ii = s[c].split(i, factor=5)
    ioo, ioi = s[c].split(io, nparts=3)
    jo, ji = s[c].split(j, factor=7)
    ko, ki = s[c].split(k, nparts=4)
    f = s[c].fuse(ii, jo)
    fo, fi = s[c].split(f, factor=4)
    s[c].reorder(ko, ioo, fo, ki, ioi, ji, fi)
    check(s, [a, b, c])


def test_fuse_all_and_split_the_whole():
    s, a, b, c, k = matmul(7, 5, 13)
    f = s[c].fuse(*c.op.axis)
    fo, fi = s[c].split(f, factor=8)
    s[c].vectorize(fi)
    check(s, [a, b, c])


def test_tile_returns_its_four_loops():
    s, a, b, c, k = matmul()
    loops = s[c].tile(*c.op.axis, 4, 16)
    assert list(s[c].leaf_iter_vars[:4]) == list(loops)
    s[c].unroll(loops[2])
    s[c].vectorize(loops[3])
    check(s, [a, b, c])


@pytest.mark.parametrize("width", [1, 2, 3, 5, 8, 13, 16, 24, 41, 64])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_vectorize_widths_that_do_not_divide(width, dtype):
    s, a, b, c, k = matmul(5, 3, 41, dtype)
    _, ji = s[c].split(c.op.axis[1], factor=width)
    s[c].vectorize(ji)
    check(s, [a, b, c])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool", "int8"])
def test_vectorize_strided_reversed_transposed_and_gathered_access(dtype):
    n = 37
    a = te.placeholder((n, n), dtype, name="A")
    t = te.placeholder((n,), "int32", name="T")
    outputs = [
        te.compute((n, n), lambda i, j: a[j, i], name="transposed"),
        te.compute((n, n), lambda i, j: a[i, n - 1 - j], name="reversed"),
        te.compute((n, 18), lambda i, j: a[i, j * 2 + 1], name="strided"),
        te.compute((n, n), lambda i, j: a[t[j] % n, j], name="gathered"),
        te.compute((n, n), lambda i, j: a[j // 2, j % 5], name="divided"),
    ]
    s = te.create_schedule([x.op for x in outputs])
    for x in outputs:
        _, ji = s[x].split(x.op.axis[1], factor=16)
        s[x].vectorize(ji)
    check(s, [a, t, *outputs])
    # stores with a stride, too
    x = outputs[0]
    s = te.create_schedule(x.op)
    s[x].vectorize(x.op.axis[0])
    check(s, [a, x])


def test_vectorize_conditions_of_all_kinds():
    n = te.size_var("n")
    a, d = te.placeholder((n,), name="A"), te.placeholder((n,), "int32", name="D")
    e = te.placeholder((n,), "int32", name="E")
    b = te.compute((n,), lambda i: te.if_then_else(i % 3 == 1, a[i], -a[i]), name="B")
    c = te.compute((n,), lambda i: te.if_then_else(i + 1 < n, a[i + 1], 0.0) + a[i // 2], name="C")
    q = te.compute((n,), lambda i: d[i] // e[i] * 10 + d[i] % e[i], name="Q")
    w = te.compute((n * 3,), lambda i: a[i // 3], name="W")
    s = te.create_schedule([x.op for x in (b, c, q, w)])
    for x in (b, c, q, w):
        o, i = s[x].split(x.op.axis[0], nparts=5)
        _, ii = s[x].split(i, factor=8)
        s[x].vectorize(ii)
    f = driver.build(s, [a, d, e, b, c, q, w])
    rng = np.random.default_rng(0)
    for size in (0, 1, 2, 3, 7, 8, 16, 37):
        divisors = rng.choice([-3, 2, 7], size).astype(np.int32)
        run_and_compare(f, [a, d, e, b, c, q, w], {n: size}, given={e: divisors})


def test_reductions_under_a_vectorised_loop_with_where():
    a = te.placeholder((5,), name="A")
    k = te.reduce_axis((0, 8), name="k")
    for where in (
        lambda i: te.all(k < 5, i % 3 == 0),
        lambda i: k * 16 + i < 80,
        lambda i: k < 5,
    ):
        c = te.compute((16,), lambda i: te.sum(a[k], axis=k, where=where(i)), name="C")  # noqa: B023
        s = te.create_schedule(c.op)
        s[c].reorder(k, c.op.axis[0])
        s[c].vectorize(c.op.axis[0])
        check(s, [a, c])


def test_unroll_small_and_absurd():
    s, a, b, c, k = matmul(5, 7, 9)
    for axis in (*c.op.axis, k):
        s[c].unroll(axis)
    check(s, [a, b, c])
    s, a, b, c, k = matmul(23, 19, 29)  # more statements than are unrolled
    for axis in (*c.op.axis, k):
        s[c].unroll(axis)
    check(s, [a, b, c])


@pytest.mark.parametrize("what", ["outer", "inner", "fused", "nested", "with a workspace"])
def test_parallel(what):
    s, a, b, c, k = matmul()
    i, j = c.op.axis
    if what == "outer":
        s[c].parallel(i)
    elif what == "inner":
        s[c].reorder(k, i, j)
        s[c].parallel(j)
    elif what == "fused":
        io, ii = s[c].split(i, factor=4)
        s[c].reorder(io, j, ii)
        s[c].parallel(s[c].fuse(io, j))
    elif what == "nested":
        io, ii = s[c].split(i, factor=4)
        s[c].parallel(io)
        s[c].parallel(ii)
    else:
        local = s.cache_write(c, "global")
        io, ii = s[c].split(i, factor=4)
        s[c].parallel(io)
        s[local].compute_at(s[c], io)
        s[local].vectorize(s[local].op.axis[1])
    check(s, [a, b, c])


@pytest.mark.parametrize("level", range(4))
@pytest.mark.parametrize("stage", ["T", "U", "both", "chain"])
def test_compute_at_every_level(level, stage):
    s, a, t, u, v = chain()
    io, jo, ii, ji = s[v].tile(*v.op.axis, 5, 8)
    s[v].vectorize(ji)
    leaf = s[v].leaf_iter_vars[level]
    if stage in ("U", "both", "chain"):
        s[u].compute_at(s[v], leaf)
    if stage == "T":
        s[u].compute_inline()
        s[t].compute_at(s[v], leaf)
    elif stage == "both":
        s[t].compute_at(s[v], leaf)
    elif stage == "chain":
        s[t].compute_at(s[u], s[u].op.axis[0])
    check(s, [a, v])


def test_compute_at_splits_of_the_attached_stage():
    s, a, t, u, v = chain()
    io, jo, ii, ji = s[v].tile(*v.op.axis, 7, 5)
    s[u].compute_at(s[v], jo)
    s[t].compute_at(s[v], io)
    _, x = s[t].split(t.op.axis[1], factor=16)
    s[t].vectorize(x)
    _, y = s[u].split(u.op.axis[0], factor=4)
    s[u].unroll(y)
    check(s, [a, v])


def test_compute_inline_of_a_chain_and_into_a_reduction():
    s, a, t, u, v = chain()
    s[t].compute_inline()
    s[u].compute_inline()
    check(s, [a, v])
    k = te.reduce_axis((0, 23), name="k")
    w = te.compute((37,), lambda i: te.max(v[i, k] - u[i, k], axis=k), name="W")
    s = te.create_schedule(w.op)
    for x in (t, u, v):
        s[x].compute_inline()
    s[w].vectorize(w.op.axis[0])
    check(s, [a, w])


@pytest.mark.parametrize("scope", ["local", "global"])
def test_cache_write_and_cache_read(scope):
    s, a, b, c, k = matmul()
    cc = s.cache_write(c, scope)
    aa, bb = s.cache_read(a, scope, [cc]), s.cache_read(b, scope, [cc])
    io, jo, ii, ji = s[c].tile(*c.op.axis, 6, 16)
    s[c].vectorize(ji)
    s[cc].compute_at(s[c], jo)
    ko, ki = s[cc].split(k, factor=4)
    s[cc].reorder(ko, ki, *s[cc].op.axis)
    s[cc].vectorize(s[cc].op.axis[1])
    s[cc].unroll(s[cc].op.axis[0])
    s[aa].compute_at(s[cc], ko)
    s[bb].compute_at(s[cc], ki)
    s[bb].vectorize(s[bb].op.axis[1])
    check(s, [a, b, c])


def test_cache_write_of_a_stage_in_the_middle():
    s, a, t, u, v = chain()
    cached = s.cache_write(t, "global")
    read = s.cache_read(u, "local", [v])
    s[read].compute_at(s[v], v.op.axis[0])
    s[cached].compute_at(s[t], t.op.axis[0])
    check(s, [a, v])


@pytest.mark.parametrize("n, k, m", [(37, 31, 41), (64, 16, 32), (7, 13, 5), (101, 3, 67)])
def test_packed_register_tiled_matmul(n, k, m):
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    p = te.compute(
        (-(-m // 16), k, 16),
        lambda jo, r, ji: te.if_then_else(jo * 16 + ji < m, b[r, jo * 16 + ji], 0.0),
        name="P",
    )
    r = te.reduce_axis((0, k), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * p[j // 16, r, j % 16], axis=r), name="C")
    s = te.create_schedule(c.op)
    cc = s.cache_write(c, "local")
    i, j = s[c].op.axis
    mo, ii = s[c].split(i, 24)
    io, ii = s[c].split(ii, 6)
    jo, ji = s[c].split(j, 16)
    s[c].reorder(mo, jo, io, ii, ji)
    s[c].unroll(ii)
    s[c].vectorize(ji)
    s[c].parallel(mo)
    s[cc].compute_at(s[c], io)
    ci, cj = s[cc].op.axis
    ko, ki = s[cc].split(r, 4)
    s[cc].reorder(ko, ki, ci, cj)
    s[cc].unroll(ki)
    s[cc].unroll(ci)
    s[cc].vectorize(cj)
    s[p].vectorize(s[p].op.axis[2])
    check(s, [a, b, c], rtol=1e-4)


@pytest.mark.parametrize("stride, pad", [(1, 0), (1, 1), (2, 1), (2, 0)])
def test_convolution_with_padding_attached(stride, pad):
    ci, co, h, w, kh = 3, 5, 13, 11, 3
    x = te.placeholder((ci, h, w), name="X")
    f = te.placeholder((co, ci, kh, kh), name="F")
    xp = te.compute(
        (ci, h + 2 * pad, w + 2 * pad),
        lambda c, i, j: te.if_then_else(
            te.all(i >= pad, i < h + pad, j >= pad, j < w + pad), x[c, i - pad, j - pad], 0.0
        ),
        name="XP",
    )
    oh, ow = (h + 2 * pad - kh) // stride + 1, (w + 2 * pad - kh) // stride + 1
    rc, ry, rx = (te.reduce_axis((0, e), name=n) for e, n in ((ci, "rc"), (kh, "ry"), (kh, "rx")))
    y = te.compute(
        (co, oh, ow),
        lambda o, i, j: te.sum(
            xp[rc, i * stride + ry, j * stride + rx] * f[o, rc, ry, rx], axis=[rc, ry, rx]
        ),
        name="Y",
    )
    z = te.compute((co, oh, ow), lambda *i: te.max(y(*i), 0.0), name="Z")
    for where in ("root", "inline", "outer", "inner"):
        s = te.create_schedule(z.op)
        o, i, j = z.op.axis
        io, jo, ii, ji = s[z].tile(i, j, 4, 8)
        s[z].vectorize(ji)
        s[y].compute_at(s[z], jo)
        yo, yi, yj = s[y].op.axis
        s[y].reorder(rc, ry, rx, yo, yi, yj)
        s[y].vectorize(yj)
        if where == "inline":
            s[xp].compute_inline()
        elif where != "root":
            s[xp].compute_at(s[z] if where == "outer" else s[y], io if where == "outer" else rc)
        check(s, [x, f, z], rtol=1e-4)


def test_an_intermediate_may_be_an_argument():
    s, a, t, u, v = chain()
    s[u].compute_at(s[v], v.op.axis[0])
    check(s, [a, t, v])


def test_a_large_intermediate_lives_on_the_heap_and_is_written_anew_each_call():
    n = 300
    a = te.placeholder((n, n), name="A")
    t = te.compute((n, n), lambda i, j: a[j, i] + 1.0, name="T")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n,), lambda i: te.sum(t[i, k] * t[k, i], axis=k), name="C")
    for parallel in (False, True):
        s = te.create_schedule(c.op)
        if parallel:
            s[c].parallel(c.op.axis[0])
            s[t].parallel(t.op.axis[0])
        f = driver.build(s, [a, c])
        for seed in range(3):
            run_and_compare(f, [a, c], seed=seed, rtol=1e-4)


def test_a_workspace_in_an_unrolled_loop_does_not_grow_the_stack():
    n = 16
    a = te.placeholder((n, 8000), name="A")
    t = te.compute((n, 8000), lambda i, j: a[i, j] + 1.0, name="T")
    k = te.reduce_axis((0, 8000), name="k")
    c = te.compute((n,), lambda i: te.sum(t[i, k] * t[i, 7999 - k], axis=k), name="C")
    s = te.create_schedule(c.op)
    s[t].compute_at(s[c], c.op.axis[0])
    s[c].unroll(c.op.axis[0])
    from whet.compiler.codegen.llvm.kernel import module_text
    from whet.compiler.target import Target

    text = module_text(driver.lower(s, [a, c]), Target("llvm").canonical())
    assert text.count("alloca [8000 x float]") == 1
    check(s, [a, c], rtol=1e-4)


def test_the_same_schedule_gives_the_same_text_every_time():
    texts = set()
    for _ in range(2):
        s, a, t, u, v = chain()
        s[u].compute_at(s[v], v.op.axis[0])
        s[v].parallel(v.op.axis[0])
        module = driver.lower(s, [a, v])
        from whet.compiler.codegen.llvm.kernel import module_text
        from whet.compiler.target import Target

        texts.add(
            (str(module), module.program_hash(), module_text(module, Target("llvm").canonical()))
        )
        texts.add((str(driver.lower(s, [a, v])), module.program_hash(), next(iter(texts))[2]))
    assert len(texts) == 1


def test_what_lanes_share_is_read_only_where_it_may_be():
    a, t = te.placeholder((8, 2), name="A"), te.placeholder((3,), "int32", name="T")
    b = te.compute((3, 2), lambda i, j: a[t[i] % 8, j], name="B")
    c = te.compute(
        (5, 4),
        lambda i, j: te.if_then_else(te.all(i >= 1, i < 4, j >= 1, j < 3), b[i - 1, j - 1], 0.0),
        name="C",
    )
    s = te.create_schedule(c.op)
    s[b].compute_inline()
    s[c].vectorize(c.op.axis[1])
    check(s, [a, t, c])
    assert "for j in range" not in str(driver.lower(s, [a, t, c]))  # it stayed a vector
