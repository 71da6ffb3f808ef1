"""Every form of te.compute, every type and every kind of size gives numpy's numbers."""

# ruff: noqa: RUF059  (what a helper makes is unpacked whole)
import numpy as np
import pytest
from te_check import check, run_and_compare

from whet.compiler import driver, te


def plain(outputs, args, **options):
    many = outputs if isinstance(outputs, list) else [outputs]
    return check(te.create_schedule([t.op for t in many]), [*args, *many], **options)


# the forms of compute


def test_axes_take_the_names_of_the_parameters():
    a = te.placeholder((7, 13), name="A")
    b = te.compute((7, 13), lambda row, col: a[row, col] + 1.0, name="B")
    assert [x.var.name for x in b.op.axis] == ["row", "col"]
    c = te.compute((7, 13), lambda *i: b(*i) * 2.0, name="C")
    assert [x.var.name for x in c.op.axis] == ["i0", "i1"]
    d = te.compute((7, 13), lambda r, *i: c(r, *i), name="D", varargs_names=["x"])
    assert [x.var.name for x in d.op.axis] == ["r", "x"]
    plain([b, d], [a])


def test_fewer_parameters_than_dimensions():
    a = te.placeholder((5, 7, 3), name="A")
    plain(te.compute((5, 7, 3), lambda i: a[4 - i], name="B"), [a])
    plain(te.compute((5, 7, 3), lambda i, j: a[i][6 - j], name="B"), [a])


def test_a_bound_method_and_a_partial():
    import functools

    a = te.placeholder((5, 7), name="A")

    class Kernel:
        scale = 3.0

        def element(self, i, j):
            return a[i, j] * self.scale

    plain(te.compute((5, 7), Kernel().element, name="B"), [a])
    plain(te.compute((5, 7), functools.partial(lambda c, i, j: a[i, j] * c, 2.0), name="B"), [a])


def test_rank_zero():
    a, b = te.placeholder((), name="A"), te.placeholder((37,), name="B")
    k = te.reduce_axis((0, 37), name="k")
    total = te.compute((), lambda: te.sum(b[k], axis=k), name="total")
    plain(te.compute((), lambda *i: a(*i) * 2.0 + total(*i), name="C"), [a, b])
    plain(te.compute((7,), lambda i: b[i] / a(), name="D"), [a, b])


def test_tuples_share_a_nest():
    a = te.placeholder((7, 13), name="A")
    s, d = te.compute((7, 13), lambda i, j: (a[i, j] + 1.0, a[i, j] - j), name="T")
    plain([s, d], [a])
    k = te.reduce_axis((0, 13), name="k")
    total, most = te.compute(
        (7,), lambda i: (te.sum(a[i, k], axis=k), te.max(a[i, k], axis=k)), name="R"
    )
    use = te.compute((7,), lambda i: total[i] / most[i], name="use")
    plain(use, [a], rtol=1e-4)


@pytest.mark.parametrize("reducer", [te.sum, te.max, te.min])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "int8", "uint8"])
def test_reductions(reducer, dtype):
    a = te.placeholder((7, 13), dtype, name="A")
    k = te.reduce_axis((0, 13), name="k")
    plain(te.compute((7,), lambda i: reducer(a[i, k], axis=k), name="R"), [a])


def test_reductions_with_where_init_and_several_axes():
    a = te.placeholder((7, 13, 5), name="A")
    j, k = te.reduce_axis((2, 13), name="j"), te.reduce_axis((0, 5), name="k")
    plain(te.compute((7,), lambda i: te.sum(a[i, j, k], axis=[j, k]), name="R"), [a])
    plain(
        te.compute((7,), lambda i: te.max(a[i, j, k], [j, k], te.any(j > i, k == 2)), name="R"), [a]
    )
    plain(te.compute((7,), lambda i: te.sum(a[i, j, k], axis=[j, k], where=k > 7), name="R"), [a])
    plain(te.compute((7,), lambda i: te.sum(a[i, j, k], [j, k], k > 0, init=5), name="R"), [a])
    z = te.placeholder((7,), name="Z")
    plain(te.compute((7,), lambda i: te.min(a[i, j, k], axis=[j, k], init=z[i]), name="R"), [a, z])


def test_reducers_of_several_numbers_combine_them():
    a, b = te.placeholder((13,), name="A"), te.placeholder((13,), name="B")
    plain(te.compute((13,), lambda i: te.max(a[i], b[i], 0.25), name="C"), [a, b])


