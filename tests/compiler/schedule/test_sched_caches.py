"""cache_write and cache_read: layouts that follow the loops, several outputs, scopes; errors."""

# ruff: noqa: RUF059  (what a helper makes is unpacked whole)
import numpy as np
import pytest
from sched_check import refused
from te_check import check

from whet.compiler import te


def matmul(n=13, k=7, m=11):
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    return te.create_schedule(c.op), a, b, c, r


def shape(t):
    return tuple(int(d) for d in t.shape)


def test_a_reorder_before_transposes_the_cache():
    s, a, b, c, k = matmul()
    i, j = c.op.axis
    s[c].reorder(j, i)
    cache = s.cache_write(c, "global")
    assert shape(cache) == (11, 13)
    assert [x.name for x in cache.op.axis] == ["j.c", "i.c"]
    assert [x.name for x in s[c].leaf_iter_vars] == ["i", "j"]  # the copy begins anew
    check(s, [a, b, c])


@pytest.mark.parametrize("factor", [1, 4, 11, 16])
def test_a_split_before_tiles_the_cache(factor):
    s, a, b, c, k = matmul()
    i, j = c.op.axis
    jo, ji = s[c].split(j, factor=factor)
    s[c].reorder(jo, i, ji)
    cache = s.cache_write(c, "global")
    assert shape(cache) == (-(-11 // factor), 13, min(factor, 11))
    assert [x.name for x in cache.op.axis] == ["j.outer.c", "i.c", "j.inner.c"]
    s[cache].vectorize(s[cache].op.axis[2])
    check(s, [a, b, c])


def test_fused_and_nested_splits_before():
    s, a, b, c, k = matmul()
    fused = s[c].fuse(*c.op.axis)
    o, i = s[c].split(fused, nparts=5)
    ii, _ = s[c].split(i, factor=4)
    cache = s.cache_write(c, "global")
    assert cache.ndim == 3
    check(s, [a, b, c])


def test_a_relaid_cache_of_an_elementwise_stage_attached():
    a = te.placeholder((13, 10), name="A")
    b = te.compute((13, 10), lambda i, j: a[i, j] + i * 2.0, name="B")
    s = te.create_schedule(b.op)
    i, j = b.op.axis
    io, ii = s[b].split(i, factor=4)
    s[b].reorder(io, j, ii)
    cache = s.cache_write(b, "local")
    assert shape(cache) == (4, 10, 4)
    io, ii = s[b].split(i, factor=4)
    s[cache].compute_at(s[b], io)
    check(s, [a, b])


def test_layouts_of_symbolic_sizes():
    n = te.size_var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    s[b].split(b.op.axis[0], factor=8)
    s.cache_write(b, "global")
    for size in (0, 1, 8, 13):
        check(s, [a, b], {n: size})


def test_caches_of_several_outputs():
    a = te.placeholder((7, 9), name="A")
    k = te.reduce_axis((0, 9), name="k")
    both = te.compute((7,), lambda i: (te.sum(a[i, k], axis=k), te.min(a[i, k], axis=k)), name="B")
    s = te.create_schedule(both[0].op)
    caches = s.cache_write([both[1], both[0]], "local")
    assert [t.value_index for t in caches] == [1, 0]
    s[caches[0]].compute_at(s[both[0]], both[0].op.axis[0])
    check(s, [a, *both])
    s = te.create_schedule(both[0].op)
    words = "the operation has 2 outputs, and all are cached together"
    refused(s, lambda: s.cache_write(both[0], "local"), words, "give a list of them")
    refused(s, lambda: s.cache_write([both[0]], "local"), words)
    refused(s, lambda: s.cache_write([both[0], both[0]], "local"), words)


def test_a_cache_of_a_list_of_one():
    s, a, b, c, k = matmul()
    (cache,) = s.cache_write([c], "local")
    check(s, [a, b, c])


def test_a_tuple_in_a_cache():
    a = te.placeholder((5, 12), name="A")
    k = te.reduce_axis((0, 12), name="k")
    argmin = te.comm_reducer(
        lambda x, y: (te.select(x[1] <= y[1], x[0], y[0]), te.min(x[1], y[1])),
        lambda t0, t1: (te.const(-1, t0), te.max_value(t1)),
        name="argmin",
    )
    at, least = te.compute((5,), lambda i: argmin((k.var, a[i, k]), axis=k), name="M")
    s = te.create_schedule(at.op)
    s[at].split(at.op.axis[0], factor=3)
    s.cache_write([at, least], "local")
    from whet.compiler import driver

    f = driver.build(s, [a, at, least])
    x = np.random.default_rng(1).standard_normal((5, 12)).astype("float32")
    found, value = np.full(5, -9, "int32"), np.full(5, np.nan, "float32")
    f(x, found, value)
    np.testing.assert_array_equal(found, x.argmin(1))
    np.testing.assert_array_equal(value, x.min(1))


def test_cache_read_for_one_of_two_readers():
    a = te.placeholder((9,), name="A")
    b = te.compute((9,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((9,), lambda i: a[i] * b[i], name="C")
    s = te.create_schedule([b.op, c.op])
    cached = s.cache_read(a, "global", c)
    assert s.consumers(s[a]) == [s[b], s[cached]]
    assert s[cached].scope == "global"
    check(s, [a, b, c])
    s = te.create_schedule([b.op, c.op])
    s.cache_read(a, "local", [b, c.op])
    check(s, [a, b, c])


def test_a_cache_of_a_cache_of_a_cache():
    s, a, b, c, k = matmul()
    one = s.cache_read(a, "global", [c])
    s.cache_read(one, "local", [c])
    out = s.cache_write(c, "local")
    s.cache_write(out, "local")
    assert [x.op.name for x in s.stages] == [
        "A", "B", "A.global", "A.global.local", "C.local.local", "C.local", "C",
    ]  # fmt: skip
    check(s, [a, b, c])


def test_what_is_not_cached():
    s, a, b, c, k = matmul()
    d = te.compute((13, 11), lambda i, j: c[i, j] + 1.0, name="D")
    s = te.create_schedule(d.op)
    refused(s, lambda: s.cache_write(a, "local"), "cache_write(A, 'local')", "A is an input")
    for scope in ("nowhere", "", None, 3, "global."):
        words = (f"{scope!r} is not a storage scope", "scopes: global, shared")
        refused(s, lambda: s.cache_write(c, scope), *words)  # noqa: B023
        refused(s, lambda: s.cache_read(c, scope, [d]), *words)  # noqa: B023
    refused(s, lambda: s.cache_read(c, "local", []), "no reader was given")
    refused(s, lambda: s.cache_read(a, "local", [d]), "D does not read A", "readers: C")
    refused(s, lambda: s.cache_read(None, "local", [d]), "give a tensor")
    refused(s, lambda: s.cache_read(c, "local", ["D"]), "found by a tensor or an operation")
    refused(s, lambda: s.cache_write([], "local"), "give a tensor")
    refused(s, lambda: s.cache_write("C", "local"), "give a tensor")
    refused(s, lambda: s.cache_write([c, d], "local"), "made by several operations: C, D")
    s[c].split(k, factor=4)
    refused(
        s, lambda: s.cache_write(c, "local"), "a reduction was split or fused already",
        "call cache_write first", "loops of C: i(13) j(11) k.outer(2) k.inner(4)",
    )  # fmt: skip
    s[c].compute_root()
    other = te.placeholder((3,), name="other")
    refused(s, lambda: s.cache_write(other, "local"), "Cannot find the operation", "stages: A, B")
