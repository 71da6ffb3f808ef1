"""Reducers of a user's own: products, argmax over tuples, under every primitive, against numpy."""

import re

import numpy as np
import pytest

from whet.compiler import driver, te, tir
from whet.compiler.errors import ArgumentError
from whet.compiler.target import Target


def argmax_reducer(first=True):
    """The place and the value of the greatest; the first of equals, or the last."""

    def combine(x, y):
        better = te.any(x[1] > y[1], te.all(x[1] == y[1], x[0] < y[0])) if first else x[1] > y[1]
        return te.select(better, x[0], y[0]), te.select(better, x[1], y[1])

    return te.comm_reducer(
        combine, lambda t0, t1: (te.max_value(t0), te.min_value(t1)), name="argmax"
    )


def run(s, args, arrays, outputs):
    """Build, call with poisoned outputs; the outputs come back."""
    made = [np.full(shape, 77, dtype) for shape, dtype in outputs]
    driver.build(s, args)(*arrays, *made)
    return made


def argmax_graph(n=13, m=37, dtype="float32", index="int32"):
    a = te.placeholder((n, m), dtype, name="A")
    k = te.reduce_axis((0, m), name="k")
    found = te.compute(
        (n,), lambda i: argmax_reducer()((k.var.astype(index), a[i, k]), axis=k), name="best"
    )
    return a, k, found


def draw(n=13, m=37, dtype="float32", seed=0):
    rng = np.random.default_rng(seed)
    if dtype.startswith("float"):
        return rng.standard_normal((n, m)).astype(dtype)
    return rng.integers(-9, 9, (n, m)).astype(dtype)  # many equals


def schedules():
    def default(s, a, k, found):
        return None

    def split_reduction(s, a, k, found):
        _ko, ki = s[found[0]].split(k, factor=8)
        s[found[0]].unroll(ki)

    def reordered(s, a, k, found):
        (i,) = found[0].op.axis
        io, ii = s[found[0]].split(i, factor=4)
        s[found[0]].reorder(io, k, ii)

    def vectorized(s, a, k, found):
        (i,) = found[0].op.axis
        io, ii = s[found[0]].split(i, factor=8)
        s[found[0]].reorder(io, k, ii)
        s[found[0]].vectorize(ii)

    def unrolled(s, a, k, found):
        (i,) = found[0].op.axis
        io, ii = s[found[0]].split(i, factor=4)
        s[found[0]].reorder(io, k, ii)
        s[found[0]].unroll(ii)

    def parallel(s, a, k, found):
        s[found[0]].parallel(found[0].op.axis[0])

    return [default, split_reduction, reordered, vectorized, unrolled, parallel]