# values


def test_index_arithmetic_rounds_down():
    a = te.placeholder((7,), "int32", name="A")
    c = te.compute((23,), lambda i: (i - 11) // 3 * 100 + (i - 11) % 3 + a[(i * 5) % 7], name="C")
    plain(c, [a])
    d = te.compute((7,), lambda i: te.truncdiv(a[i], 3) * 100 + te.abs(a[i]), name="D")
    plain(d, [a])
    e = te.compute((7,), lambda i: a[i] // -3 + a[i] % 4 * 10 + (a[i] ^ 5) + (a[i] << 2), name="E")
    plain(e, [a])


def test_mathematical_functions_and_casts():
    a = te.placeholder((37,), name="A")
    plain(
        te.compute((37,), lambda i: te.tanh(a[i]) + te.exp(a[i]) * te.sqrt(te.abs(a[i])), name="B"),
        [a],
    )
    plain(te.compute((37,), lambda i: te.floor(a[i]).astype("int32") + i, name="B"), [a])
    plain(
        te.compute((37,), lambda i: te.select(a[i] > 0, i.astype("float32"), a[i]), name="B"), [a]
    )
    plain(
        te.compute((37,), lambda i: te.any(a[i] > 1, te.all(a[i] < 0, i % 2 == 0)), name="B"), [a]
    )


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int16", "uint32", "uint64", "float16", "float64", "int64"]
)
def test_types(dtype):
    a = te.placeholder((37,), dtype, name="A")
    if dtype == "bool":
        b = te.compute((37,), lambda i: te.all(a[i], a[36 - i]), name="B")
    else:
        b = te.compute((37,), lambda i: a[i] * 2 + a[36 - i], name="B")
    plain(b, [a], rtol=1e-2 if dtype == "float16" else 1e-5)
    s = te.create_schedule(b.op)
    _, inner = s[b].split(b.op.axis[0], factor=16)
    s[b].vectorize(inner)
    check(s, [a, b], rtol=1e-2 if dtype == "float16" else 1e-5)


def test_narrow_integers_wrap_and_are_not_simplified_as_if_they_did_not():
    a = te.placeholder((256,), "uint8", name="A")
    t = te.placeholder((256,), "int32", name="T")
    values = np.arange(256, dtype=np.uint8)
    index = te.compute((256,), lambda i: t[a[i] + 1], name="C")
    plain(index, [a, t], given={a: values})
    b = te.placeholder((256,), "int8", name="B")
    c = te.compute((256,), lambda i: te.floordiv(b[i] * 4 + 2, 4), name="C")
    plain(c, [b], given={b: values.astype(np.int8)})


def test_gathers_read_where_tables_say():
    a, t = te.placeholder((7, 13), name="A"), te.placeholder((37,), "int64", name="T")
    b = te.compute((7, 13), lambda i, j: a[i, j] + i, name="B")
    c = te.compute(
        (37, 13), lambda i, j: b[t[i], j] + te.if_then_else(t[i] > 3, 1.0, 0.0), name="C"
    )
    table = np.random.default_rng(0).integers(0, 7, 37)
    for attach in ("root", "inline", "at"):
        s = te.create_schedule(c.op)
        if attach == "inline":
            s[b].compute_inline()
        elif attach == "at":
            s[b].compute_at(s[c], c.op.axis[0])
        s[c].vectorize(c.op.axis[1])
        check(s, [a, t, c], given={t: table})


# sizes


@pytest.mark.parametrize("shape", [(0,), (0, 5), (5, 0), (1,), (1, 1)])
def test_dimensions_of_nothing_and_one(shape):
    a = te.placeholder(shape, name="A")
    b = te.compute(shape, lambda *i: a(*i) + 1.0, name="B")
    s = te.create_schedule(b.op)
    o, i = s[b].split(b.op.axis[-1], factor=4)
    s[b].vectorize(i)
    s[b].parallel(o)
    check(s, [a, b])


def test_a_reduction_over_nothing_is_the_identity():
    a = te.placeholder((5, 0), name="A")
    k = te.reduce_axis((0, 0), name="k")
    plain(te.compute((5,), lambda i: te.sum(a[i, k], axis=k), name="B"), [a])


def test_one_kernel_for_all_sizes():
    n, m = te.size_var("n"), te.size_var("m")
    a, b = te.placeholder((n, m), name="A"), te.placeholder((m, n), name="B")
    k = te.reduce_axis((0, m), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    io, jo, ii, ji = s[c].tile(*c.op.axis, 4, 16)
    ko, ki = s[c].split(k, factor=3)
    s[c].reorder(io, jo, ko, ki, ii, ji)
    s[c].vectorize(ji)
    s[c].unroll(ii)
    f = driver.build(s, [a, b, c])
    for rows, inner in [(0, 0), (0, 3), (1, 1), (5, 0), (7, 13), (16, 3), (37, 64), (48, 31)]:
        run_and_compare(f, [a, b, c], {n: rows, m: inner}, rtol=1e-4)


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_sizes_that_are_expressions(kind):
    n = te.size_var("n", kind)
    a = te.placeholder((n,), name="A")
    b = te.compute((n + 1,), lambda i: te.if_then_else(i < n, a[i], 0.0) + i, name="B")
    c = te.compute((2 * n,), lambda i: b[i // 2] + b[te.min(i, n)], name="C")
    for attach in (False, True):
        s = te.create_schedule(c.op)
        o, i = s[c].split(c.op.axis[0], factor=8)
        s[c].vectorize(i)
        if attach:
            s[b].compute_at(s[c], o)
        f = driver.build(s, [a, c])
        for size in (0, 1, 2, 7, 8, 37):
            run_and_compare(f, [a, c], {n: size})


def test_te_var_as_a_size_that_might_be_anything():
    n = te.var("n")
    a = te.placeholder((n, 7), name="A")
    b = te.compute((n * 7,), lambda f: a[f // 7, f % 7] * 2.0, name="B")
    s = te.create_schedule(b.op)
    o, i = s[b].split(b.op.axis[0], nparts=3)
    o2, i2 = s[b].split(i, factor=4)
    s[b].vectorize(i2)
    f = driver.build(s, [a, b])
    for size in (0, 1, 5, 13):
        run_and_compare(f, [a, b], {n: size})


def test_scalar_arguments():
    a = te.placeholder((37,), name="A")
    alpha, shift, flag = te.var("alpha", "float32"), te.var("shift"), te.var("flag", "bool")
    b = te.compute(
        (37,),
        lambda i: te.if_then_else(flag, a[te.max(i - shift, 0)] * alpha, a[i]),
        name="B",
    )
    s = te.create_schedule(b.op)
    s[b].vectorize(s[b].split(b.op.axis[0], factor=8)[1])
    f = driver.build(s, [a, alpha, shift, flag, b])
    for x, y, z in [(2.5, 3, True), (-1.0, 0, False)]:
        run_and_compare(f, [a, alpha, shift, flag, b], {alpha: np.float32(x), shift: y, flag: z})


def test_numpy_numbers_are_like_pythons():
    size = np.int64(13)
    a = te.placeholder((size,), name="A")
    b = te.compute((size,), lambda i: a[i + np.int64(0)] * np.float32(2) + np.int32(1), name="B")
    s = te.create_schedule(b.op)
    s[b].vectorize(s[b].split(b.op.axis[0], np.int64(4))[1])
    check(s, [a, b])
    assert "int64" not in str(driver.lower(s, [a, b]))


def test_places_beyond_two_billion_elements():
    a = te.placeholder((70000, 70000), "uint8", name="A")
    t = te.placeholder((8,), "int32", name="T")
    c = te.compute((8,), lambda i: a[69990 + i, t[i]], name="C")
    data = np.zeros((70000, 70000), np.uint8)  # only the pages touched exist
    table = np.arange(8, dtype=np.int32) * 9000
    data[69990 + np.arange(8), table] = np.arange(1, 9)
    for vector in (False, True):
        s = te.create_schedule(c.op)
        if vector:
            s[c].vectorize(c.op.axis[0])
        out = np.zeros(8, np.uint8)
        driver.build(s, [a, t, c])(data, table, out)
        np.testing.assert_array_equal(out, np.arange(1, 9))


def test_deep_expressions_and_long_chains():
    a = te.placeholder((16,), "int32", name="A")

    def taps(i):
        out = a[i]
        for k in range(700):
            out = out + a[(i + k) % 16]
        return out

    plain(te.compute((16,), taps, name="B"), [a])
    t = a
    for k in range(300):
        t = _plus_one(t, k)
    s = te.create_schedule(t.op)
    for stage in s.stages[1:-1]:
        stage.compute_inline()
    check(s, [a, t])


def _plus_one(t, k):
    return te.compute((16,), lambda i: t[i] + k % 3, name=f"T{k}")