@pytest.mark.parametrize("schedule", schedules(), ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_argmax_is_numpys_under_every_primitive(schedule, dtype):
    a, k, found = argmax_graph(dtype=dtype)
    s = te.create_schedule(found[0].op)
    schedule(s, a, k, found)
    data = draw(dtype=dtype)
    where, most = run(s, [a, *found], [data], [((13,), "int32"), ((13,), dtype)])
    np.testing.assert_array_equal(where, data.argmax(axis=1))
    np.testing.assert_array_equal(most, data.max(axis=1))


def test_argmax_reads_both_before_it_stores_either(golden):
    a, _, found = argmax_graph(4, 8)
    s = te.create_schedule(found[0].op)
    golden("lang_argmax", str(driver.lower(s, [a, *found])))


def test_a_tuple_reduction_is_vectorized():
    a, k, found = argmax_graph(16, 8)
    s = te.create_schedule(found[0].op)
    s[found[0]].reorder(k, found[0].op.axis[0])
    s[found[0]].vectorize(found[0].op.axis[0])
    with Target("llvm -mcpu=x86-64 -mattr=+avx2,+fma"):
        text = str(driver.lower(s, [a, *found]))
    assert "argmax_v0 = select(" in text
    assert "best_v0[ramp(i * 8, 1, 8)] = argmax_v0" in text


@pytest.mark.parametrize("attach", ["root", "at"])
def test_what_reads_an_argmax(attach):
    a, _k, found = argmax_graph()
    t = te.placeholder((37,), name="T")
    use = te.compute((13,), lambda i: t[found[0][i]] + found[1][i], name="use")
    s = te.create_schedule(use.op)
    if attach == "at":
        o, i = s[use].split(use.op.axis[0], factor=4)
        s[found[0]].compute_at(s[use], o)
        s[use].unroll(i)
    data, table = draw(), np.arange(37, dtype="float32")
    (out,) = run(s, [a, t, use], [data, table], [((13,), "float32")])
    np.testing.assert_array_equal(out, table[data.argmax(axis=1)] + data.max(axis=1))


def test_an_inlined_producer_and_a_cached_result():
    a = te.placeholder((13, 37), name="A")
    b = te.compute((13, 37), lambda i, j: a[i, j] * -2.0, name="B")
    k = te.reduce_axis((0, 37), name="k")
    found = te.compute((13,), lambda i: argmax_reducer()((k.var, b[i, k]), axis=k), name="best")
    s = te.create_schedule(found[0].op)
    s[b].compute_inline()
    cached = s.cache_write(list(found), "local")
    o, _i = s[found[0]].split(found[0].op.axis[0], factor=4)
    s[cached[0]].compute_at(s[found[0]], o)
    data = draw()
    where, most = run(s, [a, *found], [data], [((13,), "int32"), ((13,), "float32")])
    np.testing.assert_array_equal(where, data.argmin(axis=1))
    np.testing.assert_array_equal(most, (data * np.float32(-2)).max(axis=1))


def test_where_and_init_of_a_tuple():
    a = te.placeholder((13, 37), name="A")
    z = te.placeholder((13,), name="Z")
    k = te.reduce_axis((0, 37), name="k")
    found = te.compute(
        (13,),
        lambda i: argmax_reducer()(
            (k.var, a[i, k]), axis=k, where=a[i, k] < 1.0, init=(1000, z[i])
        ),
        name="best",
    )
    data, first = draw(), draw(seed=5)[:, 0].copy()
    s = te.create_schedule(found[0].op)
    o, i = s[found[0]].split(found[0].op.axis[0], factor=8)
    s[found[0]].reorder(o, k, i)
    s[found[0]].vectorize(i)
    where, most = run(s, [a, z, *found], [data, first], [((13,), "int32"), ((13,), "float32")])
    held = np.where(data < 1.0, data, -np.inf)
    np.testing.assert_array_equal(most, np.maximum(held.max(axis=1), first))
    np.testing.assert_array_equal(
        where, np.where(held.max(axis=1) >= first, held.argmax(axis=1), 1000)
    )


def test_three_values_of_three_types():
    a = te.placeholder((5, 21), name="A")
    b = te.placeholder((5, 21), "int64", name="B")
    k = te.reduce_axis((0, 21), name="k")
    stats = te.comm_reducer(
        lambda x, y: (x[0] + y[0], te.max(x[1], y[1]), x[2] + y[2]),
        lambda t0, t1, t2: (0, te.min_value(t1), tir.const(0, t2)),
        name="stats",
    )
    found = te.compute((5,), lambda i: stats((a[i, k], b[i, k], k + 1), axis=k), name="S")
    assert [t.dtype for t in found] == ["float32", "int64", "int32"]
    assert [t.value_index for t in found] == [0, 1, 2]
    data = draw(5, 21)
    whole = np.random.default_rng(3).integers(-(2**40), 2**40, (5, 21))
    out = run(
        te.create_schedule(found[0].op),
        [a, b, *found],
        [data, whole],
        [((5,), "float32"), ((5,), "int64"), ((5,), "int32")],
    )
    np.testing.assert_allclose(out[0], data.sum(axis=1), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(out[1], whole.max(axis=1))
    np.testing.assert_array_equal(out[2], [231] * 5)


def test_sum_and_running_product_swap_old_values():
    """(x0 + y0 * x1, x1 * y1) reads x1 after it would have been stored, if it were stored first."""
    a = te.placeholder((5, 6), "int64", name="A")
    k = te.reduce_axis((0, 6), name="k")
    affine = te.comm_reducer(
        lambda x, y: (x[1] * y[0] + x[0], x[1] * y[1]),
        lambda t0, t1: (tir.const(0, t0), tir.const(1, t1)),
        name="horner",
    )
    outs = te.compute((5,), lambda i: affine((a[i, k], a[i, k] + 1), axis=k), name="H")
    for order in (outs, outs[::-1]):
        del order
    data = np.random.default_rng(1).integers(1, 5, (5, 6))
    got = run(
        te.create_schedule(outs[0].op), [a, *outs], [data], [((5,), "int64"), ((5,), "int64")]
    )
    x0, x1 = np.zeros(5, "int64"), np.ones(5, "int64")
    for j in range(6):
        x0, x1 = x1 * data[:, j] + x0, x1 * (data[:, j] + 1)
    np.testing.assert_array_equal(got[0], x0)
    np.testing.assert_array_equal(got[1], x1)


def test_outputs_of_a_tuple_reducer_in_another_order():
    a = te.placeholder((5, 21), name="A")
    k = te.reduce_axis((0, 21), name="k")
    most, where = te.compute(
        (5,), lambda i: argmax_reducer()((k.var, a[i, k]), axis=k)[::-1], name="R"
    )
    data = draw(5, 21)
    out = run(
        te.create_schedule(most.op), [a, most, where], [data], [((5,), "float32"), ((5,), "int32")]
    )
    np.testing.assert_array_equal(out[0], data.max(axis=1))
    np.testing.assert_array_equal(out[1], data.argmax(axis=1))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint64"])
def test_products_and_logical_reductions(dtype):
    product = te.comm_reducer(lambda x, y: x * y, lambda t: tir.const(1, t), name="product")
    a = te.placeholder((7, 13), dtype, name="A")
    k, r = te.reduce_axis((0, 13), name="k"), te.reduce_axis((0, 7), name="r")
    b = te.compute((7,), lambda i: product(a[i, k], axis=k), name="B")
    c = te.compute((), lambda: product(a[r, k], axis=[r, k], where=k < 3), name="C")
    data = np.random.default_rng(2).integers(1, 4, (7, 13)).astype(dtype)
    s = te.create_schedule([b.op, c.op])
    s[b].split(k, factor=4)
    one, all_of = run(s, [a, b, c], [data], [((7,), dtype), ((), dtype)])
    np.testing.assert_allclose(one, data.prod(axis=1, dtype=dtype), rtol=1e-5)
    np.testing.assert_allclose(all_of, data[:, :3].prod(dtype=dtype), rtol=1e-5)


def test_any_of_bools_and_a_bitwise_reducer():
    some = te.comm_reducer(lambda x, y: te.any(x, y), lambda t: tir.const(False, t), name="some")
    bits = te.comm_reducer(lambda x, y: x ^ y, lambda t: tir.const(0, t), name="parity")
    a = te.placeholder((7, 13), "int32", name="A")
    k = te.reduce_axis((0, 13), name="k")
    b = te.compute((7,), lambda i: some(a[i, k] > 6, axis=k), name="B")
    c = te.compute((7,), lambda i: bits(a[i, k], axis=k), name="C")
    data = draw(7, 13, "int32")
    x, y = run(te.create_schedule([b.op, c.op]), [a, b, c], [data], [((7,), "bool"), ((7,), "i4")])
    np.testing.assert_array_equal(x, (data > 6).any(axis=1))
    np.testing.assert_array_equal(y, np.bitwise_xor.reduce(data, axis=1))


def test_logsumexp_in_one_pass():
    """The greatest and the sum of exponentials relative to it, as a tuple."""
    online = te.comm_reducer(
        lambda x, y: (
            te.max(x[0], y[0]),
            x[1] * te.exp(x[0] - te.max(x[0], y[0])) + y[1] * te.exp(y[0] - te.max(x[0], y[0])),
        ),
        lambda t0, t1: (te.min_value(t0), tir.const(0, t1)),
        name="online",
    )
    a = te.placeholder((9, 33), "float64", name="A")
    k = te.reduce_axis((0, 33), name="k")
    top, rest = te.compute(
        (9,), lambda i: online((a[i, k], tir.const(1.0, "float64")), axis=k), name="M"
    )
    out = te.compute((9,), lambda i: top[i] + te.log(rest[i]), name="L")
    data = draw(9, 33, "float64") * 100
    (got,) = run(te.create_schedule(out.op), [a, out], [data], [((9,), "float64")])
    most = data.max(axis=1)
    np.testing.assert_allclose(got, most + np.log(np.exp(data - most[:, None]).sum(axis=1)))


def test_a_tuple_reduction_beside_a_plain_one():
    a = te.placeholder((5, 21), name="A")
    k = te.reduce_axis((0, 21), name="k")
    outs = te.compute(
        (5,),
        lambda i: (*argmax_reducer()((k.var, a[i, k]), axis=k), te.sum(a[i, k], axis=k)),
        name="R",
    )
    data = draw(5, 21)
    where, most, total = run(
        te.create_schedule(outs[0].op),
        [a, *outs],
        [data],
        [((5,), "int32"), ((5,), "float32"), ((5,), "float32")],
    )
    np.testing.assert_array_equal(where, data.argmax(axis=1))
    np.testing.assert_array_equal(most, data.max(axis=1))
    np.testing.assert_allclose(total, data.sum(axis=1), rtol=1e-5, atol=1e-5)


def test_accumulators_leave_tuple_reductions_alone():
    """Both outputs are updated together; neither moves to a register without the other."""
    a, k, found = argmax_graph(4, 8)
    s = te.create_schedule(found[0].op)
    s[found[0]].unroll(s[found[0]].split(found[0].op.axis[0], factor=4)[1])
    o, i = s[found[0]].leaf_iter_vars[:2]
    s[found[0]].reorder(o, k, i)
    text = str(driver.lower(s, [a, *found]))
    assert not re.search(r"_acc\b", text)


# combining directly


def test_reducers_combine_expressions_directly():
    product = te.comm_reducer(lambda x, y: x * y, lambda t: tir.const(1, t), name="product")
    a = te.placeholder((5,), name="A")
    b = te.compute((5,), lambda i: product(a[i], 2.0, a[i], 3.0), name="B")
    c = te.compute((5,), lambda i: te.sum(a[i], 1.0), name="C")
    data = draw(5, 1)[:, 0].copy()
    out = run(te.create_schedule([b.op, c.op]), [a, b, c], [data], [((5,), "f4")] * 2)
    np.testing.assert_allclose(out[0], data * data * 6, rtol=1e-6)
    np.testing.assert_allclose(out[1], data + 1, rtol=1e-6)
    pair = argmax_reducer()((tir.const(1), a[0]), (tir.const(2), a[1]))
    assert len(pair) == 2


# misuse


def test_misuse_of_reducers_says_what_is_wrong():
    a = te.placeholder((5, 6), name="A")
    k = te.reduce_axis((0, 6), name="k")
    best = argmax_reducer()

    def one(f):
        return te.compute((5,), f, name="C")

    with pytest.raises(ArgumentError, match=r"argmax reduces 2 values together.*number 1"):
        one(lambda i: best((k.var, a[i, k]), axis=k)[1])
    with pytest.raises(ArgumentError, match="number 0, number 0"):
        one(lambda i: (best((k.var, a[i, k]), axis=k)[0],) * 2)
    with pytest.raises(ArgumentError, match="its identity gives 1"):
        te.comm_reducer(lambda x, y: (x[0], y[1]), lambda t0, t1: 0)((k.var, a[0, k]), axis=k)
    with pytest.raises(ArgumentError, match="its combination gives 1"):
        te.comm_reducer(lambda x, y: x[0], lambda t0, t1: (0, 0))((k.var, a[0, k]), axis=k)
    with pytest.raises(ArgumentError, match="fcombine takes 3 values instead of two"):
        te.comm_reducer(lambda x, y, z: x, lambda t: 0)
    with pytest.raises(ArgumentError, match=r"fidentity=3.*cannot be called"):
        te.comm_reducer(lambda x, y: x, 3)
    with pytest.raises(ArgumentError, match="its combination failed: IndexError"):
        te.comm_reducer(lambda x, y: x[5], lambda t0, t1: (0, 0))((k.var, a[0, k]), axis=k)
    with pytest.raises(
        ArgumentError, match=r"(?s)its identity failed: TypeError.*one data type for each"
    ):
        te.comm_reducer(lambda x, y: x, lambda t: 0)((k.var, a[0, k]), axis=k)
    with pytest.raises(ArgumentError, match="1 values to begin with were given for 2"):
        best((k.var, a[0, k]), axis=k, init=3)
    with pytest.raises(ArgumentError, match="k stands there twice"):
        te.sum(a[0, k], axis=[k, k])
    with pytest.raises(ArgumentError, match="the condition is a float32, not a bool"):
        te.sum(a[0, k], axis=k, where=a[0, k])
    with pytest.raises(ArgumentError, match="no axis to reduce over"):
        te.sum(a[0, k], axis=[])
    with pytest.raises(ArgumentError, match="give tuples of 2 expressions"):
        best((k.var, a[0, 0]), 3)


@pytest.mark.parametrize(
    ("dtype", "least", "greatest"),
    [("float32", -np.inf, np.inf), ("float64", -np.inf, np.inf), ("int32", -(2**31), 2**31 - 1)],
)
def test_what_maxima_and_minima_of_nothing_are(dtype, least, greatest):
    a = te.placeholder((3, 5), dtype, name="A")
    k, r = te.reduce_axis((0, 5), name="k"), te.reduce_axis((0, 5), name="r")
    most = te.compute((3,), lambda i: te.max(a[i, k], k, where=a[i, k] > 0), name="most")
    few = te.compute((3,), lambda i: te.min(a[i, r], r, where=a[i, r] > 0), name="few")
    data = np.array([[-1] * 5, [1, 2, 3, 4, 5], [-1, 7, -1, -1, -1]], dtype)
    s = te.create_schedule([most.op, few.op])
    got = run(s, [a, most, few], [data], [((3,), dtype), ((3,), dtype)])
    np.testing.assert_array_equal(got, np.array([[least, 5, 7], [greatest, 1, 7]], dtype))
